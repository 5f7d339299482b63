/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by GEMV (cpu_gemv.c), GEMM (cpu_gemm.c) and cpu_matmul(). */
#ifndef EY_BACKEND_CPU_CPU_MATMUL_H
#define EY_BACKEND_CPU_CPU_MATMUL_H

#include "backend/cpu/cpu_backend.h"

enum { CPU_MAX_TILE_ROWS = 1024 }; /* weight rows of a GEMV tile */

/* One call of cpu_matmul(). */
struct cpu_matmul_job {
    struct cpu *c;
    const struct matmul_kernels *kernels;
    const struct cpu_input *in;
    const float *x; /* the normed input */
    size_t x_stride;
    const struct cpu_linear *linears;
    int n_linears, block_rows;
    enum cpu_epilogue epilogue;
    bool two_pass;  /* each row is packed as two: value and remainder */
    bool block_fp8; /* the weights are FP8 with block scales; all of them or none */
    bool weights_8bit;
    bool rare; /* types without GEMV kernels */
};

/* Returns the input rows in a tile of `rows` packed rows. */
static inline int cpu_tile_rows(const struct cpu_matmul_job *j, int rows)
{
    return j->two_pass ? rows / 2 : rows;
}

/* Writes sums[n, stride] of weight rows row .. row+n_w-1 and input rows first .. first+n-1 to the
 * outputs, or adds them (CPU_ADD). With two_pass, n more rows of sums of remainders follow. */
void cpu_accumulate_sums(const struct cpu_matmul_job *j, const struct cpu_linear *p,
                         const float *sums, size_t stride, int64_t row, int n_w, int first, int n);
/* Applies the epilogue to outputs begin .. end-1 of rows first .. first+n-1 once all their sums
 * are complete. */
void cpu_apply_epilogue(const struct cpu_matmul_job *j, int64_t begin, int64_t end, int first,
                        int n);

/* Whether an FP8 matrix may be multiplied in int16. cpu_fp8_powers() of the matrix is known
 * afterwards. */
bool cpu_use_int16(const struct cpu *c, struct cpu_matrix *w);

/* Chooses the kernels of a weight while it is placed. */
void cpu_choose_matmul(const struct cpu *c, struct cpu_weight *w);

/* Whether the rows are few enough for GEMV. */
bool cpu_use_gemv(const struct cpu_matmul_job *j);
void cpu_gemv(struct cpu_matmul_job *j);

/* Returns the scratch bytes of a thread for GEMMs of inputs up to a padded width. */
size_t cpu_gemm_scratch_bytes(const struct matmul_kernels *kernels, size_t width);
void cpu_gemm(struct cpu_matmul_job *j);

#endif
