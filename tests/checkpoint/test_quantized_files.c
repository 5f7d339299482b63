/* SPDX-License-Identifier: Apache-2.0 */
/* A matrix in every quantized layout (tools/golden/quantized_layouts.py), read whole, in part and
 * by single columns, equals the numbers that numpy computed from the formats' formulas, bit for
 * bit. A file with a missing or damaged tensor gives a message or the same numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "checkpoint/layout_parts.h"
#include "checkpoint/quantized_layouts.h"
#include "checkpoint/temp_dir.h"
#include "models/ckpt_edit.h"
#include "tensor/dequantize.h"

static const struct layout_case {
    const char *name;
    struct quantization says;
    enum dtype becomes;
} cases[] = {
    {"ct4_g32", {.group = 32, .bits = 1 << 4, .asymmetric = true}, DTYPE_INT4},
    {"ct4_g128_bf16", {.group = 128, .bits = 1 << 4}, DTYPE_INT4},
    {"ct4_signed", {.group = 64, .bits = 1 << 4}, DTYPE_INT4},
    {"ct4_f32", {.group = 32, .bits = 1 << 4}, DTYPE_INT4},
    {"ct4_channel", {.group = -1, .bits = 1 << 4}, DTYPE_INT4},
    {"ct4_g16", {.group = 16, .bits = 1 << 4}, DTYPE_UINT8},
    {"ct4_g256", {.group = 256, .bits = 1 << 4}, DTYPE_INT4},
    {"ct4_order", {.group = 32, .bits = 1 << 4}, DTYPE_INT4},
    {"ct8_g32", {.group = 32, .bits = 1 << 8 | 1 << 4}, DTYPE_UINT8},
    {"ct8_channel", {.group = -1}, DTYPE_UINT8},
    {"ct2", {.group = 32, .bits = 1 << 2}, DTYPE_INT4},
    {"ct3_dense", {.group = 32, .bits = 1 << 3}, DTYPE_INT4},
    {"ct3_padded", {.group = 32, .bits = 1 << 3}, DTYPE_INT4},
    {"ct6", {.group = 32, .bits = 1 << 6}, DTYPE_UINT8},
    {"int8_row", {.group = -1, .bits = 1 << 8}, DTYPE_UINT8},
    {"int8_flat", {.group = -1, .bits = 1 << 8}, DTYPE_UINT8},
    {"int8_zeros", {.group = 32, .bits = 1 << 8, .asymmetric = true}, DTYPE_UINT8},
    {"awq", {.qweight = QWEIGHT_AWQ, .group = 64, .asymmetric = true}, DTYPE_INT4},
    {"awq_g128", {.group = 128}, DTYPE_INT4},
    {"awq_no_zeros", {.group = 32, .qweight = QWEIGHT_AWQ, .symmetric = true}, DTYPE_INT4},
    {"awq_rows", {.qweight = QWEIGHT_AWQ_ROWS, .group = 32, .asymmetric = true}, DTYPE_INT4},
    {"gptq2_v1",
     {.group = 32, .bits = 1 << 2, .qweight = QWEIGHT_GPTQ, .zeros_less_one = true},
     DTYPE_INT4},
    {"gptq2_v2", {.group = 64, .bits = 1 << 2, .qweight = QWEIGHT_GPTQ}, DTYPE_INT4},
    {"gptq2_order",
     {.group = 32, .bits = 1 << 2, .qweight = QWEIGHT_GPTQ, .zeros_less_one = true},
     DTYPE_INT4},
    {"gptq3_v1",
     {.group = 32, .bits = 1 << 3, .qweight = QWEIGHT_GPTQ, .zeros_less_one = true},
     DTYPE_INT4},
    {"gptq3_v2", {.group = 64, .bits = 1 << 3, .qweight = QWEIGHT_GPTQ}, DTYPE_INT4},
    {"gptq3_order",
     {.group = 32, .bits = 1 << 3, .qweight = QWEIGHT_GPTQ, .zeros_less_one = true},
     DTYPE_INT4},
    {"gptq4_v1",
     {.group = 32, .bits = 1 << 4, .qweight = QWEIGHT_GPTQ, .zeros_less_one = true},
     DTYPE_INT4},
    {"gptq4_v2", {.group = 64, .bits = 1 << 4, .qweight = QWEIGHT_GPTQ}, DTYPE_INT4},
    {"gptq4_order",
     {.group = 32, .bits = 1 << 4, .qweight = QWEIGHT_GPTQ, .zeros_less_one = true},
     DTYPE_INT4},
    {"gptq8_v1",
     {.group = 32, .bits = 1 << 8, .qweight = QWEIGHT_GPTQ, .zeros_less_one = true},
     DTYPE_UINT8},
    {"gptq8_v2", {.group = 64, .bits = 1 << 8, .qweight = QWEIGHT_GPTQ}, DTYPE_UINT8},
    {"gptq8_order",
     {.group = 32, .bits = 1 << 8, .qweight = QWEIGHT_GPTQ, .zeros_less_one = true},
     DTYPE_UINT8},
    {"gptq4_row", {.group = -1, .bits = 1 << 4, .zeros_less_one = true}, DTYPE_INT4},
    {"autoround",
     {.group = 128,
      .bits = 1 << 4,
      .qweight = QWEIGHT_GPTQ,
      .zeros_less_one = true,
      .symmetric = true},
     DTYPE_INT4},
    {"gptq4_said_v2",
     {.group = 32, .bits = 1 << 4, .qweight = QWEIGHT_GPTQ, .symmetric = true},
     DTYPE_INT4},
    {"fp8_tensor", {0}, DTYPE_F8_E4M3},
    {"fp8_scalar", {0}, DTYPE_F8_E4M3},
    {"fp8_row", {0}, DTYPE_F8_E4M3},
    {"fp8_flat", {0}, DTYPE_F8_E4M3},
    {"fp8_row_inv", {0}, DTYPE_F8_E4M3},
    {"fp8_block", {0}, DTYPE_F8_E4M3},
    {"fp8_ones", {0}, DTYPE_F8_E4M3},
    {"nvfp4", {0}, DTYPE_FP4},
    {"nvfp4_modelopt", {0}, DTYPE_FP4},
    {"mxfp4", {0}, DTYPE_FP4},
    {"mxfp4_e8m0", {0}, DTYPE_FP4},
    {"mxfp8", {0}, DTYPE_MXFP8},
};

enum { N_CASES = sizeof(cases) / sizeof(cases[0]) };

/* ---- reading one ---- */

struct opened {
    struct checkpoint *ckpt;
    struct arena arena;
    struct pool *pool;
    void *memory;
    struct tensor w;
};

static void close_case(struct opened *o)
{
    checkpoint_close(o->ckpt);
    pool_destroy(&o->pool);
    arena_free(&o->arena);
    free(o->memory);
    *o = (struct opened){0};
}

static bool make(struct opened *o, struct tensor *w, ey_err *e)
{
    if (!w->recipe) return true;
    free(o->memory);
    o->memory = aligned_alloc(64, repacked_bytes(w));
    assert_non_null(o->memory);
    const struct tensor described = *w;
    return (o->pool || pool_create(&o->pool, 2, e)) &&
           repack_weight(w, o->memory, &described, o->pool, e);
}

/* Reads `rows` rows from `first` on. */
static bool read_case(struct opened *o, const char *dir, const struct layout_case *c, int64_t rows,
                      int64_t cols, int64_t first, ey_err *e)
{
    static const struct name_alias none[1];
    char name[100];
    struct tensor whole;
    *o = (struct opened){0};
    if (!checkpoint_open(&o->ckpt, dir, e)) return false;
    struct tensor_source s = {
        .ckpt = o->ckpt, .arena = &o->arena, .aliases = none, .quantization = c->says};
    snprintf(name, sizeof(name), "%s.m.weight", c->name);
    return source_matrix(&s, &whole, name, rows, cols, e) &&
           matrix_rows(&o->w, &whole, first, rows - first, e) && make(o, &o->w, e);
}

static const char *damaged_dir;
static const char quantized[] = "tests/checkpoint/quantized";

static const struct tensor_view *expected_of(struct checkpoint *ckpt, const struct layout_case *c)
{
    char name[100];
    snprintf(name, sizeof(name), "%s.expected", c->name);
    const struct tensor_view *t = checkpoint_find(ckpt, name);
    assert_non_null(t);
    return t;
}

static bool same_numbers(const struct tensor *w, const struct tensor_view *expected, int64_t first)
{
    float row[1024], one;
    assert_true(w->cols <= 1024);
    for (int64_t r = 0; r < w->rows; r++) {
        const uint8_t *want = expected->data + (size_t)((r + first) * w->cols) * sizeof(float);
        dequantize_columns(row, w, r, 0, (size_t)w->cols);
        if (memcmp(row, want, (size_t)w->cols * sizeof(float)) != 0) return false;
        const int64_t c = r * 7 % w->cols;
        dequantize_columns(&one, w, r, c, 1);
        if (memcmp(&one, &row[c], sizeof(one)) != 0) return false;
    }
    return true;
}

static void every_layout(void **state)
{
    (void)state;
    struct checkpoint *truth;
    ey_err e = {0};
    assert_true(checkpoint_open(&truth, quantized, &e));
    for (int i = 0; i < N_CASES; i++) {
        const struct tensor_view *want = expected_of(truth, &cases[i]);
        const int64_t rows = want->shape[0], cols = want->shape[1];
        for (int64_t first = 0; first <= 8; first += 8) {
            struct opened o;
            if (first >= rows ||
                (first && cases[i].becomes == DTYPE_F8_E4M3 && !strstr(cases[i].name, "row")))
                continue;
            if (!read_case(&o, quantized, &cases[i], rows, cols, first, &e))
                fail_msg("%s: %s", cases[i].name, e.text);
            if (o.w.dtype != cases[i].becomes || !same_numbers(&o.w, want, first))
                fail_msg("%s has other numbers or another type", cases[i].name);
            close_case(&o);
        }
    }
    checkpoint_close(truth);
}

/* ---- damaged ---- */

enum damage { MISSING, NARROWER, SHORTER, RETYPED, N_DAMAGES };

static void damage_tensor(struct tensor_list *list, struct edited_tensor *t, enum damage how)
{
    switch (how) {
    case MISSING: tensors_drop(list, t->name); return;
    case NARROWER:
        if (t->n_dims) t->shape[t->n_dims - 1] -= t->shape[t->n_dims - 1] > 0;
        break;
    case SHORTER:
        if (t->n_dims) t->shape[0]++;
        break;
    default: t->dtype = t->dtype == DTYPE_U32 ? DTYPE_F32 : DTYPE_U32; break;
    }
    tensor_fit(t);
}

/* The tensors of one case. */
static struct tensor_list tensors_of(const struct layout_case *c)
{
    struct tensor_list all = tensors_read(quantized);
    const size_t n = strlen(c->name);
    for (size_t i = all.n; i-- > 0;) {
        char name[200];
        snprintf(name, sizeof(name), "%s", all.at[i].name);
        if (strncmp(name, c->name, n) != 0 || name[n] != '.' || strstr(name, ".expected"))
            tensors_drop(&all, name);
    }
    return all;
}

/* Tensors that may be missing, or whose type does not matter. */
static bool may_be_accepted(const struct layout_case *c, const char *name, enum damage how)
{
    const bool gptq = c->says.qweight == QWEIGHT_GPTQ,
               zeros = strstr(name, "_zero_point") || strstr(name, "qzeros");
    if (zeros && (c->says.asymmetric || (gptq && !c->says.symmetric))) return false;
    return how == MISSING && (zeros || strstr(name, "_shape") || strstr(name, "g_idx"));
}

static void every_damage(void **state)
{
    const char *dir = damaged_dir;
    (void)state;
    struct checkpoint *truth;
    ey_err e = {0};
    int refused = 0;
    assert_true(checkpoint_open(&truth, quantized, &e));
    for (int i = 0; i < N_CASES; i++) {
        const struct tensor_view *want = expected_of(truth, &cases[i]);
        struct tensor_list names = tensors_of(&cases[i]);
        for (size_t k = 0; k < names.n; k++)
            for (enum damage how = 0; how < N_DAMAGES; how++) {
                struct tensor_list list = tensors_of(&cases[i]);
                struct opened o;
                damage_tensor(&list, tensors_find(&list, names.at[k].name), how);
                tensors_write(&list, dir);
                e = (ey_err){0};
                if (read_case(&o, dir, &cases[i], want->shape[0], want->shape[1], 0, &e)) {
                    if (!may_be_accepted(&cases[i], names.at[k].name, how))
                        fail_msg("%s is accepted with damage %d", names.at[k].name, (int)how);
                } else {
                    refused++;
                    if (e.code != EY_BAD_MODEL || !e.text[0] || strchr(e.text, '\n'))
                        fail_msg("%s, damage %d: \"%s\"", names.at[k].name, (int)how, e.text);
                }
                close_case(&o);
            }
        tensors_write(&names, dir);
    }
    checkpoint_close(truth);
    assert_true(refused > 500);
}

/* A global scale of 0 is refused (0 / 0 is NaN), except in a file of zeros, which stands for a
 * model that is not downloaded yet. */
static void nvfp4_divided_by_zero(void **state)
{
    (void)state;
    const struct layout_case c = {"nvfp4", {0}, DTYPE_FP4};
    struct checkpoint *truth;
    ey_err e = {0};
    assert_true(checkpoint_open(&truth, quantized, &e));
    const struct tensor_view *want = expected_of(truth, &c);
    for (int codes_too = 0; codes_too < 2; codes_too++) {
        struct tensor_list list = tensors_of(&c);
        struct opened o;
        for (size_t i = 0; i < list.n; i++)
            if (strstr(list.at[i].name, "scale") || codes_too)
                memset(list.at[i].data, 0, list.at[i].size);
        tensors_write(&list, damaged_dir);
        const bool ok = read_case(&o, damaged_dir, &c, want->shape[0], want->shape[1], 0, &e);
        assert_int_equal(ok, codes_too);
        if (!ok) assert_non_null(strstr(e.text, "global_scale is 0"));
        close_case(&o);
    }
    checkpoint_close(truth);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layout),
        cmocka_unit_test(every_damage),
        cmocka_unit_test(nvfp4_divided_by_zero),
    };
    damaged_dir = temp_dir_until_exit();
    temp_text(damaged_dir, "config.json", "{}");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
