/* SPDX-License-Identifier: Apache-2.0 */
/* M-RoPE positions of a prompt with images (spec 3.4). */
#ifndef EY_MODELS_LAYERS_MROPE_POSITIONS_H
#define EY_MODELS_LAYERS_MROPE_POSITIONS_H

#include <stddef.h>
#include <stdint.h>

/* A run of visual tokens in a prompt, with its merged grid. */
struct image_span {
    size_t first;   /* index of its first pad token */
    int rows, cols; /* rows·cols tokens */
};

/* Fills position[n, 3] of n tokens with these runs (ascending, not overlapping). Returns the
 * position of the token after them. */
int32_t mrope_positions(int32_t *position, size_t n, const struct image_span *runs, size_t n_runs);

#endif
