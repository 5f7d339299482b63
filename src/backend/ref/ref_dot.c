/* SPDX-License-Identifier: Apache-2.0 */
/* The hot loops of ref, compiled for each register width. Lanes and their order are the same for
 * each width, so the bits are the same, too, as long as multiply-adds are not contracted
 * (-ffp-contract=off). Dispatch is by hand because sanitizers do not support resolvers, and clang
 * 14 has no target_clones. */
#include <string.h>

#include "backend/ref/ref_backend.h"

enum { LANES = 16, ROWS = 4 };
typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));
typedef float lanes8 __attribute__((vector_size(8 * sizeof(float)))),
    lanes4 __attribute__((vector_size(4 * sizeof(float))));

#define FORCE_INLINE static inline __attribute__((always_inline))

#if defined(__x86_64__)
#define IN_EACH_WIDTH(name, parameters, arguments)                          \
    __attribute__((target("avx512f"))) static void name##_avx512 parameters \
    {                                                                       \
        name##_body arguments;                                              \
    }                                                                       \
    __attribute__((target("avx2"))) static void name##_avx2 parameters      \
    {                                                                       \
        name##_body arguments;                                              \
    }                                                                       \
    void name parameters                                                    \
    {                                                                       \
        if (__builtin_cpu_supports("avx512f"))                              \
            name##_avx512 arguments;                                        \
        else if (__builtin_cpu_supports("avx2"))                            \
            name##_avx2 arguments;                                          \
        else                                                                \
            name##_body arguments;                                          \
    }
#else
#define IN_EACH_WIDTH(name, parameters, arguments) \
    void name parameters                           \
    {                                              \
        name##_body arguments;                     \
    }
#endif

/* Adds the upper half of the lanes to the lower half, repeatedly. */
FORCE_INLINE float ref_sum_lanes(const lanes *v)
{
    lanes8 eight = __builtin_shufflevector(*v, *v, 0, 1, 2, 3, 4, 5, 6, 7) +
                   __builtin_shufflevector(*v, *v, 8, 9, 10, 11, 12, 13, 14, 15);
    lanes4 four = __builtin_shufflevector(eight, eight, 0, 1, 2, 3) +
                  __builtin_shufflevector(eight, eight, 4, 5, 6, 7);
    return (four[0] + four[2]) + (four[1] + four[3]);
}

FORCE_INLINE void ref_load(lanes *v, const float *p)
{
    memcpy(v, p, sizeof(*v));
}

/* sums[a][b] = w_a · x_b */
FORCE_INLINE void ref_dot_tile_body(float sums[REF_WEIGHT_ROWS][REF_X_ROWS], const float *w,
                                    size_t w_stride, const float *x, size_t x_stride, size_t n)
{
    lanes acc[REF_WEIGHT_ROWS][REF_X_ROWS] = {{{0}}};
    size_t k = 0;
    for (; k + LANES <= n; k += LANES) {
        lanes wv[REF_WEIGHT_ROWS], xv;
        for (int a = 0; a < REF_WEIGHT_ROWS; a++)
            ref_load(&wv[a], w + (size_t)a * w_stride + k);
        for (int b = 0; b < REF_X_ROWS; b++) {
            ref_load(&xv, x + (size_t)b * x_stride + k);
            for (int a = 0; a < REF_WEIGHT_ROWS; a++)
                acc[a][b] += wv[a] * xv;
        }
    }
    for (int a = 0; a < REF_WEIGHT_ROWS; a++) {
        for (int b = 0; b < REF_X_ROWS; b++) {
            float tail = 0;
            for (size_t i = k; i < n; i++)
                tail += w[(size_t)a * w_stride + i] * x[(size_t)b * x_stride + i];
            sums[a][b] = ref_sum_lanes(&acc[a][b]) + tail;
        }
    }
}

FORCE_INLINE void some_dots(float *out, const float *x, const float *rows, size_t stride, size_t n,
                            int count)
{
    lanes acc[ROWS] = {{0}};
    size_t k = 0;
    for (; k + LANES <= n; k += LANES) {
        lanes xv, row;
        ref_load(&xv, x + k);
        for (int a = 0; a < count; a++) {
            ref_load(&row, rows + (size_t)a * stride + k);
            acc[a] += xv * row;
        }
    }
    for (int a = 0; a < count; a++) {
        float tail = 0;
        for (size_t i = k; i < n; i++)
            tail += x[i] * rows[(size_t)a * stride + i];
        out[a] = ref_sum_lanes(&acc[a]) + tail;
    }
}

FORCE_INLINE void ref_dots_body(float *out, const float *x, const float *rows, size_t stride,
                                size_t n, int n_rows)
{
    int i = 0;
    for (; i + ROWS <= n_rows; i += ROWS)
        some_dots(out + i, x, rows + (size_t)i * stride, stride, n, ROWS);
    for (; i < n_rows; i++)
        some_dots(out + i, x, rows + (size_t)i * stride, stride, n, 1);
}

/* Adds count · LANES columns. */
FORCE_INLINE void add_columns(float *out, const float *weight, const float *rows, size_t stride,
                              int n_rows, int count)
{
    lanes acc[ROWS], row;
    for (int a = 0; a < count; a++)
        ref_load(&acc[a], out + a * LANES);
    for (int j = 0; j < n_rows; j++)
        for (int a = 0; a < count; a++) {
            ref_load(&row, rows + (size_t)j * stride + a * LANES);
            acc[a] += weight[j] * row;
        }
    memcpy(out, acc, (size_t)count * sizeof(lanes));
}

FORCE_INLINE void ref_add_rows_body(float *out, const float *weight, const float *rows,
                                    size_t stride, size_t n, int n_rows)
{
    size_t d = 0;
    for (; d + ROWS * LANES <= n; d += ROWS * LANES)
        add_columns(out + d, weight, rows + d, stride, n_rows, ROWS);
    for (; d + LANES <= n; d += LANES)
        add_columns(out + d, weight, rows + d, stride, n_rows, 1);
    for (; d < n; d++)
        for (int j = 0; j < n_rows; j++)
            out[d] += weight[j] * rows[(size_t)j * stride + d];
}

IN_EACH_WIDTH(ref_dot_tile,
              (float sums[REF_WEIGHT_ROWS][REF_X_ROWS], const float *w, size_t w_stride,
               const float *x, size_t x_stride, size_t n),
              (sums, w, w_stride, x, x_stride, n))
IN_EACH_WIDTH(ref_dots,
              (float *out, const float *x, const float *rows, size_t stride, size_t n, int n_rows),
              (out, x, rows, stride, n, n_rows))
IN_EACH_WIDTH(ref_add_rows,
              (float *out, const float *weight, const float *rows, size_t stride, size_t n,
               int n_rows),
              (out, weight, rows, stride, n, n_rows))
