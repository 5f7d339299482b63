/* SPDX-License-Identifier: Apache-2.0 */
/* src/tensor/types.def against the names and sizes of spec 2.1. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tensor/tensor.h"

static const struct {
    const char *name;
    enum dtype dtype;
    size_t bytes;
} stored[] = {
    {"F64", DTYPE_F64, 8},   {"F32", DTYPE_F32, 4},         {"F16", DTYPE_F16, 2},
    {"BF16", DTYPE_BF16, 2}, {"I64", DTYPE_I64, 8},         {"I32", DTYPE_I32, 4},
    {"I16", DTYPE_I16, 2},   {"I8", DTYPE_I8, 1},           {"U8", DTYPE_U8, 1},
    {"BOOL", DTYPE_BOOL, 1}, {"F8_E4M3", DTYPE_F8_E4M3, 1}, {"F8_E5M2", DTYPE_F8_E5M2, 1},
};

static void names_and_sizes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(stored) / sizeof(stored[0]); i++) {
        const struct tensor w = {.dtype = stored[i].dtype, .rows = 3, .cols = 5};
        assert_int_equal(dtype_from_name(stored[i].name), stored[i].dtype);
        assert_string_equal(dtype_info(stored[i].dtype)->name, stored[i].name);
        assert_int_equal(dtype_size(stored[i].dtype), stored[i].bytes);
        assert_int_equal(weight_row_bytes(&w), 5 * stored[i].bytes);
        assert_int_equal(weight_data_bytes(&w), 15 * stored[i].bytes);
    }
}

static void unknown_names(void **state)
{
    (void)state;
    static const char *const names[] = {"", "bf16", "BF1", "BF16 ", "INT4", "NONE", "F8_E8M1"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        assert_int_equal(dtype_from_name(names[i]), DTYPE_NONE);
    assert_null(dtype_info(DTYPE_NONE)->name);
    assert_int_equal(dtype_size(DTYPE_NONE), 0);
    assert_int_equal(dtype_size((enum dtype)200), 0);
    assert_ptr_equal(dtype_info((enum dtype)200), dtype_info(DTYPE_NONE));
}

static void lists_of_names(void **state)
{
    (void)state;
    char all[200] = "", plain[200] = "", more[200] = "BF16", cut[8] = "";
    dtype_append_names(all, sizeof(all), ~0U);
    assert_string_equal(
        all, "F64, F32, F16, BF16, F8_E4M3, F8_E5M2, I64, I32, I16, I8, U8, BOOL, F8_E8M0 or U32");
    dtype_append_names(plain, sizeof(plain), 1U << PLAIN_WEIGHT);
    assert_string_equal(plain, "F32, F16 or BF16");
    dtype_append_names(more, sizeof(more), 1U << QUANTIZED_WEIGHT);
    assert_string_equal(more, "BF16 or F8_E4M3");
    dtype_append_names(cut, sizeof(cut), ~0U);
    assert_string_equal(cut, "F64, F3");
}

/* Two int4 values share a byte. Scales and zero points are separate tensors, as are FP8's. */
static void quantized_sizes(void **state)
{
    (void)state;
    const struct tensor int4 = {.dtype = DTYPE_INT4, .rows = 9, .cols = 128, .group_size = 32},
                        fp8 = {.dtype = DTYPE_F8_E4M3, .rows = 129, .cols = 300},
                        plain = {.dtype = DTYPE_F16, .rows = 129, .cols = 300};
    assert_int_equal(dtype_size(DTYPE_INT4), 0);
    assert_int_equal(weight_data_bytes(&int4), 9 * 64);
    assert_int_equal(weight_group_scale_bytes(&int4), 9 * 4 * 2);
    assert_int_equal(weight_group_zero_bytes(&int4), 2 * 4 * 4);
    assert_int_equal(weight_block_scale_bytes(&fp8), 2 * 3 * 4);
    assert_int_equal(weight_row_unit(&int4), 8);
    assert_int_equal(weight_row_unit(&fp8), 128);
    assert_int_equal(weight_row_unit(&plain), 1);
}

static void block_scales_of_recipes(void **state)
{
    (void)state;
    static const float scale[1];
    const struct weight_recipe recipe = {.source = {.dtype = DTYPE_BF16}};
    struct tensor w = {.dtype = DTYPE_F8_E4M3, .rows = 1, .cols = 1};
    assert_false(weight_has_block_scales(&w));
    w.scale = scale;
    assert_true(weight_has_block_scales(&w));
    w.scale = NULL;
    w.recipe = &recipe;
    assert_true(weight_has_block_scales(&w));
    w.dtype = DTYPE_INT4;
    assert_false(weight_has_block_scales(&w));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_sizes),         cmocka_unit_test(unknown_names),
        cmocka_unit_test(lists_of_names),          cmocka_unit_test(quantized_sizes),
        cmocka_unit_test(block_scales_of_recipes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
