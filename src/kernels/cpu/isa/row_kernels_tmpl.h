/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of every tier that are not matmuls: rows of weights and activations, and causal
 * attention. The including file sets LANES and defines a struct row_kernels by ROW_KERNELS. */
#ifndef EY_KERNELS_CPU_ROW_KERNELS_TMPL_H
#define EY_KERNELS_CPU_ROW_KERNELS_TMPL_H

#include "kernels/cpu/attention/attention_causal_tmpl.h"
#include "kernels/cpu/common/dequantize_tmpl.h"
#include "kernels/cpu/common/norm_activation_tmpl.h"

static void dequantize_row(float *out, const struct cpu_matrix *w, int64_t row)
{
    size_t n = (size_t)w->tensor.cols;
    if (dtype_is_gguf(w->tensor.dtype)) {
        gguf_to_f32(out, &w->tensor, row, 0, n);
        return;
    }
    if (w->tensor.dtype == DTYPE_INT4 || dtype_is_rare(w->tensor.dtype)) {
        dequantize_columns(out, &w->tensor, row, 0, n);
        return;
    }
    if (w->bf12) {
        bf12_decode_row(out, w->bf12, &w->tensor, row);
        return;
    }
    const uint8_t *in = (const uint8_t *)w->tensor.data +
                        (size_t)row * n * dtype_size(w->tensor.dtype);
    if (w->tensor.dtype != DTYPE_F8_E4M3) {
        elements_to_f32(out, in, w->tensor.dtype, n);
        return;
    }
    fp8_to_f32(out, in, n, FP8_LOAD_FACTOR);
    const float *scale = weight_row_scale(&w->tensor, row),
                of_row = w->tensor.row_scale ? w->tensor.row_scale[row] : 1;
    for (size_t k = 0; k < n; k++)
        out[k] *= scale[k / FP8_BLOCK] * of_row;
}

static void to_bf16(uint16_t *out, const float *in, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = f32_to_bf16(in[i]);
}

#define ROW_KERNELS                                                                 \
    .to_bf16 = to_bf16, .dequantize_row = dequantize_row, .accumulate = accumulate, \
    .rms_norm = rms_norm, .layer_norm = layer_norm, .silu_mul = silu_mul_row,       \
    .gelu_tanh = gelu_tanh_row, .gelu_erf = gelu_erf_row, .attention = causal_attention

#endif
