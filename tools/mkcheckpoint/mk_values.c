/* SPDX-License-Identifier: Apache-2.0 */
/* Counter-based random numbers and floats built from integers. */
#include "mk_values.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "base/hash.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "elements are stored as the machine has them");

enum {
    SUMS = 511,       /* two random bytes added: 0..510 */
    MIDDLE = 255,     /* the sum that means zero */
    VARIANCE = 10922, /* of d */
    /* Marks small e4m3 values, for which d is too coarse. It is e4m3's NaN, which is never written.
     */
    FINE = 0x7F,
    FINE_LIMIT = 8, /* the largest |d| that is marked; it means ±16 of 448 */
};

/* ---- recipes ---- */

static uint64_t square_root(uint64_t x)
{
    uint64_t r = 0;
    for (uint64_t bit = 1u << 31; bit; bit >>= 1)
        if ((r + bit) * (r + bit) <= x) r += bit;
    return r;
}

/* Chooses a step of 4..7 and an exponent so that step · sqrt(variance) · 2^-exponent is about
 * quarters/4/sqrt(fan_in). A step of three bits keeps mantissas short. */
static struct recipe recipe_for(uint64_t variance, int64_t fan_in, int quarters)
{
    uint64_t divisor = 16 * variance * (uint64_t)fan_in;
    uint64_t square = (uint64_t)(quarters * quarters);
    int exponent = 0;
    while (square / divisor < 16) {
        square *= 4;
        exponent++;
    }
    return (struct recipe){.step = (int32_t)square_root(square / divisor), .exponent = exponent};
}

struct recipe recipe_weight(int64_t fan_in, int quarters)
{
    return recipe_for(VARIANCE, fan_in, quarters);
}

struct recipe recipe_fp8_code(void)
{
    return (struct recipe){.step = 225,
                           .exponent = 7}; /* 255 · 225 / 128 = 448.2, which rounds to 448 */
}

struct recipe recipe_scale(int64_t fan_in, int quarters)
{
    enum { MEAN = 512 };
    uint64_t code_variance = (uint64_t)VARIANCE * 225 * 225 / (128 * 128);
    struct recipe r = recipe_for(code_variance * MEAN * MEAN, fan_in, quarters);
    r.base = MEAN * r.step;
    return r;
}

struct recipe recipe_scale_of(int64_t variance, int64_t fan_in, int quarters)
{
    enum { MEAN = 512 };
    struct recipe r = recipe_for((uint64_t)variance * MEAN * MEAN, fan_in, quarters);
    r.base = MEAN * r.step;
    return r;
}

/* ---- bits of floats ---- */

struct float_format {
    int exponent_bits, mantissa_bits;
    uint32_t largest; /* bits of the largest finite number */
};

static struct float_format format_of(enum dtype dtype)
{
    switch (dtype) {
    case DTYPE_F32: return (struct float_format){8, 23, 0x7F7FFFFF};
    case DTYPE_F16: return (struct float_format){5, 10, 0x7BFF};
    case DTYPE_BF16: return (struct float_format){8, 7, 0x7F7F};
    default: return (struct float_format){4, 3, 0x7E};
    }
}

static uint64_t shift_to_even(uint64_t a, int right)
{
    if (right <= 0) return a << -right;
    if (right > 62) return 0;
    uint64_t half = 1ull << (right - 1), rest = a & (2 * half - 1), q = a >> right;
    return q + (rest > half || (rest == half && (q & 1)));
}

uint32_t float_bits(enum dtype dtype, int64_t m, int exponent)
{
    struct float_format f = format_of(dtype);
    if (m == 0) return 0;
    uint64_t a = (uint64_t)(m < 0 ? -m : m);
    int bias = (1 << (f.exponent_bits - 1)) - 1;
    int biased = 63 - __builtin_clzll(a) - exponent + bias;
    if (biased < 1) biased = 1; /* subnormal: the mantissa has no leading one */
    uint64_t mantissa = shift_to_even(a, biased - bias - f.mantissa_bits + exponent);
    /* a leading one increments the exponent field, and so does a carry of the rounding */
    uint64_t code = ((uint64_t)(biased - 1) << f.mantissa_bits) + mantissa;
    if (code > f.largest) code = f.largest;
    return (uint32_t)code | (uint32_t)(m < 0) << (f.exponent_bits + f.mantissa_bits);
}

/* ---- random numbers ---- */

/* splitmix64's finalizer of a counter */
static inline uint64_t mixed(uint64_t key, uint64_t counter)
{
    uint64_t z = key + counter * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* Hashes the NULs, too, so that family and name cannot run into each other. */
uint64_t values_key(const char *family, uint64_t seed, const char *name)
{
    uint64_t hash = fnv1a_64(FNV1A_64_START, family, strlen(family) + 1);
    return mixed(fnv1a_64(hash, name, strlen(name) + 1), seed + 1);
}

/* Returns four sums of two bytes, one in each 16 bits. */
static inline uint64_t byte_sums(uint64_t r)
{
    const uint64_t low = 0x00FF00FF00FF00FFu;
    return (r & low) + ((r >> 8) & low);
}

/* Returns an e4m3 value in -16..16, uniform before rounding. */
static uint8_t fine_code(uint64_t random)
{
    return (uint8_t)float_bits(DTYPE_F8_E4M3, (int64_t)(random & 16383) - 8192, 9);
}

static void fill8(uint8_t *out, const uint32_t *table, uint64_t key, uint64_t group, size_t n)
{
    for (size_t i = 0; i < n; i += 4, group++) {
        uint64_t r = mixed(key, group), sums = byte_sums(r);
        for (size_t lane = 0; lane < 4 && i + lane < n; lane++, sums >>= 16) {
            uint8_t code = (uint8_t)table[sums & 511];
            out[i + lane] = code == FINE ? fine_code(mixed(r, lane)) : code;
        }
    }
}

static void fill16(uint8_t *out, const uint32_t *table, uint64_t key, uint64_t group, size_t n)
{
    for (size_t i = 0; i < n; i += 4, group++) {
        uint64_t sums = byte_sums(mixed(key, group));
        uint16_t four[4];
        for (int lane = 0; lane < 4; lane++, sums >>= 16)
            four[lane] = (uint16_t)table[sums & 511];
        memcpy(out + 2 * i, four, n - i < 4 ? 2 * (n - i) : sizeof(four));
    }
}

static void fill32(uint8_t *out, const uint32_t *table, uint64_t key, uint64_t group, size_t n)
{
    for (size_t i = 0; i < n; i += 4, group++) {
        uint64_t sums = byte_sums(mixed(key, group));
        uint32_t four[4];
        for (int lane = 0; lane < 4; lane++, sums >>= 16)
            four[lane] = table[sums & 511];
        memcpy(out + 4 * i, four, n - i < 4 ? 4 * (n - i) : sizeof(four));
    }
}

static void fill_any_bits(uint8_t *out, uint64_t key, uint64_t group, size_t size, size_t n)
{
    for (size_t at = 0; at < n * size; at += 4 * size, group++)
        for (size_t i = 0; i < 4 * size && at + i < n * size; i += 8) {
            const uint64_t r = mixed(key, group * 2 + i / 8);
            const size_t left = n * size - at - i, most = 4 * size - i < 8 ? 4 * size - i : 8;
            memcpy(out + at + i, &r, left < most ? left : most);
        }
}

static void fill_group_index(uint8_t *out, struct recipe r, uint64_t first, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const int32_t group = (int32_t)((first + i) * 7 % (uint64_t)r.base) / r.step;
        memcpy(out + i * sizeof(group), &group, sizeof(group));
    }
}

void values_fill(uint8_t *out, enum dtype dtype, struct recipe r, uint64_t key, uint64_t first,
                 size_t n)
{
    assert(first % 4 == 0);
    if (r.exponent == ANY_BITS) {
        fill_any_bits(out, key, first / 4, dtype_size(dtype), n);
        return;
    }
    if (r.exponent == GROUP_INDEX) {
        fill_group_index(out, r, first, n);
        return;
    }
    uint32_t table[SUMS + 1] = {0};
    for (int sum = 0; sum < SUMS; sum++)
        table[sum] = float_bits(dtype, r.base + (int64_t)r.step * (sum - MIDDLE), r.exponent);
    switch (dtype_size(dtype)) {
    case 1:
        for (int d = -FINE_LIMIT; d <= FINE_LIMIT && !r.base; d++)
            table[MIDDLE + d] = FINE;
        fill8(out, table, key, first / 4, n);
        break;
    case 2: fill16(out, table, key, first / 4, n); break;
    default: fill32(out, table, key, first / 4, n); break;
    }
}
