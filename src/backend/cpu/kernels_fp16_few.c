/* Products of a few rows in FP16 with weights as they lie in the file. A sum is a vector whose lanes hold every 32nd product. */
#include "backend/cpu/body_fp16.h"

#include "backend/cpu/body_places.h"

/* ---- packed rows: [row][padded] FP16, then a factor for the sums of each ---- */

static float *row_factors(void *packed, int n, size_t padded)
{
    return (float *)(void *)((uint16_t *)packed + (size_t)n * padded);
}

void cpu_pack_fp16(void *out, const struct packing *p)
{
    for (int row = 0; row < p->n; row++) {
        const int exponent = row_exponent(p, row);
        const float unit = power_of_two(exponent);
        uint16_t *to = (uint16_t *)out + (size_t)row * p->padded;
        for (size_t k = 0; k < p->padded; k += LANES) _mm256_storeu_si256((__m256i *)(void *)(to + k), halves_of(row_floats(p, row, k) * unit));
        row_factors(out, p->n, p->padded)[row] = power_of_two(-exponent);
    }
}

void cpu_scale_fp16(void *out, const void *packed, int n, size_t padded, const float *scale)
{
    const int exponent = scale_exponent(scale, padded);
    const float unit = power_of_two(exponent);
    for (size_t k = 0; k < padded; k += FP8_BLOCK) {
        const __m512h factor = scale_halves(scale[k / FP8_BLOCK], unit);
        for (int row = 0; row < n; row++)
            for (size_t i = k; i < k + FP8_BLOCK && i < padded; i += HALVES) {
                size_t at = (size_t)row * padded + i;
                _mm512_storeu_si512((uint16_t *)out + at, (__m512i)_mm512_mul_ph(load_halves((const uint16_t *)packed + at), factor));
            }
    }
    const float *factors = (const float *)(const void *)((const uint16_t *)packed + (size_t)n * padded);
    for (int row = 0; row < n; row++) row_factors(out, n, padded)[row] = factors[row] * weight_unit(DTYPE_F8_E4M3, exponent);
}

/* sums[PASSES] += what becomes of acc's lanes; zeros follow. */
INLINE vf flushed(vf sums, __m512h acc)
{
    const __m256h two = _mm256_add_ph(_mm512_castph512_ph256(acc), (__m256h)_mm512_extracti64x4_epi64((__m512i)acc, 1));
    const __m128h one = _mm_add_ph(_mm256_castph256_ph128(two), (__m128h)_mm256_extracti128_si256((__m256i)two, 1));
    return sums + (vf)_mm512_zextps256_ps512(_mm256_cvtxph_ps(one));
}

static const float *x_factors(const struct tile *t)
{
    return (const float *)(const void *)((const uint16_t *)t->x + (size_t)t->n_x * t->k);
}

/* That of scales is in the factors. */
static float unit_of(const struct tile *t)
{
    return t->dtype == DTYPE_F8_E4M3 ? 1 : weight_unit(t->dtype, 0);
}

/* ---- rows of weights that have numbers out of the range ---- */

/* One row of BF16 weights times a packed row. */
static float one_sum(const uint8_t *w, const uint16_t *x, size_t k, int minus)
{
    vf sum = {0};
    __m512i most = _mm512_setzero_si512();
    for (size_t at = 0; at < k;) {
        const size_t end = at + CHUNK < k ? at + CHUNK : k;
        __m512h acc = _mm512_setzero_ph();
        for (; at < end; at += HALVES) acc = _mm512_fmadd_ph(bf16_halves(w + 2 * at, minus_vector(minus), &most), load_halves(x + at), acc);
        sum = flushed(sum, acc);
    }
    return lanes_sum(sum);
}

/* The rows at these places, of which some may have NaN codes or BF16 that want a unit of their own. */
static __attribute__((noinline)) void mend_places(float *out, size_t out_stride, const struct tile *t, const struct places *p, int n)
{
    const float *factors = x_factors(t), unit = unit_of(t);
    for (int a = 0; a < p->n && p->row + a * p->apart < t->n_w; a++) {
        const uint8_t *w = t->w + (size_t)place_row(p, t, a) * t->w_stride;
        __m512i most = _mm512_setzero_si512();
        const bool codes = t->dtype == DTYPE_F8_E4M3;
        for (size_t k = 0; k < t->k; k += CPU_K_STEP) {
            if (codes) most = larger_codes(most, w + k);
            else most = larger_bf16(larger_bf16(most, w + 2 * k), w + 2 * k + 64);
        }
        if (codes ? !any_nan_code(most) : !bf16_is_unusual(largest_word(most))) continue;
        const int minus = codes ? 0 : bf16_minus(largest_word(most));
        for (int b = 0; b < n; b++) {
            float *to = out + (size_t)b * out_stride + (size_t)(p->row + a * p->apart);
            *to = codes ? NAN : one_sum(w, (const uint16_t *)t->x + (size_t)b * t->k, t->k, minus) * (factors[b] * unit) * power_of_two(minus - BF16_MINUS);
        }
    }
}

/* ---- products ---- */

static __attribute__((noinline)) void multiply_places(float *out, size_t out_stride, const struct tile *t, const struct places *p, int n)
{
    const float unit = unit_of(t);
    for (int b = 0; b < n; b++)
        for (int a = 0; a < p->n && p->row + a * p->apart < t->n_w; a++) out[(size_t)b * out_stride + (size_t)(p->row + a * p->apart)] *= x_factors(t)[b] * unit;
}

INLINE void load_step(__m512h out[2], enum dtype dtype, const uint8_t *w, __m512i *most)
{
    const __m512i minus = minus_vector(BF16_MINUS);
    switch (dtype) {
    case DTYPE_F8_E4M3: *most = larger_codes(*most, w), out[0] = fp8_halves(w), out[1] = fp8_halves(w + HALVES); break;
    case DTYPE_I8: out[0] = int8_halves(w), out[1] = int8_halves(w + HALVES); break;
    default: out[0] = bf16_halves(w, minus, most), out[1] = bf16_halves(w + 64, minus, most); break;
    }
}

/* For several products: compilers would rather read it once for each. */
INLINE __m512h load_once(const uint16_t *p)
{
    __m512h x = load_halves(p);
    __asm__("" : "+v"(x));
    return x;
}

INLINE void few_rows(float *out, size_t out_stride, const struct tile *t, struct places p, enum dtype dtype, int n)
{
    enum { ALL = MOST_PLACES * MOST_FEW };
    const size_t size = dtype_size(dtype);
    const int places = PLACES(n), together = n > 1 && dtype == DTYPE_BF16 ? 2 : 4; /* whose weights are in registers */
    const bool each = dtype == DTYPE_BF16; /* rows are looked at one by one, others together */
    const uint8_t *w[MOST_PLACES];
    vf sums[ALL];
    __m512i most[MOST_PLACES];
    place_pointers(w, &p, t);
    for (int i = 0; i < places * n; i++) sums[i] = (vf){0};
    UNROLL
    for (int a = 0; a < places; a++) most[a] = _mm512_setzero_si512();
    for (size_t k = 0; k < t->k;) {
        const size_t end = k + CHUNK < t->k ? k + CHUNK : t->k;
        __m512h acc[ALL];
        UNROLL
        for (int i = 0; i < places * n; i++) acc[i] = _mm512_setzero_ph();
        for (; k < end; k += CPU_K_STEP) {
            ask_ahead(w, places, k * size, size);
            UNROLL
            for (int first = 0; first < places; first += together) {
                __m512h wv[4][2];
                const int count = places - first < together ? places - first : together;
                UNROLL
                for (int a = 0; a < count; a++) load_step(wv[a], dtype, w[first + a] + k * size, &most[each ? first + a : 0]);
                UNROLL
                for (int b = 0; b < n; b++) {
                    const uint16_t *x = (const uint16_t *)t->x + (size_t)b * t->k + k;
                    const __m512h x0 = load_once(x), x1 = load_once(x + HALVES);
                    UNROLL
                    for (int a = 0; a < count; a++) acc[b * places + first + a] = _mm512_fmadd_ph(wv[a][0], x0, acc[b * places + first + a]);
                    UNROLL
                    for (int a = 0; a < count; a++) acc[b * places + first + a] = _mm512_fmadd_ph(wv[a][1], x1, acc[b * places + first + a]);
                }
            }
        }
        UNROLL
        for (int i = 0; i < places * n; i++) sums[i] = flushed(sums[i], acc[i]);
    }
    add_lanes(out, out_stride, sums, &p, t, n);
    multiply_places(out, out_stride, t, &p, n);
    bool mend = dtype == DTYPE_F8_E4M3 && any_nan_code(most[0]);
    UNROLL
    for (int a = 0; a < places; a++) mend |= each && bf16_is_unusual(largest_word(most[a]));
    if (mend) mend_places(out, out_stride, t, &p, n);
}

void cpu_few_fp16(float *out, size_t out_stride, const struct tile *t)
{
    switch (t->dtype) {
    case DTYPE_F8_E4M3: FEW_INSTANCES(few_rows, DTYPE_F8_E4M3) break;
    case DTYPE_I8: FEW_INSTANCES(few_rows, DTYPE_I8) break;
    default: FEW_INSTANCES(few_rows, DTYPE_BF16) break;
    }
}
