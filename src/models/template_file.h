/* SPDX-License-Identifier: Apache-2.0 */
/* The chat template that a checkpoint brings. */
#ifndef EY_MODELS_TEMPLATE_FILE_H
#define EY_MODELS_TEMPLATE_FILE_H

#include "checkpoint/checkpoint.h"

struct template_file {
    char *text; /* [n]; NULL: there is none */
    size_t n;
    const char *file;
};

/* False: there is none. The caller frees text. */
bool template_file_find(struct template_file *out, struct checkpoint *ckpt);
/* Whether there is one with these words in it. */
bool template_file_has(struct checkpoint *ckpt, const char *words);

#endif
