/* SPDX-License-Identifier: Apache-2.0 */
/* What products of few rows (cpu_few.c) and of many (cpu_multiply.c, cpu_blocks.c) share. */
#ifndef EY_BACKEND_CPU_MULTIPLY_H
#define EY_BACKEND_CPU_MULTIPLY_H

#include "backend/cpu/cpu.h"

/* One call of cpu_multiply(). */
struct multiply_job {
    struct cpu *c;
    const struct products *way;
    const struct cpu_input *in;
    const float *x; /* the input, normed */
    size_t x_stride;
    const struct cpu_product *products;
    int n_products, group;
    enum cpu_finish finish;
    bool split; /* each row is two: value and remainder */
    bool codes; /* weights are FP8, with scales: all of them, or none */
};

/* Rows of the input that a tile of `rows` packed ones holds. */
static inline int cpu_tile_rows(const struct multiply_job *j, int rows)
{
    return j->split ? rows / 2 : rows;
}

/* sums[n, stride] of n_w weight rows, row .. , with input rows first .. go to their places; with
 * `split`, sums of remainders follow. */
void cpu_join_sums(const struct multiply_job *j, const struct cpu_product *p, const float *sums,
                   size_t stride, int64_t row, int n_w, int first, int n);
/* What `finish` does to outputs begin .. end-1 of rows first .. first+n-1 when all of their sums
 * are there. */
void cpu_finish_columns(const struct multiply_job *j, int64_t begin, int64_t end, int first, int n);

/* Whether an FP8 matrix may be multiplied in int16: cpu_fp8_powers() of it is known then. */
bool cpu_takes_int16(const struct cpu *c, const struct weight *w);

/* Whether the rows are few enough for weights in place. */
bool cpu_are_few(const struct multiply_job *j);
void cpu_multiply_few(struct multiply_job *j);

/* In blocks: what a thread's scratch takes of them, for inputs up to a padded width. */
size_t cpu_blocks_scratch(const struct products *way, size_t width);
void cpu_multiply_blocks(struct multiply_job *j);

#endif
