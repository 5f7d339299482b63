/* SPDX-License-Identifier: Apache-2.0 */
/* How a checkpoint's chat template differs from a built-in format, by what it may write. There is
 * no Jinja engine here: what is found is named, and a template may differ in more. */
#ifndef EY_MODELS_TEMPLATE_CHECK_H
#define EY_MODELS_TEMPLATE_CHECK_H

#include "base/buf.h"

/* What the built-in format writes. */
struct built_in_format {
    const struct buf *written;  /* a conversation with all that it knows */
    const char *default_system; /* where the messages have no system prompt; NULL: none */
    const char *tail;           /* behind the last turn, for the answer to begin; "": nothing */
    bool thinks;                /* thoughts are no difference */
};

/* Appends what differs in the template, "; " between: default system prompt, thinking, tail,
 * words about tools, markers, other words. Appends nothing where nothing is found. False: no
 * memory. */
bool template_differences(struct buf *out, const char *text, size_t n,
                          const struct built_in_format *format);

/* Whether some text that it writes is `wanted`. */
bool template_writes(const char *text, size_t n, const char *wanted);

#endif
