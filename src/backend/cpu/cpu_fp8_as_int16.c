/* SPDX-License-Identifier: Apache-2.0 */
/* Selects the FP8 matrices that are multiplied in int16. All blocks of a matrix have the same int16
 * step. So, after a shift by powers of four that all of them share, every scale block must use
 * nearly the full e4m3 range, as it does if each block was quantized by its largest magnitude. A
 * matrix is checked at its first matmul: reading all of them would delay the start. */
#include "backend/cpu/cpu_matmul.h"

enum {
    MAX_E4M3 = 126, /* the byte of 448 */
    NAN_E4M3 = 127,
    E4M3_PER_POWER = 16, /* bytes per power of four */
    /* The byte of 32. If a block's largest magnitude is at least that, rounding normally
     * distributed weights, few of which are small, to int16 steps of 1/16 loses less than rounding
     * activations to BF16. */
    MIN_BLOCK_MAX = 96
};

struct fp8_range_job {
    const struct tensor *w;
    uint8_t max[EY_MAX_THREADS],
        min_block_max[EY_MAX_THREADS]; /* least of the blocks' largest magnitudes, ignoring blocks
                                          of zeros */
};

static uint8_t largest_e4m3(const uint8_t *quantized, size_t stride, size_t rows, size_t n)
{
    uint8_t most[FP8_BLOCK] = {0}, all = 0;
    for (size_t row = 0; row < rows; row++, quantized += stride)
        for (size_t i = 0; i < n; i++) {
            const uint8_t magnitude = quantized[i] & 0x7f;
            most[i] = magnitude > most[i] ? magnitude : most[i];
        }
    for (size_t i = 0; i < n; i++)
        all = most[i] > all ? most[i] : all;
    return all;
}

/* Finds the magnitude range of row blocks begin .. end-1. */
static void fp8_range_of_rows(void *context, size_t begin, size_t end, int thread)
{
    struct fp8_range_job *j = context;
    const size_t rows = (size_t)j->w->rows, cols = (size_t)j->w->cols;
    for (size_t row = begin * FP8_BLOCK; row < end * FP8_BLOCK && row < rows; row += FP8_BLOCK)
        for (size_t k = 0; k < cols; k += FP8_BLOCK) {
            const size_t n = cols - k < FP8_BLOCK ? cols - k : FP8_BLOCK;
            const uint8_t most = largest_e4m3((const uint8_t *)j->w->data + row * cols + k, cols,
                                              rows - row < FP8_BLOCK ? rows - row : FP8_BLOCK, n);
            if (most > j->max[thread]) j->max[thread] = most;
            if (most && most < j->min_block_max[thread]) j->min_block_max[thread] = most;
        }
}

static uint8_t classify_fp8_matrix(struct pool *pool, const struct tensor *w)
{
    struct fp8_range_job j = {.w = w};
    uint8_t largest = 0, least = MAX_E4M3;
    for (int i = 0; i < EY_MAX_THREADS; i++)
        j.min_block_max[i] = MAX_E4M3;
    pool_run(pool, (size_t)fp8_blocks(w->rows), 1, fp8_range_of_rows, &j);
    for (int i = 0; i < EY_MAX_THREADS; i++) {
        if (j.max[i] > largest) largest = j.max[i];
        if (j.min_block_max[i] < least) least = j.min_block_max[i];
    }
    if (largest == NAN_E4M3) return CPU_INT16_NO;
    const int powers = (MAX_E4M3 - largest) / E4M3_PER_POWER;
    return least + E4M3_PER_POWER * powers < MIN_BLOCK_MAX ? CPU_INT16_NO : (uint8_t)(1 + powers);
}

bool cpu_use_int16(const struct cpu *c, struct cpu_matrix *w)
{
    if (w->int16 == CPU_INT16_UNKNOWN) w->int16 = classify_fp8_matrix(c->pool, &w->tensor);
    return w->int16 != CPU_INT16_NO;
}
