/* SPDX-License-Identifier: Apache-2.0 */
/* Tile instructions (AMX) written with AVX-512, as the manual defines them, so that the AMX tier is
 * tested where they do not exist. Included before the kernels' files. */
#ifndef EY_TESTS_TILES_MODEL_H
#define EY_TESTS_TILES_MODEL_H
#ifdef __AMX_TILE__

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

struct modelled_tile {
    uint8_t row[16][64];
};

static __thread struct modelled_tile modelled_tiles[8];
static __thread struct {
    uint8_t palette, start, zero[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} modelled_config;

static inline void model_configure(const void *config)
{
    memcpy(&modelled_config, config, sizeof(modelled_config));
    memset(modelled_tiles, 0, sizeof(modelled_tiles));
}

static inline void model_load(int t, const void *from, size_t stride)
{
    memset(&modelled_tiles[t], 0, sizeof(modelled_tiles[t]));
    for (size_t i = 0; i < modelled_config.rows[t]; i++)
        memcpy(modelled_tiles[t].row[i], (const uint8_t *)from + i * stride,
               modelled_config.bytes[t]);
}

static inline void model_store(int t, void *to, size_t stride)
{
    for (size_t i = 0; i < modelled_config.rows[t]; i++)
        memcpy((uint8_t *)to + i * stride, modelled_tiles[t].row[i], modelled_config.bytes[t]);
}

/* Even and odd products have sums of their own, which are added to the result last. */
static __attribute__((noinline, unused)) void model_products(int to, int a, int b)
{
    const __m512i upper = _mm512_set1_epi32((int)0xffff0000);
    for (int m = 0; m < modelled_config.rows[to]; m++) {
        __m512 even = _mm512_setzero_ps(), odd = _mm512_setzero_ps(), sum;
        for (int k = 0; k < modelled_config.bytes[a] / 4; k++) {
            uint32_t pair;
            memcpy(&pair, modelled_tiles[a].row[m] + 4 * k, sizeof(pair));
            const __m512i columns = _mm512_loadu_si512(modelled_tiles[b].row[k]);
            even = _mm512_fmadd_ps((__m512)_mm512_set1_epi32((int)(pair << 16)),
                                   (__m512)_mm512_slli_epi32(columns, 16), even);
            odd = _mm512_fmadd_ps((__m512)_mm512_set1_epi32((int)(pair & 0xffff0000)),
                                  (__m512)_mm512_and_si512(columns, upper), odd);
        }
        sum = _mm512_add_ps(_mm512_loadu_ps(modelled_tiles[to].row[m]), _mm512_add_ps(even, odd));
        _mm512_storeu_ps(modelled_tiles[to].row[m], sum);
    }
}

/* Tile products treat denormal inputs as zero and flush denormal results, whatever the mode. */
static inline void model_multiply(int to, int a, int b)
{
    const unsigned mode = _mm_getcsr(), zero_denormals = mode | 0x8040;
    __asm__ volatile("ldmxcsr %0" : : "m"(zero_denormals) : "memory");
    model_products(to, a, b);
    __asm__ volatile("ldmxcsr %0" : : "m"(mode) : "memory");
}

/* Signed bytes times signed bytes, four columns at a time. */
static __attribute__((noinline, unused)) void model_multiply_bytes(int to, int a, int b)
{
    for (int m = 0; m < modelled_config.rows[to]; m++)
        for (int k = 0; k < modelled_config.bytes[a]; k++) {
            const int8_t x = (int8_t)modelled_tiles[a].row[m][k];
            const uint8_t *columns = modelled_tiles[b].row[k / 4];
            for (int n = 0; n < modelled_config.bytes[to] / 4; n++) {
                int32_t sum;
                memcpy(&sum, modelled_tiles[to].row[m] + 4 * n, sizeof(sum));
                sum += x * (int8_t)columns[4 * n + k % 4];
                memcpy(modelled_tiles[to].row[m] + 4 * n, &sum, sizeof(sum));
            }
        }
}

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_loadd
#undef _tile_stream_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbf16ps
#undef _tile_dpbssd
#define _tile_loadconfig(config) model_configure(config)
#define _tile_release() ((void)0)
#define _tile_loadd(t, from, stride) model_load(t, from, stride)
#define _tile_stream_loadd(t, from, stride) model_load(t, from, stride)
#define _tile_stored(t, to, stride) model_store(t, to, stride)
#define _tile_zero(t) memset(&modelled_tiles[t], 0, sizeof(modelled_tiles[t]))
#define _tile_dpbf16ps(to, a, b) model_multiply(to, a, b)
#define _tile_dpbssd(to, a, b) model_multiply_bytes(to, a, b)

#endif
#endif
