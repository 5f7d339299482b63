/* SPDX-License-Identifier: Apache-2.0 */
/* Row kernels: norms, embedding, RoPE tables, patches and their positions. All are memory-bound. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "kernels/cuda/rows/norm_rope_embed_launch.h"
#include "cuda/emulated.h"
#include "cuda/kernel_test_matrices.h"

static void launch(struct launch l, const void *args)
{
    const unsigned block[3] = {l.block, 1, 1};
    assert_true(emulator_launch(gpu_kernel_name(l.kernel), args, l.grid, block, l.shared));
}

static void near(double got, double want, double tolerance, const char *what, int i)
{
    if (!(fabs(got - want) <= tolerance))
        fail_msg("%s %d is %.9g, not %.9g +- %g", what, i, got, want, tolerance);
}

/* y[width] = the norm of x[width]. b may be NULL; centered: LayerNorm. */
static void norm_row(double *y, const float *x, const float *w, const float *b, int width,
                     int centered, double eps)
{
    double mean = 0, squares = 0;
    for (int i = 0; centered && i < width; i++)
        mean += (double)x[i] / width;
    for (int i = 0; i < width; i++)
        squares += ((double)x[i] - mean) * ((double)x[i] - mean);
    double scale = 1 / sqrt(squares / width + eps);
    for (int i = 0; i < width; i++)
        y[i] = ((double)x[i] - mean) * scale * (double)w[i] + (b ? (double)b[i] : 0);
}

static void near_row(const bf16 *got, const double *want, int width, const char *what)
{
    for (int i = 0; i < width; i++)
        near((double)bf16_float(got[i]), want[i], fabs(want[i]) * 0x1p-8 + 5e-5, what,
             i); /* the mean of 100 is an F32 */
}

/* Far from zero, so that computing the variance as a difference of squares would be wrong. */
static float *rows_far_out(size_t n)
{
    float *x = random_floats(n, 1);
    for (size_t i = 0; i < n; i++)
        x[i] += 100;
    return x;
}

static void norms(void **state)
{
    (void)state;
    static const int widths[] = {1, 33, 1024, 2560};
    for (int layer = 0; layer < 2; layer++) {
        for (size_t s = 0; s < sizeof(widths) / sizeof(widths[0]); s++) {
            int width = widths[s], n = 3;
            float *x = layer ? rows_far_out((size_t)(n * width))
                             : random_floats((size_t)(n * width), 50);
            float *w = random_floats((size_t)width, 2),
                  *b = layer ? random_floats((size_t)width, 1) : NULL;
            double *want = aligned(sizeof(double) * (size_t)width);
            struct norm_args a = {
                aligned((size_t)(n * width) * 2), x, w, b, NULL, n, width, layer, 1e-6f};
            launch(norm_launch(&a), &a);
            for (int i = 0; i < n; i++) {
                norm_row(want, x + i * width, w, b, width, layer, (double)a.eps);
                if (width > 1 || !layer)
                    near_row(a.y + i * width, want, width,
                             /* one value centered is 0; the error of the mean is scaled up */
                             "norm");
            }
        }
    }
}

static void mergers_norm(void **state)
{
    (void)state;
    for (int grouped = 0; grouped < 2; grouped++) {
        enum { N = 3, WIDTH = 136, GROUP = 4 };
        int norm_width = grouped ? WIDTH * GROUP : WIDTH;
        float *x = rows_far_out(N * GROUP * WIDTH), *w = random_floats((size_t)norm_width, 2),
              *b = random_floats((size_t)norm_width, 1);
        double want[WIDTH * GROUP];
        struct merge_norm_args a = {
            aligned(N * GROUP * WIDTH * 2), x, w, b, N, WIDTH, GROUP, grouped, 1e-6f};
        launch(merge_norm_launch(&a), &a);
        for (int i = 0; i < N * GROUP * WIDTH / norm_width; i++) {
            norm_row(want, x + i * norm_width, w, b, norm_width, 1, (double)a.eps);
            near_row(a.y + i * norm_width, want, norm_width,
                     grouped ? "grouped norm" : "merger norm");
        }
    }
}

static bf16 *random_bf16(size_t n)
{
    bf16 *out = aligned(n * sizeof(bf16));
    for (size_t i = 0; i < n; i++)
        out[i] = float_bf16(random_float());
    return out;
}

static void embeddings(void **state)
{
    (void)state;
    enum { HIDDEN = 328, N = 4 };
    static const struct {
        int dtype, packed;
    } tables[] = {{K_F32, 0}, {K_F16, 0}, {K_BF16, 0}, {K_BF16, 1}, {K_FP8, 1}, {K_INT8, 1}};
    static const int32_t token[N] = {0, 39, -1, 17}, feature[N] = {-1, -1, 2, -1};
    bf16 *features = random_bf16(3 * HIDDEN), *rows = random_bf16(N * HIDDEN);
    for (size_t t = 0; t <= sizeof(tables) / sizeof(tables[0]);
         t++) { /* last: rows from the host */
        struct embed_args a = {.x = aligned(N * HIDDEN * 4),
                               .features = features,
                               .token = token,
                               .feature = feature,
                               .n = N,
                               .hidden = HIDDEN};
        struct matrix m = random_matrix(K_F32, 1, 1, 0);
        if (t < sizeof(tables) / sizeof(tables[0])) {
            m = random_matrix(tables[t].dtype, 40, HIDDEN, tables[t].packed);
            a.table = m.dev;
        } else
            a.host_rows = rows;
        launch(embed_launch(&a), &a);
        for (int i = 0; i < N * HIDDEN; i++) {
            int row = i / HIDDEN, col = i % HIDDEN;
            double want = a.host_rows ? (double)bf16_float(rows[i])
                                      : m.value[(row == 2 ? 0 : token[row]) * HIDDEN + col];
            if (feature[row] >= 0) want = (double)bf16_float(features[feature[row] * HIDDEN + col]);
            near((double)a.x[i], want, fabs(want) * 1e-6, "embedding", i);
        }
        struct add_features_args add = {a.x, features, feature, N, HIDDEN};
        float before = a.x[2 * HIDDEN + 5], other = a.x[5];
        launch(add_features_launch(&add), &add);
        near((double)a.x[2 * HIDDEN + 5],
             (double)before + (double)bf16_float(features[2 * HIDDEN + 5]), 1e-6, "sum", 5);
        near((double)a.x[5], (double)other, 0, "row without a feature", 5);
    }
}

static void rope_angles(void **state)
{
    (void)state;
    enum { N = 5, PAIRS = 64 };
    static const int32_t position[3 * N] = {0,   0,      0,      1,      2,      3,      4095,  17,
                                            100, 105000, 106000, 107000, 262143, 262142, 262141};
    struct rope_args a = {
        .table = aligned(N * PAIRS * 8), .position = position, .n = N, .n_pairs = PAIRS};
    for (int j = 0; j < PAIRS; j++) {
        a.frequency[j] = (float)pow(5e6, -j / (double)PAIRS);
        a.axis[j] = (uint8_t)(j % 3);
    }
    launch(rope_launch(&a), &a);
    for (int i = 0; i < N * PAIRS; i++) {
        float angle = (float)position[i / PAIRS * 3 + a.axis[i % PAIRS]] * a.frequency[i % PAIRS];
        near((double)a.table[2 * i], cos((double)angle), 3e-7, "cosine", i);
        near((double)a.table[2 * i + 1], sin((double)angle), 3e-7, "sine", i);
    }
}

/* The position of point i of n along `side` table rows, with aligned corners: the table row before
 * it (*low) and the fraction. */
static double on_side(int i, int n, int side, int *low)
{
    double at = n > 1 ? (double)i * (side - 1) / (n - 1) : 0;
    *low = (int)at < side - 1 ? (int)at : side > 1 ? side - 2 : 0;
    return at - *low;
}

static void positions(void **state)
{
    (void)state;
    static const struct {
        int side, rows, cols, merge, first, n;
    } grids[] = {
        {7, 4, 6, 2, 0, 24}, {48, 2, 66, 2, 8, 100}, {3, 2, 2, 2, 0, 4}, {5, 3, 3, 1, 1, 8}};
    enum { HIDDEN = 40 };
    for (size_t g = 0; g < sizeof(grids) / sizeof(grids[0]); g++) {
        int side = grids[g].side, merge = grids[g].merge, cols = grids[g].cols, n = grids[g].n;
        struct matrix table = random_matrix(g % 2 ? K_F32 : K_BF16, side * side, HIDDEN, 0);
        struct position_args a = {aligned((size_t)n * HIDDEN * 4),
                                  random_floats(HIDDEN, 1),
                                  table.dev,
                                  side,
                                  grids[g].rows,
                                  cols,
                                  merge,
                                  grids[g].first,
                                  n,
                                  HIDDEN};
        launch(position_embed_launch(&a), &a);
        for (int i = 0; i < n * HIDDEN; i++) {
            int patch = a.first + i / HIDDEN, h = i % HIDDEN, block = patch / (merge * merge),
                in = patch % (merge * merge), y, x;
            double dy = on_side(block / (cols / merge) * merge + in / merge, a.rows, side, &y);
            double dx = on_side(block % (cols / merge) * merge + in % merge, cols, side, &x);
            double want = (double)a.bias[h];
            for (int corner = 0; corner < 4; corner++) {
                int row = y + corner / 2 < side ? y + corner / 2 : side - 1,
                    col = x + corner % 2 < side ? x + corner % 2 : side - 1;
                want += (corner / 2 ? dy : 1 - dy) * (corner % 2 ? dx : 1 - dx) *
                        table.value[(row * side + col) * HIDDEN + h];
            }
            near((double)a.x[i], want, 2e-5, "position", i);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(norms, free_all),
        cmocka_unit_test_teardown(mergers_norm, free_all),
        cmocka_unit_test_teardown(embeddings, free_all),
        cmocka_unit_test_teardown(rope_angles, free_all),
        cmocka_unit_test_teardown(positions, free_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
