/* SPDX-License-Identifier: Apache-2.0 */
/* GEMM in float32: packing of x, panels of weights of any dtype. */
#ifndef EY_KERNELS_CPU_GEMM_F32_TMPL_H
#define EY_KERNELS_CPU_GEMM_F32_TMPL_H

#include "kernels/cpu/gemm/gemm_words_tmpl.h"
#include "kernels/cpu/gemv/gemv_f32_tmpl.h"

/* ---- packing ---- */

static void pack_gemm_f32(void *out, const struct packing_args *p)
{
    for (int m_block = 0; m_block < n_m_blocks(p->n); m_block++) {
        const int begin = m_block_begin(p->n, m_block),
                  n = m_block_begin(p->n, m_block + 1) - begin;
        float *to = (float *)out + (size_t)begin * p->padded;
        for (size_t k = 0; k < p->padded; k += CPU_K_STEP) {
            vf rows[LANES][STEP_VECTORS] = {{{0}}}, x[LANES];
            for (int b = 0; b < n; b++)
                x_row_step(rows[b], p, begin + b, k);
            for (size_t i = 0; i < STEP_VECTORS; i++) {
                for (int b = 0; b < LANES; b++)
                    x[b] = rows[b][i];
                store_phases(to, x, k / LANES + i, p->padded / LANES, n);
            }
        }
    }
}

/* ---- panels ---- */

#if LANES >= 8

/* 64 columns of LANES rows, of which n are there; false: they are read where they are stored. */
static bool unpack_bf12_rows(float (*out)[CPU_K_STEP], const struct cpu_matrix *w, int64_t row,
                             size_t n, size_t k)
{
    const struct bf12_block *s = bf12_block_at(w->bf12, row);
    const uint8_t *step = bf12_steps(w->bf12, &w->tensor, row) + k / CPU_K_STEP * BF12_STEP;
    bf12_vector words[LANES][BF12_VECTORS];
    uint32_t odd = 0;
    if (s->n_outliers == BF12_UNCOMPRESSED) return false;
    memset(words, 0, sizeof(words));
    for (size_t i = 0; i < BF12_STEP; i += 64)
        __builtin_prefetch(step + BF12_PREFETCH_BYTES + i, 0, 2);
    for (size_t a = 0; a < LANES && a < n; a++)
        bf12_to_words(words[a], s, step, (int)(row % BF12_ROWS) + (int)a);
    while (odd < s->n_outliers && s->outlier[odd].at < k * BF12_ROWS)
        odd++;
    patch_outliers(words, s, odd, next_outlier(s, odd, k), k, (int)(row % BF12_ROWS), LANES);
    for (size_t a = 0; a < LANES; a++)
        for (int i = 0; i < CPU_K_STEP / LANES; i++)
            store_vf(out[a] + i * LANES, bf16_words_to_f32(words[a], i));
    return true;
}

#endif

/* 64 columns of a weight row from k on, without their scales, zeros after its end. */
static void unpack_weights(float *out, const struct cpu_matrix *w, int64_t row, size_t k)
{
    const size_t cols = (size_t)w->tensor.cols,
                 n = k >= cols               ? 0
                     : cols - k < CPU_K_STEP ? cols - k
                                             : CPU_K_STEP,
                 size = dtype_size(w->tensor.dtype);
    const uint8_t *in = (const uint8_t *)w->tensor.data + ((size_t)row * cols + k) * size;
    if (w->tensor.dtype == DTYPE_INT4)
        dequantize_columns(out, &w->tensor, row, (int64_t)k, n);
    else if (w->tensor.dtype == DTYPE_F8_E4M3)
        fp8_to_f32(out, in, n, 1);
    else
        elements_to_f32(out, in, w->tensor.dtype, n);
    memset(out + n, 0, (CPU_K_STEP - n) * sizeof(float));
}

/* The same of LANES rows, all of which are there, as all columns are; false: there is a NaN among
 * them. */
INLINE bool unpack_full_rows(float (*out)[CPU_K_STEP], const uint8_t *in, size_t stride,
                             enum dtype dtype)
{
    magnitudes most = {0};
    for (size_t a = 0; a < LANES; a++, in += stride) {
        if (dtype == DTYPE_F8_E4M3) most = max_magnitudes(most, in);
        prefetch_panel(in, stride, CPU_K_STEP * dtype_size(dtype));
        for (size_t u = 0; u < CPU_K_STEP; u += STEP) {
            vf values[2];
            load_weight_pair(values, dtype, in + u * dtype_size(dtype));
            store_vf(out[a] + u, values[0]);
            store_vf(out[a] + u + LANES, values[1]);
        }
    }
    return dtype != DTYPE_F8_E4M3 || !has_nan_e4m3(most);
}

/* 64 columns of LANES rows, of which n are there. */
INLINE void unpack_step(float (*out)[CPU_K_STEP], const struct cpu_matrix *w, int64_t row, size_t n,
                        size_t k)
{
    const size_t stride = weight_row_bytes(&w->tensor);
    const uint8_t *in = (const uint8_t *)w->tensor.data + (size_t)row * stride +
                        k * dtype_size(w->tensor.dtype);
#if LANES >= 8
    if (w->bf12 && n && unpack_bf12_rows(out, w, row, n, k))
        return; /* without a row there may be no strip */
#endif
#ifdef HAVE_VBMI
    if (w->tensor.dtype == DTYPE_F8_E4M3) {
        unpack_fp8_step(out, in, stride, n,
                        k < (size_t)w->tensor.cols ? (size_t)w->tensor.cols - k : 0);
        return;
    }
#endif
    if (n >= LANES && k + CPU_K_STEP <= (size_t)w->tensor.cols) {
        if (w->tensor.dtype == DTYPE_F8_E4M3 && unpack_full_rows(out, in, stride, DTYPE_F8_E4M3))
            return;
        if (w->tensor.dtype == DTYPE_BF16 && unpack_full_rows(out, in, stride, DTYPE_BF16)) return;
    }
    for (size_t a = 0; a < LANES; a++) {
        if (a < n)
            unpack_weights(out[a], w, row + (int64_t)a, k);
        else
            memset(out[a], 0, sizeof(out[a]));
    }
}

static void pack_panel_f32(void *out, const struct cpu_matrix *w, int64_t row, int n, size_t k0,
                           size_t k)
{
    const size_t strips = ((size_t)n + NR - 1) / NR, steps = k / LANES;
    for (size_t at = 0; at < strips * NR; at += LANES)
        for (size_t c = 0; c < k; c += CPU_K_STEP) {
            float rows[LANES][CPU_K_STEP];
            unpack_step(rows, w, row + (int64_t)at, at < (size_t)n ? (size_t)n - at : 0, k0 + c);
            for (size_t i = 0; i < CPU_K_STEP / LANES; i++) {
                vf v[LANES];
                for (size_t a = 0; a < LANES; a++)
                    v[a] = load_vf(rows[a] + i * LANES);
                transpose_floats(v);
                for (size_t l = 0; l < LANES; l++)
                    store_vf((float *)out +
                                 ((phase_of_lane(l) * strips + at / NR) * steps + c / LANES + i) *
                                     NR +
                                 at % NR,
                             v[l]);
            }
        }
}

/* ---- matmul ---- */

static void gemm_f32(float *sums, const struct gemm_args *b)
{
    gemm_words(sums, b, false);
}

#endif
