/* SPDX-License-Identifier: Apache-2.0 */
/* Matmuls of up to 64 rows of x with matrices of GGUF's types (matmul_small_gguf.cu). Tiles and
 * splits are those of matmul_small_launch.h; a stage is a chunk of 128 columns. */
#ifndef EY_CUDA_MATMUL_SMALL_GGUF_LAUNCH_H
#define EY_CUDA_MATMUL_SMALL_GGUF_LAUNCH_H

#include "kernels/cuda/common/gguf_layout.h"
#include "kernels/cuda/matmul/matmul_small_launch.h"

/* Bytes of 16 rows in a stage: a chunk, and d of its record. */
#define SMALL_GGUF_BLOCK_BYTES(bits, scales) \
    (GGUF_CHUNK_BYTES(bits, scales) + PACK_ROWS * GGUF_D_BYTES(scales))
#define SMALL_GGUF_STAGE_BYTES(block_bytes, tokens) \
    (SMALL_TILE / PACK_ROWS * (block_bytes) + (tokens)*GGUF_CHUNK_COLUMNS * 2)
#define SMALL_GGUF_STAGES(block_bytes, tokens) \
    (4 * SMALL_GGUF_STAGE_BYTES(block_bytes, tokens) <= 99 << 10 ? 4 : 3)

static inline unsigned small_gguf_shared(int dtype, int tokens)
{
    int bytes = 0;
    switch (dtype) {
#define GGUF_TYPE(id, bits, zero, codes, scales)             \
    case K_##id:                                             \
        bytes = SMALL_GGUF_BLOCK_BYTES(bits, GGUF_##scales); \
        break;
#include "kernels/cuda/common/gguf_types.def"
#undef GGUF_TYPE
    default: break;
    }
    return (unsigned)(SMALL_GGUF_STAGES(bytes, tokens) * SMALL_GGUF_STAGE_BYTES(bytes, tokens));
}

/* Whether the kernel takes these matrices. */
static inline bool small_gguf_takes(const struct matmul_args *a)
{
    const int dtype = a->segment[0].w.dtype;
    if (a->n < 1 || a->n > SMALL_MOST_TOKENS || a->k % ARRANGE_COLUMNS || a->ldx % 4 ||
        (a->gather && !a->norm) || a->epilogue > EPI_SILU ||
        (a->epilogue == EPI_SILU && a->n_segments != 2))
        return false;
    for (int i = 0; i < a->n_segments; i++) {
        const struct matmul_segment *s = &a->segment[i];
        if (!s->w.packed || !kernel_dtype_is_gguf(s->w.dtype) || s->w.dtype != dtype ||
            s->w.cols != a->k)
            return false;
        if (a->epilogue == EPI_SILU && (s->w.rows != a->segment[0].w.rows || s->bias)) return false;
    }
    return true;
}

static inline struct launch small_gguf_launch(const struct small_matmul_args *a, int sm_count,
                                              int sm_shared)
{
    const int tokens = small_tokens(a->matmul.n), tiles = small_tiles(&a->matmul),
              stages = (a->matmul.k + GGUF_CHUNK_COLUMNS - 1) / GGUF_CHUNK_COLUMNS;
    const unsigned shared = small_gguf_shared(a->matmul.segment[0].w.dtype, tokens);
    const int room = (unsigned)sm_shared >= 2 * (shared + 1024) ? 2 * sm_count : sm_count;
    struct launch l = {tokens == 16   ? GPU_matmul_small_gguf_16
                       : tokens == 32 ? GPU_matmul_small_gguf_32
                                      : GPU_matmul_small_gguf_64,
                       {(unsigned)tiles, (unsigned)small_splits(tiles, stages, room), 1},
                       SMALL_THREADS,
                       shared};
    return l;
}

#endif
