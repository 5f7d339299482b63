/* SPDX-License-Identifier: Apache-2.0 */
/* GEMM (many rows of x), with panels of decoded weights.
 *
 * gemv() has columns in lanes: lane l adds every LANES-th word of two rows, and the lanes are added
 * at the end. Here the lanes are weight rows, and a lane of gemv() becomes a k-phase: LANES phases,
 * whose sums are added in the order of sum_lanes_of(). Nothing is added across lanes, and a phase
 * reads a LANES-th of the rows, which fits into the first-level cache. Phases run in the order of
 * that tree of sums, so that at most DEPTH sums are pending. A word is a float32, or two BF16.
 *
 * Packed rows are [M-block][phase][steps][rows of the M-block] words, panels are
 * [phase][micro-panel][steps][NR] words. Rows whose weights have scales are packed as float32 and
 * scaled a phase at a time, before they are rounded, as gemv() does. */
#ifndef EY_KERNELS_CPU_GEMM_WORDS_TMPL_H
#define EY_KERNELS_CPU_GEMM_WORDS_TMPL_H

#include "kernels/cpu/gemm/gemm_blocking_tmpl.h"
#include "kernels/cpu/common/dequantize_tmpl.h"
#ifdef HAVE_BF16
#include "kernels/cpu/common/to_bf16_tmpl.h"
#endif

/* ---- packing ---- */

/* LANES words of each row of an M-block, rows as columns: what each phase reads of them at `step`.
 */
INLINE void store_phases(float *m_block, vf words[LANES], size_t step, size_t steps, int n)
{
    transpose_floats(words);
    for (size_t l = 0; l < LANES; l++)
        store_first(m_block + (phase_of_lane(l) * steps + step) * (size_t)n, words[l], n);
}

/* n floats times a factor. */
INLINE void scale_f32(float *out, const float *x, size_t n, float factor)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        store_vf(out + i, load_vf(x + i) * factor);
    for (; i < n; i++)
        out[i] = x[i] * factor;
}

#ifdef HAVE_BF16
/* n words of two float32 each, times a factor. */
INLINE void scale_bf16(uint32_t *out, const float *first, const float *second, size_t n,
                       float factor)
{
    static const uint16_t interleaved[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                             21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                             11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    const __m512i order = _mm512_loadu_si512(interleaved);
    const __m512 f = _mm512_set1_ps(factor);
    for (size_t i = 0; i < n; i += LANES) {
        const __mmask16 there = (__mmask16)(n - i < LANES ? (1u << (n - i)) - 1 : 0xffff);
        __m512 a = _mm512_mul_ps(_mm512_maskz_loadu_ps(there, first + i), f),
               b = _mm512_mul_ps(_mm512_maskz_loadu_ps(there, second + i), f);
        _mm512_mask_storeu_epi32(
            out + i, there, _mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(b, a)));
    }
}
#endif

/* A phase of an M-block, n words, times the scales of `block` words each. */
INLINE void scale_phase(uint32_t *out, const float *x, size_t n, size_t block, const float *scale,
                        bool bf16)
{
    for (size_t at = 0, many; at < n; at += many, scale++) {
        many = n - at < block ? n - at : block;
#ifdef HAVE_BF16
        if (bf16)
            scale_bf16(out + at, x + at, x + n + at, many, *scale);
        else
#endif
            scale_f32((float *)(void *)(out + at), x + at, many, *scale * FP8_LOAD_FACTOR);
        (void)bf16;
    }
}

/* ---- matmul ---- */

INLINE vf fma_word(vf sum, vf w, const uint32_t *x, bool bf16)
{
#ifdef HAVE_BF16
    if (bf16)
        return (vf)_mm512_dpbf16_ps((__m512)sum, (__m512bh)w, (__m512bh)_mm512_set1_epi32((int)*x));
#endif
    float value;
    (void)bf16;
    memcpy(&value, x, sizeof(value));
    return sum + w * value;
}

/* The same address, but compilers do not know: what is read there once more goes into a product
 * without a load of its own. */
INLINE const uint32_t *same_address(const uint32_t *x)
{
    __asm__("" : "+r"(x));
    return x;
}

/* acc[n][2] += a step of a micro-panel times those of n rows. Where FMAs take a word of memory for
 * all lanes, nearly every row's word is read in that way, from `again`, the same place, for the
 * second product: few instructions are left besides the FMAs. Every sixth row's is not: there is
 * time for as many reads as there are FMAs. */
INLINE void gemm_step(vf (*acc)[2], const float *w, const uint32_t *x, const uint32_t *again, int n,
                      bool bf16)
{
    vf w0 = load_vf(w), w1 = load_vf(w + LANES);
    for (int b = 0; b < n; b++) {
        acc[b][0] = fma_word(acc[b][0], w0, x + b, bf16);
        acc[b][1] = fma_word(acc[b][1], w1, (b % 6 == 1 ? x : again) + b, bf16);
    }
}

/* One phase of a micro-panel with n packed rows. sums: of level 0; pending sums of lower levels are
 * added to it. Steps are even. */
INLINE void gemm_m_block(float *sums, unsigned phase, const float *w, const uint32_t *x,
                         size_t steps, int n, const struct gemm_prefetch *next, bool bf16)
{
    vf acc[MR][2];
    const char *prefetch[2] = {next->from[0], next->from[1]};
    const uint32_t *again = LANES == 16 ? same_address(x) : x;
    for (int b = 0; b < n; b++)
        acc[b][0] = acc[b][1] = (vf){0};
    for (const uint32_t *end = x + steps * (size_t)n; x < end;
         prefetch[0] += next->step[0], prefetch[1] += next->step[1]) {
        __builtin_prefetch(prefetch[0], 0, 2);
        __builtin_prefetch(prefetch[1], 0, 2);
        for (int i = 0; i < 2; i++, x += n, again += n, w += NR)
            gemm_step(acc, w, x, again, n, bf16);
    }
    float *to = sums + (size_t)__builtin_popcount(phase) * TILE_SUMS;
    for (; phase & 1; phase >>= 1) {
        to -= TILE_SUMS;
        for (int b = 0; b < n; b++)
            for (int u = 0; u < 2; u++)
                acc[b][u] = load_vf(to + b * NR + u * LANES) + acc[b][u];
    }
    for (int b = 0; b < n; b++)
        for (int u = 0; u < 2; u++)
            store_vf(to + b * NR + u * LANES, acc[b][u]);
}

INLINE void gemm_m_block_of(float *sums, unsigned phase, const float *w, const uint32_t *x,
                            size_t steps, int n, const struct gemm_prefetch *next, bool bf16)
{
#define GEMM_M_BLOCK(rows) gemm_m_block(sums, phase, w, x, steps, rows, next, bf16)
    FOR_MR(n, GEMM_M_BLOCK)
}

/* A tile's rows, M-block by M-block. */
struct m_block {
    size_t begin, n;
    const uint32_t *x; /* of this phase, scaled */
    struct gemm_prefetch next;
};

/* Scales the words of a phase into `scratch`, M-block by M-block, so that they are in a cache when
 * the first micro-panel is multiplied. */
INLINE void m_block_enter(struct m_block *p, const struct gemm_args *b, size_t phase,
                          uint32_t *scratch, size_t steps, size_t strips, bool bf16)
{
    const size_t word = b->scale && bf16 ? 8 : 4, bytes = p->n * word;
    const char *at = (const char *)b->x + (p->begin * LANES + phase * p->n) * steps * word;
    p->next = (struct gemm_prefetch){{at + steps * bytes}, {2 * bytes / strips}};
    p->x = (const uint32_t *)(const void *)at;
    if (!b->scale) return;
    p->x = scratch + p->begin * steps;
    scale_phase(scratch + p->begin * steps, (const float *)(const void *)at, steps * p->n,
                FP8_BLOCK / (b->k / steps) * p->n, b->scale, bf16);
}

INLINE void gemm_words(float *sums, const struct gemm_args *b, bool bf16)
{
    const size_t steps = b->k / (bf16 ? 2 * LANES : LANES), strips = ((size_t)b->n_w + NR - 1) / NR;
    const size_t n = (size_t)n_m_blocks(b->n_x),
                 share = 2 * NR * sizeof(float) /
                         n; /* of the next micro-panel, which each M-block prefetches */
    struct m_block m_blocks[M_TILE_ROWS / MR + 1] = {{0}};
    const float *w = b->w;
    for (int i = 0; i < (int)n; i++) {
        m_blocks[i].begin = (size_t)m_block_begin(b->n_x, i);
        m_blocks[i].n = (size_t)m_block_begin(b->n_x, i + 1) - m_blocks[i].begin;
    }
    for (unsigned phase = 0; phase < LANES; phase++) {
        for (size_t strip = 0; strip < strips; strip++, w += steps * NR)
            for (size_t i = 0; i < n; i++) {
                struct m_block *p = &m_blocks[i];
                if (!strip)
                    m_block_enter(p, b, phase, (uint32_t *)(void *)(sums + DEPTH * TILE_SUMS),
                                  steps, strips, bf16);
                p->next.from[1] = (const char *)(w + steps * NR) + i * steps / 2 * share;
                p->next.step[1] = share;
                gemm_m_block_of(sums + (strip * M_TILE_ROWS + p->begin) * NR, phase, w, p->x, steps,
                                (int)p->n, &p->next, bf16);
                p->next.from[0] += steps / 2 * p->next.step[0];
            }
    }
}

#endif
