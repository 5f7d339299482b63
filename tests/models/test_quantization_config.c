/* SPDX-License-Identifier: Apache-2.0 */
/* quantization_config of other programs: what eyelet reads, and for unsupported variants an error
 * that names the variant and an alternative. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "checkpoint/temp_dir.h"
#include "models/quantization_config.h"

static const char *dir;

static bool read_config(struct quantization *q, const char *file, const char *text, ey_err *e)
{
    struct checkpoint *ckpt = NULL;
    if (strcmp(file, "config.json") != 0) temp_text(dir, "config.json", "{}");
    temp_text(dir, file, text);
    bool ok = checkpoint_open(&ckpt, dir, e) &&
              config_read_quantization(q, ckpt, temp_path(dir, "config.json"), e);
    checkpoint_close(ckpt);
    return ok;
}

/* A checkpoint with one tensor of this name. */
static void write_tensor(const char *name)
{
    char header[300];
    uint8_t file[400] = {0};
    const int n = snprintf(header, sizeof(header),
                           "{\"%s\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
                           name);
    file[0] = (uint8_t)n;
    memcpy(file + 8, header, (size_t)n);
    temp_file(dir, "model.safetensors", file, (size_t)n + 9);
}

#define CT(rest) \
    "{\"quantization_config\":{\"quant_method\":\"compressed-tensors\",\"config_groups\":" rest "}}"
#define GROUP(weights) "{\"group_0\":{\"targets\":[\"Linear\"],\"weights\":{" weights "}}}"
#define Q(rest) "{\"quantization_config\":{" rest "}}"

static const struct accepted_row {
    const char *file, *text;
    struct quantization want;
} accepted[] = {
    {"config.json", "{}", {0}},
    {"config.json",
     CT(GROUP("\"num_bits\":4,\"type\":\"int\",\"symmetric\":false,"
              "\"strategy\":\"group\",\"group_size\":32,\"observer\":\"mse\"")),
     {.bits = 1 << 4, .group = 32, .asymmetric = true}},
    {"config.json",
     CT(GROUP("\"num_bits\":8,\"strategy\":\"channel\"")),
     {.bits = 1 << 8, .group = -1, .symmetric = true}},
    {"config.json", CT("{\"W4A16\":[\"Linear\"]}"), {.bits = 1 << 4, .symmetric = true}},
    {"config.json", CT("{\"W4A16_ASYM\":[\"Linear\"]}"), {.bits = 1 << 4, .asymmetric = true}},
    {"config.json", CT("{\"FP8_DYNAMIC\":[\"Linear\"]}"), {0}},
    {"config.json", CT("{}"), {0}},
    {"config.json",
     CT(GROUP(
         "\"num_bits\":8,\"type\":\"float\",\"strategy\":\"channel\"") ",\"format\":\"float-"
                                                                       "quantized\",\"sparsity_"
                                                                       "config\":{},\"transform_"
                                                                       "config\":{}"),
     {0}},
    {"config.json",
     "{\"compression_config\":{\"format\":\"pack-quantized\",\"config_groups\":" GROUP(
         "\"num_bits\":4,\"group_size\":128") "}}",
     {.bits = 1 << 4, .group = 128, .symmetric = true}},
    {"config.json",
     "{\"text_config\":" Q("\"quant_method\":\"fp8\",\"weight_block_size\":null") "}",
     {0}},
    {"config.json", Q("\"quant_method\":\"fbgemm_fp8\""), {0}},
    {"config.json",
     Q("\"quant_method\":\"awq\",\"bits\":4,\"group_size\":128,\"zero_point\":true,"
       "\"version\":\"GEMM\",\"modules_to_not_convert\":[\"visual\"]"),
     {.bits = 1 << 4, .qweight = QWEIGHT_AWQ, .group = 128, .asymmetric = true}},
    {"config.json",
     Q("\"quant_method\":\"awq\",\"w_bit\":4,\"q_group_size\":64,\"version\":\"gemv\""),
     {.bits = 1 << 4, .qweight = QWEIGHT_AWQ_ROWS, .group = 64}},
    {"config.json",
     Q("\"quant_method\":\"awq\",\"w_bit\":4,\"q_group_size\":64,\"version\":\"Gemv\""),
     {.bits = 1 << 4, .qweight = QWEIGHT_AWQ_ROWS, .group = 64}},
    {"config.json",
     Q("\"quant_method\":\"gptq\",\"bits\":3,\"group_size\":-1,\"sym\":true"),
     {.bits = 1 << 3,
      .qweight = QWEIGHT_GPTQ,
      .group = -1,
      .zeros_less_one = true,
      .symmetric = true}},
    {"config.json",
     Q("\"quant_method\":\"gptq\",\"bits\":8,\"group_size\":32,\"checkpoint_format\":\"gptq_v2\""),
     {.bits = 1 << 8, .qweight = QWEIGHT_GPTQ, .group = 32}},
    {"config.json",
     Q("\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":32,\"dynamic\":{\"-:lm_head\":{}}"),
     {.bits = 1 << 2 | 1 << 3 | 1 << 4 | 1 << 8, .qweight = QWEIGHT_GPTQ, .zeros_less_one = true}},
    {"config.json",
     Q("\"quant_method\":\"auto-round\",\"bits\":4,\"group_size\":128,\"sym\":true,"
       "\"packing_format\":\"auto_round:auto_gptq\",\"iters\":200"),
     {.bits = 1 << 4,
      .qweight = QWEIGHT_GPTQ,
      .group = 128,
      .zeros_less_one = true,
      .symmetric = true}},
    {"config.json",
     Q("\"quant_method\":\"intel/auto-round\",\"bits\":4,\"backend\":\"auto_round:auto_awq\""),
     {.bits = 1 << 4, .qweight = QWEIGHT_AWQ}},
    {"config.json",
     Q("\"quant_method\":\"auto-round\",\"bits\":4,\"backend\":\"auto_round:AUTO_AWQ\""),
     {.bits = 1 << 4, .qweight = QWEIGHT_AWQ}},
    {"config.json",
     Q("\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":32,\"checkpoint_format\":\"GPTQ\""),
     {.bits = 1 << 4, .qweight = QWEIGHT_GPTQ, .group = 32, .zeros_less_one = true}},
    {"config.json", Q("\"quant_method\":\"modelopt\",\"quant_algo\":\"NVFP4\""), {0}},
    {"config.json", Q("\"quant_method\":\"bitsandbytes\",\"load_in_4bit\":true"), {0}},
    {"hf_quant_config.json",
     "{\"producer\":{\"name\":\"modelopt\"},\"quantization\":{\"quant_algo\":\"FP8\"}}",
     {0}},
    {"quantize_config.json",
     "{\"bits\":4,\"group_size\":128,\"desc_act\":true}",
     {.bits = 1 << 4, .qweight = QWEIGHT_GPTQ, .group = 128, .zeros_less_one = true}},
    {"quant_config.json",
     "{\"w_bit\":4,\"q_group_size\":128,\"version\":\"GEMM\"}",
     {.bits = 1 << 4, .qweight = QWEIGHT_AWQ, .group = 128}},
};

static void supported_variants_are_read(void **state)
{
    (void)state;
    write_tensor("plain");
    for (size_t i = 0; i < sizeof(accepted) / sizeof(accepted[0]); i++) {
        const struct accepted_row *row = &accepted[i];
        struct quantization q;
        ey_err e = {0};
        if (!read_config(&q, row->file, row->text, &e)) fail_msg("%s: %s", row->text, e.text);
        if (q.bits != row->want.bits || q.qweight != row->want.qweight ||
            q.group != row->want.group || q.zeros_less_one != row->want.zeros_less_one ||
            q.symmetric != row->want.symmetric || q.asymmetric != row->want.asymmetric)
            fail_msg("%s was misread: bits %x, qweight %d, group %d, %d %d %d", row->text, q.bits,
                     (int)q.qweight, q.group, q.zeros_less_one, q.symmetric, q.asymmetric);
        if (strcmp(row->file, "config.json") != 0) remove(temp_path(dir, row->file));
    }
}

static const struct {
    const char *text, *names, *instead;
} refused[] = {
    {Q("\"quant_method\":\"exl2\""), "exl2", "use a compressed-tensors, AWQ, GPTQ or FP8"},
    {Q("\"quant_method\":\"mxfp4\""), "mxfp4", "use a compressed-tensors"},
    {Q("\"bits\":4"), "(none)", "use a compressed-tensors"},
    {"{\"quantization_config\":7}", "quantization_config", "not an object"},
    {CT("{},\"format\":\"marlin-24\""), "marlin-24", "without sparsity"},
    {CT("{},\"format\":\"sparse-24-bitmask\""), "sparse-24-bitmask", "without sparsity"},
    {CT("{},\"format\":\"mxfp6-pack-quantized\""), "mxfp6", "MXFP8"},
    {CT("{},\"sparsity_config\":{\"format\":\"sparse-bitmask\"}"), "sparse-bitmask", "sparsity"},
    {CT("{},\"transform_config\":{\"config_groups\":{}}"), "transform_config",
     "without transforms"},
    {CT("{\"g\":{\"weights\":{\"num_bits\":9}}}"), "num_bits", "9"},
    {CT("{\"g\":{\"weights\":{\"num_bits\":4,\"strategy\":\"group\",\"group_size\":-1}}}"),
     "group_size", "-1"},
    {CT("{\"g\":{\"weights\":{\"num_bits\":6,\"type\":\"float\"}}}"), "num_bits 6", "FP8"},
    {CT("{\"g\":{\"weights\":{\"type\":\"complex\"}}}"), "complex", "BF16"},
    {CT("{\"g\":7}"), "weights", "missing"},
    {CT(GROUP("\"num_bits\":4,\"type\":\"float\"") ",\"format\":\"pack-quantized\""),
     "pack-quantized", "have type float"},
    {Q("\"quant_method\":\"awq\",\"bits\":8"), "bits", "8"},
    {Q("\"quant_method\":\"awq\",\"version\":\"gemv_fast\""), "gemv_fast", "gemm"},
    {Q("\"quant_method\":\"awq\",\"version\":\"marlin\""), "marlin", "gemm"},
    {Q("\"quant_method\":\"awq\",\"backend\":\"llm-awq\""), "llm-awq", "AutoAWQ"},
    {Q("\"quant_method\":\"gptq\",\"bits\":5"), "bits 5", "2, 3, 4 or 8"},
    {Q("\"quant_method\":\"gptq\",\"bits\":4,\"checkpoint_format\":\"marlin\""), "marlin", "gptq"},
    {Q("\"quant_method\":\"gptq\",\"bits\":3,\"checkpoint_format\":\"gptq_p\""), "gptq_p", "gptq"},
    {Q("\"quant_method\":\"gptq\",\"bits\":4,\"is_marlin_format\":true"), "is_marlin", "gptq"},
    {Q("\"quant_method\":\"gptq\",\"bits\":4,\"pack_dtype\":\"int64\""), "int64", "int32"},
    {Q("\"quant_method\":\"auto-round\",\"bits\":4,\"packing_format\":\"auto_round:mlx\""), "mlx",
     "auto_gptq"},
    {Q("\"quant_method\":\"auto-round\",\"bits\":4,\"data_type\":\"mx_int\""), "mx_int", "fp8"},
    {Q("\"quant_method\":\"modelopt\",\"quant_algo\":\"W4A16_AWQ\""), "W4A16_AWQ", "NVFP4"},
    {Q("\"quant_method\":\"fp8\",\"fmt\":\"e5m2\""), "e5m2", "e4m3"},
    {Q("\"quant_method\":\"fp8\",\"weight_block_size\":[64,64]"), "[64,64]", "[128, 128]"},
};

static void unsupported_variants_are_refused(void **state)
{
    (void)state;
    write_tensor("plain");
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        struct quantization q;
        ey_err e = {0};
        const bool ok = read_config(&q, "config.json", refused[i].text, &e);
        if (ok || e.code != EY_BAD_MODEL || !strstr(e.text, refused[i].names) ||
            !strstr(e.text, refused[i].instead) || strchr(e.text, '\n'))
            fail_msg("%s: %s", refused[i].text, ok ? "was accepted" : e.text);
    }
}

static void bitsandbytes_names_the_original(void **state)
{
    (void)state;
    struct quantization q;
    ey_err e = {0};
    write_tensor("model.layers.0.mlp.up_proj.weight.quant_state.bitsandbytes__nf4");
    assert_false(read_config(&q, "config.json",
                             "{\"_name_or_path\":\"owner/model\",\"quantization_config\":"
                             "{\"quant_method\":\"bitsandbytes\",\"load_in_4bit\":true}}",
                             &e));
    assert_non_null(strstr(e.text, "bitsandbytes"));
    assert_non_null(strstr(e.text, "original owner/model and use --quantize int4"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(supported_variants_are_read),
        cmocka_unit_test(unsupported_variants_are_refused),
        cmocka_unit_test(bitsandbytes_names_the_original),
    };
    dir = temp_dir_until_exit();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
