/* SPDX-License-Identifier: Apache-2.0 */
/* A server's stream, cut into any pieces, is an error or an answer within the limits. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/utf8.h"
#include "client/reply_stream.h"

/* The input itself chooses the length of the pieces. */
static bool take_all(struct reply_stream *r, const char *bytes, size_t n, ey_err *e)
{
    size_t piece = n ? (unsigned char)bytes[n - 1] % 37 + 1u : 1;
    for (size_t at = 0; at < n; at += piece)
        if (!reply_stream_take(r, bytes + at, n - at < piece ? n - at : piece, e)) return false;
    return true;
}

static void check(const ey_answer *a)
{
    if (strlen(a->text) != a->n_text || !utf8_valid(a->text, a->n_text) ||
        a->n_images > EY_MAX_IMAGES)
        abort();
    if (a->prompt_tokens < 0 || a->completion_tokens < 0 || a->cached_tokens < 0 ||
        a->image_tokens < 0)
        abort();
    for (size_t i = 0; i < a->n_logprobs; i++) {
        const char *token = a->logprobs[i].chosen.token;
        if (!token || !utf8_valid(token, strlen(token)) ||
            a->logprobs[i].n_top > EY_MAX_TOP_LOGPROBS)
            abort();
        for (size_t k = 0; k < a->logprobs[i].n_top; k++)
            if (!a->logprobs[i].top[k].token) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ey_request request = ey_request_defaults();
    struct reply_stream r;
    ey_answer answer;
    ey_err e;
    if (!reply_stream_open(&r, &request, &answer, &e)) return 0;
    if (take_all(&r, (const char *)data, size, &e) && reply_stream_finish(&r, &e)) check(&answer);
    reply_stream_close(&r);
    ey_answer_free(&answer);
    return 0;
}
