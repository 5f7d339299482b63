/* SPDX-License-Identifier: Apache-2.0 */
/* Writes config.json as in the official checkpoints (spec 1.1-1.3, 2.5) or as transformers 5 saves
 * it, and the configurations of generation and preprocessing (spec 1.5, 1.6). */
#include "mk_config.h"

#include "base/buf.h"
#include "base/limits.h"

static const char *const architectures[] = {"Qwen3VLForConditionalGeneration", "Qwen2ForCausalLM",
                                            "Qwen3ForCausalLM", "Phi3ForCausalLM",
                                            "LlamaForCausalLM"};
static const char *const model_types[] = {"qwen3_vl", "qwen2", "qwen3", "phi3", "llama"};

static const char *truth(bool b)
{
    return b ? "true" : "false";
}

static const char *torch_name(enum dtype dtype)
{
    return dtype == DTYPE_F32 ? "float32" : dtype == DTYPE_F16 ? "float16" : "bfloat16";
}

/* ---- text_config ---- */

static void add_rope(struct buf *b, const struct kind *k)
{
    const char *section = "      \"mrope_interleaved\": true,\n      \"mrope_section\": [\n        "
                          "24,\n        20,\n        20\n      ],\n";
    if (k->old_layout) {
        buf_printf(b,
                   "    \"rope_parameters\": {\n%s      \"rope_theta\": %ld.0,\n      "
                   "\"rope_type\": \"default\"\n    },\n",
                   section, k->theta);
    } else {
        buf_printf(b,
                   "    \"rope_scaling\": {\n%s      \"rope_type\": \"default\"\n    },\n    "
                   "\"rope_theta\": %ld,\n",
                   section, k->theta);
    }
}

static void add_text_config(struct buf *b, const struct kind *k)
{
    buf_printf(
        b,
        "  \"text_config\": {\n    \"attention_bias\": false,\n    \"attention_dropout\": 0.0,\n");
    buf_printf(b, "    \"bos_token_id\": %d,\n    \"dtype\": \"%s\",\n    \"eos_token_id\": %d,\n",
               kind_token(k, 151643), torch_name(k->plain), kind_token(k, 151645));
    buf_printf(b,
               "    \"head_dim\": %d,\n    \"hidden_act\": \"silu\",\n    \"hidden_size\": %d,\n",
               MK_HEAD_DIM, k->hidden);
    buf_printf(b, "    \"initializer_range\": 0.02,\n    \"intermediate_size\": %d,\n", k->mlp);
    buf_printf(
        b, "    \"max_position_embeddings\": 262144,\n    \"model_type\": \"qwen3_vl_text\",\n");
    buf_printf(b,
               "    \"num_attention_heads\": %d,\n    \"num_hidden_layers\": %d,\n    "
               "\"num_key_value_heads\": %d,\n",
               k->heads, k->layers, k->kv_heads);
    buf_printf(b, "    \"rms_norm_eps\": 1e-06,\n");
    add_rope(b, k);
    if (k->tied_in_text_config) buf_printf(b, "    \"tie_word_embeddings\": %s,\n", truth(k->tied));
    buf_printf(b, "    \"use_cache\": true,\n    \"vocab_size\": %d\n  },\n", k->vocabulary);
}

/* ---- vision_config ---- */

static void add_vision_config(struct buf *b, const struct kind *k)
{
    buf_printf(b,
               "  \"vision_config\": {\n    \"deepstack_visual_indexes\": [\n      %d,\n      "
               "%d,\n      %d\n    ],\n",
               k->deepstack[0], k->deepstack[1], k->deepstack[2]);
    buf_printf(b,
               "    \"depth\": %d,\n    \"hidden_act\": \"gelu_pytorch_tanh\",\n    "
               "\"hidden_size\": %d,\n",
               k->v_depth, k->v_hidden);
    buf_printf(b,
               "    \"in_channels\": 3,\n    \"initializer_range\": 0.02,\n    "
               "\"intermediate_size\": %d,\n",
               k->v_mlp);
    buf_printf(b, "    \"model_type\": \"%s\",\n    \"num_heads\": %d,\n",
               k->old_layout ? "qwen3_vl_vision" : "qwen3_vl", k->v_heads);
    buf_printf(b,
               "    \"num_position_embeddings\": %d,\n    \"out_hidden_size\": %d,\n    "
               "\"patch_size\": 16,\n",
               k->v_positions, k->hidden);
    buf_printf(b, "    \"spatial_merge_size\": 2,\n    \"temporal_patch_size\": 2\n  },\n");
}

/* ---- quantization_config ---- */

/* Adds all linear layers of the vision encoder under one prefix. Official files list them under
 * both prefixes. */
static void add_ignored_vision(struct buf *b, const struct kind *k, const char *prefix)
{
    static const char *const linears[] = {"attn.proj", "attn.qkv", "attn.qkv_proj",
                                          "mlp.linear_fc1", "mlp.linear_fc2"};
    const char *p = prefix;
    for (int i = 0; i < k->v_depth; i++)
        for (int j = 0; j < 5; j++)
            buf_printf(b, ",\n      \"%sblocks.%d.%s\"", p, i, linears[j]);
    for (int i = 0; i < 3; i++)
        for (int j = 1; j <= 2; j++)
            buf_printf(b, ",\n      \"%sdeepstack_merger_list.%d.linear_fc%d\"", p, i, j);
    buf_printf(b, ",\n      \"%smerger.linear_fc1\",\n      \"%smerger.linear_fc2\"", p, p);
    buf_printf(b, ",\n      \"%spatch_embed.proj\",\n      \"%spos_embed\"", p, p);
}

/* Returns the members that other programs write, shortened. */
static const char *foreign_quantization(enum mk_layout layout)
{
    switch (layout) {
    case MK_FP8_ROWS:
        return "\"quant_method\": \"compressed-tensors\", \"format\": \"float-quantized\", "
               "\"config_groups\": {\"group_0\": {\"targets\": [\"Linear\"], \"weights\": "
               "{\"num_bits\": 8, \"type\": \"float\", \"strategy\": \"channel\", \"symmetric\": "
               "true, \"dynamic\": false}}}";
    case MK_PACKED8:
        return "\"quant_method\": \"compressed-tensors\", \"format\": \"pack-quantized\", "
               "\"config_groups\": {\"group_0\": {\"targets\": [\"Linear\"], \"weights\": "
               "{\"num_bits\": 8, \"type\": \"int\", \"strategy\": \"group\", \"group_size\": 32, "
               "\"symmetric\": true}}}";
    case MK_NVFP4:
        return "\"quant_method\": \"compressed-tensors\", \"format\": \"nvfp4-pack-quantized\", "
               "\"config_groups\": {\"group_0\": {\"targets\": [\"Linear\"], \"weights\": "
               "{\"num_bits\": 4, \"type\": \"float\", \"strategy\": \"tensor_group\", "
               "\"group_size\": 16, \"symmetric\": true}}}";
    case MK_AWQ:
        return "\"quant_method\": \"awq\", \"bits\": 4, \"group_size\": 64, \"zero_point\": true, "
               "\"version\": \"gemm\"";
    default:
        return "\"quant_method\": \"gptq\", \"bits\": 4, \"group_size\": 64, \"desc_act\": true, "
               "\"sym\": false, \"checkpoint_format\": \"gptq\"";
    }
}

static void add_quantization_config(struct buf *b, const struct kind *k)
{
    bool text_only = k->architecture != MK_QWEN3VL;
    if (k->layout != MK_USUAL) {
        buf_printf(b, "  \"quantization_config\": {%s},\n", foreign_quantization(k->layout));
        return;
    }
    if (k->scales == DTYPE_NONE) return;
    buf_printf(b,
               "  \"quantization_config\": {\n    \"activation_scheme\": \"dynamic\",\n    "
               "\"fmt\": \"e4m3\",\n"
               "    \"%s\": [\n      \"lm_head\"",
               text_only ? "modules_to_not_convert" : "ignored_layers");
    if (!text_only) {
        add_ignored_vision(b, k, "model.visual.");
        add_ignored_vision(b, k, "visual.");
    }
    buf_printf(b,
               "\n    ],\n    \"quant_method\": \"fp8\",\n    \"weight_block_size\": [\n      "
               "%d,\n      %d\n    ]\n  },\n",
               FP8_BLOCK, FP8_BLOCK);
}

/* ---- files ---- */

static bool save(struct mk_output *o, const char *name, struct buf *b, ey_err *e)
{
    bool ok = b->failed ? ey_fail_memory(e, name, 0) : output_text(o, name, b->data, b->size, e);
    buf_free(b);
    return ok;
}

/* Return the id that ends a text, and the id that ends a turn. Llama has one id for both. */
static int end_of_text(const struct kind *k)
{
    return k->architecture == MK_LLAMA ? 2 : k->first_added;
}

static int end_of_turn(const struct kind *k)
{
    if (k->architecture == MK_LLAMA) return 2;
    return k->architecture == MK_PHI3 ? k->first_added + 7 : kind_token(k, 151645);
}

static int start_of_text(const struct kind *k)
{
    return kind_sentencepiece(k) ? 1 : kind_token(k, 151643);
}

/* Adds members that only one family's file has. */
static void add_family_members(struct buf *b, const struct kind *k)
{
    switch (k->architecture) {
    case MK_QWEN2:
        buf_printf(b,
                   "  \"max_window_layers\": 70,\n  \"sliding_window\": %d,\n  "
                   "\"use_sliding_window\": false,\n",
                   k->max_position);
        break;
    case MK_QWEN3:
        buf_printf(b,
                   "  \"attention_bias\": false,\n  \"head_dim\": %d,\n  \"max_window_layers\": "
                   "%d,\n  \"rope_scaling\": null,\n"
                   "  \"sliding_window\": null,\n  \"use_sliding_window\": false,\n",
                   kind_head_dim(k), k->layers);
        break;
    case MK_PHI3:
        buf_printf(b,
                   "  \"attention_bias\": false,\n  \"embd_pdrop\": 0.0,\n  "
                   "\"original_max_position_embeddings\": %d,\n"
                   "  \"pad_token_id\": %d,\n  \"resid_pdrop\": 0.0,\n  \"rope_scaling\": null,\n  "
                   "\"sliding_window\": %d,\n",
                   k->max_position, end_of_text(k), k->window);
        break;
    case MK_LLAMA: buf_add_text(b, "  \"pretraining_tp\": 1,\n  \"rope_scaling\": null,\n"); break;
    case MK_QWEN3VL: break;
    }
}

/* Adds the members of a text-only model, which are all at the top level (spec 9). */
static void add_text_only(struct buf *b, const struct kind *k)
{
    int eos = k->architecture == MK_PHI3 ? end_of_text(k) : end_of_turn(k);
    buf_printf(b,
               "  \"bos_token_id\": %d,\n  \"eos_token_id\": %d,\n  \"hidden_act\": \"silu\",\n  "
               "\"hidden_size\": %d,\n",
               start_of_text(k), eos, k->hidden);
    buf_printf(b,
               "  \"initializer_range\": 0.02,\n  \"intermediate_size\": %d,\n  "
               "\"max_position_embeddings\": %d,\n",
               k->mlp, k->max_position);
    add_family_members(b, k);
    buf_printf(
        b,
        "  \"model_type\": \"%s\",\n  \"num_attention_heads\": %d,\n  \"num_hidden_layers\": %d,\n",
        model_types[k->architecture], k->heads, k->layers);
    buf_printf(b, "  \"num_key_value_heads\": %d,\n", k->kv_heads);
    add_quantization_config(b, k);
    buf_printf(b, "  \"rms_norm_eps\": %s,\n", kind_sentencepiece(k) ? "1e-05" : "1e-06");
    if (k->theta) buf_printf(b, "  \"rope_theta\": %ld.0,\n", k->theta);
    buf_printf(b,
               "  \"tie_word_embeddings\": %s,\n  \"torch_dtype\": \"%s\",\n  "
               "\"transformers_version\": \"4.43.1\",\n",
               truth(k->tied), torch_name(k->plain));
    buf_printf(b, "  \"use_cache\": true,\n  \"vocab_size\": %d\n}\n", k->vocabulary);
}

static bool write_main(struct mk_output *o, const struct kind *k, ey_err *e)
{
    struct buf b = buf_with_max(EY_MAX_JSON_BYTES);
    buf_printf(&b, "{\n  \"architectures\": [\n    \"%s\"\n  ],\n", architectures[k->architecture]);
    if (k->architecture != MK_QWEN3VL) return add_text_only(&b, k), save(o, "config.json", &b, e);
    if (k->old_layout) buf_printf(&b, "  \"dtype\": \"%s\",\n", torch_name(k->plain));
    buf_printf(&b, "  \"image_token_id\": %d,\n  \"model_type\": \"qwen3_vl\",\n",
               kind_token(k, 151655));
    add_quantization_config(&b, k);
    add_text_config(&b, k);
    buf_printf(&b,
               "  \"tie_word_embeddings\": %s,\n  \"transformers_version\": \"%s\",\n  "
               "\"video_token_id\": %d,\n",
               truth(k->tied), k->old_layout ? "5.3.0" : "4.57.0.dev0", kind_token(k, 151656));
    add_vision_config(&b, k);
    buf_printf(&b, "  \"vision_end_token_id\": %d,\n  \"vision_start_token_id\": %d\n}\n",
               kind_token(k, 151653), kind_token(k, 151652));
    return save(o, "config.json", &b, e);
}

static void add_sampling(struct buf *b, const struct kind *k)
{
    const char *repetition = k->architecture == MK_QWEN2 ? "1.05" : "1.0";
    switch (k->architecture) {
    case MK_PHI3: break; /* recommends none */
    case MK_LLAMA:
        buf_add_text(b, "  \"do_sample\": true,\n  \"max_length\": 4096,\n  \"temperature\": "
                        "0.6,\n  \"top_p\": 0.9,\n");
        break;
    default:
        buf_printf(b,
                   "  \"do_sample\": true,\n  \"top_k\": 20,\n  \"top_p\": 0.8,\n  "
                   "\"repetition_penalty\": %s,\n  \"temperature\": 0.7,\n",
                   repetition);
    }
}

static bool write_generation(struct mk_output *o, const struct kind *k, ey_err *e)
{
    struct buf b = buf_with_max(EY_MAX_JSON_BYTES);
    buf_printf(&b, "{\n  \"bos_token_id\": %d,\n  \"pad_token_id\": %d,\n", start_of_text(k),
               k->architecture == MK_LLAMA ? 0 : end_of_text(k));
    if (k->architecture == MK_LLAMA)
        buf_add_text(&b, "  \"eos_token_id\": 2,\n");
    else if (k->architecture == MK_PHI3)
        buf_printf(&b, "  \"eos_token_id\": [\n    %d,\n    %d,\n    %d\n  ],\n", end_of_text(k),
                   k->first_added + 1, end_of_turn(k));
    else
        buf_printf(&b, "  \"eos_token_id\": [\n    %d,\n    %d\n  ],\n", end_of_turn(k),
                   end_of_text(k));
    add_sampling(&b, k);
    buf_add_text(&b, "  \"transformers_version\": \"4.56.0\"\n}\n");
    return save(o, "generation_config.json", &b, e);
}

static bool write_preprocessor(struct mk_output *o, const char *name, long min, long max,
                               const char *type_key, const char *type, ey_err *e)
{
    struct buf b = buf_with_max(EY_MAX_JSON_BYTES);
    buf_printf(&b,
               "{\n    \"size\": {\n        \"longest_edge\": %ld,\n        \"shortest_edge\": "
               "%ld\n    },\n",
               max, min);
    buf_add_text(
        &b, "    \"patch_size\": 16,\n    \"temporal_patch_size\": 2,\n    \"merge_size\": 2,\n");
    buf_add_text(&b, "    \"image_mean\": [\n        0.5,\n        0.5,\n        0.5\n    ],\n");
    buf_add_text(&b, "    \"image_std\": [\n        0.5,\n        0.5,\n        0.5\n    ],\n");
    buf_printf(&b, "    \"processor_class\": \"Qwen3VLProcessor\",\n    \"%s\": \"%s\"\n}",
               type_key, type);
    return save(o, name, &b, e);
}

/* Writes the pooling of an embedding model, as Sentence Transformers saves it. */
static bool write_pooling(struct mk_output *o, const struct kind *k, ey_err *e)
{
    struct buf b = buf_with_max(EY_MAX_JSON_BYTES);
    if (k->task != MK_EMBEDS) return true;
    buf_printf(
        &b,
        "{\n    \"word_embedding_dimension\": %d,\n    \"pooling_mode_cls_token\": false,\n    "
        "\"pooling_mode_mean_tokens\": false,\n    \"pooling_mode_lasttoken\": true,\n    "
        "\"include_prompt\": true\n}\n",
        k->hidden);
    return output_folder(o, "1_Pooling", e) && save(o, "1_Pooling/config.json", &b, e);
}

bool config_write(struct mk_output *o, const struct kind *k, ey_err *e)
{
    if (!write_main(o, k, e) || !write_generation(o, k, e) || !write_pooling(o, k, e)) return false;
    if (k->architecture != MK_QWEN3VL) return true;
    return write_preprocessor(o, "preprocessor_config.json", k->min_pixels, k->max_pixels,
                              "image_processor_type", "Qwen2VLImageProcessorFast", e) &&
           write_preprocessor(o, "video_preprocessor_config.json", 4096, 25165824,
                              "video_processor_type", "Qwen3VLVideoProcessor", e);
}
