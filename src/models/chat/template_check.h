/* SPDX-License-Identifier: Apache-2.0 */
/* Finds differences between a checkpoint's chat template and a built-in format, by the texts that
 * the template may write. There is no Jinja engine, so a template may differ in more than is
 * found. */
#ifndef EY_MODELS_TEMPLATE_CHECK_H
#define EY_MODELS_TEMPLATE_CHECK_H

#include "base/buf.h"

/* The built-in format's side of the comparison. */
struct built_in_format {
    const struct buf *written;  /* a conversation that uses all of the format's features */
    const char *default_system; /* used without a system message; NULL if there is none */
    const char *tail;           /* after the last turn, before the answer; may be "" */
    bool thinks;                /* the format writes thoughts, so they are no difference */
};

/* Appends the differences, separated by "; ": default system prompt, thinking, tail, words about
 * tools, markers, other words. Appends nothing if there are none. Fails without memory. */
bool template_differences(struct buf *out, const char *text, size_t n,
                          const struct built_in_format *format);

/* Whether the template may write the text `wanted`. */
bool template_writes(const char *text, size_t n, const char *wanted);

#endif
