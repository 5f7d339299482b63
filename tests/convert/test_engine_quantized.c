/* SPDX-License-Identifier: Apache-2.0 */
/* Whole models with on-load quantization. */
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tensor/dequantize.h"
#include "base/full_disk.h"
#include "engine/engine_fixture.h"
#include "models/ckpt_edit.h"

static struct question q;

static ey_engine_options options_of(const char *device, const char *quantize, int group)
{
    ey_engine_options o = ey_engine_defaults();
    o.device = device;
    o.threads = 2;
    o.max_model_len = 256;
    o.quantize = quantize;
    o.group_size = group;
    return o;
}

static struct outcome outcome_with(const char *model, const char *device, const char *quantize,
                                   int group)
{
    ey_engine *engine = engine_open_with(model, options_of(device, quantize, group));
    question_simple(&q, engine->devices.model.vision.depth > 0, "What is this?", 3);
    struct outcome o = outcome_of(engine, &q);
    ey_engine_close(&engine);
    return o;
}

/* RMS difference of the logits, divided by their standard deviation. */
static double distance(const struct outcome *a, const struct outcome *b)
{
    double off = 0, all = 0, mean = 0;
    for (int i = 0; i < a->vocabulary; i++)
        mean += (double)a->logits[i] / a->vocabulary;
    for (int i = 0; i < a->vocabulary; i++) {
        off += ((double)a->logits[i] - b->logits[i]) * ((double)a->logits[i] - b->logits[i]);
        all += (a->logits[i] - mean) * (a->logits[i] - mean);
    }
    return sqrt(off / all);
}

/* ---- FP8 ---- */

/* An FP8 checkpoint whose matrices are dequantized to F32. Its blocks reach 448, so quantizing
 * gives the same values again. */
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
        const int64_t rows = t->shape[0], cols = t->shape[1],
                      across = (cols + FP8_BLOCK - 1) / FP8_BLOCK;
        float *values = malloc((size_t)(rows * cols) * sizeof(float)), s;
        elements_to_f32(values, t->data, t->dtype, (size_t)(rows * cols));
        for (int64_t j = 0; j < rows * cols; j++) {
            const int64_t block = j / cols / FP8_BLOCK * across + j % cols / FP8_BLOCK;
            elements_to_f32(&s, scale->data + (size_t)block * dtype_size(scale->dtype),
                            scale->dtype, 1);
            values[j] *= s;
        }
        free(t->data);
        t->data = (uint8_t *)values;
        t->dtype = DTYPE_F32;
        t->size = (size_t)(rows * cols) * sizeof(float);
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
        struct outcome a = outcome_with(kinds[k], "ref", NULL, 0),
                       b = outcome_with(written_out(kinds[k]), "ref", "fp8", 0);
        assert_memory_equal(a.ids, b.ids, (size_t)a.n * sizeof(int));
        assert_true(distance(&a, &b) < 1e-5);
        outcome_free(&a);
        outcome_free(&b);
    }
}

static void an_fp8_checkpoint_stays(void **state)
{
    (void)state;
    struct outcome a = outcome_with("tiny-ragged-fp8", "ref", NULL, 0),
                   b = outcome_with("tiny-ragged-fp8", "ref", "fp8", 0);
    assert_same_outcome(&a, &b, "already FP8");
    outcome_free(&a);
    outcome_free(&b);
}

static void devices_agree(void **state)
{
    (void)state;
    static const char *const to[] = {"fp8", "int4"};
    struct outcome plain = outcome_with("tiny-gqa4-bf16", "ref", NULL, 0);
    for (int i = 0; i < 2; i++) {
        struct outcome a = outcome_with("tiny-gqa4-bf16", "ref", to[i], 0),
                       b = outcome_with("tiny-gqa4-bf16", "cpu", to[i], 0);
        assert_true(distance(&a, &b) < 0.02);
        assert_true(distance(&plain, &a) > 0.001 && distance(&plain, &a) < (i ? 0.6 : 0.3));
        outcome_free(&a);
        outcome_free(&b);
    }
    outcome_free(&plain);
}

/* ---- int4 ---- */

static void four_bits_lose_little(void **state)
{
    (void)state;
    struct outcome plain = outcome_with("tiny-gqa4-bf16", "ref", NULL, 0);
    double before = 0;
    for (int group = 32; group <= 128; group *= 2) {
        struct outcome o = outcome_with("tiny-gqa4-bf16", "ref", "int4", group);
        double off = distance(&plain, &o);
        assert_true(off > before &&
                    /* smaller groups are more accurate; random weights of three layers */
                    off < 0.6);
        before = off * 0.7;
        outcome_free(&o);
    }
    outcome_free(&plain);
}

/* ---- written as checkpoints ---- */

static char kept[400];

static void keep_model(const char *model, const char *quantize, int group)
{
    ey_engine_options o = options_of("ref", quantize, group);
    ey_quantize_report report;
    ey_err e = {0};
    char command[500];
    snprintf(kept, sizeof(kept), "%s/kept", fixture_dir());
    snprintf(command, sizeof(command), "rm -rf '%s'", kept);
    assert_int_equal(system(command), 0);
    o.model = model;
    if (!ey_quantize(&o, kept, &report, &e)) fail_msg("%s", e.text);
    assert_true(report.n_quantized > 0 && report.bytes < report.bytes_before);
}

static void keep_as(const char *kind, const char *quantize, int group)
{
    keep_model(ckpt_make(fixture_dir(), kind), quantize, group);
}

static void quantized_checkpoints_give_the_same_bits(void **state)
{
    (void)state;
    static const struct {
        const char *kind, *quantize;
        int group;
    } rows[] = {{"tiny-gqa4-bf16", "fp8", 0},
                {"tiny-gqa4-bf16", "int4", 128},
                {"tiny-gqa4-f16", "int4", 32},
                {"tiny-shards-fp8", "int4", 64},
                {"tiny-ragged-fp8", "int4", 64}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        keep_as(rows[i].kind, rows[i].quantize, rows[i].group);
        struct outcome a = outcome_with(rows[i].kind, "ref", rows[i].quantize, rows[i].group),
                       b = outcome_with(kept, "ref", NULL, 0);
        assert_same_outcome(&a, &b, rows[i].kind);
        outcome_free(&a);
        outcome_free(&b);
    }
}

/* Phi-3 fuses q, k, v in one tensor and gate, up in another. The width of the MLP decides whether
 * FP8 blocks end where gate does. */
static const char *phi3_with_mlp(int mlp)
{
    static char dir[400];
    const char *good = ckpt_make(fixture_dir(), "tiny-phi3-bf16");
    struct tensor_list list = tensors_read(good);
    char text[16];
    snprintf(dir, sizeof(dir), "%s/phi3-mlp-%d", fixture_dir(), mlp);
    snprintf(text, sizeof(text), "%d", mlp);
    ckpt_copy(good, dir);
    for (size_t i = 0; i < list.n; i++) {
        struct edited_tensor *t = &list.at[i];
        if (strstr(t->name, "gate_up_proj")) {
            t->shape[0] = 2 * mlp;
            tensor_fit(t);
        }
        if (strstr(t->name, "down_proj")) {
            t->shape[1] = mlp;
            tensor_fit(t);
        }
    }
    tensors_write(&list, dir);
    ckpt_set(dir, "config.json", "intermediate_size", text);
    return dir;
}

static void fused_matrices_are_kept(void **state)
{
    (void)state;
    static const struct {
        int mlp;
        const char *quantize;
        int group;
        const char *says; /* NULL: accepted */
    } rows[] = {{256, "fp8", 0, NULL},
                {352, "int4", 32, NULL},
                {320, "int4", 64, NULL},
                {256, "int4", 128, NULL},
                {352, "fp8", 0, "one of which begins at row 352, inside a block of 128"},
                {324, "int4", 32, "one of which begins at row 324, inside a block of 8"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *model = phi3_with_mlp(rows[i].mlp);
        if (rows[i].says) {
            ey_engine_options o = options_of("ref", rows[i].quantize, rows[i].group);
            ey_quantize_report report;
            ey_err e = {0};
            char nowhere[500];
            snprintf(nowhere, sizeof(nowhere), "%s/refused", fixture_dir());
            o.model = model;
            assert_false(ey_quantize(&o, nowhere, &report, &e));
            if (!strstr(e.text, rows[i].says)) fail_msg("%s", e.text);
            assert_int_not_equal(access(nowhere, F_OK), 0);
            continue;
        }
        keep_model(model, rows[i].quantize, rows[i].group);
        struct tensor_list list = tensors_read(kept);
        tensors_find(&list, rows[i].group ? "model.layers.1.self_attn.qkv_proj.weight_zero_point"
                                          : "model.layers.1.self_attn.qkv_proj.weight_scale_inv");
        tensors_write(&list, kept);
        struct outcome a = outcome_with(model, "ref", rows[i].quantize, rows[i].group),
                       b = outcome_with(kept, "ref", NULL, 0);
        assert_same_outcome(&a, &b, rows[i].quantize);
        outcome_free(&a);
        outcome_free(&b);
    }
}

/* Missing zero points mean 8 and are allowed only in symmetric checkpoints. */
static void assert_missing_zeros_refused(void)
{
    ey_engine *engine = NULL;
    ey_err e = {0};
    ey_engine_options o = options_of("ref", NULL, 0);
    o.model = kept;
    assert_false(ey_engine_open(&engine, &o, &e));
    assert_non_null(strstr(e.text, "says that the weights are not symmetric"));
}

static void a_symmetric_checkpoint(void **state)
{
    (void)state;
    keep_as("tiny-gqa4-bf16", "int4", 64);
    struct tensor_list list = tensors_read(kept);
    for (size_t i = 0; i < list.n; i++)
        if (strstr(list.at[i].name, "_zero_point")) memset(list.at[i].data, 0x88, list.at[i].size);
    tensors_write(&list, kept);
    struct outcome a = outcome_with(kept, "ref", NULL, 0);
    list = tensors_read(kept);
    for (size_t i = list.n; i--;)
        if (strstr(list.at[i].name, "_zero_point")) tensors_drop(&list, list.at[i].name);
    tensors_write(&list, kept);
    assert_missing_zeros_refused();
    ckpt_set(kept, "config.json", "quantization_config.config_groups.group_0.weights.symmetric",
             "true");
    struct outcome b = outcome_with(kept, "ref", NULL, 0);
    assert_same_outcome(&a, &b, "without zeros");
    outcome_free(&a);
    outcome_free(&b);
}

#define DOWN "model.language_model.layers.1.mlp.down_proj.weight"

static void damage(struct tensor_list *list, int how)
{
    struct edited_tensor *scale = tensors_find(list, DOWN "_scale"),
                         *quantized = tensors_find(list, DOWN "_packed");
    static const uint16_t bad[] = {0x7d81, 0xfd81, 0x7f80, 0xff80, 0x7fc0};
    switch (how) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4: memcpy(scale->data + 6, &bad[how], 2); break;
    case 5: tensors_drop(list, DOWN "_scale"); break;
    case 6:
        quantized->shape[0]--;
        tensor_fit(quantized);
        break;
    case 7:
        quantized->shape[1]++;
        tensor_fit(quantized);
        break;
    case 8:
        scale->shape[1]--;
        tensor_fit(scale);
        break;
    case 9: scale->dtype = DTYPE_I16; break;
    case 10:
        tensors_find(list, DOWN "_zero_point")->shape[0]--;
        tensor_fit(tensors_find(list, DOWN "_zero_point"));
        break;
    case 11: quantized->dtype = DTYPE_F32; break;
    default: tensors_add(list, DOWN "_g_idx", quantized); break;
    }
}

static void damaged_checkpoints_are_refused(void **state)
{
    (void)state;
    static const char *const says[] = {"not a finite number",
                                       "not a finite number",
                                       "not a finite number",
                                       "not a finite number",
                                       "not a finite number",
                                       "_scale is missing",
                                       "has shape",
                                       "none of the possible bit widths fits",
                                       "do not divide",
                                       "must be F32",
                                       "has shape",
                                       "must be I32",
                                       "has shape"};
    for (int how = 0; how < (int)(sizeof(says) / sizeof(says[0])); how++) {
        ey_engine *engine = NULL;
        ey_err e = {0};
        ey_engine_options o = options_of("ref", NULL, 0);
        keep_as("tiny-gqa4-bf16", "int4", 64);
        struct tensor_list list = tensors_read(kept);
        damage(&list, how);
        tensors_write(&list, kept);
        o.model = kept;
        bool opened = ey_engine_open(&engine, &o, &e);
        if (opened || e.code != EY_BAD_MODEL || !strstr(e.text, says[how]))
            fail_msg("damage %d: %s", how, opened ? "was accepted" : e.text);
    }
    keep_as("tiny-gqa4-bf16", "int4", 64);
    static const char *const config[][2] = {
        {"quantization_config.format", "\"marlin-24\""},
        {"quantization_config.config_groups", "3"},
        {"quantization_config.config_groups.group_0.weights.num_bits", "8"},
        {"quantization_config.config_groups.group_0.weights.type", "\"float\""}};
    for (size_t i = 0; i < sizeof(config) / sizeof(config[0]); i++) {
        ey_engine *engine = NULL;
        ey_err e = {0};
        ey_engine_options o = options_of("ref", NULL, 0);
        keep_as("tiny-gqa4-bf16", "int4", 64);
        ckpt_set(kept, "config.json", config[i][0], config[i][1]);
        o.model = kept;
        assert_false(ey_engine_open(&engine, &o, &e));
        assert_int_equal(e.code, EY_BAD_MODEL);
    }
}

static void existing_folders_are_refused(void **state)
{
    (void)state;
    ey_engine_options o = options_of("ref", "int4", 64);
    ey_quantize_report report;
    ey_err e = {0};
    keep_as("tiny-gqa4-bf16", "int4", 64);
    o.model = ckpt_make(fixture_dir(), "tiny-gqa4-bf16");
    assert_false(ey_quantize(&o, kept, &report, &e)); /* the folder is not empty */
    assert_non_null(strstr(e.text, "not empty"));
    o.quantize = NULL;
    o.group_size = 0;
    assert_false(ey_quantize(&o, "/nowhere", &report, &e));
    o.quantize = "int4";
    o.model = kept;
    e = (ey_err){0};
    assert_false(ey_quantize(&o, "/nowhere", &report, &e)); /* the model is int4 already */
}

static int files_of(const char *directory)
{
    char command[500];
    int n = -1;
    snprintf(command, sizeof(command), "ls -A '%s' 2>/dev/null | wc -l", directory);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%d", &n), 1);
    pclose(f);
    return n;
}

/* Wherever the disk gets full, no file is left, and the same call succeeds once there is room. */
static void a_full_disk(void **state)
{
    (void)state;
    ey_engine_options o = options_of("ref", "int4", 64);
    ey_quantize_report report;
    char out[400];
    bool own_directory = false;
    uint64_t room = 0;
    o.model = ckpt_make(fixture_dir(), "tiny-shards-fp8");
    snprintf(out, sizeof(out), "%s/on-a-full-disk", fixture_dir());
    for (int tries = 0;; tries++, room += room / 3 + 1000, own_directory = !own_directory) {
        ey_err e = {0};
        if (own_directory) assert_int_equal(mkdir(out, 0777), 0);
        full_disk_start(room, false);
        bool ok = ey_quantize(&o, out, &report, &e);
        full_disk_stop();
        if (ok && tries > 8) break;
        if (ok || e.code != EY_IO || !strstr(e.text, "the disk is full") ||
            !strstr(e.text, "run the same command again"))
            fail_msg("room %llu: %s", (unsigned long long)room, e.text);
        assert_int_equal(files_of(out), 0);
        assert_int_equal(access(out, F_OK), own_directory ? 0 : -1);
        if (own_directory) assert_int_equal(rmdir(out), 0);
    }
    assert_true(room > report.bytes);
    struct outcome a = outcome_with("tiny-shards-fp8", "ref", "int4", 64),
                   b = outcome_with(out, "ref", NULL, 0);
    assert_same_outcome(&a, &b, "kept in the end");
    outcome_free(&a);
    outcome_free(&b);
}

/* ---- memory ---- */

static uint64_t row_of(const ey_engine *engine, const char *name)
{
    for (int i = 0; i < engine->buffers.n_plan_items; i++)
        if (strcmp(engine->buffers.plan_item[i].name, name) == 0)
            return engine->buffers.plan_item[i].bytes;
    return 0;
}

static void made_weights_are_planned(void **state)
{
    (void)state;
    ey_engine *plain = engine_open_with("tiny-gqa4-bf16", options_of("cpu", NULL, 0)),
              *fp8 = engine_open_with("tiny-gqa4-bf16", options_of("cpu", "fp8", 0));
    uint64_t stored = row_of(plain, "weights") - row_of(fp8, "weights"),
             made = row_of(fp8, "quantized weights");
    assert_int_equal(row_of(plain, "quantized weights"), 0);
    assert_in_range(made, stored / 2,
                    stored / 2 + stored / 50); /* quantized values of half the size, plus scales */
    assert_true(fp8->devices.model.arena.used - plain->devices.model.arena.used - made < 1 << 20);
    ey_engine_close(&plain);
    ey_engine_close(&fp8);
}

/* ---- wrong calls ---- */

static void wrong_choices(void **state)
{
    (void)state;
    static const struct {
        const char *quantize;
        int group;
        const char *says;
    } rows[] = {{"int8", 0, "use fp8 or int4"},
                {"fp8", 64, "--group-size"},
                {NULL, 32, "--group-size"},
                {"int4", 48, "use 32, 64 or 128"}};
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

/* Opens a model whose matrix `name` has a NaN as its first element, which the int4 sample contains,
 * or as its last. */
static void refuse_not_finite(const char *name, bool last, const char *quantize, const char *says)
{
    char dir[400];
    const char *good = ckpt_make(fixture_dir(), "tiny-gqa4-bf16");
    struct tensor_list list = tensors_read(good);
    ey_engine *engine = NULL;
    ey_err e = {0};
    snprintf(dir, sizeof(dir), "%s/nan-%s", fixture_dir(), quantize);
    ckpt_copy(good, dir);
    struct edited_tensor *t = tensors_find(&list, name);
    uint8_t *element = last ? t->data + t->size - 2 : t->data;
    element[0] = 0xc0;
    element[1] = 0x7f;
    tensors_write(&list, dir);
    ey_engine_options o = options_of("cpu", quantize, 0);
    o.model = dir;
    assert_false(ey_engine_open(&engine, &o, &e));
    assert_int_equal(e.code, EY_BAD_MODEL);
    if (!strstr(e.text, says)) fail_msg("%s", e.text);
}

static void a_weight_that_is_not_finite(void **state)
{
    (void)state;
    refuse_not_finite("model.language_model.layers.2.mlp.down_proj.weight", true, "fp8", "layer 2");
    refuse_not_finite("model.language_model.layers.1.self_attn.v_proj.weight", false, "int4",
                      "layer 1: a weight of v is not finite");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fp8_comes_back),
        cmocka_unit_test(an_fp8_checkpoint_stays),
        cmocka_unit_test(devices_agree),
        cmocka_unit_test(four_bits_lose_little),
        cmocka_unit_test(quantized_checkpoints_give_the_same_bits),
        cmocka_unit_test(fused_matrices_are_kept),
        cmocka_unit_test(a_symmetric_checkpoint),
        cmocka_unit_test(damaged_checkpoints_are_refused),
        cmocka_unit_test(existing_folders_are_refused),
        cmocka_unit_test(a_full_disk),
        cmocka_unit_test(made_weights_are_planned),
        cmocka_unit_test(wrong_choices),
        cmocka_unit_test(a_weight_that_is_not_finite),
    };
    return cmocka_run_group_tests(tests, engine_fixture_open, engine_fixture_close);
}
