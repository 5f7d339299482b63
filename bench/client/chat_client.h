/* SPDX-License-Identifier: Apache-2.0 */
/* Writes requests to the OpenAI API and reads the answers. */
#ifndef EY_BENCH_CLIENT_CHAT_CLIENT_H
#define EY_BENCH_CLIENT_CHAT_CLIENT_H

#include "client/wire.h"

enum { CHAT_MAX_CHOICES = 8 };

/* Appends an image as a data: URL. */
bool chat_add_data_url(struct buf *out, const char *type, const void *bytes, size_t n);

/* Appends a POST request with a JSON body. */
void chat_post(struct buf *out, const struct wire_target *to, const char *path, const char *body,
               size_t n);
void chat_get(struct buf *out, const struct wire_target *to, const char *path);

/* An answer, as far as it has been read. */
struct chat_answer {
    struct {
        struct buf text;
        char finish[24]; /* "": not finished */
    } choice[CHAT_MAX_CHOICES];
    int64_t prompt_tokens, completion_tokens; /* -1: not reported */
    struct buf choices;                       /* the "choices" of a whole answer, as JSON */
    size_t read;                              /* bytes of a stream's body that were read */
    int n_texts;                              /* chunks with text so far */
    bool done;                                /* the answer is complete */
    /* the answer is an error or does not follow the API */
    bool failed;
};

struct chat_answer chat_answer_make(void);
void chat_answer_clear(struct chat_answer *a);
void chat_answer_free(struct chat_answer *a);
/* Reads a whole answer. */
void chat_read_whole(struct chat_answer *a, const struct buf *body);
/* Reads new events of a stream; returns how many have text. */
int chat_read_stream(struct chat_answer *a, const struct buf *body);

#endif
