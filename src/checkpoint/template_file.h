/* SPDX-License-Identifier: Apache-2.0 */
/* Finds a checkpoint's chat template. */
#ifndef EY_CHECKPOINT_TEMPLATE_FILE_H
#define EY_CHECKPOINT_TEMPLATE_FILE_H

#include "checkpoint/checkpoint.h"

struct template_file {
    char *text; /* [n], or NULL if there is none */
    size_t n;
    const char *file;
    ey_err error; /* why chat_template.jinja was skipped; .code is EY_OK if it was not */
};

/* Returns false if there is none. The caller frees out->text. */
bool template_file_find(struct template_file *out, struct checkpoint *ckpt);
/* Whether the checkpoint has a chat template that contains these words. */
bool template_file_has(struct checkpoint *ckpt, const char *words);

#endif
