/* SPDX-License-Identifier: Apache-2.0 */
/* FP8 weights as float32 by lookup; a part of kernels_body.h. In half the instructions of
 * load_fp8_pair(), and NaN codes come out as NaN. Their columns are in an order of their own, 64 by
 * 64, and so is what they are multiplied with (packing.codes). */

/* BF16 bits divided by FP8_UNIT: what is packed for FP8 weights is multiplied by that. */
#define SMALL_HIGH(bits) HIGH((bits) == 0 || (bits) == 0x7fc0 ? (bits) : (bits) - (8 << 7))
static const uint8_t small_low[128] = {MAGNITUDES(LOW)}, small_high[128] = {MAGNITUDES(SMALL_HIGH)};

INLINE struct byte_tables small_tables_load(void)
{
    return (struct byte_tables){
        {_mm512_loadu_si512(small_low), _mm512_loadu_si512(small_low + 64)},
        {_mm512_loadu_si512(small_high), _mm512_loadu_si512(small_high + 64)}};
}

/* Every first or every second BF16 of 16 words, as float32. */
INLINE vf half_of(__m512i words, int second)
{
    return (vf)(second ? _mm512_and_si512(words, _mm512_set1_epi32((int)0xffff0000))
                       : _mm512_slli_epi32(words, 16));
}

/* 64 codes as float32 divided by FP8_UNIT, in the order of floats_in_order_of_codes(). */
INLINE void codes_to_floats(vf out[4], const uint8_t *p, const struct byte_tables *t)
{
    __m512i words[2];
    fp8_to_bf16(words, p, t);
    for (int i = 0; i < 4; i++)
        out[i] = half_of(words[i / 2], i % 2);
}

/* 64 columns of LANES rows, of which n are there, as `cols` columns are; zeros for the others. */
INLINE void codes_step(float (*out)[CPU_K_STEP], const uint8_t *in, size_t stride, size_t n,
                       size_t cols)
{
    const struct byte_tables tables = small_tables_load();
    for (size_t a = 0; a < LANES; a++) {
        uint8_t some[CPU_K_STEP] = {0};
        const uint8_t *codes = a < n ? in + a * stride : some;
        vf x[4];
        if (a < n && cols < CPU_K_STEP) codes = memcpy(some, codes, cols);
        ask_for_panel(codes, stride, CPU_K_STEP);
        codes_to_floats(x, codes, &tables);
        memcpy(out[a], x, sizeof(x));
    }
}

/* For several products: compilers would rather read it once for each. */
INLINE vf load_once(const float *p)
{
    vf x = load(p);
    __asm__("" : "+v"(x));
    return x;
}

INLINE void few_rows_codes(float *out, size_t out_stride, const struct tile *t, struct places p,
                           enum dtype dtype, int n)
{
    enum { TOGETHER = 4 }; /* rows, in registers */
    const struct byte_tables tables = small_tables_load();
    vf acc[MOST_PLACES * MOST_FEW];
    const uint8_t *w[MOST_PLACES];
    (void)dtype;
    place_pointers(w, &p, t);
    UNROLL
    for (int i = 0; i < p.n * n; i++)
        acc[i] = (vf){0};
    for (size_t k = 0; k < t->k; k += CPU_K_STEP) {
        ask_ahead(w, p.n, k, 1);
        UNROLL
        for (int first = 0; first < p.n; first += TOGETHER) {
            __m512i words[TOGETHER][2];
            int count = p.n - first < TOGETHER ? p.n - first : TOGETHER;
            UNROLL
            for (int a = 0; a < count; a++)
                fp8_to_bf16(words[a], w[first + a] + k, &tables);
            UNROLL
            for (int i = 0; i < 4; i++) {
                vf wv[TOGETHER];
                UNROLL
                for (int a = 0; a < count; a++)
                    wv[a] = half_of(words[a][i / 2], i % 2);
                UNROLL
                for (int b = 0; b < n; b++) {
                    vf x = load_once((const float *)t->x + (size_t)b * t->k + k +
                                     (size_t)i * LANES);
                    UNROLL
                    for (int a = 0; a < count; a++)
                        acc[b * p.n + first + a] += wv[a] * x;
                }
            }
        }
    }
    put_places(out, out_stride, acc, NULL, &p, t, n);
}
