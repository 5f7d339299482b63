/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer.json, then a NUL and text to tokenize. */
#include <stdint.h>
#include <string.h>

#include "tokenizer/tokenizer.h"

static void encode_and_decode(const struct tokenizer *tok, const char *text, size_t n,
                              bool parse_special)
{
    struct ids ids = {0};
    struct buf out = buf_with_max(1 << 20);
    ey_err e;
    if (tokenizer_encode(tok, text, n, parse_special, &ids, &e)) {
        struct detok d = detok_start(tok);
        for (size_t i = 0; i < ids.n; i++)
            detok_push(&d, ids.id[i], &out);
        detok_finish(&d, &out);
    }
    ids_free(&ids);
    buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char fixed[] = "<|im_start|>user\nhello  world's 12\n\n caf\xc3\xa9 "
                                "e\xcc\x81\xcc\xa3 \xe4\xbd\xa0\xff\xf0\x9f<|im_end|>";
    const char *bytes = (const char *)data;
    const char *end = size ? memchr(bytes, 0, size) : NULL;
    size_t n = end ? (size_t)(end - bytes) : size;
    struct tokenizer *tok;
    ey_err e;
    if (!tokenizer_open_memory(&tok, bytes, n, "fuzz", &e)) return 0;
    encode_and_decode(tok, fixed, sizeof(fixed) - 1, true);
    encode_and_decode(tok, fixed, sizeof(fixed) - 1, false);
    if (end) encode_and_decode(tok, end + 1, size - n - 1, true);
    tokenizer_close(tok);
    return 0;
}
