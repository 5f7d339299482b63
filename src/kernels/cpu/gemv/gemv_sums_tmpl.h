/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a GEMV kernel: sums of streams to the output, NaN where FP8 rows have one. */
#ifndef EY_KERNELS_CPU_GEMV_SUMS_TMPL_H
#define EY_KERNELS_CPU_GEMV_SUMS_TMPL_H

#include "kernels/cpu/common/dequantize_tmpl.h"
#include "kernels/cpu/gemv/gemv_streams_tmpl.h"

enum { ROWS_DECODED = LANES == 16 ? 4 : 2 }; /* rows, in registers */

enum { LINE_NIBBLES = 128 }; /* four-bit values of 64 bytes */

/* Makes sums NaN where their rows have NaNs. */
static __attribute__((noinline)) void mark_nan(vf *sums, const uint8_t *const *w,
                                               const struct weight_streams *p,
                                               const struct gemv_args *t, int n)
{
    for (int a = 0; a < p->n; a++) {
        magnitudes most = {0};
        for (size_t k = 0; k < t->k; k += CPU_K_STEP)
            most = max_magnitudes(most, w[a] + k);
        for (int b = 0; has_nan_e4m3(most) && b < n; b++)
            sums[b * p->n + a] = splat(NAN);
    }
}

/* nan_codes: rows of FP8 of which some have NaNs; NULL: there are none. */
INLINE void store_streams(float *out, size_t out_stride, const vf *acc,
                          const uint8_t *const *nan_codes, const struct weight_streams *p,
                          const struct gemv_args *t, int n)
{
    vf sums[MAX_WEIGHT_STREAMS * MAX_GEMV_ROWS];
    UNROLL
    for (int i = 0; i < p->n * n; i++)
        sums[i] = acc[i];
    if (nan_codes) mark_nan(sums, nan_codes, p, t, n);
    store_lane_sums(out, out_stride, sums, p, t, n);
}

#endif
