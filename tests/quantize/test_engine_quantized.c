/* Whole models quantised while loading. */
#include <math.h>

#include "backend/convert.h"
#include "engine/engine_fixture.h"
#include "model/ckpt_edit.h"

static struct question q;

static ey_engine_options options_of(const char *device, const char *quantize, int group)
{
    ey_engine_options o = ey_engine_defaults();
    o.device = device, o.threads = 2, o.max_model_len = 256, o.quantize = quantize, o.group_size = group;
    return o;
}

static struct outcome outcome_with(const char *model, const char *device, const char *quantize, int group)
{
    ey_engine *engine = engine_open_with(model, options_of(device, quantize, group));
    question_simple(&q, 1, "What is this?", 3);
    struct outcome o = outcome_of(engine, &q);
    ey_engine_close(&engine);
    return o;
}

/* Root mean square of the difference of the logits, of their deviation. */
static double distance(const struct outcome *a, const struct outcome *b)
{
    double off = 0, all = 0, mean = 0;
    for (int i = 0; i < a->vocabulary; i++) mean += (double)a->logits[i] / a->vocabulary;
    for (int i = 0; i < a->vocabulary; i++) {
        off += ((double)a->logits[i] - b->logits[i]) * ((double)a->logits[i] - b->logits[i]);
        all += (a->logits[i] - mean) * (a->logits[i] - mean);
    }
    return sqrt(off / all);
}

/* ---- FP8 ---- */

/* An FP8 checkpoint with its matrices written out as F32. Blocks of mkcheckpoint's codes reach 448, so quantising finds the same codes again. */
static const char *written_out(const char *kind)
{
    static char dir[400];
    const char *good = ckpt_make(fixture_dir(), kind);
    struct tensor_list list = tensors_read(good);
    snprintf(dir, sizeof(dir), "%s/written-out", fixture_dir());
    ckpt_copy(good, dir);
    for (size_t i = 0; i < list.n; i++) {
        struct edited_tensor *t = &list.at[i];
        char scale_name[220];
        if (t->dtype != DTYPE_F8_E4M3) continue;
        snprintf(scale_name, sizeof(scale_name), "%s_scale_inv", t->name);
        const struct edited_tensor *scale = tensors_find(&list, scale_name);
        const int64_t rows = t->shape[0], cols = t->shape[1], across = (cols + FP8_BLOCK - 1) / FP8_BLOCK;
        float *values = malloc((size_t)(rows * cols) * sizeof(float)), s;
        weight_floats(values, t->data, t->dtype, (size_t)(rows * cols));
        for (int64_t j = 0; j < rows * cols; j++) {
            const int64_t block = j / cols / FP8_BLOCK * across + j % cols / FP8_BLOCK;
            weight_floats(&s, scale->data + (size_t)block * dtype_size(scale->dtype), scale->dtype, 1);
            values[j] *= s;
        }
        free(t->data);
        t->data = (uint8_t *)values, t->dtype = DTYPE_F32, t->size = (size_t)(rows * cols) * sizeof(float);
    }
    for (size_t i = list.n; i--;)
        if (strstr(list.at[i].name, "_scale_inv")) tensors_drop(&list, list.at[i].name);
    tensors_write(&list, dir);
    ckpt_set(dir, "config.json", "quantization_config", NULL);
    return dir;
}

static void fp8_comes_back(void **state)
{
    (void)state;
    static const char *const kinds[] = {"tiny-gqa4-fp8", "tiny-ragged-fp8"};
    for (size_t k = 0; k < 2; k++) {
        struct outcome a = outcome_with(kinds[k], "ref", NULL, 0), b = outcome_with(written_out(kinds[k]), "ref", "fp8", 0);
        assert_memory_equal(a.ids, b.ids, (size_t)a.n * sizeof(int));
        assert_true(distance(&a, &b) < 1e-5);
        outcome_free(&a), outcome_free(&b);
    }
}

static void an_fp8_checkpoint_stays(void **state)
{
    (void)state;
    struct outcome a = outcome_with("tiny-ragged-fp8", "ref", NULL, 0), b = outcome_with("tiny-ragged-fp8", "ref", "fp8", 0);
    assert_same_outcome(&a, &b, "already FP8");
    outcome_free(&a), outcome_free(&b);
}

static void devices_agree(void **state)
{
    (void)state;
    struct outcome a = outcome_with("tiny-gqa4-bf16", "ref", "fp8", 0), b = outcome_with("tiny-gqa4-bf16", "cpu", "fp8", 0);
    struct outcome plain = outcome_with("tiny-gqa4-bf16", "ref", NULL, 0);
    assert_true(distance(&a, &b) < 0.02);
    assert_true(distance(&plain, &a) > 0.001 && distance(&plain, &a) < 0.3);
    outcome_free(&a), outcome_free(&b), outcome_free(&plain);
}

/* ---- memory ---- */

static uint64_t row_of(const ey_engine *engine, const char *name)
{
    for (int i = 0; i < engine->n_plan_items; i++)
        if (strcmp(engine->plan_item[i].name, name) == 0) return engine->plan_item[i].bytes;
    return 0;
}

static void made_weights_are_planned(void **state)
{
    (void)state;
    ey_engine *plain = engine_open_with("tiny-gqa4-bf16", options_of("cpu", NULL, 0)), *fp8 = engine_open_with("tiny-gqa4-bf16", options_of("cpu", "fp8", 0));
    uint64_t stored = row_of(plain, "weights") - row_of(fp8, "weights"), made = row_of(fp8, "quantised weights");
    assert_int_equal(row_of(plain, "quantised weights"), 0);
    assert_in_range(made, stored / 2, stored / 2 + stored / 50); /* codes of half the size, and scales */
    assert_true(fp8->model.arena.used - plain->model.arena.used - made < 1 << 20);
    ey_engine_close(&plain), ey_engine_close(&fp8);
}

/* ---- wrong calls ---- */

static void wrong_choices(void **state)
{
    (void)state;
    static const struct {
        const char *quantize;
        int group;
        const char *says;
    } rows[] = {{"int8", 0, "use fp8 or int4"}, {"fp8", 64, "--group-size"}, {NULL, 32, "--group-size"}, {"int4", 48, "use 32, 64 or 128"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ey_engine_options o = options_of("ref", rows[i].quantize, rows[i].group);
        ey_engine *engine = NULL;
        ey_err e = {0};
        o.model = ckpt_make(fixture_dir(), "tiny-gqa4-bf16");
        assert_false(ey_engine_open(&engine, &o, &e));
        assert_int_equal(e.code, EY_BAD_REQUEST);
        assert_non_null(strstr(e.text, rows[i].says));
    }
}

static void a_weight_that_is_not_finite(void **state)
{
    (void)state;
    char dir[400];
    const char *good = ckpt_make(fixture_dir(), "tiny-gqa4-bf16");
    struct tensor_list list = tensors_read(good);
    ey_engine *engine = NULL;
    ey_err e = {0};
    snprintf(dir, sizeof(dir), "%s/nan", fixture_dir());
    ckpt_copy(good, dir);
    struct edited_tensor *t = tensors_find(&list, "model.language_model.layers.2.mlp.down_proj.weight");
    t->data[t->size - 2] = 0xc0, t->data[t->size - 1] = 0x7f;
    tensors_write(&list, dir);
    ey_engine_options o = options_of("cpu", "fp8", 0);
    o.model = dir;
    assert_false(ey_engine_open(&engine, &o, &e));
    assert_int_equal(e.code, EY_BAD_MODEL);
    assert_non_null(strstr(e.text, "layer 2"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fp8_comes_back), cmocka_unit_test(an_fp8_checkpoint_stays), cmocka_unit_test(devices_agree),
        cmocka_unit_test(made_weights_are_planned), cmocka_unit_test(wrong_choices), cmocka_unit_test(a_weight_that_is_not_finite),
    };
    return cmocka_run_group_tests(tests, engine_fixture_open, engine_fixture_close);
}
