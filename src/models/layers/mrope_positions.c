/* SPDX-License-Identifier: Apache-2.0 */
/* M-RoPE positions: text counts up on all axes. An image has one T, its rows and columns count from
 * there, and it advances the counter by its longer side. */
#include "models/layers/mrope_positions.h"

static int32_t text_positions(int32_t *position, size_t n, int32_t p)
{
    for (size_t i = 0; i < n; i++, p++)
        position[3 * i] = position[3 * i + 1] = position[3 * i + 2] = p;
    return p;
}

static int32_t image_positions(int32_t *position, const struct image_span *run, int32_t p)
{
    for (int r = 0; r < run->rows; r++)
        for (int c = 0; c < run->cols; c++, position += 3) {
            position[0] = p;
            position[1] = p + r;
            position[2] = p + c;
        }
    return p + (run->rows > run->cols ? run->rows : run->cols);
}

int32_t mrope_positions(int32_t *position, size_t n, const struct image_span *runs, size_t n_runs)
{
    int32_t p = 0;
    size_t at = 0;
    for (size_t i = 0; i < n_runs; i++) {
        p = text_positions(position + 3 * at, runs[i].first - at, p);
        p = image_positions(position + 3 * runs[i].first, &runs[i], p);
        at = runs[i].first + (size_t)runs[i].rows * (size_t)runs[i].cols;
    }
    return text_positions(position + 3 * at, n - at, p);
}
