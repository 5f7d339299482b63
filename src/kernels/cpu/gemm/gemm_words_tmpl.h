/* SPDX-License-Identifier: Apache-2.0 */
/* GEMM (many rows of x) in float32, or with pairs of BF16 if HAVE_BF16, with panels of decoded
 * weights.
 *
 * GEMV has columns in lanes: lane l sums the products of every LANES-th word of a weight row and a
 * row of x, and the lanes are added at the end. Here the lanes are weight rows, and a lane of GEMV
 * becomes a k-phase: there are LANES phases, whose sums are added in the order of sum_lanes_of().
 * Nothing is added across lanes, and a phase reads a LANES-th of the packed rows, which fits into
 * the L1 cache. Phases run in the order of that summation tree, so at most DEPTH sums are pending.
 * A word is a float32, or two BF16.
 *
 * Packed rows are [M-block][phase][steps][rows of the M-block] words, panels are
 * [phase][micro-panel][steps][NR] words. Rows for weights with scales are packed as float32 and
 * scaled a phase at a time before rounding, as in GEMV. */
#ifndef EY_KERNELS_CPU_GEMM_WORDS_TMPL_H
#define EY_KERNELS_CPU_GEMM_WORDS_TMPL_H

#include "kernels/cpu/gemm/gemm_blocking_tmpl.h"
#ifdef HAVE_BF16
#include "kernels/cpu/common/words_bf16_tmpl.h"
#else
#include "kernels/cpu/common/words_f32_tmpl.h"
#endif

/* ---- packing ---- */

/* Transposes LANES words of each row of an M-block and stores them where the phases read them at
 * `step`. */
INLINE void store_phases(float *m_block, vf words[LANES], size_t step, size_t steps, int n)
{
    transpose_floats(words);
    for (size_t l = 0; l < LANES; l++)
        store_first(m_block + (phase_of_lane(l) * steps + step) * (size_t)n, words[l], n);
}

static void pack_gemm_words(void *out, const struct packing_args *p)
{
    for (int m_block = 0; m_block < n_m_blocks(p->n); m_block++) {
        const int begin = m_block_begin(p->n, m_block),
                  n = m_block_begin(p->n, m_block + 1) - begin;
        float *to = (float *)out + (size_t)begin * WORDS(packed_steps)(p) * LANES;
        for (size_t k = 0; k < p->padded; k += CPU_K_STEP) {
            vf rows[LANES][MAX_PACKED_VECTORS] = {{{0}}}, words[LANES];
            for (int b = 0; b < n; b++)
                WORDS(x_packed_words)(rows[b], p, begin + b, k);
            for (size_t i = 0; i < WORDS(packed_vectors)(p); i++) {
                for (int b = 0; b < LANES; b++)
                    words[b] = rows[b][i];
                store_phases(to, words, WORDS(packed_step)(p, k, i), WORDS(packed_steps)(p), n);
            }
        }
    }
}

static void pack_panel_words(void *out, const struct cpu_matrix *w, int64_t row, int n, size_t k0,
                             size_t k)
{
    const size_t strips = ((size_t)n + NR - 1) / NR, steps = k / (WORD_COLUMNS * LANES);
    struct WORDS(panel_rows) rows = WORDS(panel_rows_of)(w);
    for (size_t at = 0; at < strips * NR; at += LANES) {
        WORDS(panel_rows_enter)(&rows, row + (int64_t)at, at < (size_t)n ? (size_t)n - at : 0, k0);
        for (size_t c = 0; c < k; c += CPU_K_STEP) {
            float words[LANES][STEP_VECTORS * LANES] __attribute__((aligned(64)));
            WORDS(panel_words)(words, &rows, k0 + c);
            for (size_t i = 0; i < STEP_VECTORS; i++) {
                const size_t step = c / (WORD_COLUMNS * LANES) + i;
                vf v[LANES];
                for (size_t a = 0; a < LANES; a++)
                    v[a] = load_vf(words[a] + i * LANES);
                transpose_floats(v);
                for (size_t l = 0; l < LANES; l++)
                    store_vf((float *)out +
                                 ((phase_of_lane(l) * strips + at / NR) * steps + step) * NR +
                                 at % NR,
                             v[l]);
            }
        }
    }
}

/* Multiplies a phase of an M-block, n words, by its scales, one per `block` words. */
INLINE void scale_phase(uint32_t *out, const float *x, size_t n, size_t block, const float *scale)
{
    for (size_t at = 0, many; at < n; at += many, scale++) {
        many = n - at < block ? n - at : block;
        WORDS(scale_words)(out, x, n, at, many, *scale);
    }
}

/* ---- matmul ---- */

/* Returns the same address, hidden from the compiler, so that a repeated read becomes a memory
 * operand and not a shared load. */
INLINE const uint32_t *same_address(const uint32_t *x)
{
    __asm__("" : "+r"(x));
    return x;
}

/* acc[n][2] += a step of a micro-panel times the same step of n rows. If FMAs can broadcast a word
 * from memory, the second product of nearly every row reads its word through `again`, the same
 * address, which leaves few instructions besides the FMAs. In every sixth row both products share
 * one load to a register instead, because processors start no more reads than FMAs per cycle. */
INLINE void gemm_step(vf (*acc)[2], const float *w, const uint32_t *x, const uint32_t *again, int n)
{
    vf w0 = load_vf(w), w1 = load_vf(w + LANES);
    for (int b = 0; b < n; b++) {
        acc[b][0] = WORDS(fma_word)(acc[b][0], w0, x + b);
        acc[b][1] = WORDS(fma_word)(acc[b][1], w1, (b % 6 == 1 ? x : again) + b);
    }
}

/* Multiplies a micro-panel by n packed rows in one phase. `sums` points to the sums of level 0; for
 * each trailing one bit of `phase`, the pending sums of the next lower level are added to the
 * phase's. The number of steps is even. */
INLINE void gemm_m_block(float *sums, unsigned phase, const float *w, const uint32_t *x,
                         size_t steps, int n, const struct gemm_prefetch *next)
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
            gemm_step(acc, w, x, again, n);
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
                            size_t steps, int n, const struct gemm_prefetch *next)
{
#define GEMM_M_BLOCK(rows) gemm_m_block(sums, phase, w, x, steps, rows, next)
    FOR_MR(n, GEMM_M_BLOCK)
}

/* An M-block of a tile. */
struct m_block {
    size_t begin, n;
    const uint32_t *x; /* words of this phase, scaled */
    struct gemm_prefetch next;
};

/* Scales the words of a phase into `scratch`, M-block by M-block, so that they are in a cache when
 * the first micro-panel is multiplied. */
INLINE void m_block_enter(struct m_block *p, const struct gemm_args *b, size_t phase,
                          uint32_t *scratch, size_t steps, size_t strips)
{
    const size_t word = sizeof(float) * (b->scale ? SCALED_WORD_FLOATS : 1), bytes = p->n * word;
    const char *at = (const char *)b->x + (p->begin * LANES + phase * p->n) * steps * word;
    p->next = (struct gemm_prefetch){{at + steps * bytes}, {2 * bytes / strips}};
    p->x = (const uint32_t *)(const void *)at;
    if (!b->scale) return;
    p->x = scratch + p->begin * steps;
    scale_phase(scratch + p->begin * steps, (const float *)(const void *)at, steps * p->n,
                FP8_BLOCK / (WORD_COLUMNS * LANES) * p->n, b->scale);
}

static void gemm_words(float *sums, const struct gemm_args *b)
{
    const size_t steps = b->k / (WORD_COLUMNS * LANES), strips = ((size_t)b->n_w + NR - 1) / NR;
    const size_t n = (size_t)n_m_blocks(b->n_x),
                 share = 2 * NR * sizeof(float) /
                         n; /* bytes of the next micro-panel that each M-block prefetches */
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
                                  steps, strips);
                p->next.from[1] = (const char *)(w + steps * NR) + i * steps / 2 * share;
                p->next.step[1] = share;
                gemm_m_block_of(sums + (strip * M_TILE_ROWS + p->begin) * NR, phase, w, p->x, steps,
                                (int)p->n, &p->next);
                p->next.from[0] += steps / 2 * p->next.step[0];
            }
    }
}

#endif
