/* SPDX-License-Identifier: Apache-2.0 */
/* Constants shared by the gemv kernels and their launches. */
#ifndef EY_CUDA_GEMV_DEPTH_H
#define EY_CUDA_GEMV_DEPTH_H

#include "kernels/cuda/common/abi.h"

enum {
    GEMV_TOKENS = 8,      /* most tokens */
    GEMV_WARPS = 16,      /* most warps of a block */
    GEMV_NORM_WARPS = 10, /* the same if the matmul begins with a norm */
    GEMV_INT4_WARPS = 8,  /* the same with int4 weights */
    UNIT_CHUNKS =
        2, /* side by side: copied and multiplied together by a warp of the head kernels */
    UNIT_BYTES = UNIT_CHUNKS * PACK_CHUNK,
    GEMV_TOKEN_FLOATS = PACK_ROWS + 4 /* floats per token in the sums of a warp (or share); the 4
                                         keep lanes in different banks */
};

/* Chunks of each of its tiles that a warp holds at a time: as many as a thread's registers allow.
 * groups: of eight tokens. */
#define GEMV_DEPTH(dtype, groups, out)                                 \
    ((dtype) == K_INT4   ? ((out) == EPI_ADD && (groups) == 1 ? 4 : 2) \
     : (out) == EPI_SILU ? ((groups) == 1 ? 4 : 2)                     \
     : (out) == EPI_ADD  ? ((groups) == 1   ? 6                        \
                            : (groups) == 2 ? 4                        \
                                            : 3)                       \
                         : 4)

#endif
