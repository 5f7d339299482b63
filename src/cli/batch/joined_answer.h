/* SPDX-License-Identifier: Apache-2.0 */
/* Joins the answers about a document's pages into one. */
#ifndef EY_CLI_BATCH_JOINED_ANSWER_H
#define EY_CLI_BATCH_JOINED_ANSWER_H

#include "base/buf.h"
#include "eyelet/request.h"

/* Owns what the joined answer points to. */
struct joined_answer {
    struct buf text, thought, images, logprobs;
    ey_answer *pages; /* [n] answers about the pages after the first */
    size_t n;
};

/* Appends the text of another page's answer to *whole and adds its usage and log-probabilities.
 * *whole begins as the first page's answer. Takes ownership of *page and empties it, even on
 * failure. */
bool joined_answer_add(struct joined_answer *joined, ey_answer *whole, ey_answer *page, ey_err *e);
/* Called after *whole is freed, because *whole points into `joined`. */
void joined_answer_free(struct joined_answer *joined);

#endif
