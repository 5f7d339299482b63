/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel table, for cases that no step reaches: conversions at the end of memory, matmuls with
 * padded rows, elementwise functions over their whole range. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/dequantize.h"
#include "tensor/bf12.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/cpu_hugepages.h"
#include "kernels/direct_weight.h"
#include "kernels/kernel_tests.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static const size_t widths[] = {1, 3, 15, 16, 17, 31, 63, 64, 65, 127, 128, 129, 192, 272, 320};

static bool same_value(float a, float b)
{
    return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

static bool bytes_are(const uint8_t *p, uint8_t value, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != value) return false;
    return true;
}

/* ---- dequantize_row: all quantized values, rows that end at a guard page, nothing written past
 * the last element ---- */

static bool check_decoded(const struct cpu_kernels *k, const struct tensor *w, int64_t row)
{
    float got[512 + 16], want[512];
    size_t n = (size_t)w->cols;
    memset(got, 0xa5, sizeof(got));
    k->rows->dequantize_row(got, &(struct cpu_matrix){.tensor = *w}, row);
    elements_to_f32(want, (const uint8_t *)w->data + (size_t)row * n * dtype_size(w->dtype),
                    w->dtype, n);
    for (size_t i = 0; i < n; i++) {
        float scaled = w->scale ? want[i] * w->scale[i / FP8_BLOCK] : want[i];
        REQUIRE(same_value(got[i], scaled), "decode: element %zu of %zu is %g, not %g", i, n,
                (double)got[i], (double)scaled);
    }
    REQUIRE(bytes_are((uint8_t *)(got + n), 0xa5, 64), "decode: %zu elements: wrote past the end",
            n);
    return true;
}

static const enum dtype dtypes[] = {DTYPE_F8_E4M3, DTYPE_BF16, DTYPE_F16, DTYPE_F32};

static bool check_decode(const struct cpu_kernels *k, uint64_t seed)
{
    struct test_case c = {.fill = FILL_ALL_VALUES};
    bool ok = true;
    for (size_t d = 0; d < COUNT(dtypes); d++)
        for (size_t i = 0; ok && i < COUNT(widths); i++) {
            struct problem p = {.c = &c, .random = seed};
            make_matrix(&p, 0, 4, (int64_t)widths[i], dtypes[d], FILL_ALL_VALUES);
            for (int64_t row = 0; row < 4; row++)
                ok = ok && check_decoded(k, &p.w[0], row);
            problem_close(&p);
        }
    return ok;
}

/* ---- to_bf16 ---- */

static float bf16_of(float x) /* nearest, ties to even, by arithmetic */
{
    if (!isfinite(x) || x == 0) return x;
    int exponent;
    frexpf(x, &exponent);
    int lowest = exponent - 8 < -133
                     ? -133
                     : exponent - 8; /* exponent of the last bit; 2^-133 is the smallest denormal */
    return (float)ldexp(nearbyint(ldexp((double)x, -lowest)), lowest);
}

static float special(uint64_t *random, size_t i)
{
    static const float values[] = {
        0,          -0.0f,     1,         -1,           1.00390625f, 1.01171875f, 1.0039062f,
        1.0039064f, 0x1p-126f, 0x1p-130f, 0x1.01p-127f, -FLT_MAX,    3e38f,       1e-45f};
    uint32_t bits = (uint32_t)random_bits(random);
    float any;
    memcpy(&any, &bits, sizeof(any));
    if (i % 3 == 0) return values[bits % COUNT(values)];
    return i % 29 == 1 ? (float)NAN : i % 31 == 1 ? -INFINITY : isnan(any) ? 0.5f : any;
}

static bool check_rounded(const struct cpu_kernels *k, const float *in, size_t n)
{
    uint16_t out[512 + 32];
    float got[512];
    memset(out, 0xa5, sizeof(out));
    k->rows->to_bf16(out, in, n);
    elements_to_f32(got, out, DTYPE_BF16, n);
    for (size_t i = 0; i < n; i++)
        REQUIRE(same_value(got[i], bf16_of(in[i])), "to_bf16: element %zu of %zu is %.9g, not %.9g",
                i, n, (double)got[i], (double)bf16_of(in[i]));
    REQUIRE(bytes_are((uint8_t *)(out + n), 0xa5, 64), "to_bf16: %zu elements: wrote past the end",
            n);
    return true;
}

static bool check_to_bf16(const struct cpu_kernels *k, uint64_t seed)
{
    bool ok = true;
    for (size_t w = 0; ok && w < COUNT(widths); w++) {
        struct memory memory = {.n = 0};
        float *in = memory_alloc(&memory, widths[w] * sizeof(float), 0);
        for (size_t i = 0; i < widths[w]; i++)
            in[i] = special(&seed, i);
        ok = check_rounded(k, in, widths[w]);
        memory_free(&memory);
    }
    return ok;
}

/* ---- matmuls with padded rows ---- */

static bool check_strides(const struct cpu_kernels *k, uint64_t seed)
{
    enum { N = 9, K = 130, M = 67, X_STRIDE = K + 5, Y_STRIDE = M + 3 };
    struct test_case c = {.fill = FILL_EXACT, .dtype = DTYPE_F8_E4M3};
    struct problem p = {.c = &c, .random = seed};
    struct pool *pool;
    struct backend *be;
    ey_err e;
    float y[N * Y_STRIDE], row[K];
    make_matrix(&p, 0, M, K, c.dtype, c.fill);
    float *x = make_rows(&p, N, X_STRIDE, FILL_EXACT);
    struct backend_limits limits = {
        .max_rows = N, .max_width = K, .max_keys = 64, .max_patches = 64};
    if (!pool_create(&pool, 2, &e) || !backend_cpu_create(&be, pool, k->mask, &e) ||
        !be->ops->memory->reserve(be, &limits, &e))
        return false;
    for (size_t i = 0; i < COUNT(y); i++)
        y[i] = -77;
    struct cpu_input in = {.x = x, .x_stride = X_STRIDE, .n = N, .width = K};
    struct cpu_weight weight = direct_weight(be, &p.w[0], ROLE_TEXT);
    weight.m.int16 = *p.int16[0];
    struct cpu_linear linear = {&weight, NULL, y, Y_STRIDE};
    cpu_matmul((struct cpu *)be, &in, &linear, 1, CPU_STORE);
    bool ok = true;
    for (int m = 0; m < M; m++) {
        elements_to_f32(row, (const uint8_t *)p.w[0].data + (size_t)m * K, c.dtype, K);
        for (int i = 0; i < N; i++) {
            float sum = 0;
            for (int j = 0; j < K; j++)
                sum += row[j] * p.w[0].scale[j / FP8_BLOCK] * x[i * X_STRIDE + j];
            ok = ok && y[i * Y_STRIDE + m] == sum;
        }
    }
    for (int i = 0; i < N; i++)
        for (int m = M; m < Y_STRIDE; m++)
            ok = ok && y[i * Y_STRIDE + m] == -77;
    be->ops->destroy(be);
    pool_destroy(&pool);
    problem_close(&p);
    return ok;
}

/* ---- matmuls with weights of any size ---- */

enum { UNIT_ROWS = 70, UNIT_COLS = 1024 + 192, UNIT_SPREAD = 12 };

/* A BF16 weight with a random sign and mantissa and one of UNIT_SPREAD exponents. Rows have largest
 * exponents from 2^-108 to 2^99; the last two have an infinity and a NaN. */
static uint16_t unit_bits(int row, int col, uint64_t *random)
{
    const uint64_t bits = random_bits(random);
    const int exponent = -108 + row * 3 - col % UNIT_SPREAD;
    if (col == 5 && row >= UNIT_ROWS - 2) return row == UNIT_ROWS - 1 ? 0x7fc1 : 0xff80;
    return (uint16_t)((bits >> 8 & 0x807f) | (uint64_t)(exponent + 127) << 7);
}

static float unit_product(const uint16_t *row, int col, float x)
{
    bool infinite = false;
    for (int c = 0; c < UNIT_COLS; c++) {
        const float w = bf16_to_f32(row[c]);
        if (isnan(w)) return (float)NAN;
        infinite |= isinf(w) && c != col; /* infinity times 0 */
    }
    return infinite ? (float)NAN : bf16_to_f32(row[col]) * x;
}

/* Each row of x selects one column with a large or small number. Weights within 12 powers of two of
 * a row's largest must be exact. */
static bool check_units_of(const struct cpu_kernels *k, int n, size_t cols, uint64_t seed)
{
    static uint16_t w[UNIT_ROWS * UNIT_COLS];
    float y[20 * UNIT_ROWS], x[20 * UNIT_COLS] = {0};
    struct tensor weight = {
        .data = w, .dtype = DTYPE_BF16, .rows = UNIT_ROWS, .cols = (int64_t)cols};
    struct backend_limits limits = {
        .max_rows = n, .max_width = (int)cols, .max_keys = 64, .max_patches = 64};
    struct pool *pool;
    struct backend *be;
    ey_err e;
    for (size_t i = 0; i < UNIT_ROWS * cols; i++)
        w[i] = unit_bits((int)(i / cols), (int)(i % cols), &seed);
    for (int i = 0; i < n; i++)
        x[(size_t)i * cols + (size_t)(i * 7) % cols] = ldexpf(i % 2 ? -1 : 1, i - 4);
    if (!pool_create(&pool, 2, &e) || !backend_cpu_create(&be, pool, k->mask, &e) ||
        !be->ops->memory->reserve(be, &limits, &e))
        return false;
    struct cpu_input in = {.x = x, .x_stride = cols, .n = n, .width = (int)cols};
    struct cpu_weight placed = direct_weight(be, &weight, ROLE_TEXT);
    struct cpu_linear linear = {&placed, NULL, y, UNIT_ROWS};
    cpu_matmul((struct cpu *)be, &in, &linear, 1, CPU_STORE);
    be->ops->destroy(be);
    pool_destroy(&pool);
    for (int i = 0; i < n; i++)
        for (int m = 0; m < UNIT_ROWS; m++) {
            uint16_t row[UNIT_COLS] = {0};
            const int col = i * 7 % (int)cols;
            memcpy(row, w + (size_t)m * cols, cols * sizeof(*row));
            const float want = unit_product(row, col, x[(size_t)i * cols + (size_t)col]),
                        got = y[i * UNIT_ROWS + m];
            REQUIRE((isnan(want) && isnan(got)) || got == want,
                    "units: row %d of %d times weights of about 2^%d, %zu columns: %g, not %g", i,
                    n, -108 + m * 3, cols, (double)got, (double)want);
        }
    return true;
}

static bool check_units(const struct cpu_kernels *k, uint64_t seed)
{
    return check_units_of(k, 1, UNIT_COLS, seed) && check_units_of(k, 4, UNIT_COLS, seed) &&
           check_units_of(k, 20, UNIT_COLS, seed) && check_units_of(k, 3, UNIT_COLS - 30, seed);
}

/* ---- norms ---- */

static bool close_to(float got, double want, double relative, double absolute)
{
    return isnan(want) ? isnan(got) : fabs((double)got - want) <= relative * fabs(want) + absolute;
}

static bool check_norm(const struct cpu_kernels *k, const float *x, const float *w, const float *b,
                       size_t n, float eps)
{
    float rms[512], layer[512];
    double squares = 0, sum = 0, spread = 0;
    for (size_t i = 0; i < n; i++) {
        squares += (double)x[i] * x[i];
        sum += (double)x[i];
    }
    for (size_t i = 0; i < n; i++)
        spread += ((double)x[i] - sum / (double)n) * ((double)x[i] - sum / (double)n);
    double scale = 1 / sqrt(squares / (double)n + (double)eps),
           turn = 1 / sqrt(spread / (double)n + (double)eps);
    k->rows->rms_norm(rms, x, w, n, eps);
    k->rows->layer_norm(layer, x, w, b, n, eps);
    for (size_t i = 0; i < n; i++) {
        double want = (double)w[i] * (double)x[i] * scale,
               centred = ((double)x[i] - sum / (double)n) * turn * (double)w[i] + (double)b[i];
        double mean_error = 1e-6 * fabs(sum / (double)n) * turn; /* an F32 mean */
        REQUIRE(close_to(rms[i], want, 2e-6, 1e-30), "rms_norm: %zu of %zu is %g, not %g", i, n,
                (double)rms[i], want);
        REQUIRE(close_to(layer[i], centred, 4e-6, 4e-6 + 2 * mean_error),
                "layer_norm: %zu of %zu is %g, not %g", i, n, (double)layer[i], centred);
    }
    return true;
}

static bool check_norms(const struct cpu_kernels *k, uint64_t seed)
{
    static const float sizes[] = {0, 1, 1e-20f, 1e15f, 1e3f};
    bool ok = true;
    for (size_t i = 0; i < COUNT(widths); i++)
        for (size_t s = 0; ok && s < COUNT(sizes); s++) {
            struct memory memory = {.n = 0};
            float *part[3];
            for (int v = 0; v < 3; v++) {
                part[v] = memory_alloc(&memory, widths[i] * sizeof(float), 0);
                for (size_t j = 0; j < widths[i]; j++)
                    part[v][j] = random_float(&seed) * (v ? 1 : sizes[s]);
            }
            ok = check_norm(k, part[0], part[1], part[2], widths[i], 1e-6f);
            memory_free(&memory);
        }
    return ok;
}

/* A common offset far larger than the variation: E[x^2] - E[x]^2 would lose the variance. */
static bool check_norm_of_offset(const struct cpu_kernels *k, uint64_t seed)
{
    float x[320], one[320], zero[320] = {0}, y[320];
    double sum = 0, spread = 0;
    for (int i = 0; i < 320; i++) {
        x[i] = 1000 + random_float(&seed);
        one[i] = 1;
        sum += (double)x[i];
    }
    for (int i = 0; i < 320; i++)
        spread += ((double)x[i] - sum / 320) * ((double)x[i] - sum / 320);
    k->rows->layer_norm(y, x, one, zero, 320, 1e-6f);
    for (int i = 0; i < 320; i++)
        REQUIRE(close_to(y[i], ((double)x[i] - sum / 320) / sqrt(spread / 320), 0, 1e-3),
                "layer_norm: %d of a row about 1000 is %g", i, (double)y[i]);
    return true;
}

/* ---- activations ---- */

/* Values of all exponents and both signs, and the extremes. */
enum { SWEEP = 1 << 16 };
static void make_sweep(float *x)
{
    static const float ends[] = {0,      -0.0f,   FLT_MAX, -FLT_MAX,  FLT_MIN, -FLT_MIN,
                                 1e-45f, -1e-45f, 88,      -88,       -87.3f,  -104,
                                 1e37f,  -1e37f,  -1e13f,  (float)NAN};
    for (uint32_t i = 0; i < SWEEP; i++) {
        uint32_t bits = i * 65537u; /* all 2^16 upper halves */
        memcpy(&x[i], &bits, sizeof(bits));
        if (i % 4 == 1) x[i] = ((float)i / SWEEP - 0.5f) * 200; /* dense where the functions bend */
        if (i % 4 == 3) x[i] = ((float)i / SWEEP - 0.5f) * 12;
        if (isinf(x[i])) x[i] = 1;
    }
    memcpy(x, ends, sizeof(ends));
}

struct activation {
    const char *name;
    double (*exact)(double);
    double (*allowed)(double x, double want);
};

static double silu(double x)
{
    return x < -700 ? -0.0 : x / (1 + exp(-x));
}

static double gelu_tanh(double x)
{
    return x / (1 + exp(-1.5957691216057308 * (x + 0.044715 * x * x * x)));
}

static double gelu_erf(double x)
{
    return 0.5 * x * erfc(-x * 0.70710678118654752);
}

/* e^x is accurate to 2e-7 down to e^-87, and 0 below: the error is at most |x| e^-87. */
static double silu_allowed(double x, double want)
{
    return 8e-7 * fabs(want) + (x < -80 ? 200 * exp(-87) : 0) + FLT_MIN;
}

/* Plus the rounding of the exponent, times its size. */
static double gelu_tanh_allowed(double x, double want)
{
    double exponent = fabs(1.5957691216 * (x + 0.044715 * x * x * x));
    return (8e-7 + 3e-7 * (exponent < 100 ? exponent : 100)) * fabs(want) +
           (x < -5 ? 200 * exp(-87) : 0) + FLT_MIN;
}

/* 1 + erf(x) cancels below 0, in ref and in the paper's F32 formula, too. */
static double gelu_erf_allowed(double x, double want)
{
    return 3e-7 * fabs(want) + (x < 0 ? 1.2e-7 * fmin(-x, 6) : 0) + FLT_MIN;
}

static bool check_activation(const struct activation *a, const float *x, const float *y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double want = a->exact((double)x[i]);
        if (isnan(x[i]) ? isnan(y[i]) : fabs((double)y[i] - want) <= a->allowed((double)x[i], want))
            continue;
        REQUIRE(false, "%s(%.9g) is %.9g, not %.9g", a->name, (double)x[i], (double)y[i], want);
    }
    return true;
}

static bool check_activations(const struct cpu_kernels *k, uint64_t seed)
{
    static const struct activation all[] = {{"silu", silu, silu_allowed},
                                            {"gelu_tanh", gelu_tanh, gelu_tanh_allowed},
                                            {"gelu_erf", gelu_erf, gelu_erf_allowed}};
    static float x[SWEEP], y[SWEEP], one[SWEEP];
    bool ok = true;
    (void)seed;
    make_sweep(x);
    for (size_t i = 0; i < SWEEP; i++)
        one[i] = 1;
    for (size_t i = 0; i < COUNT(all); i++) {
        memcpy(y, x, sizeof(x));
        if (i == 0)
            k->rows->silu_mul(y, one, SWEEP);
        else if (i == 1)
            k->rows->gelu_tanh(y, SWEEP);
        else
            k->rows->gelu_erf(y, SWEEP);
        ok = check_activation(&all[i], x, y, SWEEP) && ok;
    }
    return ok;
}

/* Every length and offset gives the same bits as the whole array, and nothing is written past the
 * end. */
static bool check_activation_tails(const struct cpu_kernels *k, uint64_t seed)
{
    enum { N = 70 };
    float x[N], up[N], want[3][N], got[N + 1];
    for (int i = 0; i < N; i++) {
        x[i] = 4 * random_float(&seed);
        up[i] = random_float(&seed);
    }
    for (int f = 0; f < 3; f++)
        memcpy(want[f], x, sizeof(x));
    k->rows->silu_mul(want[0], up, N);
    k->rows->gelu_tanh(want[1], N);
    k->rows->gelu_erf(want[2], N);
    for (int begin = 0; begin < N; begin += 7)
        for (int n = 1; begin + n <= N; n++)
            for (int f = 0; f < 3; f++) {
                memcpy(got, x + begin, (size_t)n * sizeof(float));
                got[n] = -77;
                if (f == 0)
                    k->rows->silu_mul(got, up + begin, (size_t)n);
                else if (f == 1)
                    k->rows->gelu_tanh(got, (size_t)n);
                else
                    k->rows->gelu_erf(got, (size_t)n);
                REQUIRE(memcmp(got, want[f] + begin, (size_t)n * sizeof(float)) == 0,
                        "activation %d: %d elements from %d differ", f, n, begin);
                REQUIRE(got[n] == -77, "activation %d: %d elements: wrote past the end", f, n);
            }
    return true;
}

/* ---- BF12 matrices: the same results and rows as BF16, bit for bit ---- */

enum {
    BF12_TEST_BLOCKS = 5,
    BF12_TEST_ROWS = 4 * BF12_ROWS + 7,
    BF12_TEST_COLS = 640,
    BF12_TEST_MAX_X = 40
};

/* The column of the only outlier in a row of the second or last block. */
static int outlier_column(int row)
{
    return row < 2 * BF12_ROWS ? 37 * (row % BF12_ROWS) + 5 : row * 9 % BF12_TEST_COLS;
}

/* By block: only common exponents; one outlier in each row; zeros and denormals; anything; a block
 * that ends early. */
static uint16_t bf12_test_weight(int row, int col, uint64_t *random)
{
    const uint16_t bits = (uint16_t)random_bits(random), sign_and_fraction = bits & 0x807f;
    const int exponent = 110 + (bits >> 7) % 15;
    switch (row / BF12_ROWS) {
    case 0: return (uint16_t)(sign_and_fraction | exponent << 7);
    case 1:
        return (uint16_t)(sign_and_fraction | (col == outlier_column(row) ? 3 + row % 16 : exponent)
                                                  << 7);
    case 2:
        return (uint16_t)(sign_and_fraction | (row % 3 == 0   ? 0
                                               : row % 3 == 1 ? (bits >> 7) % 16
                                               : bits % 5     ? exponent
                                                              : 0)
                                                  << 7);
    case 3: return bits;
    default:
        return (uint16_t)(sign_and_fraction | (col == outlier_column(row) ? 20 : exponent) << 7);
    }
}

static bool same_matmul(struct backend *be, const struct tensor *plain, const void *bf12, int n,
                        const float *x)
{
    static float y[2][BF12_TEST_MAX_X * BF12_TEST_ROWS];
    struct cpu_input in = {.x = x, .x_stride = BF12_TEST_COLS, .n = n, .width = BF12_TEST_COLS};
    static const enum weight_role roles[] = {ROLE_TEXT, ROLE_ATTENTION};
    for (size_t r = 0; r < COUNT(roles); r++) {
        for (int i = 0; i < 2; i++) {
            struct cpu_weight w = direct_weight(be, plain, roles[r]);
            if (i) w.m.bf12 = bf12;
            struct cpu_linear linear = {&w, NULL, y[i], BF12_TEST_ROWS};
            cpu_matmul((struct cpu *)be, &in, &linear, 1, CPU_STORE);
        }
        for (int i = 0; i < n * BF12_TEST_ROWS; i++)
            REQUIRE(memcmp(&y[0][i], &y[1][i], sizeof(float)) == 0 ||
                        (isnan(y[0][i]) && isnan(y[1][i])),
                    "BF12: %d rows, weight row %d: %g, not %g", n, i % BF12_TEST_ROWS,
                    (double)y[1][i], (double)y[0][i]);
    }
    return true;
}

static bool check_bf12_of(struct backend *be, const struct cpu_kernels *k, uint64_t seed)
{
    static uint16_t w[BF12_TEST_ROWS * BF12_TEST_COLS];
    static float x[BF12_TEST_MAX_X * BF12_TEST_COLS], one[BF12_TEST_MAX_X * BF12_TEST_COLS],
        row[2][BF12_TEST_COLS];
    static const int n[] = {1, 2, 4, 7, 16, 17, 32, BF12_TEST_MAX_X};
    struct tensor plain = {
        .data = w, .dtype = DTYPE_BF16, .rows = BF12_TEST_ROWS, .cols = BF12_TEST_COLS};
    for (int i = 0; i < BF12_TEST_ROWS * BF12_TEST_COLS; i++)
        w[i] = bf12_test_weight(i / BF12_TEST_COLS, i % BF12_TEST_COLS, &seed);
    for (int i = 0; i < BF12_TEST_MAX_X * BF12_TEST_COLS; i++)
        x[i] = (float)(int32_t)random_bits(&seed) * 0x1p-30f;
    for (int i = 0; i < BF12_TEST_MAX_X; i++)
        one[i * BF12_TEST_COLS +
            outlier_column(i % 2 ? BF12_ROWS + i / 2 % BF12_ROWS : 4 * BF12_ROWS + i / 2 % 7)] =
            1; /* outliers are small, so they are tested without other terms */
    size_t bytes = cpu_bf12_bytes(cpu_of(be), &plain);
    if (!(k->low_precision ? k->low_precision : k->f32)->bf12) return bytes == 0;
    REQUIRE(bytes < sizeof(w), "BF12: %zu bytes", bytes);
    struct memory memory = {.n = 0};
    struct bf12_block *blocks = memory_alloc(&memory, bytes, 0);
    memset(blocks, 0xa5, bytes);
    for (int block = 0; block < BF12_TEST_BLOCKS; block++)
        bf12_encode(blocks, &plain, block * BF12_ROWS);
    const struct cpu_matrix stored = {.tensor = plain},
                            compressed = {.tensor = plain, .bf12 = blocks};
    bool ok = blocks[0].n_outliers == 0 && blocks[1].n_outliers == BF12_ROWS &&
              blocks[2].n_outliers == 0 && blocks[3].n_outliers == BF12_UNCOMPRESSED &&
              blocks[4].n_outliers == 7;
    if (!ok)
        printf("BF12: %u, %u, %u, %u, %u outliers\n", blocks[0].n_outliers, blocks[1].n_outliers,
               blocks[2].n_outliers, blocks[3].n_outliers, blocks[4].n_outliers);
    for (size_t i = 0; ok && i < COUNT(n); i++)
        ok = same_matmul(be, &plain, blocks, n[i], x) && same_matmul(be, &plain, blocks, n[i], one);
    for (int i = 0; ok && i < BF12_TEST_ROWS; i++) {
        k->rows->dequantize_row(row[0], &stored, i);
        k->rows->dequantize_row(row[1], &compressed, i);
        ok = memcmp(row[0], row[1], sizeof(row[0])) == 0;
        if (!ok) printf("BF12: row %d differs\n", i);
    }
    memory_free(&memory);
    return ok;
}

static bool check_bf12(const struct cpu_kernels *k, uint64_t seed)
{
    struct backend_limits limits = {.max_rows = BF12_TEST_MAX_X,
                                    .max_width = BF12_TEST_COLS,
                                    .max_keys = 64,
                                    .max_patches = 64};
    struct pool *pool;
    struct backend *be;
    ey_err e;
    if (!pool_create(&pool, 2, &e) || !backend_cpu_create(&be, pool, k->mask, &e) ||
        !be->ops->memory->reserve(be, &limits, &e))
        return false;
    bool ok = check_bf12_of(be, k, seed);
    be->ops->destroy(be);
    pool_destroy(&pool);
    return ok;
}

const struct direct_test direct_tests[] = {
    {"decode", check_decode},
    {"to_bf16", check_to_bf16},
    {"strides", check_strides},
    {"units", check_units},
    {"twelve bits", check_bf12},
    {"norms", check_norms},
    {"norm of an offset", check_norm_of_offset},
    {"activations", check_activations},
    {"activation tails", check_activation_tails},
    {NULL, NULL},
};
