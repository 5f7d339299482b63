/* BF16 rows as strips of twelve bits a weight (bf12.h). */
#define LANES 16
#include "backend/cpu/body_vectors.h"

#include "backend/cpu/bf12.h"

enum { WORDS = 32 }; /* of a vector */

/* What 64 columns of a row become: bytes, and numbers of exponents; a bit for each odd one. */
struct bf12_codes {
    __m512i bytes, numbers;
    uint64_t odd; /* by columns */
};

INLINE __m512i bf12_numbers(__mmask32 *odd, __m512i words, __m512i least)
{
    const __m512i exponent = _mm512_and_si512(_mm512_srli_epi16(words, 7), _mm512_set1_epi16(0xff)), number = _mm512_sub_epi16(exponent, least);
    const __mmask32 there = _mm512_test_epi16_mask(exponent, exponent), fits = _mm512_mask_cmpgt_epi16_mask(there, number, _mm512_setzero_si512());
    *odd = there & ~fits;
    return _mm512_maskz_mov_epi16(fits, number);
}

INLINE struct bf12_codes bf12_codes_of(const __m512i words[2], int least)
{
    struct bf12_codes c;
    __m512i bytes[2], numbers[2];
    __mmask32 odd[2];
    for (int i = 0; i < 2; i++) {
        numbers[i] = bf12_numbers(&odd[i], words[i], _mm512_set1_epi16((short)least));
        bytes[i] = _mm512_or_si512(_mm512_and_si512(words[i], _mm512_set1_epi16(0x7f)), _mm512_slli_epi16(_mm512_srli_epi16(words[i], 15), 7));
    }
    c.bytes = _mm512_packus_epi16(bytes[0], bytes[1]), c.numbers = _mm512_packus_epi16(numbers[0], numbers[1]);
    c.odd = (uint64_t)odd[1] << 32 | odd[0];
    return c;
}

/* The exponent that a row's number 0 would be, did it not stand for zero's. */
static int least_exponent(const uint8_t *row, size_t cols)
{
    __m512i most = _mm512_setzero_si512();
    for (size_t k = 0; k < cols; k += WORDS) most = _mm512_max_epu16(most, _mm512_and_si512(_mm512_loadu_si512(row + 2 * k), _mm512_set1_epi16(0x7f80)));
    uint16_t lanes[WORDS];
    int largest = 0;
    _mm512_storeu_si512(lanes, most);
    for (int i = 0; i < WORDS; i++) largest = lanes[i] > largest ? lanes[i] : largest;
    largest >>= 7;
    return largest < BF12_EXPONENTS ? 0 : largest - BF12_EXPONENTS + 1;
}

/* False: there are too many. */
static bool add_odd(struct bf12_strip *s, uint64_t odd, const uint8_t *words, size_t k, int row)
{
    for (; odd; odd &= odd - 1) {
        const size_t column = (size_t)__builtin_ctzll(odd);
        uint16_t bits;
        if (s->n_odd == BF12_MOST_ODD) return false;
        memcpy(&bits, words + 2 * column, sizeof(bits));
        s->odd[s->n_odd].at = (uint32_t)((k + column) * BF12_ROWS) + (uint32_t)row, s->odd[s->n_odd++].bits = bits;
    }
    return true;
}

void cpu_write_bf12(void *to, const struct weight *w, int64_t row)
{
    struct bf12_strip *s = (struct bf12_strip *)to + row / BF12_ROWS;
    uint8_t *step = (uint8_t *)to + bf12_begin(w) + (size_t)(row / BF12_ROWS) * bf12_strip_bytes(w);
    const size_t cols = (size_t)w->cols, stride = weight_row_bytes(w);
    const uint8_t *in = (const uint8_t *)w->data + (size_t)row * stride;
    const int n = w->rows - row < BF12_ROWS ? (int)(w->rows - row) : BF12_ROWS;
    int least[BF12_ROWS] = {0};
    memset(s, 0, sizeof(*s));
    for (int a = 0; a < n; a++) {
        least[a] = least_exponent(in + (size_t)a * stride, cols);
        for (int i = 1; i < BF12_EXPONENTS; i++) s->row[a].high[i] = (uint8_t)((least[a] + i) >> 1), s->row[a].low[i] = (uint8_t)((least[a] + i) << 7);
    }
    for (size_t k = 0; k < cols; k += CPU_K_STEP, step += BF12_STEP)
        for (int a = 0; a < BF12_ROWS; a += 2) {
            __m512i numbers[2];
            for (int i = 0; i < 2; i++) {
                const uint8_t *words = in + (size_t)(a + i) * stride + 2 * k;
                const __m512i both[2] = {a + i < n ? _mm512_loadu_si512(words) : _mm512_setzero_si512(), a + i < n ? _mm512_loadu_si512(words + 64) : _mm512_setzero_si512()};
                const struct bf12_codes c = bf12_codes_of(both, least[a + i]);
                _mm512_storeu_si512(step + (a + i) * CPU_K_STEP, c.bytes);
                numbers[i] = c.numbers;
                if (c.odd && !add_odd(s, c.odd, words, k, a + i)) {
                    s->n_odd = BF12_AS_STORED;
                    return;
                }
            }
            _mm512_storeu_si512(step + BF12_BYTES + a / 2 * CPU_K_STEP, _mm512_or_si512(numbers[0], _mm512_slli_epi16(numbers[1], 4)));
        }
}
