/* SPDX-License-Identifier: Apache-2.0 */
/* GEMM kernels, with every tile and epilogue, against loops in double precision. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend/fp8_activations.h"
#include "kernels/cuda/matmul/gemm_w8a8_launch.h"
#include "kernels/cuda/matmul/matmul_small_launch.h"
#include "cuda/emulated.h"
#include "cuda/kernel_test_matrices.h"

/* ---- one matrix ---- */

enum scales { SCALES_PLAIN, SCALES_ZEROS, SCALES_WIDE };

static float random_scale(enum scales kind, int index)
{
    float scale = 0.002f + 0.001f * random_float();
    if (kind == SCALES_ZEROS && index % 3 != 1) return index % 3 ? 1e-35f : 0;
    if (kind == SCALES_WIDE) return ldexpf(scale, (int)(random_bits() % 40) - 20);
    return scale;
}

static struct matrix matrix_make(int dtype, int rows, int cols, enum scales kind)
{
    struct matrix m = {{.rows = rows, .cols = cols, .dtype = dtype, .packed = 1},
                       aligned(sizeof(double) * (size_t)rows * (size_t)cols)};
    int row_bytes = cols * (dtype == K_FP8 ? 1 : 2), scale_cols = (cols + 127) / 128;
    uint8_t *plain = aligned((size_t)rows * (size_t)row_bytes);
    float *scale = NULL;
    if (dtype == K_FP8) {
        int n = (rows + 127) / 128 * scale_cols;
        scale = aligned(sizeof(float) * (size_t)n);
        for (int i = 0; i < n; i++)
            scale[i] = random_scale(kind, i);
    }
    for (int i = 0; i < rows * cols; i++) {
        if (dtype == K_FP8) {
            uint8_t code = (uint8_t)random_bits();
            if ((code & 0x7f) == 0x7f) code ^= 1;
            plain[i] = code;
            m.value[i] = e4m3_double(code) *
                         (double)scale[i / cols / 128 * scale_cols + i % cols / 128];
        } else {
            bf16 v = float_bf16(random_float());
            memcpy(plain + 2 * i, &v, 2);
            m.value[i] = (double)bf16_float(v);
        }
    }
    m.dev.data = pack_rows(plain, rows, row_bytes);
    m.dev.scale = scale;
    return m;
}

/* ---- one matmul ---- */

struct product {
    enum cuda_epilogue out;
    int rows[MAX_SEGMENTS]; /* 0: no more segments */
    int k, n;
    enum scales scales;
    int bias, loose; /* loose: rows of x and y are padded, and y is misaligned */
};

static double activation(double v, enum cuda_epilogue out)
{
    if (out == EPI_GELU_TANH)
        return 0.5 * v * (1 + tanh(sqrt(2 / acos(-1.0)) * (v + 0.044715 * v * v * v)));
    return out == EPI_GELU_ERF ? 0.5 * v * (1 + erf(v / sqrt(2))) : v;
}

/* The dot product of a row of x and one of w; *error bounds the error of F32 sums. */
static double dot(const float *x, const double *w, int k, double *error)
{
    double sum = 0, xx = 0, ww = 0;
    for (int i = 0; i < k; i++) {
        double v = (double)x[i];
        sum += v * w[i];
        xx += v * v;
        ww += w[i] * w[i];
    }
    *error = 1e-5 * sqrt(xx) * sqrt(ww);
    return sum;
}

struct expected {
    double value, error;
};

static struct expected expected_at(const struct product *c, const struct matrix *m, int segment,
                                   const float *bias, const float *x, int row, double before)
{
    struct expected e;
    const struct matrix *w = &m[segment];
    e.value = dot(x, w->value + (size_t)row * (size_t)c->k, c->k, &e.error);
    if (c->out == EPI_SILU) {
        double up_error, up = dot(x, m[1].value + (size_t)row * (size_t)c->k, c->k, &up_error);
        double gate = e.value / (1 + exp(-e.value));
        e.error = (1.1 * e.error + 1e-6 * fabs(gate)) * fabs(up) + fabs(gate) * up_error;
        e.value = gate * up;
    } else {
        if (bias) e.value += (double)bias[row];
        e.value = activation(e.value, c->out) + before;
        e.error = 1.2 * e.error + 1e-6 * fabs(e.value);
    }
    if (c->out != EPI_ADD && c->out != EPI_F32) e.error += fabs(e.value) * 0x1p-8;
    return e;
}

static void check_segment(const struct product *c, const struct matrix *m, int segment,
                          const float *x, const struct matmul_args *a, const float *before,
                          const char *kernel)
{
    const struct matmul_segment *s = &a->segment[segment];
    int wide = c->out == EPI_ADD || c->out == EPI_F32;
    for (int token = 0; token < c->n; token++)
        for (int row = 0; row < s->ldy; row++) {
            size_t at = (size_t)token * (size_t)s->ldy + (size_t)row;
            double got = (double)(wide ? ((float *)s->y)[at] : bf16_float(((bf16 *)s->y)[at]));
            struct expected e = {(double)before[at], 0};
            if (row < c->rows[segment])
                e = expected_at(c, m, segment, s->bias, x + (size_t)token * (size_t)c->k, row,
                                c->out == EPI_ADD ? (double)before[at] : 0);
            if (!(fabs(got - e.value) <= e.error))
                fail_msg(
                    "%s out %d rows %d k %d n %d: segment %d token %d row %d is %g, not %g (+-%g)",
                    kernel, c->out, c->rows[segment], c->k, c->n, segment, token, row, got, e.value,
                    e.error);
        }
}

/* Launches the tile; `values` gets the x that it computes with. */
static struct launch launch_tile(const struct matmul_args *a, float *values,
                                 enum gemm_tile_kind tile)
{
    struct launch launch = gemm_launch_tile(a, tile);
    const bf16 *x = a->x;
    assert_true(launch.shared <= (tile < GEMM_PORTABLE_TILES ? 99 : 227) * 1024);
    assert_true(emulator_launch(gpu_kernel_name(launch.kernel), a, launch.grid,
                                (const unsigned[3]){launch.block, 1, 1}, launch.shared));
    for (int i = 0; i < a->n * a->k; i++)
        values[i] = bf16_float(x[i / a->k * a->ldx + i % a->k]);
    return launch;
}

/* The same with x quantized to e4m3. Values and scales have no padding. */
static struct launch launch_e4m3(const struct matmul_args *a, float *values)
{
    const int scale_rows = (a->n + 3) / 4 * 4, blocks = (a->k + SCALE_BLOCK - 1) / SCALE_BLOCK;
    bf16 *x = aligned((size_t)(a->n * a->k) * sizeof(*x));
    float *scale = aligned((size_t)(blocks * scale_rows) * sizeof(*scale));
    struct quantize_rows_args q = {x,         aligned((size_t)(a->n * a->k)), scale, a->n, a->k,
                                   scale_rows};
    struct w8a8_args e = {.matmul = *a, .x_scale = scale, .scale_rows = scale_rows};
    for (int i = 0; i < a->n * a->k; i++) {
        x[i] = ((const bf16 *)a->x)[i / a->k * a->ldx + i % a->k];
        values[i] = bf16_float(x[i]);
    }
    for (int i = 0; i < a->n; i++)
        round_activations(values + i * a->k, (size_t)a->k);
    e.matmul.x = q.y;
    e.matmul.ldx = a->k;
    struct launch quantize = quantize_rows_launch(&q), launch = gemm_w8a8_launch(&e);
    assert_true(2 * (launch.shared + 1024) <= 100 * 1024); /* two thread blocks fit an SM */
    assert_true(emulator_launch(gpu_kernel_name(quantize.kernel), &q, quantize.grid,
                                (const unsigned[3]){quantize.block, 1, 1}, quantize.shared));
    assert_true(emulator_launch(gpu_kernel_name(launch.kernel), &e, launch.grid,
                                (const unsigned[3]){launch.block, 1, 1}, launch.shared));
    return launch;
}

/* The same with rearranged x, by the small-M kernel as on an H200 (132 SMs). */
static struct launch launch_some_rows(const struct matmul_args *a, float *values)
{
    const int tokens = small_tokens(a->n),
              columns = (a->k + SCALE_BLOCK - 1) / SCALE_BLOCK * SCALE_BLOCK;
    struct arrange_args x = {.y = aligned((size_t)(tokens * columns) * sizeof(bf16)),
                             .x = a->x,
                             .n = a->n,
                             .k = a->k,
                             .ldx = a->ldx,
                             .tokens = tokens,
                             .dtype = a->segment[0].w.dtype};
    struct small_matmul_args s = {.matmul = *a};
    struct launch arrange = arrange_launch(&x), launch = small_launch(&s, 132, 227 << 10);
    assert_true(small_takes(a));
    assert_true(launch.shared <= 99 * 1024);
    assert_true(launch.grid[1] == 1 || launch.grid[0] * launch.grid[1] <= SMALL_MOST_PARTS);
    s.matmul.x = x.y;
    s.partial = aligned((size_t)(launch.grid[0] * launch.grid[1]) * (size_t)tokens * SMALL_TILE *
                        sizeof(float));
    s.arrived = aligned(launch.grid[0] * sizeof(uint32_t));
    memset(s.arrived, 0, launch.grid[0] * sizeof(uint32_t));
    for (int i = 0; i < a->n * a->k; i++)
        values[i] = bf16_float(((const bf16 *)a->x)[i / a->k * a->ldx + i % a->k]);
    assert_true(emulator_launch(gpu_kernel_name(arrange.kernel), &x, arrange.grid,
                                (const unsigned[3]){arrange.block, 1, 1}, arrange.shared));
    assert_true(emulator_launch(gpu_kernel_name(launch.kernel), &s, launch.grid,
                                (const unsigned[3]){launch.block, 1, 1}, launch.shared));
    for (unsigned i = 0; i < launch.grid[0]; i++)
        assert_int_equal(s.arrived[i], 0);
    return launch;
}

enum { AS_E4M3 = GEMM_TILES, AS_SOME_ROWS }; /* pseudo tiles */

static void run_product(const struct product *c, int dtype, enum gemm_tile_kind tile)
{
    struct matrix m[MAX_SEGMENTS];
    struct matmul_args a = {
        .n = c->n, .k = c->k, .ldx = c->k + (c->loose ? 8 : 0), .epilogue = (int32_t)c->out};
    int outputs, odd = c->loose ? 1 : 0, wide = c->out == EPI_ADD || c->out == EPI_F32;
    void *memory[MAX_SEGMENTS] = {NULL};
    float *before[MAX_SEGMENTS] = {NULL};
    size_t x_elements = (size_t)(c->n - 1) * (size_t)a.ldx + (size_t)c->k;
    bf16 *x = aligned(x_elements * sizeof(bf16));
    struct launch launch;

    random_state = (uint64_t)(c->k * 1000 + c->n) + c->out;
    for (size_t i = 0; i < x_elements; i++)
        x[i] = float_bf16(random_float());
    a.x = x;
    while (a.n_segments < MAX_SEGMENTS && c->rows[a.n_segments]) {
        int rows = c->rows[a.n_segments];
        struct matrix *w = &m[a.n_segments];
        *w = matrix_make(dtype, rows, c->k, c->scales);
        a.segment[a.n_segments].w = w->dev;
        a.segment[a.n_segments].bias = c->bias ? random_floats((size_t)rows, 1) : NULL;
        a.n_segments++;
    }
    outputs = c->out == EPI_SILU ? 1 : a.n_segments;
    for (int s = 0; s < outputs; s++) {
        int ldy = c->rows[s] + (c->loose ? 5 : 0);
        size_t n = (size_t)ldy * (size_t)c->n, size = wide ? sizeof(float) : sizeof(bf16);
        memory[s] = aligned((n + (size_t)odd) * size);
        before[s] = aligned(n * sizeof(float));
        a.segment[s].y = (char *)memory[s] + (size_t)odd * size;
        a.segment[s].ldy = ldy;
        for (size_t i = 0; i < n; i++) {
            before[s][i] = bf16_float(float_bf16(random_float()));
            if (wide)
                ((float *)a.segment[s].y)[i] = before[s][i];
            else
                ((bf16 *)a.segment[s].y)[i] = float_bf16(before[s][i]);
        }
    }
    float *values = aligned((size_t)(c->n * c->k) * sizeof(*values));
    launch = (int)tile == AS_E4M3        ? launch_e4m3(&a, values)
             : (int)tile == AS_SOME_ROWS ? launch_some_rows(&a, values)
                                         : launch_tile(&a, values, tile);
    for (int s = 0; s < outputs; s++)
        check_segment(c, m, s, values, &a, before[s], gpu_kernel_name(launch.kernel));
    free_all(NULL);
}

/* ---- tests ---- */

static const struct product any_dtype[] = {
    {.out = EPI_BF16, .rows = {16}, .k = 64, .n = 1},
    {.out = EPI_BF16, .rows = {40}, .k = 192, .n = 5, .bias = 1, .loose = 1},
    {.out = EPI_BF16, .rows = {130, 16, 40}, .k = 320, .n = 70, .bias = 1},
    {.out = EPI_F32, .rows = {130}, .k = 64, .n = 33, .loose = 1},
    {.out = EPI_ADD, .rows = {256}, .k = 128, .n = 64, .bias = 1},
    {.out = EPI_ADD, .rows = {40}, .k = 320, .n = 130, .loose = 1},
    {.out = EPI_SILU, .rows = {40, 40}, .k = 192, .n = 5},
    {.out = EPI_SILU, .rows = {144, 144}, .k = 320, .n = 65, .loose = 1},
    {.out = EPI_GELU_TANH, .rows = {130}, .k = 64, .n = 7, .bias = 1},
    {.out = EPI_GELU_ERF, .rows = {40}, .k = 64, .n = 7, .bias = 1},
    {.out = EPI_BF16, .rows = {300}, .k = 1088, .n = 3},
};

static const struct product fp8_only[] = {
    {.out = EPI_F32, .rows = {130, 260}, .k = 720, .n = 9, .scales = SCALES_ZEROS},
    {.out = EPI_F32, .rows = {130}, .k = 1296, .n = 9, .scales = SCALES_WIDE},
    {.out = EPI_F32, .rows = {16}, .k = 128, .n = 1, .scales = SCALES_ZEROS},
    {.out = EPI_SILU, .rows = {272, 272}, .k = 400, .n = 9, .scales = SCALES_ZEROS},
    {.out = EPI_SILU, .rows = {272, 272}, .k = 400, .n = 9, .scales = SCALES_WIDE},
};

static const struct product some_rows[] = {
    {.out = EPI_BF16, .rows = {130, 16, 40}, .k = 320, .n = 33, .bias = 1},
    {.out = EPI_F32, .rows = {130}, .k = 64, .n = 9, .loose = 1},
    {.out = EPI_ADD, .rows = {256}, .k = 1296, .n = 16, .bias = 1},
    {.out = EPI_ADD, .rows = {40}, .k = 320, .n = 64, .loose = 1},
    {.out = EPI_SILU, .rows = {144, 144}, .k = 1088, .n = 17, .loose = 1},
    {.out = EPI_SILU, .rows = {40, 40}, .k = 16, .n = 32},
};

static const struct product bf16_only[] = {
    {.out = EPI_BF16, .rows = {40}, .k = 16, .n = 5},
    {.out = EPI_ADD, .rows = {130}, .k = 72, .n = 12, .bias = 1},
    {.out = EPI_BF16, .rows = {16}, .k = 8, .n = 1},
};

#define RUN_ALL(cases, dtype, tile)                                 \
    for (size_t i = 0; i < sizeof(cases) / sizeof((cases)[0]); i++) \
    run_product(&(cases)[i], dtype, tile)

static void products_of_tile(enum gemm_tile_kind tile)
{
    RUN_ALL(any_dtype, K_FP8, tile);
    RUN_ALL(any_dtype, K_BF16, tile);
    RUN_ALL(fp8_only, K_FP8, tile);
    RUN_ALL(bf16_only, K_BF16, tile);
}

#define TILE_TEST(name, ...)              \
    static void tile_##name(void **state) \
    {                                     \
        (void)state;                      \
        products_of_tile(GEMM_##name);    \
    }
#define WIDE_TILE_TEST(name, ...) TILE_TEST(SM90_##name)
EY_GEMM_TILES(TILE_TEST)
EY_GEMM_SM90_TILES(WIDE_TILE_TEST)

static void products_of_e4m3(void **state)
{
    (void)state;
    RUN_ALL(any_dtype, K_FP8, (enum gemm_tile_kind)AS_E4M3);
    RUN_ALL(fp8_only, K_FP8, (enum gemm_tile_kind)AS_E4M3);
}

static void products_of_some_rows(void **state)
{
    (void)state;
    RUN_ALL(some_rows, K_FP8, (enum gemm_tile_kind)AS_SOME_ROWS);
    RUN_ALL(fp8_only, K_FP8, (enum gemm_tile_kind)AS_SOME_ROWS);
    RUN_ALL(some_rows, K_BF16, (enum gemm_tile_kind)AS_SOME_ROWS);
}

/* Columns are split until the GPU is full, but not further. */
static void columns_are_split_for_the_gpu(void **state)
{
    (void)state;
    assert_int_equal(small_room(K_FP8, 64, 132, 227 << 10), 264);
    assert_int_equal(small_room(K_FP8, 16, 30, 100 << 10), 30);
    assert_int_equal(small_splits(16, 48, 264), 8);
    assert_int_equal(small_splits(96, 16, 264), 2);
    assert_int_equal(small_splits(152, 20, 264), 1);
    assert_int_equal(small_splits(16, 1, 264), 1);
}

static struct matmul_args sized(int rows, int k, int n)
{
    struct matmul_args a = {.n_segments = 1, .k = k, .n = n, .epilogue = EPI_BF16};
    a.segment[0].w.rows = rows;
    a.segment[0].w.dtype = K_FP8;
    return a;
}

/* A GEMV is faster for few rows and narrow matrices. */
static void some_rows_are_chosen_by_size(void **state)
{
    struct matmul_args narrow = sized(2048, 2048, 8), wide = sized(12288, 2048, 8);
    (void)state;
    assert_false(small_is_faster(&narrow, 132));
    assert_true(small_is_faster(&narrow, 30));
    assert_true(small_is_faster(&wide, 132));
    narrow.n = 9;
    assert_true(small_is_faster(&narrow, 132));
    wide.n = 7;
    assert_false(small_is_faster(&wide, 132));
}

/* Rows of odd sizes and contents: quantized values times scales equal round_activations() bit for
 * bit. */
static void activations_become_e4m3(void **state)
{
    enum { N = 11, K = 208, BLOCKS = 2, SCALE_ROWS = 12 };
    static const float sizes[N] = {1, 0, 1e30f, 1e-30f, 1e-38f, 3e38f, 1, 1, 1, 448, 0x1p-9f};
    bf16 *x = aligned(N * K * sizeof(*x));
    float *scale = aligned(BLOCKS * SCALE_ROWS * sizeof(*scale)), row[K];
    struct quantize_rows_args q = {x, aligned(N * K), scale, N, K, SCALE_ROWS};
    struct launch l = quantize_rows_launch(&q);
    (void)state;
    random_state = 7;
    for (int i = 0; i < N * K; i++)
        x[i] = float_bf16(sizes[i / K] * random_float());
    x[6 * K + 5] = 0x7fc0;
    x[7 * K + K - 1] = 0xffc1; /* NaN */
    for (int i = 1; i < K; i++)
        x[8 * K + i] = 0; /* one nonzero value */
    assert_true(emulator_launch(gpu_kernel_name(l.kernel), &q, l.grid,
                                (const unsigned[3]){l.block, 1, 1}, l.shared));
    for (int i = 0; i < N; i++) {
        for (int c = 0; c < K; c++)
            row[c] = bf16_float(x[i * K + c]);
        round_activations(row, K);
        for (int c = 0; c < K; c++) {
            const float got = (float)e4m3_double(q.y[i * K + c]) *
                              scale[c / SCALE_BLOCK * SCALE_ROWS + i];
            if ((i == 6 && c < SCALE_BLOCK) || (i == 7 && c >= SCALE_BLOCK))
                assert_true(isnan(got));
            else if (got != row[c])
                fail_msg("row %d column %d is %g, not %g", i, c, (double)got, (double)row[c]);
        }
    }
    free_all(NULL);
}

/* More tiles of tokens than a band has. */
static void bands_cover_all_tiles(void **state)
{
    const struct product c = {
        .out = EPI_F32, .rows = {130}, .k = 16, .n = 64 * (GEMM_BAND + 2) + 5};
    (void)state;
    run_product(&c, K_BF16, GEMM_128x64);
}

static void tiles_are_chosen_for_the_gpu(void **state)
{
    struct matmul_args large = sized(12288, 2048, 1024), square = sized(1024, 4096, 1024);
    struct matmul_args few = sized(2048, 2048, 17), wide = sized(151936, 2048, 40);
    (void)state;
    assert_int_equal(gemm_choose(&large, 132, false), GEMM_256x128);
    assert_int_equal(gemm_choose(&square, 132, false), GEMM_128x64);
    assert_int_equal(gemm_choose(&few, 132, false), GEMM_32x64);
    assert_int_equal(gemm_choose(&few, 30, false), GEMM_32x64);
    assert_int_equal(gemm_choose(&wide, 132, false), GEMM_128x64);
    assert_int_equal(gemm_launch(&large, 132, false).kernel, GPU_gemm_fp8_256x128);
    assert_int_equal(gemm_launch(&large, 132, false).grid[0], 48 * 8);
    assert_int_equal(gemm_choose(&large, 132, true), GEMM_SM90_128x256);
    assert_int_equal(gemm_choose(&few, 132, true), GEMM_32x64);
    assert_int_equal(gemm_choose(&square, 132, true), GEMM_SM90_128x64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TILE_ENTRY(name, ...) cmocka_unit_test(tile_##name),
#define WIDE_TILE_ENTRY(name, ...) TILE_ENTRY(SM90_##name)
        EY_GEMM_TILES(TILE_ENTRY) EY_GEMM_SM90_TILES(WIDE_TILE_ENTRY)
#undef TILE_ENTRY
            cmocka_unit_test(products_of_e4m3),
        cmocka_unit_test(products_of_some_rows),
        cmocka_unit_test(columns_are_split_for_the_gpu),
        cmocka_unit_test(some_rows_are_chosen_by_size),
        cmocka_unit_test(activations_become_e4m3),
        cmocka_unit_test(bands_cover_all_tiles),
        cmocka_unit_test(tiles_are_chosen_for_the_gpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
