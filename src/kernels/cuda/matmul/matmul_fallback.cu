/* SPDX-License-Identifier: Apache-2.0 */
/* The fallback matmul: any dtype, layout, shape and epilogue. A warp computes one value, element by
 * element in float32. Used if the fast kernels do not apply or failed the self-test. */
#include "kernels/cuda/matmul/matmul_fallback_launch.h"
#include "kernels/cuda/common/matrix_element.cuh"

EY_DEVICE float fallback_x(const struct matmul_args &a, int64_t row, int column)
{
    int64_t at = row * a.ldx + column;
    return a.x_f32 ? ((const float *)a.x)[at] : bf16_value(((const bf16 *)a.x)[at]);
}

/* Returns the norm's factor of a row without the weights. */
EY_DEVICE float fallback_norm_scale(const struct matmul_args &a, int64_t row)
{
    float squares = 0;
    if (!a.norm) return 1;
    for (int c = lane_index(); c < a.k; c += 32)
        squares += fallback_x(a, row, c) * fallback_x(a, row, c);
    return 1.0f / sqrtf(warp_sum(squares) / (float)a.k + a.eps);
}

EY_DEVICE float fallback_dot(const struct matmul_args &a, const struct dev_matrix &w, int w_row,
                             int64_t x_row, float scale)
{
    float sum = 0;
    for (int c = lane_index(); c < a.k; c += 32) {
        float x = fallback_x(a, x_row, c);
        sum += (a.norm ? x * scale * a.norm[c] : x) * matrix_element(w, w_row, c);
    }
    return warp_sum(sum);
}

EY_DEVICE float fallback_gelu_tanh(float z)
{
    return 0.5f * z * (1.0f + tanhf(0.7978845608028654f * (z + 0.044715f * z * z * z)));
}

EY_DEVICE float fallback_gelu_erf(float z)
{
    return 0.5f * z * (1.0f + erff(z * 0.7071067811865476f));
}

EY_DEVICE float fallback_activation(const struct matmul_args &a, float value, float up)
{
    switch (a.epilogue) {
    case EPI_SILU: return value / (1.0f + expf(-value)) * up;
    case EPI_GELU_TANH: return fallback_gelu_tanh(value);
    case EPI_GELU_ERF: return fallback_gelu_erf(value);
    default: return value;
    }
}

EY_DEVICE void fallback_store(const struct matmul_args &a, const struct matmul_segment &s,
                              int64_t at, float value)
{
    if (a.epilogue == EPI_F32)
        ((float *)s.y)[at] = value;
    else if (a.epilogue == EPI_ADD)
        ((float *)s.y)[at] += value;
    else
        ((bf16 *)s.y)[at] = bf16_of(value);
}

EY_KERNEL(matmul_fallback, struct matmul_args, MATMUL_FALLBACK_THREADS, 1)
{
    wait_for_previous();
    int row = (int)(blockIdx.x * (blockDim.x / 32)) + warp_index(), segment = 0;
    int results = a.epilogue == EPI_SILU ? 1 : a.n_segments; /* matrices with a separate result */
    for (; segment < results && row >= a.segment[segment].w.rows; segment++)
        row -= a.segment[segment].w.rows;
    if (segment == results) return;
    const struct matmul_segment &s = a.segment[segment];
    for (int i = (int)blockIdx.y; i < a.n; i += (int)gridDim.y) {
        int64_t x_row = a.gather ? a.gather[i] : i;
        float scale = fallback_norm_scale(a, x_row), bias = s.bias ? s.bias[row] : 0.0f;
        float value = fallback_dot(a, s.w, row, x_row, scale) + bias, up = 0;
        if (a.epilogue == EPI_SILU) up = fallback_dot(a, a.segment[1].w, row, x_row, scale);
        if (lane_index() == 0)
            fallback_store(a, s, (int64_t)i * s.ldy + row, fallback_activation(a, value, up));
    }
}
