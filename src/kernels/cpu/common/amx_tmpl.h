/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that the files with tile instructions share: they load weights as tiles and store the
 * sums of tiles. A tile of weights is 16 rows of 32 columns. */
#ifndef EY_KERNELS_CPU_AMX_TMPL_H
#define EY_KERNELS_CPU_AMX_TMPL_H

#define LANES 16
#include "kernels/cpu/common/bf12_decode_tmpl.h"
#include "kernels/cpu/common/to_bf16_tmpl.h"

enum { AMX_ROWS = 16, AMX_K = 32, AMX_TILE = AMX_ROWS * AMX_K };

/* Tells the compiler that a tile instruction reads or writes this memory; some compilers do not
 * see that. */
INLINE void amx_memory(const void *p)
{
    __asm__ volatile("" : : "r"(p) : "memory");
}

/* Returns v and prefetches one line. The prefetch is tied to the load: processors drop bursts of
 * prefetches, and compilers would group them. */
INLINE __m512i load_and_prefetch(__m512i v, const void *line)
{
    __asm__ volatile("prefetcht0 %1" : "+v"(v) : "m"(*(const char *)line));
    return v;
}

/* Prefetches one line without a load. */
INLINE void prefetch_line(const void *line)
{
    __asm__ volatile("prefetcht0 %0" : : "m"(*(const char *)line));
}

/* The operand of LDTILECFG (Intel SDM). */
struct amx_tile_config {
    uint8_t palette, start, zero[14];
    uint16_t bytes[16];
    uint8_t rows[16];
};

/* Returns a configuration of eight tiles of 16 rows of 64 bytes. */
INLINE struct amx_tile_config amx_full_tiles(void)
{
    struct amx_tile_config config = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        config.rows[i] = AMX_ROWS;
        config.bytes[i] = 64;
    }
    return config;
}

INLINE void amx_load_config(const struct amx_tile_config *config)
{
    amx_memory(config);
    _tile_loadconfig(config);
}

/* Configures tiles of 16 rows of 64 bytes, except those in the bit set `narrow`, which have a
 * column for each of n_x packed rows. */
INLINE void amx_configure(int n_x, unsigned narrow)
{
    struct amx_tile_config config = amx_full_tiles();
    for (int i = 0; i < 8; i++)
        if (narrow >> i & 1) config.bytes[i] = (uint16_t)(4 * n_x);
    amx_load_config(&config);
}

/* Rounds 32 floats to BF16 and leaves the remainders in v. */
INLINE __m512i split_off_bf16(__m512 v[2])
{
    __m512i high = (__m512i)_mm512_cvtne2ps_pbh(v[1], v[0]);
    __m512i first = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(high)),
            second = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(high, 1));
    v[0] = _mm512_sub_ps(v[0], (__m512)_mm512_slli_epi32(first, 16));
    v[1] = _mm512_sub_ps(v[1], (__m512)_mm512_slli_epi32(second, 16));
    return high;
}

/* Loads 64 columns of n <= 16 rows as two tiles, `apart` elements from each other. If only `cols` <
 * 64 columns exist, zeros follow them. */
INLINE void load_tiles(uint16_t *out, const uint8_t *w, size_t stride, int n, enum dtype dtype,
                       size_t cols, const struct byte_tables *t, size_t apart)
{
    for (int a = 0; a < n; a++) {
        __m512i values[2];
        load_bf16_step(values, dtype, w + (size_t)a * stride, t, cols);
        _mm512_storeu_si512(out + a * AMX_K, values[0]);
        _mm512_storeu_si512(out + apart + a * AMX_K, values[1]);
    }
}

/* Decodes 64 columns of a BF12 block, without outliers, to two tiles, `apart` elements from each
 * other; prefetches the step at `ahead`. */
INLINE void load_bf12_tiles(uint16_t *out, const struct bf12_block *s, const uint8_t *step,
                            const uint8_t *ahead, size_t apart)
{
    for (int a = 0; a < BF12_ROWS; a++) {
        __m512i words[2];
        if (a % 2 == 0) __builtin_prefetch(ahead + BF12_SIGN_BYTES + a / 2 * CPU_K_STEP);
        __builtin_prefetch(ahead + a * CPU_K_STEP);
        bf12_to_words(words, s, step, a);
        _mm512_storeu_si512(out + a * AMX_K, words[0]);
        _mm512_storeu_si512(out + apart + a * AMX_K, words[1]);
    }
}

/* Stores the outliers of 64 columns from k on, beginning with number `odd`; returns the number of
 * the first one after them. */
INLINE uint32_t patch_outlier_tiles(uint16_t *out, const struct bf12_block *s, uint32_t odd,
                                    size_t k, size_t apart)
{
    for (; odd < s->n_outliers && s->outlier[odd].at < (k + CPU_K_STEP) * BF12_ROWS; odd++) {
        const size_t column = s->outlier[odd].at / BF12_ROWS - k,
                     row = s->outlier[odd].at % BF12_ROWS;
        out[column / AMX_K * apart + row * AMX_K + column % AMX_K] = (uint16_t)s->outlier[odd].bits;
    }
    return odd;
}

/* Stores the sums of 16 weight rows with n packed rows to out[x][w]. */
INLINE void store_amx_tile(float *out, size_t out_stride, const float sums[AMX_ROWS][AMX_ROWS],
                           int n)
{
    __m512i put[AMX_ROWS];
    amx_memory(sums);
    memcpy(put, sums, sizeof(put));
    transpose(put);
    for (int b = 0; b < n; b++)
        _mm512_storeu_si512(out + (size_t)b * out_stride, put[b]);
}

#endif
