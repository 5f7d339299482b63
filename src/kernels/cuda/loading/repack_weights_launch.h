/* SPDX-License-Identifier: Apache-2.0 */
/* Launches the kernels of repack_weights.cu. They run on any number of thread blocks, so
 * the grids are capped. */
#ifndef EY_CUDA_REPACK_WEIGHTS_LAUNCH_H
#define EY_CUDA_REPACK_WEIGHTS_LAUNCH_H

#include "kernels/cuda/common/gguf_layout.h"
#include "kernels/cuda/common/launch.h"

enum { REPACK_THREADS = 256 };

static inline unsigned repack_blocks(int64_t items, int64_t per_block, int64_t max)
{
    int64_t n = (items + per_block - 1) / per_block;
    return (unsigned)(n < 1 ? 1 : n > max ? max : n);
}

static inline struct launch repack_launch(const struct repack_args *a)
{
    int64_t chunks = (a->rows + PACK_ROWS - 1) / PACK_ROWS * packed_chunks(a->row_bytes);
    struct launch l = {GPU_repack, {repack_blocks(chunks, 4, 65535), 1, 1}, REPACK_THREADS, 0};
    return l;
}

static inline struct launch quantize_int8_launch(const struct quantize_int8_args *a)
{
    unsigned blocks = repack_blocks(a->rows, PACK_ROWS, 65535);
    struct launch l = {GPU_quantize_int8, {blocks, 1, 1}, REPACK_THREADS, 0};
    return l;
}

static inline struct launch repack_gguf_launch(const struct repack_gguf_args *a)
{
    const int64_t units = (int64_t)((a->rows + PACK_ROWS - 1) / PACK_ROWS) *
                          gguf_records(a->dtype, a->cols) * gguf_record_of(a->dtype).chunks * 64;
    struct launch l = {
        GPU_repack_gguf, {repack_blocks(units, REPACK_THREADS, 65535), 1, 1}, REPACK_THREADS, 0};
    return l;
}

static inline struct launch unpack_gguf_launch(const struct unpack_args *a)
{
    const int64_t items = (int64_t)((a->rows + PACK_ROWS - 1) / PACK_ROWS) *
                          gguf_records(a->w.dtype, a->w.cols) * gguf_record_of(a->w.dtype).chunks *
                          32;
    struct launch l = {
        GPU_unpack_gguf, {repack_blocks(items, REPACK_THREADS, 4096), 1, 1}, REPACK_THREADS, 0};
    return l;
}

static inline struct launch unpack_int4_launch(const struct unpack_args *a)
{
    const int each = a->w.dtype == K_INT4 && a->w.packed ? 1 : 4; /* threads for 32 columns */
    int64_t chunks = (a->rows + PACK_ROWS - 1) / PACK_ROWS * packed_chunks(a->w.cols / 2) * each;
    unsigned blocks = repack_blocks(chunks / 4 + 1, 1, 4096);
    struct launch l = {GPU_unpack_int4, {blocks, 1, 1}, REPACK_THREADS, 0};
    return l;
}

#endif
