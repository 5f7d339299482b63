/* SPDX-License-Identifier: Apache-2.0 */
/* Weights are placed in the planned memory of the fake GPU. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "backend/cuda/cuda_backend.h"
#include "cuda/fake_driver.h"

static struct pool *pool;

static struct backend *opened(uint64_t arena)
{
    struct cuda_driver driver;
    struct backend *be;
    ey_err e;
    fake_driver_fill(&driver, &fake_small_gpu);
    if (!backend_cuda_create_on(&be, &driver, pool, true, &e) ||
        (arena && !be->ops->memory->open_arena(be, arena, &e)))
        fail_msg("%s", e.text);
    return be;
}

static struct dev_matrix placed(struct backend *be, const struct tensor *w,
                                enum placement placement)
{
    struct placed *p;
    ey_err e;
    if (!be->ops->memory->place(be, &p, w, ROLE_TEXT, placement, &e)) fail_msg("%s", e.text);
    return cuda_weight_of(p)->matrix;
}

/* The arena has room for the matrix and little more than the staging buffers, so those need other
 * memory. Otherwise the third piece would overwrite placed rows. */
static void pieces_do_not_land_on_the_matrix(void **state)
{
    enum { COLS = 32768, ROWS = LOAD_STAGING / (int)sizeof(bf16) / COLS + 8 };
    static const enum placement kinds[] = {PLACE_RESIDENT, PLACE_EIGHT_BIT};
    struct tensor w = {.dtype = DTYPE_BF16, .rows = ROWS, .cols = COLS};
    uint16_t *values = malloc((size_t)ROWS * COLS * sizeof(*values));
    (void)state;
    assert_non_null(values);
    for (size_t i = 0; i < (size_t)ROWS * COLS; i++)
        values[i] = (uint16_t)(0x3c00 + (i * 37 + i / COLS) % 0x280);
    w.data = values;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct backend *with_room = opened(0), *be = opened(LOAD_STAGING + (1 << 20));
        const size_t bytes = (size_t)ROWS * COLS * (kinds[i] == PLACE_RESIDENT ? 2 : 1);
        struct dev_matrix want = placed(with_room, &w, kinds[i]), got = placed(be, &w, kinds[i]);
        ey_err e;
        assert_true(with_room->ops->compute->finish(with_room, &e));
        assert_true(be->ops->compute->finish(be, &e));
        assert_memory_equal(got.data, want.data, bytes);
        be->ops->destroy(be);
        with_room->ops->destroy(with_room);
    }
    free(values);
}

/* Scales of streamed matrices stay on the GPU, and the plan counts them. */
static void scales_of_streamed_matrices_are_counted(void **state)
{
    enum { ROWS = 200, COLS = 300, BLOCKS = 6 };
    static const uint8_t codes[ROWS * COLS];
    static const float scale[BLOCKS], row_scale[ROWS];
    struct tensor w = {
        .data = codes, .dtype = DTYPE_F8_E4M3, .rows = ROWS, .cols = COLS, .scale = scale};
    (void)state;
    for (int rows = 0; rows < 2; rows++) {
        struct backend *be = opened(2 * LOAD_STAGING);
        struct cuda *c = cuda_of(be);
        ey_err e;
        if (rows) w.row_scale = row_scale;
        assert_true(be->ops->memory->open_group(be, 1 << 20, &e));
        const size_t before = c->arena_used;
        placed(be, &w, PLACE_STREAMED);
        assert_int_equal(c->arena_used - before,
                         be->ops->memory->weight_bytes(be, &w, PLACE_STREAMED));
        be->ops->destroy(be);
    }
}

/* Kernels for packed matrices would read a NaN as 480. */
static void a_streamed_nan_is_not_packed(void **state)
{
    enum { ROWS = 16, COLS = 64 };
    uint8_t codes[ROWS * COLS] = {0};
    const struct tensor w = {.data = codes, .dtype = DTYPE_F8_E4M3, .rows = ROWS, .cols = COLS};
    (void)state;
    for (int nan = 0; nan < 3; nan++) {
        static const uint8_t last[] = {0x7e, 0x7f, 0xff};
        struct backend *be = opened(2 * LOAD_STAGING);
        ey_err e;
        codes[ROWS * COLS - 1] = last[nan];
        assert_true(be->ops->memory->open_group(be, 1 << 16, &e));
        assert_int_equal(placed(be, &w, PLACE_STREAMED).packed, nan == 0);
        be->ops->destroy(be);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_do_not_land_on_the_matrix),
        cmocka_unit_test(scales_of_streamed_matrices_are_counted),
        cmocka_unit_test(a_streamed_nan_is_not_packed),
    };
    ey_err e;
    if (!pool_create(&pool, 2, &e)) return 1;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    pool_destroy(&pool);
    return failed;
}
