/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to the OpenAI API as text, and what its answers say. */
#ifndef EY_BENCH_CLIENT_CHAT_CLIENT_H
#define EY_BENCH_CLIENT_CHAT_CLIENT_H

#include "client/wire.h"

enum { CHAT_MAX_CHOICES = 8 };

/* An image's file as a data: URL at the end of `out`. */
bool chat_add_data_url(struct buf *out, const char *type, const void *bytes, size_t n);

/* POST of a JSON body at the end of `out`. */
void chat_post(struct buf *out, const struct wire_target *to, const char *path, const char *body,
               size_t n);
void chat_get(struct buf *out, const struct wire_target *to, const char *path);

/* What came of an answer. */
struct chat_answer {
    struct {
        struct buf text;
        char finish[24]; /* "": not yet */
    } choice[CHAT_MAX_CHOICES];
    int64_t prompt_tokens, completion_tokens; /* -1: not reported */
    struct buf choices;                       /* of a whole answer: its "choices" as JSON */
    size_t read;                              /* of a stream's body */
    int n_texts;                              /* chunks with text so far */
    bool done;                                /* it is whole */
    bool failed;                              /* it tells an error, or is none of the API's */
};

struct chat_answer chat_answer_make(void);
void chat_answer_clear(struct chat_answer *a);
void chat_answer_free(struct chat_answer *a);
/* A whole answer. */
void chat_read_whole(struct chat_answer *a, const struct buf *body);
/* What came of a stream since the last call: how many chunks with text. */
int chat_read_stream(struct chat_answer *a, const struct buf *body);

#endif
