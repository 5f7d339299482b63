/* SPDX-License-Identifier: Apache-2.0 */
/* Joins the answers about a document's pages into one. */
#ifndef EY_CLI_BATCH_JOINED_ANSWER_H
#define EY_CLI_BATCH_JOINED_ANSWER_H

#include "base/buf.h"
#include "eyelet/request.h"

/* What the joined answer points to. */
struct joined_answer {
    struct buf text, thought, images, logprobs;
    ey_answer *pages; /* [n] of the further pages */
    size_t n;
};

/* Adds text, usage and log-probabilities of a further page's answer to *whole, which is the first
 * page's at the beginning. Takes `page` over and empties it, also if it fails. */
bool joined_answer_add(struct joined_answer *joined, ey_answer *whole, ey_answer *page, ey_err *e);
/* Called after the whole answer is freed. */
void joined_answer_free(struct joined_answer *joined);

#endif
