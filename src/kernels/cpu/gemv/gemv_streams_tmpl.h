/* SPDX-License-Identifier: Apache-2.0 */
/* How GEMV kernels stream weights in place.
 *
 * A block of weight rows is read in several streams, each of which reads its share of the rows, one
 * after the other: hardware prefetchers follow a few long streams, but a single stream does not
 * saturate memory, and two in one page defeat them. Software prefetch covers the rest. */
#ifndef EY_KERNELS_CPU_GEMV_STREAMS_TMPL_H
#define EY_KERNELS_CPU_GEMV_STREAMS_TMPL_H

#include "kernels/cpu/common/simd_tmpl.h"

enum {
    GEMV_MR = LANES == 16 ? 8 : 4,    /* largest number of rows of x */
    GEMV_MAX_NR = LANES == 4 ? 2 : 8, /* largest number of weight rows read side by side */
};

/* The number of streams for n rows of x, chosen to leave registers for decoding. */
#define GEMV_NR(n)                 \
    (LANES == 4   ? GEMV_MAX_NR    \
     : LANES == 8 ? (n == 1   ? 8  \
                     : n == 2 ? 4  \
                              : 2) \
     : n <= 2     ? 8              \
     : n <= 5     ? 4              \
                  : 2)

/* AMD's processors, which run the BF16 kernels, have few L1 line fill buffers: if weights
 * are prefetched earlier, into the L2 cache, they arrive at 36 instead of 31 GB/s (two cores of a
 * Zen 4). Intel's processors would lose a tenth. */
INLINE void prefetch_weights(const uint8_t *p, bool to_l2)
{
    if (to_l2)
        __builtin_prefetch(p + 4 * CPU_PREFETCH_BYTES, 0, 2);
    else
        __builtin_prefetch(p + CPU_PREFETCH_BYTES);
}

/* The weight rows being read: one every `stride`, from `row` on. Rows past the end repeat the last
 * one. */
struct weight_streams {
    int row, stride, n;
};

INLINE int stream_row(const struct weight_streams *p, const struct gemv_args *t, int a)
{
    int row = p->row + a * p->stride;
    return row < t->n_w ? row : t->n_w - 1;
}

INLINE void stream_pointers(const uint8_t **w, const struct weight_streams *p,
                            const struct gemv_args *t)
{
    UNROLL
    for (int a = 0; a < p->n; a++)
        w[a] = t->w + (size_t)stream_row(p, t, a) * t->w_stride;
}

INLINE void prefetch_streams(const uint8_t *const *w, int n, size_t at, size_t lines, bool to_l2)
{
    UNROLL
    for (int a = 0; a < n; a++)
        UNROLL
    for (size_t i = 0; i < lines; i++)
        prefetch_weights(w[a] + at + 64 * i, to_l2);
}

/* Prefetches the next part of a row, and the same columns of the row that is read after it, LANES
 * rows further on: LANES rows are read side by side, too many streams for hardware prefetchers. */
INLINE void prefetch_panel(const uint8_t *row, size_t stride, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 64) {
        __builtin_prefetch(row + i + CPU_PREFETCH_BYTES);
        __builtin_prefetch(row + i + LANES * stride, 0, 2);
    }
}

/* Adds the lanes of each vector of v[n][streams] and stores the sums to out[n][rows]; v is
 * overwritten. */
static __attribute__((noinline, unused)) void store_lane_sums(float *out, size_t out_stride, vf *v,
                                                              const struct weight_streams *p,
                                                              const struct gemv_args *t, int n)
{
    const int at_once = LANES / p->n;
    for (int b = 0, count; b < n; b += count) {
        float sums[LANES];
        count = n - b < at_once ? n - b : at_once;
        store_vf(sums, sum_lanes_of(v + b * p->n, count * p->n));
        for (int i = 0; i < count; i++)
            for (int a = 0; a < p->n && p->row + a * p->stride < t->n_w; a++)
                out[(size_t)(b + i) * out_stride + (size_t)(p->row + a * p->stride)] =
                    sums[i * p->n + a];
    }
}

/* Calls `call` with the number of rows as a constant, from 1 to GEMV_MR. */
#if LANES == 16
#define FOR_GEMV_ROWS(n, call) \
    switch (n) {               \
    case 1: call(1); break;    \
    case 2: call(2); break;    \
    case 3: call(3); break;    \
    case 4: call(4); break;    \
    case 5: call(5); break;    \
    case 6: call(6); break;    \
    case 7: call(7); break;    \
    default: call(8);          \
    }
#else
#define FOR_GEMV_ROWS(n, call) \
    switch (n) {               \
    case 1: call(1); break;    \
    case 2: call(2); break;    \
    case 3: call(3); break;    \
    default: call(4);          \
    }
#endif

/* One instance per number of rows, so that the sums stay in registers. */
#define GEMV_INSTANCE(body, dtype, rows)                                                          \
    for (int stride = (t->n_w + GEMV_NR(rows) - 1) / GEMV_NR(rows), row = 0; row < stride; row++) \
        body(out, out_stride, t, (struct weight_streams){row, stride, GEMV_NR(rows)}, dtype,      \
             rows);                                                                               \
    break
#if LANES == 16
#define GEMV_INSTANCES_FROM_5(body, dtype) \
    case 5: GEMV_INSTANCE(body, dtype, 5); \
    case 6: GEMV_INSTANCE(body, dtype, 6); \
    case 7: GEMV_INSTANCE(body, dtype, 7); \
    case 8:                                \
        GEMV_INSTANCE(body, dtype, 8);
#else
#define GEMV_INSTANCES_FROM_5(body, dtype)
#endif
#define GEMV_INSTANCES(body, dtype)                                           \
    switch (t->n_x) {                                                         \
    case 1: GEMV_INSTANCE(body, dtype, 1);                                    \
    case 2: GEMV_INSTANCE(body, dtype, 2);                                    \
    case 3: GEMV_INSTANCE(body, dtype, 3);                                    \
    case 4: GEMV_INSTANCE(body, dtype, 4); GEMV_INSTANCES_FROM_5(body, dtype) \
    }

#endif
