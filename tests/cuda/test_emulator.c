/* SPDX-License-Identifier: Apache-2.0 */
/* The emulator against plain formulas: every instruction of ptx.cuh, the order of blocks and
 * threads, and the detection of faults. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda/emulated.h"
#include "cuda/primitives.h"

static const unsigned one_block[3] = {1, 1, 1};

static float value(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof(f));
    return f;
}

static uint32_t bits_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof(bits));
    return bits;
}

static uint32_t random_bits(void)
{
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 32);
}

static void run(const char *kernel, const void *args, unsigned blocks, unsigned threads,
                size_t shared)
{
    assert_true(emulator_launch(kernel, args, (const unsigned[3]){blocks, 1, 1},
                                (const unsigned[3]){threads, 1, 1}, shared));
}

static void shuffles(void **state)
{
    (void)state;
    uint32_t in[256], out[256];
    for (int mode = 0; mode < 4; mode++) {
        for (int i = 0; i < 256; i++)
            in[i] = mode < 2 ? random_bits() : bits_of((float)(int)(random_bits() % 2048) - 1024);
        run("test_shuffles", &(struct primitive_args){out, in, mode}, 1, 256, 0);
        for (int i = 0; i < 256; i++) {
            float sum = 0, max = -INFINITY;
            for (int lane = 0; lane < 32; lane++) {
                sum += value(in[i / 32 * 32 + lane]);
                max = fmaxf(max, value(in[i / 32 * 32 + lane]));
            }
            uint32_t want[4] = {in[i ^ 5], in[i / 32 * 32 + (i % 32 + 3) % 32], bits_of(sum),
                                bits_of(max)};
            assert_int_equal(out[i], want[mode]);
        }
    }
}

static void load_matrices(void **state)
{
    (void)state;
    _Alignas(16) uint16_t rows[32][8];
    uint32_t out[32][8];
    for (int i = 0; i < 256; i++)
        rows[i / 8][i % 8] = (uint16_t)i;
    run("test_load_matrices", &(struct primitive_args){out[0], (uint32_t *)rows[0], 0}, 1, 32, 512);
    for (int lane = 0; lane < 32; lane++)
        for (int m = 0; m < 4; m++) {
            int g = lane / 4, t = lane % 4;
            assert_int_equal(out[lane][m],
                             rows[m * 8 + g][2 * t] | (uint32_t)rows[m * 8 + g][2 * t + 1] << 16);
            assert_int_equal(out[lane][4 + m],
                             rows[m * 8 + 2 * t][g] | (uint32_t)rows[m * 8 + 2 * t + 1][g] << 16);
        }
}

/* Small whole numbers: exact in both formats and in every sum. */
static uint16_t small_number(int n, int f16)
{
    if (!f16) return (uint16_t)(bits_of((float)n) >> 16);
    if (n == 0) return 0;
    int exponent = (int)floorf(log2f((float)abs(n)));
    return (uint16_t)((n < 0 ? 0x8000 : 0) | (exponent + 15) << 10 |
                      ((abs(n) << 10 >> exponent) & 0x3ff));
}

static void products(void **state)
{
    (void)state;
    for (int f16 = 0; f16 < 2; f16++) {
        _Alignas(16) uint16_t a[16][16], b[16][8];
        float c[16][8], want[16][8];
        int na[16][16], nb[16][8];
        for (int i = 0; i < 256; i++)
            a[i / 16][i % 16] = small_number(na[i / 16][i % 16] = (int)(random_bits() % 31) - 15,
                                             f16);
        for (int i = 0; i < 128; i++)
            b[i / 8][i % 8] = small_number(nb[i / 8][i % 8] = (int)(random_bits() % 31) - 15, f16);
        for (int row = 0; row < 16; row++)
            for (int column = 0; column < 8; column++) {
                want[row][column] = c[row][column] = (float)row;
                for (int k = 0; k < 16; k++)
                    want[row][column] += (float)(na[row][k] * nb[k][column]);
            }
        run("test_product", &(struct product_args){c[0], a[0], b[0], f16}, 1, 32, 0);
        assert_memory_equal(c, want, sizeof(c));
    }
}

static void copies(void **state)
{
    (void)state;
    _Alignas(16) uint32_t in[64][3][4];
    uint32_t out[64][3][4];
    for (int i = 0; i < 64 * 12; i++)
        in[i / 12][i / 4 % 3][i % 4] = random_bits() & 0x7fffffff;
    for (int pending = 0; pending < 3; pending++) {
        run("test_copies", &(struct primitive_args){out[0][0], in[0][0], pending}, 1, 64,
            sizeof(in));
        for (int i = 0; i < 64; i++)
            for (int group = 0; group < 3; group++)
                for (int word = 0; word < 4; word++) {
                    uint32_t come = group == 2 && word > 0 ? 0 : in[i][group][word];
                    assert_int_equal(out[i][group][word], group < 3 - pending ? come : 0xffffffff);
                }
    }
}

/* The nearest value with `fraction_bits` fraction bits and this least exponent, ties to even, by
 * the definition. */
static double rounded(double x, int fraction_bits, int least_exponent)
{
    if (x == 0) return x;
    int exponent;
    frexp(x, &exponent);
    exponent = exponent - 1 < least_exponent ? least_exponent : exponent - 1;
    double unit = ldexp(1, exponent - fraction_bits);
    return nearbyint(x / unit) * unit;
}

static double bf16_number(uint32_t bits)
{
    return (double)value(bits << 16);
}

static double f16_number(uint32_t bits)
{
    double sign = bits & 0x8000 ? -1 : 1;
    int exponent = bits >> 10 & 31, fraction = bits & 0x3ff;
    if (exponent == 31) return fraction ? NAN : sign * INFINITY;
    return sign * (exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24));
}

static double e4m3_number(uint32_t bits)
{
    double sign = bits & 0x80 ? -1 : 1;
    int exponent = bits >> 3 & 15, fraction = bits & 7;
    return sign * (exponent ? ldexp(8 + fraction, exponent - 10) : ldexp(fraction, -9));
}

/* Small quantized values, some subnormal, and larger ones; sums of either kind are exact. */
static void e4m3_products(void **state)
{
    (void)state;
    _Alignas(16) uint8_t a[16][32], b[8][32];
    float c[16][8];
    for (uint32_t first = 0; first <= 0x28; first += 0x28) {
        for (int i = 0; i < 512; i++)
            a[i / 32][i % 32] = (uint8_t)((random_bits() & 0x80) | (first + random_bits() % 0x30));
        for (int i = 0; i < 256; i++)
            b[i / 32][i % 32] = (uint8_t)((random_bits() & 0x80) | (first + random_bits() % 0x30));
        run("test_e4m3_product", &(struct e4m3_product_args){c[0], a[0], b[0]}, 1, 32, 0);
        for (int row = 0; row < 16; row++)
            for (int column = 0; column < 8; column++) {
                double want = 0;
                for (int k = 0; k < 32; k++)
                    want += 2 * e4m3_number(a[row][k]) * e4m3_number(b[column][k]);
                assert_true((double)c[row][column] == want);
            }
    }
}

static void s8_products(void **state)
{
    (void)state;
    _Alignas(16) int8_t a[16][32], b[8][32];
    int32_t c[16][8], before[16][8];
    for (int i = 0; i < 512; i++)
        a[i / 32][i % 32] = (int8_t)(random_bits() & 0xff);
    for (int i = 0; i < 256; i++)
        b[i / 32][i % 32] = (int8_t)(random_bits() & 0xff);
    for (int i = 0; i < 128; i++)
        c[i / 8][i % 8] = (int32_t)(random_bits() % 100000) - 50000;
    memcpy(before, c, sizeof(c));
    run("test_s8_product", &(struct s8_product_args){c[0], a[0], b[0]}, 1, 32, 0);
    for (int row = 0; row < 16; row++)
        for (int column = 0; column < 8; column++) {
            int32_t want = before[row][column];
            for (int k = 0; k < 32; k++)
                want += a[row][k] * b[column][k];
            assert_int_equal(c[row][column], want);
        }
}

static void assert_same(double got, double want, uint32_t in)
{
    if (isnan(got) && isnan(want)) return;
    if (got != want || signbit(got) != signbit(want))
        fail_msg("of %#x: %a, expected %a", in, got, want);
}

enum { TO_BF16, TO_F16, FROM_F16, BF16_PRODUCT, E4M3, EXP2, PAIRS, N_NUMBERS };

static void check_number(int mode, uint32_t in, uint32_t out)
{
    double x = value(in), far = isinf(x) ? x : copysign(INFINITY, x), r;
    switch (mode) {
    case TO_BF16:
        assert_int_equal(out >> 16, 0x3f80);
        r = isfinite(x) ? rounded(x, 7, -126) : x;
        assert_same(bf16_number(out), fabs(r) >= 0x1p128 ? far : r, in);
        break;
    case TO_F16:
        assert_int_equal(out & 0xffff, 0x3c00);
        r = isfinite(x) ? rounded(x, 10, -14) : x;
        assert_same(f16_number(out >> 16), fabs(r) >= 65536 ? far : r, in);
        break;
    case FROM_F16: assert_same(value(out), f16_number(in & 0xffff), in); break;
    case BF16_PRODUCT:
        for (int half = 0; half < 2; half++) {
            double product = bf16_number(in >> 16 * half & 0xffff) *
                             bf16_number((in >> 8 | in << 24) >> 16 * half & 0xffff);
            r = isfinite(product) ? rounded(product, 7, -126) : product;
            assert_same(bf16_number(out >> 16 * half & 0xffff),
                        fabs(r) >= 0x1p128 ? copysign(INFINITY, r) : r, in);
        }
        break;
    case E4M3:
        assert_same(value(out), (in & 0x7f) == 0x7f ? NAN : e4m3_number(in & 0xff), in);
        break;
    case EXP2:
        if (isnan(x) || fabs(x) > 120) break;
        assert_true(fabs(value(out) / exp2(x) - 1) < 1e-6);
        break;
    default: /* the high bytes of v << 8: bytes 0 and 2 of v */
        if ((in & 0x7f) == 0x7f || (in >> 16 & 0x7f) == 0x7f) break;
        assert_same(bf16_number(out & 0xffff), e4m3_number(in & 0xff), in);
        assert_same(bf16_number(out >> 16), e4m3_number(in >> 16 & 0xff), in);
    }
}

static void numbers(void **state)
{
    (void)state;
    enum { N = 65536 };
    uint32_t *in = malloc(N * sizeof(*in)), *out = malloc(N * sizeof(*out));
    for (int mode = 0; mode < N_NUMBERS; mode++) {
        for (uint32_t i = 0; i < N; i++) {
            in[i] = mode == EXP2 ? bits_of((float)(int)(i - N / 2) / 256) : random_bits();
            if (mode == FROM_F16 || mode == E4M3)
                in[i] = i;
            else if (mode != EXP2 && i % 4 == 1)
                in[i] = (in[i] & 0x807fffff) | (100 + i / 4 % 30) << 23; /* about F16's range */
            else if (mode != EXP2 && i % 4 == 2)
                in[i] &= 0xffff8000 | -(i & 4); /* halfway between two values */
        }
        run("test_numbers", &(struct primitive_args){out, in, mode}, N / 256, 256, 0);
        for (int i = 0; i < N; i++)
            check_number(mode, in[i], out[i]);
    }
    free(in);
    free(out);
}

static void last_block_merges(void **state)
{
    (void)state;
    enum { BLOCKS = 37, N = 300 };
    static float in[BLOCKS][N], part[BLOCKS][N];
    float out[N];
    uint32_t arrived = 0;
    for (int i = 0; i < BLOCKS * N; i++)
        in[i / N][i % N] = (float)(random_bits() % 1000);
    for (int cpu_threads = 1; cpu_threads <= 3; cpu_threads++) {
        emulator_use_threads(cpu_threads);
        run("test_last_arrives", &(struct sum_args){out, in[0], part[0], &arrived, N}, BLOCKS, 128,
            0);
        assert_int_equal(arrived, 0);
        for (int i = 0; i < N; i++) {
            float want = 0;
            for (int b = 0; b < BLOCKS; b++)
                want += in[b][i];
            assert_true(out[i] == want);
        }
    }
    emulator_use_threads(2);
}

static void shared_memory_starts_as_nan(void **state)
{
    (void)state;
    uint32_t out[8][64];
    run("test_unwritten", &(struct primitive_args){out[0], NULL, 0}, 8, 64, 64 * sizeof(float));
    for (int i = 0; i < 8 * 64; i++)
        assert_int_equal(out[i / 64][i % 64], 1);
}

static void bad_launches(void **state)
{
    (void)state;
    struct primitive_args a = {0};
    assert_null(emulator_find("test_nothing"));
    assert_int_equal(emulator_find("test_shuffles")->args_size, sizeof(a));
    assert_int_equal(emulator_find("test_shuffles")->max_threads, 256);
    assert_false(emulator_launch("test_nothing", &a, one_block, (const unsigned[3]){32, 1, 1}, 0));
    assert_false(
        emulator_launch("test_shuffles", &a, one_block, (const unsigned[3]){512, 1, 1}, 0));
    assert_false(emulator_launch("test_shuffles", &a, one_block, (const unsigned[3]){48, 1, 1}, 0));
    assert_false(
        emulator_launch("test_shuffles", &a, one_block, (const unsigned[3]){32, 1, 1}, 256 * 1024));
    assert_false(emulator_launch("test_shuffles", &a, (const unsigned[3]){0, 1, 1},
                                 (const unsigned[3]){32, 1, 1}, 0));
}

/* Runs the fault in a child and returns what it writes to stderr before it aborts, or "" if it does
 * not. */
static void message_of_fault(int mode, char *out, size_t size)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        dup2(ends[1], 2);
        _Alignas(16) uint32_t in[256], got[256];
        memset(in, 0, sizeof(in));
        emulator_launch("test_faults", &(struct primitive_args){got, in, mode}, one_block,
                        (const unsigned[3]){64, 1, 1}, 256);
        _exit(0);
    }
    close(ends[1]);
    size_t n = 0;
    for (ssize_t got; n < size - 1 && (got = read(ends[0], out + n, size - 1 - n)) > 0;)
        n += (size_t)got;
    out[n] = 0;
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT) out[0] = 0;
}

static void faults_are_found(void **state)
{
    (void)state;
    static const char *const messages[] = {
        "__syncthreads", "__syncwarp",  "has ended",
        "shared memory", "not aligned", "warp 0 has ended",
#ifdef EY_RACES
        "race",          "race",        "race",
#endif
    };
    for (size_t mode = 0; mode < sizeof(messages) / sizeof(*messages); mode++) {
        char got[1024];
        message_of_fault((int)mode, got, sizeof(got));
        if (!strstr(got, messages[mode]) || !strstr(got, "test_faults"))
            fail_msg("fault %zu: \"%s\"", mode, got);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shuffles),
        cmocka_unit_test(load_matrices),
        cmocka_unit_test(products),
        cmocka_unit_test(e4m3_products),
        cmocka_unit_test(s8_products),
        cmocka_unit_test(copies),
        cmocka_unit_test(numbers),
        cmocka_unit_test(last_block_merges),
        cmocka_unit_test(shared_memory_starts_as_nan),
        cmocka_unit_test(bad_launches),
        cmocka_unit_test(faults_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
