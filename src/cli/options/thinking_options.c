/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/thinking_options.h"

#include <stdlib.h>
#include <string.h>

#include "base/limits.h"

ey_thinking option_thinking(const struct options *o)
{
    const char *said = o->thinking ? o->thinking : "auto";
    return strcmp(said, "on") == 0    ? EY_THINKING_ON
           : strcmp(said, "off") == 0 ? EY_THINKING_OFF
                                      : EY_THINKING_AUTO;
}

bool option_loop_tokens(int *out, const struct options *o, ey_err *e)
{
    enum { LEAST = 16 };
    *out = 0;
    if (!o->loop_guard || strcmp(o->loop_guard, "off") == 0) return true;
    char *end;
    long tokens = strtol(o->loop_guard, &end, 10);
    if (*end || end == o->loop_guard || tokens < LEAST || tokens > EY_MAX_CONTEXT)
        return ey_fail(e, EY_BAD_REQUEST,
                       "--loop-guard takes a number of tokens from %d to %d, or off, not \"%s\"",
                       LEAST, EY_MAX_CONTEXT, o->loop_guard);
    *out = (int)tokens;
    return true;
}

bool option_thinking_end_check(const struct options *o, ey_err *e)
{
    static const char mark[] = "</think>";
    const char *text = o->thinking_end, *at = text ? strstr(text, mark) : NULL;
    if (!text) return true;
    return (at && !strstr(at + 1, mark) && strlen(text) <= EY_MAX_THINKING_END) ||
           ey_fail(e, EY_BAD_REQUEST,
                   "--thinking-end takes a text that has %s exactly once and at most %d bytes",
                   mark, EY_MAX_THINKING_END);
}
