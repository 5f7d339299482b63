/* SPDX-License-Identifier: Apache-2.0 */
/* Positions: M-RoPE and its frequencies (spec 3.3, 3.4), the vision encoder's rotary table (4.4)
 * and learned positions (4.1, 4.3). */
#include <math.h>

#include "engine/engine_fixture.h"
#include "models/layers/mrope_positions.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/ref/ref_backend.h"

/* ---- text ---- */

static void text_frequencies(void **state)
{
    (void)state;
    static const char axes[] = "THWTHWTHWTHWTHWTHWTHWTHWTHWTHWTHWTHWTHWTHWTHWTHWTHWTHWTHWTHWTTTT";
    static const struct {
        int i;
        double value;
    } known[] = {{0, 1.0},      {1, 0.785830},    {2, 0.617529},
                 {3, 0.485273}, {31, 5.69097e-4}, {63, 2.54508e-7}};
    ey_engine *engine = engine_open("tiny-gqa4-bf16", "ref", 1, 64);
    const struct rope *r = &engine->devices.model.text_rope;
    assert_int_equal(r->n_pairs, 64);
    for (int i = 0; i < 64; i++)
        assert_int_equal("THW"[r->axis[i]], axes[i]);
    for (size_t k = 0; k < sizeof(known) / sizeof(known[0]); k++)
        assert_true(fabs((double)r->frequency[known[k].i] / known[k].value - 1) < 2e-6);
    for (int i = 0; i < 64; i++)
        assert_true(fabs((double)r->frequency[i] * pow(5e6, i / 64.0) - 1) < 1e-6);
    ey_engine_close(&engine);
}

/* {text_n, rows, cols, text_n, rows, cols …} → (t, h, w) triples and the next position */
static const struct {
    const char *what;
    size_t n, n_runs;
    struct image_span runs[3];
    int32_t expected[40][3];
    int32_t next;
} walks[] = {
    {"text", 3, 0, {{0, 0, 0}}, {{0, 0, 0}, {1, 1, 1}, {2, 2, 2}}, 3},
    {"nothing", 0, 0, {{0, 0, 0}}, {{0, 0, 0}}, 0},
    {"the worked example of spec 3.4",
     12,
     1,
     {{4, 2, 3}},
     {{0, 0, 0},
      {1, 1, 1},
      {2, 2, 2},
      {3, 3, 3},
      {4, 4, 4},
      {4, 4, 5},
      {4, 4, 6},
      {4, 5, 4},
      {4, 5, 5},
      {4, 5, 6},
      {7, 7, 7},
      {8, 8, 8}},
     9},
    {"a tall one", 5, 1, {{1, 3, 1}}, {{0, 0, 0}, {1, 1, 1}, {1, 2, 1}, {1, 3, 1}, {4, 4, 4}}, 5},
    {"at both ends",
     5,
     2,
     {{0, 1, 2}, {3, 2, 1}},
     {{0, 0, 0}, {0, 0, 1}, {2, 2, 2}, {3, 3, 3}, {3, 4, 3}},
     5},
    {"one token each, side by side",
     4,
     3,
     {{0, 1, 1}, {1, 1, 1}, {2, 1, 1}},
     {{0, 0, 0}, {1, 1, 1}, {2, 2, 2}, {3, 3, 3}},
     4},
    {"three of other sizes",
     15,
     3,
     {{1, 2, 2}, {6, 1, 3}, {10, 4, 1}},
     {{0, 0, 0},
      {1, 1, 1},
      {1, 1, 2},
      {1, 2, 1},
      {1, 2, 2},
      {3, 3, 3},
      {4, 4, 4},
      {4, 4, 5},
      {4, 4, 6},
      {7, 7, 7},
      {8, 8, 8},
      {8, 9, 8},
      {8, 10, 8},
      {8, 11, 8},
      {12, 12, 12}},
     13},
};

static void mrope_walks(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(walks) / sizeof(walks[0]); i++) {
        int32_t position[40][3];
        memset(position, 0x5a, sizeof(position));
        assert_int_equal(
            mrope_positions(&position[0][0], walks[i].n, walks[i].runs, walks[i].n_runs),
            walks[i].next);
        for (size_t k = 0; k < walks[i].n; k++)
            if (memcmp(position[k], walks[i].expected[k], sizeof(position[k])) != 0)
                fail_msg("%s: token %zu is at (%d, %d, %d)", walks[i].what, k, position[k][0],
                         position[k][1], position[k][2]);
        assert_int_equal(position[walks[i].n][0], 0x5a5a5a5a);
    }
}

/* Angles of far positions: an F32 product, then exact range reduction. */
static void rope_table_values(void **state)
{
    (void)state;
    static const char *const devices[] = {"ref", "cpu"};
    static const int32_t position[3][3] = {{0, 0, 0}, {3, 5, 7}, {262143, 1000, 99999}};
    for (int d = 0; d < 2; d++) {
        ey_engine *engine = engine_open("tiny-gqa4-bf16", devices[d], 1, 64);
        const struct rope *r = &engine->devices.model.text_rope;
        float table[3][64][2];
        backend_take(engine);
        engine->devices.be->ops->compute->rope_table(
            engine->devices.be, last_range(&engine->buffers.ws)->chunk.rope, r, &position[0][0], 3);
        engine->devices.be->ops->memory->read(engine->devices.be, &table[0][0][0],
                                              last_range(&engine->buffers.ws)->chunk.rope,
                                              ELEMENT_ROPE, sizeof(table) / sizeof(float));
        backend_give_back(engine);
        for (int row = 0; row < 3; row++)
            for (int i = 0; i < 64; i++) {
                float angle = (float)position[row][r->axis[i]] * r->frequency[i];
                assert_true(fabs((double)table[row][i][0] - cos((double)angle)) < 1e-6);
                assert_true(fabs((double)table[row][i][1] - sin((double)angle)) < 1e-6);
            }
        ey_engine_close(&engine);
    }
}

/* ---- vision ---- */

static void vision_frequencies(void **state)
{
    (void)state;
    static const struct {
        const char *kind;
        int head_dim;
    } rows[] = {{"tiny-gqa4-bf16", 64}, {"tiny-head72-bf16", 72}};
    for (int k = 0; k < 2; k++) {
        ey_engine *engine = engine_open(rows[k].kind, "ref", 1, 64);
        const struct rope *r = &engine->devices.model.vision_rope;
        int n = rows[k].head_dim / 4;
        assert_int_equal(r->n_pairs, 2 * n);
        for (int i = 0; i < 2 * n; i++) {
            assert_int_equal(r->axis[i], i >= n); /* the row first, then the column */
            assert_true(fabs((double)r->frequency[i] * pow(10000, (double)(i % n) / n) - 1) < 1e-6);
        }
        ey_engine_close(&engine);
    }
}

enum { SIDE = 48, HIDDEN = 16, PATCH_WIDTH = 3 * 2 * 2 * 2, MAX_GRID = 64 * 48 };

/* A table whose columns are row, column, 1 and row x column: interpolating it shows the patch's
 * position. */
static const float *coordinate_table(void)
{
    static float table[SIDE * SIDE][HIDDEN];
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++) {
            float *row = table[y * SIDE + x];
            row[0] = (float)y;
            row[1] = (float)x;
            row[2] = 1;
            row[3] = (float)(y * x);
        }
    return &table[0][0];
}

static double near_aligned_corner(int i, int n)
{
    return 47.0 * i / (n - 1);
}

static void check_grid(struct backend *be, const struct affine *patch, const struct placed *table,
                       int rows, int cols, double tolerance)
{
    static float pixels[MAX_GRID * PATCH_WIDTH], out[MAX_GRID][HIDDEN];
    const struct vision_shape shape = {.hidden = HIDDEN,
                                       .patch = 2,
                                       .temporal = 2,
                                       .merge = 2,
                                       .channels = 3,
                                       .position_side = SIDE};
    ey_err e;
    int n = rows * cols, tile = 64;
    dev x = be->ops->memory->alloc(be, sizeof(out), &e);
    assert_non_null(x);
    for (int first = 0; first < n; first += tile)
        be->ops->compute->patch_embed(
            be, be->ops->memory->at(be, x, ELEMENT_RESIDUAL, (size_t)first * HIDDEN), pixels, patch,
            table, &shape, rows, cols, first, n - first < tile ? n - first : tile);
    be->ops->memory->read(be, &out[0][0], x, ELEMENT_RESIDUAL, (size_t)n * HIDDEN);
    be->ops->memory->release(be, x);
    for (int i = 0; i < n; i++) {
        int block = i / 4, r = 2 * (block / (cols / 2)) + i % 4 / 2,
            c = 2 * (block % (cols / 2)) + i % 2; /* spec 4.1 */
        double y = near_aligned_corner(r, rows),
               wanted[4] = {y, near_aligned_corner(c, cols), 1, y * near_aligned_corner(c, cols)};
        for (int d = 0; d < 4; d++)
            if (!(fabs((double)out[i][d] - wanted[d]) <= tolerance * (1 + wanted[d])))
                fail_msg("%d x %d, patch %d (%d, %d), column %d: %.9g instead of %.9g", rows, cols,
                         i, r, c, d, (double)out[i][d], wanted[d]);
        for (int d = 4; d < HIDDEN; d++)
            assert_true(out[i][d] == 0);
    }
}

static void learned_positions(void **state)
{
    (void)state;
    static const float zeros[HIDDEN * PATCH_WIDTH];
    static const int grids[][2] = {{2, 2}, {4, 6}, {6, 4}, {2, 64}, {10, 14}, {46, 50}, {64, 2}};
    struct pool *pool;
    ey_err e;
    assert_true(pool_create(&pool, 2, &e));
    for (int d = 0; d < 2; d++) {
        struct backend *be;
        struct affine_tensors patch = {
            {.data = zeros, .dtype = DTYPE_F32, .rows = HIDDEN, .cols = PATCH_WIDTH},
            {.data = zeros, .dtype = DTYPE_F32, .rows = 1, .cols = HIDDEN}};
        struct affine placed;
        struct placed *placed_table;
        struct tensor table = {
            .data = coordinate_table(), .dtype = DTYPE_F32, .rows = SIDE * SIDE, .cols = HIDDEN};
        struct backend_limits limits = {
            .max_rows = 64, .max_keys = MAX_GRID, .max_width = 64, .max_patches = MAX_GRID};
        assert_true(d ? backend_cpu_create(&be, pool, NULL, &e)
                      : backend_ref_create(&be, pool, &e));
        assert_true(
            be->ops->memory->reserve(be, &limits, &e) &&
            be->ops->memory->place(be, &placed.w, &patch.w, ROLE_TEXT, PLACE_RESIDENT, &e) &&
            be->ops->memory->place(be, &placed.b, &patch.b, ROLE_TEXT, PLACE_RESIDENT, &e) &&
            be->ops->memory->place(be, &placed_table, &table, ROLE_TEXT, PLACE_RESIDENT, &e));
        for (size_t g = 0; g < sizeof(grids) / sizeof(grids[0]); g++)
            check_grid(be, &placed, placed_table, grids[g][0], grids[g][1], 2e-6);
        check_grid(be, &placed, placed_table, 48, 48, 0); /* the table itself, bit for bit */
        be->ops->destroy(be);
    }
    pool_destroy(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_frequencies),  cmocka_unit_test(mrope_walks),
        cmocka_unit_test(rope_table_values), cmocka_unit_test(vision_frequencies),
        cmocka_unit_test(learned_positions),
    };
    return cmocka_run_group_tests(tests, engine_fixture_open, engine_fixture_close);
}
