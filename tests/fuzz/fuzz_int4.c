/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a checkpoint with one quantized matrix in any layout: refused with a message, or a
 * matrix whose elements are finite (except FP8 NaNs), whose rows can be read separately, and whose
 * GPU scales represent the stored ones. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tensor/dequantize.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/cuda_sizes.h"
#include "checkpoint/temp_dir.h"
#include "checkpoint/quantized_layouts.h"
#include "checkpoint/repack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ROWS = 24, COLS = 128, PART = 8 /* where a fused matrix may begin */ };

static void require(bool ok)
{
    if (!ok) abort();
}

static void check_values(const struct tensor *w)
{
    float row[COLS];
    for (int r = 0; r < w->rows; r++) {
        dequantize_columns(row, w, r, 0, COLS);
        for (int c = 0; c < COLS; c++)
            require((w->dtype != DTYPE_INT4 && w->dtype != DTYPE_UINT8) || isfinite(row[c]));
    }
}

/* A part that begins at row PART has the same values as these rows of the whole. An int4 part that
 * begins at row 5 is refused, because zero points of 8 rows are packed. */
static void check_rows(const struct tensor *w)
{
    struct tensor part;
    ey_err e = {0};
    float of_part[COLS], of_whole[COLS];
    if (w->dtype == DTYPE_INT4) require(!matrix_rows(&part, w, 5, 1, &e) && e.text[0]);
    require(matrix_rows(&part, w, PART, w->rows - PART, &e));
    for (int r = 0; r < w->rows - PART; r++) {
        dequantize_columns(of_part, &part, r, 0, COLS);
        dequantize_columns(of_whole, w, r + PART, 0, COLS);
        require(memcmp(of_part, of_whole, sizeof(of_part)) == 0);
    }
}

/* A finite F16 without sign. */
static double f16_value(uint16_t bits)
{
    return bits >> 10 ? ldexp(1024 + (bits & 0x3ff), (bits >> 10) - 25) : ldexp(bits & 0x3ff, -24);
}

static struct pool *one_thread(void)
{
    static struct pool *pool;
    ey_err e;
    require(pool || pool_create(&pool, 1, &e));
    return pool;
}

static void check_scales(const struct tensor *w)
{
    const int64_t groups = weight_groups(w);
    uint16_t *words = malloc(cuda_group_scale_bytes(w));
    require(words != NULL);
    const double unit = (double)cuda_make_group_scales(one_thread(), words, w);
    for (int64_t row = 0; row < w->rows; row++)
        for (int64_t g = 0; g < groups; g++) {
            const uint16_t word = words[((row / PACK_ROWS * 8 + row % 8) * groups + g) * 2 +
                                        row / 8 % 2]; /* the layout in the CUDA abi.h */
            const double stored = (double)weight_group_scale(w, row, g),
                         made = f16_value((word & 0xfff0) >> 1) * unit;
            require((word & 15) == weight_group_zero(w, row, g) &&
                    fabs(made - stored) <= unit * 0x1p-22 &&
                    (stored > unit * 0x1p-14 ? made == stored : true));
        }
    free(words);
}

/* Replaces a matrix with an on-load quantization recipe by the quantized one. */
static bool make(struct tensor *w, ey_err *e)
{
    static _Alignas(64) uint8_t memory[1 << 16];
    const struct tensor described = *w;
    if (!w->recipe) return true;
    require(repacked_bytes(w) <= sizeof(memory));
    return repack_weight(w, memory, &described, one_thread(), e);
}

static void check_matrix(struct checkpoint *ckpt, struct arena *arena, const char *name,
                         int64_t rows, size_t size)
{
    static const struct name_alias none[1];
    struct tensor_source s = {.ckpt = ckpt, .arena = arena, .aliases = none};
    struct tensor w;
    ey_err e = {0};
    s.quantization.bits = 0x1fe;
    if (!source_matrix(&s, &w, name, rows, COLS, &e) || !make(&w, &e)) {
        require(e.text[0] != 0);
        return;
    }
    require(w.rows == rows && w.cols == COLS && s.bytes <= size);
    check_values(&w);
    if (w.group_size && !w.recipe) check_rows(&w);
    if (w.dtype == DTYPE_INT4 && !cuda_has_wide_scales(&w)) check_scales(&w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct checkpoint *ckpt = NULL;
    struct arena arena = {0};
    ey_err e = {0};
    static const char *dir;
    if (!dir) temp_text(dir = temp_dir_until_exit(), "config.json", "{}");
    /* rewriting an emptied file waits for the disk on some file systems */
    unlink(temp_path(dir, "model.safetensors"));
    temp_file(dir, "model.safetensors", data, size);
    if (!checkpoint_open(&ckpt, dir, &e)) {
        require(e.text[0] != 0);
        return 0;
    }
    check_matrix(ckpt, &arena, "m.weight", 20, size);
    check_matrix(ckpt, &arena, "n.weight", ROWS, size);
    checkpoint_close(ckpt);
    arena_free(&arena);
    return 0;
}
