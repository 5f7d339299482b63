/* What the gemv kernels and their launches have in common. */
#ifndef EY_CUDA_GEMV_DEPTH_H
#define EY_CUDA_GEMV_DEPTH_H

#include "backend/cuda/kernels.h"

enum {
    GEMV_TOKENS = 32,                  /* at most */
    GEMV_WARPS = 16,                   /* of a block, at most */
    GEMV_NORM_WARPS = 10,              /* the same where the product begins with a norm */
    GEMV_TOKEN_FLOATS = PACK_ROWS + 4  /* of a warp's sums of one token: no two lanes write to one bank */
};

/* Chunks of each of its tiles that a warp holds at once: what the registers of a thread allow. groups: of eight tokens. */
#define GEMV_DEPTH(dtype, groups, out) \
    ((out) == OUT_SILU ? ((groups) == 1 ? 4 : 2) : (out) == OUT_ADD ? ((groups) == 1 ? 6 : (groups) == 2 ? 4 : 3) : (dtype) == K_BF16 ? 8 : 4)

/* A block of threads may take many row blocks, as a head has them; it keeps x and always has the next weights on the way. */
#define GEMV_MANY(dtype, out) ((out) == OUT_F32 && (dtype) != K_FP8)

#endif
