/* SPDX-License-Identifier: Apache-2.0 */
/* e to the power of a vector. */
#ifndef EY_KERNELS_CPU_EXP_TMPL_H
#define EY_KERNELS_CPU_EXP_TMPL_H

#include "kernels/cpu/common/simd_tmpl.h"

/* Returns p · 2^n if x is at least -87 or NaN, otherwise 0. n is in the low bits of `shifted`. */
INLINE vf scale_by_power(vf p, vf shifted, vf x)
{
    vi scaled = (vi)p + ((vi)shifted << 23);
#if LANES == 16
    return (vf)_mm512_maskz_mov_epi32(
        _mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(-87), _CMP_NLT_UQ), (__m512i)scaled);
#else
    return (vf)(scaled & ~(vi)(x < -87.0f));
#endif
}

/* Returns e^x for x <= 88 with a relative error below 2e-7: 2^n, where n = round(x/ln 2), times e^r
 * of the rest r, by the minimax polynomial of degree 6 for |r| <= ln(2)/2. 0 gives exactly 1, x
 * below -87 (near the smallest normal float32) gives 0, and NaN stays NaN. */
INLINE vf exp_vf(vf x)
{
    vf near = max_vf(splat(-87.0f), x), shifted = near * 1.44269504f + 12582912.0f,
       n = shifted - 12582912.0f;
    vf r = near - n * 0.693359375f + n * 2.12194440e-4f;
    vf p = splat(1.38436072e-3f);
    p = p * r + 8.37419555e-3f;
    p = p * r + 4.16680053e-2f;
    p = p * r + 1.66664302e-1f;
    p = p * r + 0.49999994f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    return scale_by_power(p, shifted, x);
}

#endif
