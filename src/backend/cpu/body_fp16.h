/* What products in FP16 share (AVX512-FP16: 32 products an instruction, twice as many as in float32).
 *
 * Numbers have 11 bits and sums would soon lose some, so only TERMS products are added one after the other, then GROUPS such sums, (0 + 2) + (1 + 3); that goes to
 * a sum in float32. What is lost is less than half of what rounding activations to BF16 loses.
 *
 * All numbers are brought into the narrow range by powers of two: a row of activations times such that its largest is below 2^X_LIMIT or, where it meets scales,
 * 2^X_CODES_LIMIT, and as near as that goes; BF16 weights times BF16_UNIT, where the largest of a row is from BF16_LEAST to below BF16_LIMIT, as nearly everywhere, else what that
 * one wants (bf16_minus()); e4m3 codes are 2^-8 of what they mean. Multipliers of their blocks, the largest of which comes to lie in 1 .. 2, are rounded to 11 bits, and so is
 * each activation times one. Activations below 2^-16 of their row's largest have fewer bits.
 *
 * GROUPS times TERMS products of the largest stay below 65504, where FP16 ends: 127.5 (BF16) or 127 (int8) times 4, or 1.75 times 256 (e4m3). A row with an infinity keeps its unit, and what is
 * finite beside it may overflow, too. */
#define LANES 16
#define PASSES 8
#include "backend/cpu/body_vectors.h"

enum {
    HALVES = 32,                 /* FP16 numbers of a vector */
    GROUPS = HALVES / PASSES,    /* lanes whose sums become one */
    TERMS = 32,                  /* products of a lane that are added in FP16 */
    CHUNK = TERMS * HALVES,      /* columns until then */
    X_LIMIT = 2, X_CODES_LIMIT = 7, /* log2 */
    BF16_MINUS = 107,            /* between exponents of BF16 weights and of the same times BF16_UNIT in FP16 */
    BF16_LEAST = 119 << 7, BF16_LIMIT = 129 << 7 /* 2^-8 and 4, which is too large, as BF16 bits */
};
#define BF16_UNIT 32.0f

INLINE __m512h load_halves(const void *p)
{
    return (__m512h)_mm512_loadu_si512(p);
}

/* 32 codes as FP16 times 2^-8: their bits in FP16's fields, subnormals included. NaN codes come out as 480 · 2^-8. */
INLINE __m512h fp8_halves(const uint8_t *codes)
{
    __m512i wide = _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)codes));
    return (__m512h)_mm512_and_si512(_mm512_slli_epi16(wide, 7), _mm512_set1_epi16((short)0xbf80));
}

INLINE __m512h int8_halves(const uint8_t *codes)
{
    return _mm512_cvtepi16_ph(_mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)codes)));
}

INLINE __m512i larger_bf16(__m512i most, const uint8_t *p)
{
    return _mm512_max_epu16(most, _mm512_and_si512(_mm512_loadu_si512(p), _mm512_set1_epi16(0x7fff)));
}

/* 32 BF16 numbers, their exponents less `minus`: what is then below FP16's normal numbers (2^-19 at first) comes out as less or as 0. Their magnitudes are joined to *most. */
INLINE __m512h bf16_halves(const uint8_t *p, __m512i minus, __m512i *most)
{
    const __m512i sign = _mm512_set1_epi16((short)0x8000);
    __m512i bits = _mm512_loadu_si512(p), size = _mm512_andnot_si512(sign, bits);
    *most = _mm512_max_epu16(*most, size);
    size = _mm512_slli_epi16(_mm512_subs_epu16(size, minus), 3);
    return (__m512h)_mm512_ternarylogic_epi64(size, bits, sign, 0xf8); /* size | (bits & sign) */
}

/* Whether a row whose largest magnitude has these bits wants a unit of its own. */
INLINE bool bf16_is_unusual(unsigned most)
{
    return most >= BF16_LIMIT || (most < BF16_LEAST && most);
}

/* What is taken from its exponents: infinities and NaN stay what they are. */
INLINE int bf16_minus(unsigned most)
{
    const int minus = (int)(most >> 7) - ((BF16_LIMIT >> 7) - 1 - BF16_MINUS);
    if (!bf16_is_unusual(most)) return BF16_MINUS;
    return most >= 255 << 7 ? 255 - 31 : minus > 0 ? minus : 0;
}

INLINE __m512i minus_vector(int minus)
{
    return _mm512_set1_epi16((short)(minus << 7));
}

INLINE unsigned largest_word(__m512i v)
{
    __m256i a = _mm256_max_epu16(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1));
    __m128i b = _mm_max_epu16(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    return 0xffff - (unsigned)_mm_extract_epi16(_mm_minpos_epu16(_mm_xor_si128(b, _mm_set1_epi16(-1))), 0);
}

/* Whether one of 64 codes is NaN. */
INLINE bool any_nan_code(__m512i sizes)
{
    return _mm512_cmpeq_epi8_mask(sizes, _mm512_set1_epi8(0x7f));
}

INLINE __m512i larger_codes(__m512i most, const uint8_t *codes)
{
    return _mm512_max_epu8(most, _mm512_and_si512(_mm512_loadu_si512(codes), _mm512_set1_epi8(0x7f)));
}

/* 2^n, for n from -126 to 127. */
INLINE float power_of_two(int n)
{
    const uint32_t bits = (uint32_t)(n + 127) << 23;
    float f;
    memcpy(&f, &bits, sizeof(f));
    return f;
}

/* The n with which 2^n brings numbers, the largest magnitude among which is `most`, below 2^limit and as near as that goes. */
INLINE int exponent_for(float most, int limit)
{
    uint32_t bits;
    memcpy(&bits, &most, sizeof(bits));
    int exponent = (int)(bits >> 23 & 255) - 127, n = limit - 1 - exponent;
    if (exponent == 128) return 0; /* infinities and NaN stay what they are */
    return n > 126 ? 126 : n < -126 ? -126 : n;
}

INLINE vf magnitudes_of(vf x)
{
    return (vf)((vi)x & 0x7fffffff);
}

/* Of n floats, as bits: NaN counts as larger than all others. */
INLINE float largest_of(const float *x, size_t n)
{
    __m512i most = _mm512_setzero_si512();
    float out;
    size_t k = 0;
    for (; k + LANES <= n; k += LANES) most = _mm512_max_epi32(most, (__m512i)magnitudes_of(load(x + k)));
    if (k < n) most = _mm512_max_epi32(most, (__m512i)magnitudes_of((vf)_mm512_maskz_loadu_ps((__mmask16)((1u << (n - k)) - 1), x + k)));
    const int bits = _mm512_reduce_max_epi32(most);
    memcpy(&out, &bits, sizeof(out));
    return out;
}

/* A row of activations: what it is multiplied by. */
INLINE int row_exponent(const struct packing *p, int row)
{
    return exponent_for(largest_of(p->x + (size_t)row * p->x_stride, p->width), p->codes ? X_CODES_LIMIT : X_LIMIT);
}

/* LANES of its columns from k on, zeros after its end. */
INLINE vf row_floats(const struct packing *p, int row, size_t k)
{
    return (vf)numbers_at(p->x + (size_t)row * p->x_stride, k, p->width);
}

INLINE __m256i halves_of(vf x)
{
    return (__m256i)_mm512_cvtxps_ph((__m512)x);
}

/* The multipliers of a block of weight rows, one a FP8_BLOCK columns of n, as FP16: all times 2^(the result). */
INLINE int scale_exponent(const float *scale, size_t n)
{
    const int exponent = exponent_for(largest_of(scale, (n + FP8_BLOCK - 1) / FP8_BLOCK), 1);
    return exponent > 100 ? 100 : exponent < -100 ? -100 : exponent; /* 256 times this is finite */
}

INLINE __m512h scale_halves(float scale, float unit)
{
    return _mm512_set1_ph((_Float16)(scale * unit));
}

/* What sums are multiplied with in the end, beside what is a row's own: units of weights of this kind. */
INLINE float weight_unit(enum dtype dtype, int scales)
{
    return dtype == DTYPE_F8_E4M3 ? 256 * power_of_two(-scales) : dtype == DTYPE_BF16 ? 1 / BF16_UNIT : 1;
}
