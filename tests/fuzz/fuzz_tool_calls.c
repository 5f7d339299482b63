/* SPDX-License-Identifier: Apache-2.0 */
/* A model's answer with tool calls: however it is cut, content and calls are the same, and not a
 * byte of an answer without calls is lost. The first byte chooses the cuts. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "models/chat/tool_call_parser.h"

static void take_events(struct tool_call_parser *t, struct buf *got)
{
    struct tool_call_event event;
    while (tool_call_parser_next(t, &event)) {
        if (!event.call && !event.n_text) abort();
        if (event.call) {
            buf_printf(got, "[call %d %s ", event.index, event.name);
            buf_add(got, event.arguments, event.n_arguments);
        } else
            buf_add(got, event.text, event.n_text);
    }
}

static struct buf read_in_steps(const char *text, size_t n, size_t step, int *calls)
{
    struct tool_call_parser t = tool_call_parser_start(false);
    struct buf got = buf_with_max(1 << 24);
    buf_add_text(&got, "");
    for (size_t at = 0; at < n; at += step) {
        if (!tool_call_parser_add(&t, text + at, n - at < step ? n - at : step)) abort();
        take_events(&t, &got);
    }
    tool_call_parser_end(&t);
    take_events(&t, &got);
    *calls = t.n_calls;
    tool_call_parser_free(&t);
    return got;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size || size > 4096) return 0;
    const char *text = (const char *)data + 1;
    size_t n = size - 1;
    int calls, calls_again;
    struct buf whole = read_in_steps(text, n, n ? n : 1, &calls),
               cut = read_in_steps(text, n, 1 + data[0] % 64, &calls_again);
    if (calls != calls_again || whole.size != cut.size ||
        memcmp(whole.data, cut.data, whole.size) != 0)
        abort();
    if (!calls && (whole.size != n || memcmp(whole.data, text, n) != 0)) abort();
    buf_free(&whole);
    buf_free(&cut);
    return 0;
}
