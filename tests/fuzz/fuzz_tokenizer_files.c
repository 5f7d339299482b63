/* SPDX-License-Identifier: Apache-2.0 */
/* vocab.json, merges.txt and the files of added tokens, each followed by a NUL: opened, or refused
 * with a message. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/temp_dir.h"
#include "tokenizer/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"vocab.json", "merges.txt", "added_tokens.json",
                                        "tokenizer_config.json", "special_tokens_map.json"};
    static const char *dir;
    struct tokenizer *tok = NULL;
    ey_err e = {0};
    if (!dir) dir = temp_dir_until_exit();
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const uint8_t *end = size ? memchr(data, 0, size) : NULL;
        size_t n = end ? (size_t)(end - data) : size, whole = end ? n + 1 : n;
        if (n || i < 2)
            temp_file(dir, names[i], data, n);
        else
            unlink(temp_path(dir, names[i]));
        data += whole;
        size -= whole;
    }
    if (tokenizer_open(&tok, dir, &e))
        tokenizer_close(tok);
    else if (!e.text[0] || tok)
        abort();
    return 0;
}
