/* config.json as the official checkpoints lay it out (spec 1.1-1.3, 2.5), or as transformers 5 saves it, and the small
 * files: generation and preprocessing (spec 1.5, 1.6). */
#include "mk_config.h"

#include "base/buf.h"
#include "base/limits.h"

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
    const char *section = "      \"mrope_interleaved\": true,\n      \"mrope_section\": [\n        24,\n        20,\n        20\n      ],\n";
    if (k->old_layout) {
        buf_printf(b, "    \"rope_parameters\": {\n%s      \"rope_theta\": %ld.0,\n      \"rope_type\": \"default\"\n    },\n", section,
                   k->theta);
    } else {
        buf_printf(b, "    \"rope_scaling\": {\n%s      \"rope_type\": \"default\"\n    },\n    \"rope_theta\": %ld,\n", section,
                   k->theta);
    }
}

static void add_text_config(struct buf *b, const struct kind *k)
{
    buf_printf(b, "  \"text_config\": {\n    \"attention_bias\": false,\n    \"attention_dropout\": 0.0,\n");
    buf_printf(b, "    \"bos_token_id\": %d,\n    \"dtype\": \"%s\",\n    \"eos_token_id\": %d,\n", kind_token(k, 151643),
               torch_name(k->plain), kind_token(k, 151645));
    buf_printf(b, "    \"head_dim\": %d,\n    \"hidden_act\": \"silu\",\n    \"hidden_size\": %d,\n", MK_HEAD_DIM, k->hidden);
    buf_printf(b, "    \"initializer_range\": 0.02,\n    \"intermediate_size\": %d,\n", k->mlp);
    buf_printf(b, "    \"max_position_embeddings\": 262144,\n    \"model_type\": \"qwen3_vl_text\",\n");
    buf_printf(b, "    \"num_attention_heads\": %d,\n    \"num_hidden_layers\": %d,\n    \"num_key_value_heads\": %d,\n", k->heads,
               k->layers, k->kv_heads);
    buf_printf(b, "    \"rms_norm_eps\": 1e-06,\n");
    add_rope(b, k);
    if (k->tied_in_text_config) buf_printf(b, "    \"tie_word_embeddings\": %s,\n", truth(k->tied));
    buf_printf(b, "    \"use_cache\": true,\n    \"vocab_size\": %d\n  },\n", k->vocabulary);
}

/* ---- vision_config ---- */

static void add_vision_config(struct buf *b, const struct kind *k)
{
    buf_printf(b, "  \"vision_config\": {\n    \"deepstack_visual_indexes\": [\n      %d,\n      %d,\n      %d\n    ],\n",
               k->deepstack[0], k->deepstack[1], k->deepstack[2]);
    buf_printf(b, "    \"depth\": %d,\n    \"hidden_act\": \"gelu_pytorch_tanh\",\n    \"hidden_size\": %d,\n", k->v_depth, k->v_hidden);
    buf_printf(b, "    \"in_channels\": 3,\n    \"initializer_range\": 0.02,\n    \"intermediate_size\": %d,\n", k->v_mlp);
    buf_printf(b, "    \"model_type\": \"%s\",\n    \"num_heads\": %d,\n", k->old_layout ? "qwen3_vl_vision" : "qwen3_vl", k->v_heads);
    buf_printf(b, "    \"num_position_embeddings\": %d,\n    \"out_hidden_size\": %d,\n    \"patch_size\": 16,\n", k->v_positions,
               k->hidden);
    buf_printf(b, "    \"spatial_merge_size\": 2,\n    \"temporal_patch_size\": 2\n  },\n");
}

/* ---- quantization_config ---- */

/* Every vision linear, under both spellings of the tower, as the official files list them. */
static void add_ignored_tower(struct buf *b, const struct kind *k, const char *prefix)
{
    static const char *const linears[] = {"attn.proj", "attn.qkv", "attn.qkv_proj", "mlp.linear_fc1", "mlp.linear_fc2"};
    const char *p = prefix;
    for (int i = 0; i < k->v_depth; i++)
        for (int j = 0; j < 5; j++) buf_printf(b, ",\n      \"%sblocks.%d.%s\"", p, i, linears[j]);
    for (int i = 0; i < 3; i++)
        for (int j = 1; j <= 2; j++) buf_printf(b, ",\n      \"%sdeepstack_merger_list.%d.linear_fc%d\"", p, i, j);
    buf_printf(b, ",\n      \"%smerger.linear_fc1\",\n      \"%smerger.linear_fc2\"", p, p);
    buf_printf(b, ",\n      \"%spatch_embed.proj\",\n      \"%spos_embed\"", p, p);
}

static void add_quantization_config(struct buf *b, const struct kind *k)
{
    if (k->scales == DTYPE_NONE) return;
    buf_add_text(b, "  \"quantization_config\": {\n    \"activation_scheme\": \"dynamic\",\n    \"fmt\": \"e4m3\",\n"
                    "    \"ignored_layers\": [\n      \"lm_head\"");
    add_ignored_tower(b, k, "model.visual.");
    add_ignored_tower(b, k, "visual.");
    buf_printf(b, "\n    ],\n    \"quant_method\": \"fp8\",\n    \"weight_block_size\": [\n      %d,\n      %d\n    ]\n  },\n", FP8_BLOCK,
               FP8_BLOCK);
}

/* ---- files ---- */

static bool save(struct mk_output *o, const char *name, struct buf *b, ey_err *e)
{
    bool ok = b->failed ? ey_fail_memory(e, name, 0) : output_text(o, name, b->data, b->size, e);
    buf_free(b);
    return ok;
}

static bool write_main(struct mk_output *o, const struct kind *k, ey_err *e)
{
    struct buf b = buf_with_max(EY_MAX_JSON_BYTES);
    buf_add_text(&b, "{\n  \"architectures\": [\n    \"Qwen3VLForConditionalGeneration\"\n  ],\n");
    if (k->old_layout) buf_printf(&b, "  \"dtype\": \"%s\",\n", torch_name(k->plain));
    buf_printf(&b, "  \"image_token_id\": %d,\n  \"model_type\": \"qwen3_vl\",\n", kind_token(k, 151655));
    add_quantization_config(&b, k);
    add_text_config(&b, k);
    buf_printf(&b, "  \"tie_word_embeddings\": %s,\n  \"transformers_version\": \"%s\",\n  \"video_token_id\": %d,\n", truth(k->tied),
               k->old_layout ? "5.3.0" : "4.57.0.dev0", kind_token(k, 151656));
    add_vision_config(&b, k);
    buf_printf(&b, "  \"vision_end_token_id\": %d,\n  \"vision_start_token_id\": %d\n}\n", kind_token(k, 151653),
               kind_token(k, 151652));
    return save(o, "config.json", &b, e);
}

static bool write_generation(struct mk_output *o, const struct kind *k, ey_err *e)
{
    struct buf b = buf_with_max(EY_MAX_JSON_BYTES);
    buf_printf(&b, "{\n  \"bos_token_id\": %d,\n  \"pad_token_id\": %d,\n  \"do_sample\": true,\n", kind_token(k, 151643),
               kind_token(k, 151643));
    buf_printf(&b, "  \"eos_token_id\": [\n    %d,\n    %d\n  ],\n", kind_token(k, 151645), kind_token(k, 151643));
    buf_add_text(&b, "  \"top_k\": 20,\n  \"top_p\": 0.8,\n  \"repetition_penalty\": 1.0,\n  \"temperature\": 0.7,\n"
                     "  \"transformers_version\": \"4.56.0\"\n}\n");
    return save(o, "generation_config.json", &b, e);
}

static bool write_preprocessor(struct mk_output *o, const char *name, long min, long max, const char *type_key,
                               const char *type, ey_err *e)
{
    struct buf b = buf_with_max(EY_MAX_JSON_BYTES);
    buf_printf(&b, "{\n    \"size\": {\n        \"longest_edge\": %ld,\n        \"shortest_edge\": %ld\n    },\n", max, min);
    buf_add_text(&b, "    \"patch_size\": 16,\n    \"temporal_patch_size\": 2,\n    \"merge_size\": 2,\n");
    buf_add_text(&b, "    \"image_mean\": [\n        0.5,\n        0.5,\n        0.5\n    ],\n");
    buf_add_text(&b, "    \"image_std\": [\n        0.5,\n        0.5,\n        0.5\n    ],\n");
    buf_printf(&b, "    \"processor_class\": \"Qwen3VLProcessor\",\n    \"%s\": \"%s\"\n}", type_key, type);
    return save(o, name, &b, e);
}

bool config_write(struct mk_output *o, const struct kind *k, ey_err *e)
{
    return write_main(o, k, e) && write_generation(o, k, e) &&
           write_preprocessor(o, "preprocessor_config.json", k->min_pixels, k->max_pixels, "image_processor_type",
                              "Qwen2VLImageProcessorFast", e) &&
           write_preprocessor(o, "video_preprocessor_config.json", 4096, 25165824, "video_processor_type",
                              "Qwen3VLVideoProcessor", e);
}
