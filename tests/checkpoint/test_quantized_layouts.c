/* SPDX-License-Identifier: Apache-2.0 */
/* Weights in each supported layout: their values follow the formulas of
 * docs/guides/quantization.md, and each kind of malformed layout has a row. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "checkpoint/quantized_layouts.h"
#include "checkpoint/temp_dir.h"
#include "models/ckpt_edit.h"
#include "tensor/dequantize.h"

/* ---- a checkpoint of a few tensors ---- */

static const char *dir;
static struct checkpoint *ckpt;
static struct arena arena;
static struct tensor_source source;

static void *add(struct tensor_list *list, const char *name, enum dtype dtype, int64_t rows,
                 int64_t cols)
{
    struct edited_tensor *t = tensors_add(list, name, NULL);
    t->dtype = dtype;
    t->n_dims = rows ? 2 : 1;
    t->shape[0] = rows ? rows : cols;
    t->shape[1] = cols;
    tensor_fit(t);
    memset(t->data, 0, t->size);
    return t->data;
}

static void open_source(struct tensor_list *list)
{
    static const struct name_alias aliases[] = {{"model.", "old.model."}, {NULL, NULL}};
    ey_err e = {0};
    tensors_write(list, dir);
    assert_true(checkpoint_open(&ckpt, dir, &e));
    source = (struct tensor_source){.ckpt = ckpt, .arena = &arena, .aliases = aliases};
}

static void close_source(void)
{
    checkpoint_close(ckpt);
    ckpt = NULL;
    arena_free(&arena);
}

static float value_at(const struct tensor *w, int64_t row, int64_t col)
{
    float v;
    dequantize_columns(&v, w, row, col, 1);
    return v;
}

/* ---- plain ---- */

static void plain_tensors(void **state)
{
    (void)state;
    struct tensor_list list = {0};
    const int64_t folded[] = {2, 3, 2}, vector[] = {4};
    struct tensor w;
    ey_err e = {0};
    float *v = add(&list, "vector", DTYPE_F32, 0, 4);
    for (int i = 0; i < 4; i++)
        v[i] = (float)i;
    v = add(&list, "old.model.folded", DTYPE_F32, 2, 6);
    v[11] = 5;
    struct edited_tensor *t = tensors_find(&list, "old.model.folded");
    t->n_dims = 3;
    memcpy(t->shape, folded, sizeof(folded));
    open_source(&list);
    assert_true(source_plain(&source, &w, "vector", vector, 1, &e));
    assert_true(w.rows == 1 && w.cols == 4 && value_at(&w, 0, 3) == 3.0f);
    assert_true(source_plain(&source, &w, "model.folded", folded, 3, &e));
    assert_true(w.rows == 2 && w.cols == 6 && value_at(&w, 1, 5) == 5.0f);
    assert_int_equal(source.bytes, 4 * 4 + 12 * 4);
    close_source();
}

/* ---- block FP8 ---- */

enum { FP8_ROWS = 257, FP8_COLS = 130 };

/* Scales 1 to 6. */
static void add_fp8(struct tensor_list *list, enum dtype scales)
{
    static const float f32[] = {1, 2, 3, 4, 5, 6};
    static const uint16_t f16[] = {0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600},
                          bf16[] = {0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0};
    uint8_t *q = add(list, "m", DTYPE_F8_E4M3, FP8_ROWS, FP8_COLS);
    memset(q, 0x40, (size_t)FP8_ROWS * FP8_COLS); /* 2 */
    void *scale = add(list, "m_scale_inv", scales, 3, 2);
    if (scales == DTYPE_F32) memcpy(scale, f32, sizeof(f32));
    if (scales == DTYPE_F16) memcpy(scale, f16, sizeof(f16));
    if (scales == DTYPE_BF16) memcpy(scale, bf16, sizeof(bf16));
}

static void fp8_scales_of_any_float(void **state)
{
    (void)state;
    static const enum dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        struct tensor_list list = {0};
        struct tensor w;
        ey_err e = {0};
        add_fp8(&list, types[i]);
        open_source(&list);
        assert_true(source_matrix(&source, &w, "m", FP8_ROWS, FP8_COLS, &e));
        assert_true(value_at(&w, 0, 127) == 2.0f && value_at(&w, 127, 128) == 4.0f);
        assert_true(value_at(&w, 128, 0) == 6.0f && value_at(&w, 256, 129) == 12.0f);
        assert_int_equal(source.bytes, FP8_ROWS * FP8_COLS + 6 * dtype_size(types[i]));
        close_source();
    }
}

static void fp8_rows_of_a_whole(void **state)
{
    (void)state;
    struct tensor_list list = {0};
    struct tensor w, part;
    ey_err e = {0};
    add_fp8(&list, DTYPE_F32);
    open_source(&list);
    assert_true(source_matrix(&source, &w, "m", FP8_ROWS, FP8_COLS, &e));
    assert_true(matrix_rows(&part, &w, 128, 129, &e));
    assert_true(part.rows == 129 && value_at(&part, 0, 0) == 6.0f &&
                value_at(&part, 128, 128) == 12.0f);
    assert_false(matrix_rows(&part, &w, 64, 10, &e));
    assert_string_equal(e.text, "a part of a fused quantized matrix begins at row 64, inside a "
                                "block of 128 rows");
    close_source();
}

/* One scale for the whole tensor: a part may begin at any row. */
static void fp8_rows_of_a_whole_with_one_scale(void **state)
{
    (void)state;
    struct tensor_list list = {0};
    struct tensor w, part;
    ey_err e = {0};
    uint8_t *q = add(&list, "m", DTYPE_F8_E4M3, FP8_ROWS, FP8_COLS);
    memset(q, 0x40, (size_t)FP8_ROWS * FP8_COLS);       /* 2 */
    q[100 * FP8_COLS] = q[256 * FP8_COLS + 129] = 0x38; /* 1 */
    *(float *)add(&list, "m_scale", DTYPE_F32, 0, 1) = 3;
    open_source(&list);
    assert_true(source_matrix(&source, &w, "m", FP8_ROWS, FP8_COLS, &e));
    if (!matrix_rows(&part, &w, 100, 157, &e)) fail_msg("%s", e.text);
    assert_int_equal(part.rows, 157);
    assert_true(value_at(&part, 0, 0) == 3.0f && value_at(&part, 1, 0) == 6.0f);
    assert_true(value_at(&part, 156, 129) == 3.0f && value_at(&part, 156, 128) == 6.0f);
    close_source();
}

/* ---- int4 ---- */

enum { INT4_ROWS = 17, INT4_COLS = 64 };

/* Row r, column c: nibble (r + c) % 16; scale 2 in the first group of 32 and 0.5 in the second;
 * zero point r % 16. */
static void add_int4(struct tensor_list *list, bool zeros)
{
    uint32_t *packed = add(list, "m_packed", DTYPE_I32, INT4_ROWS, INT4_COLS / 8);
    for (uint32_t i = 0; i < INT4_ROWS * INT4_COLS; i++)
        packed[i / 8] |= (i / INT4_COLS + i % INT4_COLS) % 16 << i % 8 * 4;
    uint16_t *scale = add(list, "m_scale", DTYPE_BF16, INT4_ROWS, 2);
    for (int i = 0; i < INT4_ROWS * 2; i++)
        scale[i] = f32_to_bf16(i % 2 ? 0.5f : 2.0f);
    if (!zeros) return;
    uint32_t *zero = add(list, "m_zero_point", DTYPE_I32, 3, 2);
    for (uint32_t r = 0; r < INT4_ROWS; r++)
        for (uint32_t g = 0; g < 2; g++)
            zero[r / 8 * 2 + g] |= r % 16 << r % 8 * 4;
}

static void int4_values(void **state)
{
    (void)state;
    for (int zeros = 0; zeros < 2; zeros++) {
        struct tensor_list list = {0};
        struct tensor w, part;
        ey_err e = {0};
        add_int4(&list, zeros);
        open_source(&list);
        assert_true(source_matrix(&source, &w, "m", INT4_ROWS, INT4_COLS, &e));
        assert_int_equal(w.group_size, 32);
        assert_true(matrix_rows(&part, &w, 8, 9, &e));
        for (int r = 0; r < INT4_ROWS; r++)
            for (int c = 0; c < INT4_COLS; c++) {
                const int zero = zeros ? r % 16 : 8;
                const float value = (float)((r + c) % 16 - zero) * (c < 32 ? 2.0f : 0.5f);
                assert_true(value_at(&w, r, c) == value);
                if (r >= 8) assert_true(value_at(&part, r - 8, c) == value);
            }
        assert_false(matrix_rows(&part, &w, 4, 4, &e));
        assert_non_null(strstr(e.text, "row 4, inside a block of 8"));
        assert_int_equal(source.bytes, INT4_ROWS * 32 + INT4_ROWS * 4 + (zeros ? 24 : 0));
        close_source();
    }
}

/* ---- invalid checkpoints ---- */

enum damage { DROP, RETYPE, RESHAPE, ADD, FILL };

static const struct layout_row {
    bool int4;
    const char *name;
    enum damage damage;
    enum dtype dtype;
    int64_t shape[2];
    int value; /* of each byte */
    const char *says;
} layout_rows[] = {
    {0, "m", DROP, 0, {0}, 0, "tensor m is missing; the download may be incomplete"},
    {0,
     "m",
     RESHAPE,
     0,
     {FP8_COLS, FP8_ROWS},
     0,
     "tensor m has shape [130, 257], but config.json requires [257, 130]"},
    {0,
     "m",
     RETYPE,
     DTYPE_F8_E5M2,
     {0},
     0,
     "tensor m is stored as F8_E5M2; it must be BF16, F16, F32 or F8_E4M3"},
    {0, "m", RETYPE, DTYPE_I8, {0}, 0, "tensor m is stored as I8; it must be"},
    {0,
     "m_scale_inv",
     DROP,
     0,
     {0},
     0,
     "tensor m is F8_E4M3 but its scales m_scale_inv or _scale are missing"},
    {0,
     "m_scale_inv",
     RESHAPE,
     0,
     {2, 3},
     0,
     "tensor m_scale_inv has shape [2, 3], but config.json requires [3, 2]"},
    {0,
     "m_scale_inv",
     RETYPE,
     DTYPE_I32,
     {0},
     0,
     "tensor m_scale_inv is stored as I32; it must be F32, BF16 or F16"},
    {0, "m_scale_inv", RETYPE, DTYPE_F8_E4M3, {0}, 0, "stored as F8_E4M3; it must be F32"},
    {1, "m_packed", DROP, 0, {0}, 0, "tensor m is missing"},
    {1, "m_packed", RETYPE, DTYPE_F32, {0}, 0, "tensor m_packed is stored as F32; it must be I32"},
    {1, "m_packed", RESHAPE, 0, {INT4_ROWS, 7}, 0, "tensor m_packed has shape [17, 7]"},
    {1, "m_scale", DROP, 0, {0}, 0, "tensor m_scale is missing, but m_packed needs it"},
    {1, "m_scale", RETYPE, DTYPE_I16, {0}, 0, "tensor m_scale is stored as I16; it must be F32"},
    {1, "m_scale", RESHAPE, 0, {INT4_ROWS, 0}, 0, "tensor m_scale has 0 scales per row"},
    {1,
     "m_scale",
     RESHAPE,
     0,
     {INT4_ROWS, 3},
     0,
     "tensor m_scale has 3 scales per row, which do not divide 64 columns into groups"},
    {1, "m_scale", RESHAPE, 0, {16, 2}, 0, "tensor m_scale has shape [16, 2]"},
    {1,
     "m_scale",
     FILL,
     0,
     {0},
     0x7e,
     "value 0 of tensor m_scale is not a finite number of at most"},
    {1, "m_scale", FILL, 0, {0}, 0xff, "value 0 of tensor m_scale is not a finite number"},
    {1, "m_zero_point", RETYPE, DTYPE_U8, {0}, 0, "tensor m_zero_point is stored as U8"},
    {1, "m_zero_point", RESHAPE, 0, {2, 2}, 0, "tensor m_zero_point has shape [2, 2]"},
    {1, "m_g_idx", ADD, DTYPE_I32, {0, 63}, 0, "tensor m_g_idx has shape [63]"},
    {1, "m_g_idx", ADD, DTYPE_I64, {0, INT4_COLS}, 0, "tensor m_g_idx is stored as I64"},
    {1, "m_shape", ADD, DTYPE_I64, {0, 2}, 0, "tensor m_shape says the matrix is [0, 0]"},
    {1, "m", ADD, DTYPE_BF16, {INT4_ROWS, INT4_COLS}, 0, "both m and m_packed are present"},
    {0, "m.SCB", ADD, DTYPE_F32, {0, FP8_ROWS}, 0, "tensor m.SCB belongs to a layout that is not"},
};

static void damage_layout(struct tensor_list *list, const struct layout_row *row)
{
    struct edited_tensor *t = row->damage == ADD ? NULL : tensors_find(list, row->name);
    switch (row->damage) {
    case DROP: tensors_drop(list, row->name); return;
    case ADD: add(list, row->name, row->dtype, row->shape[0], row->shape[1]); return;
    case FILL: memset(t->data, row->value, t->size); return;
    case RETYPE: t->dtype = row->dtype; break;
    case RESHAPE: memcpy(t->shape, row->shape, sizeof(row->shape)); break;
    }
    tensor_fit(t);
}

static void damaged_layouts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(layout_rows) / sizeof(layout_rows[0]); i++) {
        const struct layout_row *row = &layout_rows[i];
        struct tensor_list list = {0};
        struct tensor w;
        ey_err e = {0};
        if (row->int4)
            add_int4(&list, true);
        else
            add_fp8(&list, DTYPE_F32);
        damage_layout(&list, row);
        open_source(&list);
        assert_false(source_matrix(&source, &w, "m", row->int4 ? INT4_ROWS : FP8_ROWS,
                                   row->int4 ? INT4_COLS : FP8_COLS, &e));
        assert_int_equal(e.code, EY_BAD_MODEL);
        if (!strstr(e.text, row->says)) print_error("\"%s\" lacks \"%s\"\n", e.text, row->says);
        assert_non_null(strstr(e.text, row->says));
        assert_non_null(strstr(e.text, dir));
        close_source();
    }
}

static void vectors_are_plain(void **state)
{
    (void)state;
    struct tensor_list list = {0};
    struct tensor w;
    ey_err e = {0};
    const int64_t n = 4;
    add(&list, "v", DTYPE_F8_E4M3, 0, n);
    open_source(&list);
    assert_false(source_plain(&source, &w, "v", &n, 1, &e));
    assert_non_null(strstr(e.text, "tensor v is stored as F8_E4M3; it must be BF16, F16 or F32"));
    close_source();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_tensors),       cmocka_unit_test(fp8_scales_of_any_float),
        cmocka_unit_test(fp8_rows_of_a_whole), cmocka_unit_test(fp8_rows_of_a_whole_with_one_scale),
        cmocka_unit_test(int4_values),         cmocka_unit_test(damaged_layouts),
        cmocka_unit_test(vectors_are_plain),
    };
    dir = temp_dir_until_exit();
    temp_text(dir, "config.json", "{}");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
