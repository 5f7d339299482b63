/* SPDX-License-Identifier: Apache-2.0 */
/* Tool calls in an answer: however it is cut, content and calls are the same, and an answer without
 * calls loses no byte. The first byte selects the cuts. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "models/chat/hermes_parser.h"

/* Returns the number of calls. */
static int take_pieces(void *t, struct buf *got)
{
    int calls = 0;
    ey_answer_piece piece;
    while (hermes_parser_next(t, &piece)) {
        if (!piece.call && !piece.n_text) abort();
        if (piece.call) {
            calls++;
            buf_printf(got, "[call %d %s ", piece.index, piece.name);
            buf_add(got, piece.arguments, piece.n_arguments);
        } else
            buf_add(got, piece.text, piece.n_text);
    }
    return calls;
}

static struct buf read_in_steps(const char *text, size_t n, size_t step, int *calls)
{
    void *t = hermes_parser_open(false);
    struct buf got = buf_with_max(1 << 24);
    buf_add_text(&got, "");
    *calls = 0;
    for (size_t at = 0; at < n; at += step) {
        if (!hermes_parser_add(t, text + at, n - at < step ? n - at : step)) abort();
        *calls += take_pieces(t, &got);
    }
    hermes_parser_end(t);
    *calls += take_pieces(t, &got);
    hermes_parser_close(t);
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
