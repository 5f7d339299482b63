/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint with one fault is refused; the error names the file, the fault and the value. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "checkpoint/temp_dir.h"
#include "eyelet.h"
#include "models/ckpt_edit.h"

static const char *base_dir;
static char damaged[512];

static int n_failures;

/* Counts and prints failures, so that one run shows all. */
static void expect_refusal(const char *what, ey_code code, const char *const words[], int n_words)
{
    ey_err e = {0};
    ey_engine *engine = NULL;
    ey_engine_options options = ey_engine_defaults();
    options.model = damaged;
    options.device = "ref";
    options.threads = 1;
    options.max_model_len = 128;
    bool opened = ey_engine_open(&engine, &options, &e);
    ey_engine_close(&engine);
    if (opened) {
        print_error("%s: was accepted\n", what);
        n_failures++;
    } else if (e.code != code) {
        print_error("%s: code %d instead of %d: %s\n", what, (int)e.code, (int)code, e.text);
        n_failures++;
    }
    for (int i = 0; !opened && i < n_words; i++)
        if (words[i] && !strstr(e.text, words[i])) {
            print_error("%s: the error does not say \"%s\": %s\n", what, words[i], e.text);
            n_failures++;
        }
    if (getenv("SHOW_ERRORS")) print_message("%s\n    %s\n", what, e.text);
}

/* ---- JSON files ---- */

#define CONFIG "config.json"
#define GENERATION "generation_config.json"
#define PREPROCESSOR "preprocessor_config.json"
#define T "text_config."
#define V "vision_config."
#define Q "quantization_config."
#define GONE NULL

struct json_row {
    const char *file, *path, *value; /* value GONE: removed */
    const char *says;                /* part of the error; NULL: the value, or "absent" for GONE */
};

static const struct json_row json_rows[] = {
    {CONFIG, "architectures", "[\"MistralForCausalLM\"]", "MistralForCausalLM"},
    {CONFIG, "text_config", GONE, "missing"},
    {CONFIG, "text_config", "7", "not an object"},
    {CONFIG, "vision_config", GONE, "missing"},
    {CONFIG, "vision_config", "null", "missing"},
    {CONFIG, "tie_word_embeddings", "\"yes\"", NULL},
    {CONFIG, T "tie_word_embeddings", "1", NULL},
    {CONFIG, T "hidden_size", GONE, NULL},
    {CONFIG, T "hidden_size", "-1", NULL},
    {CONFIG, T "hidden_size", "0", NULL},
    {CONFIG, T "hidden_size", "1e300", "1e300"},
    {CONFIG, T "hidden_size", "192.5", NULL},
    {CONFIG, T "hidden_size", "99999999999", NULL},
    {CONFIG, T "hidden_size", "99999999999999999999999", "hidden_size"},
    {CONFIG, T "hidden_size", "\"192\"", NULL},
    {CONFIG, T "hidden_size", "{}", "{"},
    {CONFIG, T "num_hidden_layers", "0", NULL},
    {CONFIG, T "num_hidden_layers", "257", NULL},
    {CONFIG, T "num_hidden_layers", "2147483648", NULL},
    {CONFIG, T "num_hidden_layers", "true", NULL},
    {CONFIG, T "num_attention_heads", "-3", NULL},
    {CONFIG, T "num_attention_heads", "65537", NULL},
    {CONFIG, T "num_attention_heads", "65536", NULL},
    {CONFIG, T "num_key_value_heads", "2", NULL},
    {CONFIG, T "num_key_value_heads", "6", NULL},
    {CONFIG, T "num_key_value_heads", "0", NULL},
    {CONFIG, T "num_key_value_heads", GONE, NULL},
    {CONFIG, T "head_dim", GONE, NULL},
    {CONFIG, T "head_dim", "127", NULL},
    {CONFIG, T "head_dim", "0", NULL},
    {CONFIG, T "head_dim", "4096", NULL},
    {CONFIG, T "intermediate_size", "65537", NULL},
    {CONFIG, T "intermediate_size", "null", "absent"},
    {CONFIG, T "vocab_size", "0", NULL},
    {CONFIG, T "vocab_size", "1048577", NULL},
    {CONFIG, T "vocab_size", "1e6", "1e6"},
    {CONFIG, T "max_position_embeddings", GONE, NULL},
    {CONFIG, T "max_position_embeddings", "0", NULL},
    {CONFIG, T "max_position_embeddings", "4611686018427387904", NULL},
    {CONFIG, T "rms_norm_eps", GONE, NULL},
    {CONFIG, T "rms_norm_eps", "-1e-6", "-1e-6"},
    {CONFIG, T "rms_norm_eps", "\"1e-6\"", NULL},
    {CONFIG, T "attention_bias", "true", NULL},
    {CONFIG, T "attention_bias", "\"no\"", NULL},
    {CONFIG, T "hidden_act", "\"gelu\"", NULL},
    {CONFIG, T "hidden_act", "5", NULL},
    {CONFIG, T "rope_theta", GONE, NULL},
    {CONFIG, T "rope_theta", "0", NULL},
    {CONFIG, T "rope_theta", "-5", NULL},
    {CONFIG, T "rope_theta", "1e300", "1e300"},
    {CONFIG, T "rope_theta", "\"5000000\"", NULL},
    {CONFIG, T "rope_scaling", GONE, "missing"},
    {CONFIG, T "rope_scaling", "null", "missing"},
    {CONFIG, T "rope_scaling", "[]", "not an object"},
    {CONFIG, T "rope_scaling.rope_type", "\"yarn\"", NULL},
    {CONFIG, T "rope_scaling.type", "\"linear\"", NULL},
    {CONFIG, T "rope_scaling.rope_type", "3", NULL},
    {CONFIG, T "rope_scaling.mrope_interleaved", "false", "not true"},
    {CONFIG, T "rope_scaling.mrope_interleaved", GONE, "not true"},
    {CONFIG, T "rope_scaling.mrope_interleaved", "1", NULL},
    {CONFIG, T "rope_scaling.mrope_section", GONE, "missing"},
    {CONFIG, T "rope_scaling.mrope_section", "[24,20]", "2"},
    {CONFIG, T "rope_scaling.mrope_section", "[24,20,10,10]", "4"},
    {CONFIG, T "rope_scaling.mrope_section", "[24,20,19]", "[24, 20, 19]"},
    {CONFIG, T "rope_scaling.mrope_section", "[0,42,22]", "[0, 42, 22]"},
    {CONFIG, T "rope_scaling.mrope_section", "[0,20,44]", "[0, 20, 44]"},
    {CONFIG, T "rope_scaling.mrope_section", "[104,-20,-20]", "-20"},
    {CONFIG, T "rope_scaling.mrope_section", "[2147483647,2147483647,66]", "2147483647"},
    {CONFIG, T "rope_scaling.mrope_section", "[24,20,\"20\"]", "\"20\""},
    /* rope_scaling overrides rope_parameters and must be complete */
    {CONFIG, T "rope_scaling.rope_theta", "-3", NULL},
    {CONFIG, "image_token_id", "7", "image_token_id 7"},
    {CONFIG, "image_token_id", "-1", "image_token_id"},
    {CONFIG, "image_token_id", "99999999", "99999999"},
    {CONFIG, V "depth", "0", NULL},
    {CONFIG, V "depth", "257", NULL},
    {CONFIG, V "hidden_size", "0", NULL},
    {CONFIG, V "hidden_size", "16388", NULL},
    {CONFIG, V "num_heads", "3", NULL},
    {CONFIG, V "num_heads", "64", NULL}, /* 2 dimensions a head */
    {CONFIG, V "num_heads", "0", NULL},
    {CONFIG, V "num_heads", "256", NULL}, /* more heads than columns */
    {CONFIG, V "intermediate_size", "-256", NULL},
    {CONFIG, V "out_hidden_size", "128", NULL},
    {CONFIG, V "in_channels", "1", NULL},
    {CONFIG, V "patch_size", "0", NULL},
    {CONFIG, V "patch_size", "1000000", NULL},
    {CONFIG, V "patch_size", "14", NULL}, /* preprocessor_config.json has 16 */
    {CONFIG, V "patch_size", "33", NULL},
    {CONFIG, V "temporal_patch_size", "3", NULL},
    {CONFIG, V "temporal_patch_size", "0", NULL},
    {CONFIG, V "temporal_patch_size", "1", NULL},
    {CONFIG, V "spatial_merge_size", "0", NULL},
    {CONFIG, V "spatial_merge_size", "9", NULL},
    {CONFIG, V "num_position_embeddings", "143", NULL},
    {CONFIG, V "num_position_embeddings", "0", NULL},
    {CONFIG, V "num_position_embeddings", "4000000000", NULL},
    {CONFIG, V "hidden_act", "\"gelu\"", NULL},
    {CONFIG, V "deepstack_visual_indexes", GONE, "missing"},
    {CONFIG, V "deepstack_visual_indexes", "[0,1,4]", "4"},
    {CONFIG, V "deepstack_visual_indexes", "[-1,1,2]", "-1"},
    {CONFIG, V "deepstack_visual_indexes", "[0,2,1]", "1 follows 2"},
    {CONFIG, V "deepstack_visual_indexes", "[0,0,1]", "0 follows 0"},
    {CONFIG, V "deepstack_visual_indexes", "[0,1,2,3]", "4"}, /* more than layers */
    {CONFIG, V "deepstack_visual_indexes", "[0,1,2,3,4,5,6,7,8]", "9"},
    {CONFIG, V "deepstack_visual_indexes", "[0,1,2.0]", "2.0"},
    {CONFIG, V "deepstack_visual_indexes", "2", "not a list"},
    {CONFIG, "quantization_config", "\"fp8\"", "not an object"},
    {CONFIG, Q "quant_method", GONE, "(none)"},
    {CONFIG, Q "quant_method", "\"hqq\"", "use a compressed-tensors, AWQ, GPTQ or FP8 checkpoint"},
    {CONFIG, Q "quant_method", "8", "8"},
    {CONFIG, Q "fmt", "\"e5m2\"", "e5m2"},
    {CONFIG, Q "weight_block_size", "[64,64]", "[64,64]"},
    {CONFIG, Q "weight_block_size", "[128]", "[128]"},
    {CONFIG, Q "weight_block_size", "[128,0]", "0"},
    {GENERATION, "eos_token_id", "1536", "1536"},
    {GENERATION, "eos_token_id", "-1", "-1"},
    {GENERATION, "eos_token_id", "[1502,99999999999]", "99999999999"},
    {GENERATION, "eos_token_id", "[]", "empty"},
    {GENERATION, "eos_token_id", "\"<|im_end|>\"", "<|im_end|>"},
    {GENERATION, "eos_token_id", "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]", "16"},
    {GENERATION, "", "{\"eos_token_id\": ", "generation_config.json"},
    {PREPROCESSOR, "", GONE, "missing"},
    {PREPROCESSOR, "", "[1]", "preprocessor_config.json"},
    {PREPROCESSOR, "", "nonsense", "preprocessor_config.json"},
    {PREPROCESSOR, "patch_size", "14", NULL},
    {PREPROCESSOR, "patch_size", GONE, NULL},
    {PREPROCESSOR, "merge_size", "4", NULL},
    {PREPROCESSOR, "temporal_patch_size", "1e300", "1e300"},
    {PREPROCESSOR, "size", GONE, "0"},
    {PREPROCESSOR, "size", "65536", "size"},
    {PREPROCESSOR, "size.longest_edge", GONE, "longest_edge"},
    {PREPROCESSOR, "size.longest_edge", "0", NULL},
    {PREPROCESSOR, "size.longest_edge", "100", "100"}, /* below shortest_edge */
    {PREPROCESSOR, "size.shortest_edge", "-1", NULL},
    {PREPROCESSOR, "size.longest_edge", "1e18", "1e18"},
    {PREPROCESSOR, "size.longest_edge", "9223372036854775807", "longest_edge"},
    {PREPROCESSOR, "max_pixels", "0", NULL},
    {PREPROCESSOR, "do_resize", "false", "do_resize"},
    {PREPROCESSOR, "do_normalize", "false", "do_normalize"},
    {PREPROCESSOR, "do_rescale", "1", "do_rescale"},
    {PREPROCESSOR, "resample", "2", "2"},
    {PREPROCESSOR, "rescale_factor", "1.0", "1.0"},
    {PREPROCESSOR, "image_mean", GONE, "absent"},
    {PREPROCESSOR, "image_mean", "[0.5,0.5]", "[0.5,0.5]"},
    {PREPROCESSOR, "image_mean", "[0.5,0.5,\"0.5\"]", "\"0.5\""},
    {PREPROCESSOR, "image_mean", "[0.5,0.5,null]", "null"},
    {PREPROCESSOR, "image_std", "[0.5,0,0.5]", "[0.5,0,0.5]"},
    {PREPROCESSOR, "image_std", "[0.5,-1,0.5]", "-1"},
    {PREPROCESSOR, "image_std", "[0.5,1e300,0.5]", "1e300"},
};

static void json_damage(void **state)
{
    (void)state;
    const char *good = ckpt_make(base_dir, "tiny-ragged-fp8");
    for (size_t i = 0; i < sizeof(json_rows) / sizeof(json_rows[0]); i++) {
        const struct json_row *row = &json_rows[i];
        char what[300];
        snprintf(what, sizeof(what), "%s %s = %s", row->file, row->path,
                 row->value ? row->value : "(gone)");
        ckpt_copy(good, damaged);
        ckpt_set(damaged, row->file, row->path, row->value);
        const char *dot = strrchr(row->path, '.'), *says = row->says    ? row->says
                                                           : row->value ? row->value
                                                                        : "absent";
        const char *words[] = {row->file, dot ? dot + 1 : row->path, says};
        if (strcmp(row->path, "architectures") == 0) words[1] = "architecture";
        expect_refusal(what, EY_BAD_MODEL, words, 3);
    }
    assert_int_equal(n_failures, 0);
}

/* Members that only the text-only families read, or read differently. */
static void text_only_damage(void **state)
{
    (void)state;
    static const struct {
        const char *kind, *path, *value, *says;
    } rows[] = {
        {"tiny-llama-f16", "hidden_size", GONE, "hidden_size is absent"},
        {"tiny-llama-f16", "hidden_size", "255",
         "hidden_size 255 and num_attention_heads 2 give no head size"},
        {"tiny-llama-f16", "num_attention_heads", "65536", "give no head size"},
        {"tiny-llama-f16", "num_attention_heads", "0", "num_attention_heads is 0"},
        {"tiny-llama-f16", "num_key_value_heads", "3", "no multiple"},
        {"tiny-llama-f16", "head_dim", "0", "head_dim is 0"},
        {"tiny-llama-f16", "head_dim", "7", "odd"},
        {"tiny-llama-f16", "head_dim", "64", "q_proj"},
        {"tiny-llama-f16", "intermediate_size", "99999999999", "intermediate_size"},
        {"tiny-llama-f16", "vocab_size", "1501", "embed_tokens"},
        {"tiny-llama-f16", "vocab_size", "2", "eos_token_id 2"},
        {"tiny-llama-f16", "attention_bias", "true", "attention_bias is true"},
        {"tiny-llama-f16", "mlp_bias", "true", "mlp_bias is true"},
        {"tiny-llama-f16", "rope_scaling", "{\"rope_type\":\"llama3\",\"factor\":8.0}", "llama3"},
        {"tiny-llama-f16", "rope_scaling", "{\"type\":\"linear\",\"factor\":2}", "linear"},
        {"tiny-llama-f16", "rope_scaling", "7", "not an object"},
        {"tiny-llama-f16", "rope_theta", "0", "rope_theta is 0"},
        {"tiny-llama-f16", "rope_theta", "\"10000\"", "rope_theta"},
        {"tiny-llama-f16", "rope_parameters", "{\"rope_theta\":-1,\"rope_type\":\"default\"}",
         "rope_theta is -1"},
        {"tiny-llama-f16", "hidden_act", "\"gelu\"", "gelu"},
        {"tiny-llama-f16", "quantization_config", "{\"quant_method\":\"aqlm\"}", "aqlm"},
        {"tiny-phi3-bf16", "sliding_window", "0", "sliding_window is 0"},
        {"tiny-phi3-bf16", "sliding_window", "-37", "sliding_window is -37"},
        {"tiny-phi3-bf16", "sliding_window", "99999999999", "sliding_window"},
        {"tiny-phi3-bf16", "rope_scaling", "{\"type\":\"longrope\"}", "longrope"},
        {"tiny-phi3-bf16", "partial_rotary_factor", "0.5", "partial_rotary_factor"},
        {"tiny-phi3-bf16", "rope_theta", GONE, "rope_theta is absent"},
        {"tiny-phi3-bf16", "num_key_value_heads", "2", "qkv_proj"},
        {"tiny-phi3-bf16", "intermediate_size", "353", "gate_up_proj"},
        {"tiny-qwen2-bf16", "use_sliding_window", "true", "use_sliding_window is true"},
        {"tiny-qwen2-bf16", "rope_theta", GONE, "rope_theta is absent"},
        {"tiny-qwen2-bf16", "rope_scaling", "{\"rope_type\":\"yarn\",\"factor\":4.0}", "yarn"},
        {"tiny-qwen2-bf16", "tie_word_embeddings", "false", "lm_head"},
        {"tiny-qwen3-bf16", "head_dim", GONE, "head_dim is absent"},
        {"tiny-qwen3-bf16", "use_sliding_window", "true", "use_sliding_window is true"},
        {"tiny-qwen3-bf16", "architectures", "[\"Qwen2ForCausalLM\"]", "q_proj.bias"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char what[300];
        snprintf(what, sizeof(what), "%s: %s = %s", rows[i].kind, rows[i].path,
                 rows[i].value ? rows[i].value : "(gone)");
        ckpt_copy(ckpt_make(base_dir, rows[i].kind), damaged);
        ckpt_set(damaged, CONFIG, rows[i].path, rows[i].value);
        expect_refusal(what, EY_BAD_MODEL, &rows[i].says, 1);
    }
    assert_int_equal(n_failures, 0);
}

/* Tensors of the text-only families that are missing or have the wrong shape or type. */
static void text_only_tensors(void **state)
{
    (void)state;
    static const struct {
        const char *kind, *name;
        int64_t rows; /* 0: removed */
    } rows[] = {
        {"tiny-qwen2-bf16", "model.layers.1.self_attn.k_proj.bias", 0},
        {"tiny-qwen2-bf16", "model.layers.0.self_attn.q_proj.bias", 1023},
        {"tiny-qwen3-bf16", "model.layers.2.self_attn.q_norm.weight", 0},
        {"tiny-phi3-bf16", "model.layers.0.self_attn.qkv_proj.weight", 1151},
        {"tiny-phi3-bf16", "model.layers.0.mlp.gate_up_proj.weight", 0},
        {"tiny-llama-f16", "lm_head.weight", 0},
        {"tiny-llama-f16", "model.layers.2.mlp.up_proj.weight", 343},
        {"tiny-qwen2-fp8", "model.layers.0.mlp.up_proj.weight_scale_inv", 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *good = ckpt_make(base_dir, rows[i].kind), *name = rows[i].name;
        struct tensor_list list = tensors_read(good);
        if (rows[i].rows) {
            tensors_find(&list, name)->shape[0] = rows[i].rows;
            tensor_fit(tensors_find(&list, name));
        } else
            tensors_drop(&list, name);
        ckpt_copy(good, damaged);
        tensors_write(&list, damaged);
        expect_refusal(name, EY_BAD_MODEL, &name, 1);
    }
    assert_int_equal(n_failures, 0);
}

/* ---- damaged files ---- */

static void file_damage(void **state)
{
    (void)state;
    static const struct {
        const char *file, *bytes; /* NULL: removed */
        ey_code code;
        const char *says;
    } rows[] = {
        {"config.json", NULL, EY_BAD_MODEL, "config.json"},
        {"config.json", "", EY_BAD_MODEL, "config.json"},
        {"config.json", "{", EY_BAD_MODEL, "config.json"},
        {"config.json", "[]", EY_BAD_MODEL, "config.json"},
        {"config.json", "null", EY_BAD_MODEL, "config.json"},
        {"model.safetensors", NULL, EY_BAD_MODEL, "model.safetensors"},
        {"model.safetensors", "abcd", EY_BAD_MODEL, "model.safetensors"},
        {"tokenizer.json", NULL, EY_BAD_MODEL, "tokenizer.json"},
        {"tokenizer.json", "{}", EY_BAD_MODEL, "tokenizer.json"},
    };
    const char *good = ckpt_make(base_dir, "tiny-ragged-fp8");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char what[100];
        snprintf(what, sizeof(what), "%s: %s", rows[i].file,
                 rows[i].bytes ? rows[i].bytes : "(gone)");
        ckpt_copy(good, damaged);
        if (rows[i].bytes)
            ckpt_write_file(damaged, rows[i].file, rows[i].bytes, strlen(rows[i].bytes));
        else
            ckpt_remove_file(damaged, rows[i].file);
        /* either code is right for a missing file */
        ey_engine *engine = NULL;
        ey_err e = {0};
        ey_engine_options options = ey_engine_defaults();
        options.model = damaged;
        options.device = "ref";
        assert_false(ey_engine_open(&engine, &options, &e));
        assert_null(engine);
        if (!rows[i].bytes && e.code == EY_NOT_FOUND) e.code = EY_BAD_MODEL;
        if (e.code != rows[i].code || !strstr(e.text, rows[i].says))
            fail_msg("%s: %d %s", what, (int)e.code, e.text);
    }
}

static void deep_config(void **state)
{
    (void)state;
    enum { DEPTH = 100000 };
    char *text = malloc(2 * DEPTH);
    assert_non_null(text);
    memset(text, '[', DEPTH);
    memset(text + DEPTH, ']', DEPTH);
    const char *good = ckpt_make(base_dir, "tiny-ragged-fp8");
    static const char *const files[] = {CONFIG, GENERATION, PREPROCESSOR, "tokenizer.json"};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        ckpt_copy(good, damaged);
        ckpt_write_file(damaged, files[i], text, 2 * DEPTH);
        expect_refusal(files[i], EY_BAD_MODEL, &files[i], 1);
    }
    free(text);
    assert_int_equal(n_failures, 0);
}

/* ---- tensors ---- */

enum tensor_damage { DROP, RETYPE, RESHAPE };

struct tensor_row {
    const char *name;
    enum tensor_damage damage;
    enum dtype dtype;
    int n_dims;
    int64_t shape[5];
    const char *says;
};

#define L0 "model.language_model.layers.0."
#define L2 "model.language_model.layers.2."
#define VIS "model.visual."

/* tiny-ragged-fp8: hidden 192, 3 heads and 1 KV head of 128, MLP 320, vision hidden 128, vision MLP
 * 256, 144 positions */
static const struct tensor_row tensor_rows[] = {
    {"model.language_model.embed_tokens.weight", DROP, 0, 0, {0}, "missing"},
    {"model.language_model.embed_tokens.weight", RESHAPE, 0, 2, {1535, 192}, "[1535, 192]"},
    {"model.language_model.embed_tokens.weight", RETYPE, DTYPE_I32, 0, {0}, "I32"},
    {"model.language_model.norm.weight", DROP, 0, 0, {0}, "missing"},
    {"model.language_model.norm.weight", RESHAPE, 0, 2, {1, 192}, "[1, 192]"},
    {"model.language_model.norm.weight", RETYPE, DTYPE_F8_E4M3, 0, {0}, "F8_E4M3"},
    {L0 "input_layernorm.weight", DROP, 0, 0, {0}, "missing"},
    {L0 "input_layernorm.weight", RETYPE, DTYPE_F64, 0, {0}, "F64"},
    {L2 "self_attn.q_proj.weight", DROP, 0, 0, {0}, "missing"},
    {L2 "self_attn.q_proj.weight", RESHAPE, 0, 2, {192, 384}, "[192, 384]"},
    {L2 "self_attn.q_proj.weight", RESHAPE, 0, 1, {384 * 192}, "[73728]"},
    {L2 "self_attn.q_proj.weight", RESHAPE, 0, 3, {1, 384, 192}, "[1, 384, 192]"},
    {L2 "self_attn.q_proj.weight", RESHAPE, 0, 2, {0, 192}, "[0, 192]"},
    {L2 "self_attn.q_proj.weight", RESHAPE, 0, 0, {0}, "[]"},
    {L2 "self_attn.q_proj.weight", RETYPE, DTYPE_F8_E5M2, 0, {0}, "F8_E5M2"},
    {L2 "self_attn.q_proj.weight", RETYPE, DTYPE_I8, 0, {0}, "I8"},
    {L2 "self_attn.q_proj.weight_scale_inv", DROP, 0, 0, {0}, "missing"},
    {L2 "self_attn.q_proj.weight_scale_inv", RESHAPE, 0, 2, {2, 3}, "[2, 3]"},
    {L2 "self_attn.q_proj.weight_scale_inv", RESHAPE, 0, 1, {6}, "[6]"},
    {L2 "self_attn.q_proj.weight_scale_inv", RESHAPE, 0, 2, {1, 1}, "[1, 1]"},
    {L2 "self_attn.q_proj.weight_scale_inv", RETYPE, DTYPE_F8_E4M3, 0, {0}, "F8_E4M3"},
    {L2 "self_attn.q_proj.weight_scale_inv", RETYPE, DTYPE_U8, 0, {0}, "U8"},
    {L2 "self_attn.q_norm.weight", RESHAPE, 0, 1, {384}, "[384]"},
    {L2 "self_attn.k_norm.weight", DROP, 0, 0, {0}, "missing"},
    {L2 "mlp.down_proj.weight", RESHAPE, 0, 2, {192, 319}, "[192, 319]"},
    {L2 "mlp.up_proj.weight", DROP, 0, 0, {0}, "missing"},
    {VIS "patch_embed.proj.weight", RESHAPE, 0, 5, {128, 2, 16, 16, 3}, "channels-last"},
    {VIS "patch_embed.proj.weight", RESHAPE, 0, 2, {128, 1536}, "[128, 1536]"},
    {VIS "patch_embed.proj.weight", RETYPE, DTYPE_F8_E4M3, 0, {0}, "F8_E4M3"},
    {VIS "patch_embed.proj.bias", DROP, 0, 0, {0}, "missing"},
    {VIS "pos_embed.weight", RESHAPE, 0, 2, {143, 128}, "[143, 128]"},
    {VIS "blocks.3.attn.qkv.weight", DROP, 0, 0, {0}, "missing"},
    {VIS "blocks.3.attn.qkv.weight", RESHAPE, 0, 2, {128, 384}, "[128, 384]"},
    {VIS "blocks.3.attn.qkv.weight", RETYPE, DTYPE_BOOL, 0, {0}, "BOOL"},
    {VIS "blocks.3.mlp.linear_fc2.bias", RESHAPE, 0, 1, {129}, "[129]"},
    {VIS "merger.norm.weight", RESHAPE, 0, 1, {512}, "[512]"},
    {VIS "deepstack_merger_list.2.norm.bias", RESHAPE, 0, 1, {128}, "[128]"},
    {VIS "deepstack_merger_list.2.linear_fc2.weight", DROP, 0, 0, {0}, "missing"},
};

static void damage_tensor(struct tensor_list *list, const struct tensor_row *row)
{
    struct edited_tensor *t = tensors_find(list, row->name);
    if (row->damage == DROP) {
        tensors_drop(list, row->name);
        return;
    }
    if (row->damage == RETYPE)
        t->dtype = row->dtype;
    else {
        t->n_dims = row->n_dims;
        memcpy(t->shape, row->shape, sizeof(row->shape));
    }
    tensor_fit(t);
}

static void tensor_damage(void **state)
{
    (void)state;
    static const char *const names[] = {"dropped", "retyped", "reshaped"};
    const char *good = ckpt_make(base_dir, "tiny-ragged-fp8");
    for (size_t i = 0; i < sizeof(tensor_rows) / sizeof(tensor_rows[0]); i++) {
        const struct tensor_row *row = &tensor_rows[i];
        char what[200];
        struct tensor_list list = tensors_read(good);
        snprintf(what, sizeof(what), "%s %s (%s)", row->name, names[row->damage], row->says);
        damage_tensor(&list, row);
        ckpt_copy(good, damaged);
        tensors_write(&list, damaged);
        const char *words[] = {row->name, row->says,
                               row->damage == DROP ? damaged : "model.safetensors"};
        expect_refusal(what, EY_BAD_MODEL, words, 3);
    }
    assert_int_equal(n_failures, 0);
}

static void untied_without_head(void **state)
{
    (void)state;
    const char *const words[] = {"lm_head.weight", "missing"};
    ckpt_copy(ckpt_make(base_dir, "tiny-ragged-fp8"), damaged);
    /* the top level overrides text_config */
    ckpt_set(damaged, CONFIG, "tie_word_embeddings", "false");
    expect_refusal("untied, no head", EY_BAD_MODEL, words, 2);
    assert_int_equal(n_failures, 0);
}

/* Gives the head the tensors of a projection, with the vocabulary's rows. */
static void act_order_head(void **state)
{
    (void)state;
    static const char *const parts[] = {"qweight", "qzeros", "scales", "g_idx"};
    const char *const words[] = {"the head has groups of columns in another order", "act-order"};
    const char *good = ckpt_make(base_dir, "tiny-llama-gptq");
    ckpt_copy(good, damaged);
    struct tensor_list list = tensors_read(good);
    const int64_t rows = tensors_find(&list, "lm_head.weight")->shape[0];
    tensors_drop(&list, "lm_head.weight");
    for (int i = 0; i < 4; i++) {
        char name[80], from[80];
        snprintf(name, sizeof(name), "lm_head.%s", parts[i]);
        snprintf(from, sizeof(from), "model.layers.0.self_attn.q_proj.%s", parts[i]);
        struct edited_tensor *t = tensors_add(&list, name, tensors_find(&list, from));
        if (i < 3) t->shape[1] = i == 1 ? (rows + 7) / 8 : rows;
        tensor_fit(t);
    }
    tensors_write(&list, damaged);
    expect_refusal("act-order head", EY_BAD_MODEL, words, 2);
    assert_int_equal(n_failures, 0);
}

/* config.json allows these shapes, but the tensors are smaller. Nothing of that size may be
 * allocated. */
static void huge_but_allowed(void **state)
{
    (void)state;
    static const struct {
        const char *path, *value;
    } rows[] = {{T "hidden_size", "65536"},
                {T "intermediate_size", "65536"},
                {T "vocab_size", "1048576"},
                {T "num_hidden_layers", "256"},
                {V "depth", "256"},
                {V "hidden_size", "16384"},
                {V "num_position_embeddings", "65536"}};
    struct rlimit old, small;
    getrlimit(RLIMIT_AS, &old);
    small = old;
#ifndef __SANITIZE_ADDRESS__ /* AddressSanitizer reserves terabytes of addresses */
    small.rlim_cur = (rlim_t)1 << 30;
#endif
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ckpt_copy(ckpt_make(base_dir, "tiny-ragged-fp8"), damaged);
        ckpt_set(damaged, CONFIG, rows[i].path, rows[i].value);
        if (strcmp(rows[i].path, V "hidden_size") == 0)
            ckpt_set(damaged, CONFIG, V "num_heads", "64");
        if (strcmp(rows[i].path, T "hidden_size") == 0)
            ckpt_set(damaged, CONFIG, V "out_hidden_size", "65536");
        assert_int_equal(setrlimit(RLIMIT_AS, &small), 0);
        expect_refusal(rows[i].path, EY_BAD_MODEL, NULL, 0);
        setrlimit(RLIMIT_AS, &old);
    }
    assert_int_equal(n_failures, 0);
}

/* ---- tokenizer ---- */

static void vocabulary_too_small(void **state)
{
    (void)state;
    const char *good = ckpt_make(base_dir, "tiny-ragged-fp8"), *const words[] = {"tokenizer.json",
                                                                                 "1525", "1523"};
    struct tensor_list list = tensors_read(good);
    struct edited_tensor *t = tensors_find(&list, "model.language_model.embed_tokens.weight");
    t->shape[0] = 1524;
    tensor_fit(t);
    ckpt_copy(good, damaged);
    tensors_write(&list, damaged);
    ckpt_set(damaged, CONFIG, T "vocab_size", "1524");
    expect_refusal("tokenizer larger than the vocabulary", EY_BAD_MODEL, words, 3);
    assert_int_equal(n_failures, 0);
}

static void token_missing(void **state)
{
    (void)state;
    static const char *const tokens[] = {"<|image_pad|>", "<|vision_start|>", "<|vision_end|>",
                                         "<|im_start|>", "<|im_end|>"};
    const char *good = ckpt_make(base_dir, "tiny-ragged-fp8");
    for (size_t i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++) {
        char command[2048];
        ckpt_copy(good, damaged);
        /* a name of equal length, so that the old one is missing */
        snprintf(
            command, sizeof(command),
            "rm '%s/tokenizer.json' && sed 's/%s/<#%s/g' '%s/tokenizer.json' > '%s/tokenizer.json'",
            damaged, tokens[i], tokens[i] + 2, good, damaged);
        assert_int_equal(system(command), 0);
        const char *const words[] = {"tokenizer.json", tokens[i]};
        expect_refusal(tokens[i], EY_BAD_MODEL, words, 2);
    }
    assert_int_equal(n_failures, 0);
}

static int setup(void **state)
{
    (void)state;
    static char base[300];
    snprintf(base, sizeof(base), "%s", temp_dir_make());
    base_dir = base;
    snprintf(damaged, sizeof(damaged), "%s/damaged", base);
    return 0;
}

static int each(void **state)
{
    (void)state;
    n_failures = 0;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    temp_dir_remove(base_dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(json_damage, each),
        cmocka_unit_test_setup(file_damage, each),
        cmocka_unit_test_setup(deep_config, each),
        cmocka_unit_test_setup(tensor_damage, each),
        cmocka_unit_test_setup(untied_without_head, each),
        cmocka_unit_test_setup(act_order_head, each),
        cmocka_unit_test_setup(huge_but_allowed, each),
        cmocka_unit_test_setup(text_only_damage, each),
        cmocka_unit_test_setup(text_only_tensors, each),
        cmocka_unit_test_setup(vocabulary_too_small, each),
        cmocka_unit_test_setup(token_missing, each),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
