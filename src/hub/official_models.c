/* SPDX-License-Identifier: Apache-2.0 */
#include "hub/official_models.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/limits.h"
#include "hub/sparse_file.h"

enum {
    VOCABULARY = 151936,
    HEAD_DIM = 128,
    KV_HEADS = 8,
    FP8_BLOCK = 128,
    POSITIONS = 2304,
    PATCH_VALUES = 3 * 2 * 16 * 16,
    DEEPSTACK = 3,
    MAX_HEADER_BYTES = 4 << 20,
};

struct official_shape {
    const char *size;
    int hidden, layers, heads, mlp;
    bool tied;
    int v_hidden, v_mlp, v_depth, deepstack[DEEPSTACK];
};

static const struct official_shape shapes[] = {
    {"2B", 2048, 28, 16, 6144, true, 1024, 4096, 24, {5, 11, 17}},
    {"4B", 2560, 36, 32, 9728, true, 1024, 4096, 24, {5, 11, 17}},
    {"8B", 4096, 36, 32, 12288, false, 1152, 4304, 27, {8, 16, 24}},
};

static const char *const variants[] = {"Instruct", "Thinking"};

struct official_model {
    const struct official_shape *shape;
    bool fp8;
};

static bool find_official(struct official_model *out, const char *repository)
{
    char name[64];
    for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++)
        for (size_t v = 0; v < sizeof(variants) / sizeof(variants[0]); v++)
            for (int fp8 = 0; fp8 < 2; fp8++) {
                snprintf(name, sizeof(name), "Qwen/Qwen3-VL-%s-%s%s", shapes[s].size, variants[v],
                         fp8 ? "-FP8" : "");
                *out = (struct official_model){&shapes[s], fp8};
                if (strcasecmp(name, repository) == 0) return true;
            }
    return false;
}

bool official_model_is(const char *repository)
{
    struct official_model m;
    return find_official(&m, repository);
}

/* ---- tensors ---- */

/* The JSON of a safetensors header under construction, and the data's length. */
struct header {
    struct buf json;
    uint64_t bytes;
};

struct extent {
    int64_t rows, cols; /* cols 0 for a vector */
};

static void add_shape(struct header *h, const char *name, const char *dtype, unsigned size,
                      struct extent extent)
{
    uint64_t n = (uint64_t)extent.rows * (uint64_t)(extent.cols ? extent.cols : 1) * size;
    buf_printf(&h->json, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%lld", h->json.size ? "," : "{",
               name, dtype, (long long)extent.rows);
    if (extent.cols) buf_printf(&h->json, ",%lld", (long long)extent.cols);
    buf_printf(&h->json, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)h->bytes,
               (unsigned long long)(h->bytes + n));
    h->bytes += n;
}

__attribute__((format(printf, 3, 4))) static void add_bf16(struct header *h, struct extent extent,
                                                           const char *format, ...)
{
    char name[128];
    va_list values;
    va_start(values, format);
    vsnprintf(name, sizeof(name), format, values);
    va_end(values);
    add_shape(h, name, "BF16", 2, extent);
}

static int64_t blocks_of(int64_t n)
{
    return (n + FP8_BLOCK - 1) / FP8_BLOCK;
}

/* Adds a linear layer. In FP8 checkpoints it has a byte per weight and a scale per 128 x 128 block.
 */
static void add_linear(struct header *h, const struct official_model *m, int layer,
                       const char *part, struct extent extent)
{
    char name[128];
    int n = snprintf(name, sizeof(name), "model.language_model.layers.%d.%s.weight", layer, part);
    if (!m->fp8) {
        add_shape(h, name, "BF16", 2, extent);
        return;
    }
    add_shape(h, name, "F8_E4M3", 1, extent);
    snprintf(name + n, sizeof(name) - (size_t)n, "_scale_inv");
    add_shape(h, name, "BF16", 2, (struct extent){blocks_of(extent.rows), blocks_of(extent.cols)});
}

static void add_text_layer(struct header *h, const struct official_model *m, int i)
{
    const struct official_shape *s = m->shape;
    const int64_t hidden = s->hidden, q = (int64_t)s->heads * HEAD_DIM, kv = KV_HEADS * HEAD_DIM;
    static const char *const norms[] = {"input_layernorm", "post_attention_layernorm"};
    static const char *const head_norms[] = {"q_norm", "k_norm"};
    for (int k = 0; k < 2; k++)
        add_bf16(h, (struct extent){hidden, 0}, "model.language_model.layers.%d.%s.weight", i,
                 norms[k]);
    for (int k = 0; k < 2; k++)
        add_bf16(h, (struct extent){HEAD_DIM, 0},
                 "model.language_model.layers.%d.self_attn.%s.weight", i, head_norms[k]);
    add_linear(h, m, i, "self_attn.q_proj", (struct extent){q, hidden});
    add_linear(h, m, i, "self_attn.k_proj", (struct extent){kv, hidden});
    add_linear(h, m, i, "self_attn.v_proj", (struct extent){kv, hidden});
    add_linear(h, m, i, "self_attn.o_proj", (struct extent){hidden, q});
    add_linear(h, m, i, "mlp.gate_proj", (struct extent){s->mlp, hidden});
    add_linear(h, m, i, "mlp.up_proj", (struct extent){s->mlp, hidden});
    add_linear(h, m, i, "mlp.down_proj", (struct extent){hidden, s->mlp});
}

/* Adds a matrix, or a norm (no columns), and its bias. */
static void add_with_bias(struct header *h, const char *module, struct extent extent)
{
    add_bf16(h, extent, "model.visual.%s.weight", module);
    add_bf16(h, (struct extent){extent.rows, 0}, "model.visual.%s.bias", module);
}

static void add_vision_layer(struct header *h, const struct official_shape *s, int i)
{
    const int64_t hidden = s->v_hidden, mlp = s->v_mlp;
    const struct {
        const char *name;
        struct extent extent;
    } parts[] = {{"norm1", {hidden, 0}},
                 {"norm2", {hidden, 0}},
                 {"attn.qkv", {3 * hidden, hidden}},
                 {"attn.proj", {hidden, hidden}},
                 {"mlp.linear_fc1", {mlp, hidden}},
                 {"mlp.linear_fc2", {hidden, mlp}}};
    char module[64];
    for (size_t k = 0; k < sizeof(parts) / sizeof(parts[0]); k++) {
        snprintf(module, sizeof(module), "blocks.%d.%s", i, parts[k].name);
        add_with_bias(h, module, parts[k].extent);
    }
}

static void add_vision_merger(struct header *h, const struct official_shape *s, const char *name,
                              int64_t normed)
{
    const int64_t wide = 4 * (int64_t)s->v_hidden;
    const struct {
        const char *name;
        struct extent extent;
    } parts[] = {
        {"norm", {normed, 0}}, {"linear_fc1", {wide, wide}}, {"linear_fc2", {s->hidden, wide}}};
    char module[64];
    for (size_t k = 0; k < sizeof(parts) / sizeof(parts[0]); k++) {
        snprintf(module, sizeof(module), "%s.%s", name, parts[k].name);
        add_with_bias(h, module, parts[k].extent);
    }
}

/* Adds the patch embedding, which has five dimensions. */
static void add_patch_embedding(struct header *h, const struct official_shape *s)
{
    uint64_t n = (uint64_t)s->v_hidden * PATCH_VALUES * 2;
    buf_printf(&h->json,
               ",\"model.visual.patch_embed.proj.weight\":{\"dtype\":\"BF16\",\"shape\":"
               "[%d,3,2,16,16],\"data_offsets\":[%llu,%llu]}",
               s->v_hidden, (unsigned long long)h->bytes, (unsigned long long)(h->bytes + n));
    h->bytes += n;
    add_bf16(h, (struct extent){s->v_hidden, 0}, "model.visual.patch_embed.proj.bias");
}

static void add_vision(struct header *h, const struct official_shape *s)
{
    char name[64];
    add_patch_embedding(h, s);
    add_bf16(h, (struct extent){POSITIONS, s->v_hidden}, "model.visual.pos_embed.weight");
    for (int i = 0; i < s->v_depth; i++)
        add_vision_layer(h, s, i);
    add_vision_merger(h, s, "merger", s->v_hidden);
    for (int i = 0; i < DEEPSTACK; i++) {
        snprintf(name, sizeof(name), "deepstack_merger_list.%d", i);
        add_vision_merger(h, s, name, 4 * (int64_t)s->v_hidden);
    }
}

static struct header make_header(const struct official_model *m)
{
    const struct official_shape *s = m->shape;
    struct header h = {.json = buf_with_max(MAX_HEADER_BYTES)};
    const struct extent embedding = {VOCABULARY, s->hidden};
    add_bf16(&h, embedding, "model.language_model.embed_tokens.weight");
    for (int i = 0; i < s->layers; i++)
        add_text_layer(&h, m, i);
    add_bf16(&h, (struct extent){s->hidden, 0}, "model.language_model.norm.weight");
    add_vision(&h, s);
    if (!s->tied) add_bf16(&h, embedding, "lm_head.weight");
    buf_add_text(&h.json, "}");
    return h;
}

uint64_t official_model_bytes(const char *repository)
{
    struct official_model m;
    if (!find_official(&m, repository)) return 0;
    struct header h = make_header(&m);
    buf_free(&h.json);
    return h.bytes;
}

/* ---- files ---- */

static void add_text_part(struct buf *b, const struct official_shape *s)
{
    buf_printf(b,
               "\"text_config\":{\"model_type\":\"qwen3_vl_text\",\"bos_token_id\":151643,"
               "\"eos_token_id\":151645,\"dtype\":\"bfloat16\",\"hidden_act\":\"silu\","
               "\"head_dim\":%d,\"hidden_size\":%d,\"intermediate_size\":%d,",
               HEAD_DIM, s->hidden, s->mlp);
    buf_printf(b,
               "\"max_position_embeddings\":262144,\"num_attention_heads\":%d,"
               "\"num_hidden_layers\":%d,\"num_key_value_heads\":%d,\"rms_norm_eps\":1e-06,",
               s->heads, s->layers, KV_HEADS);
    buf_printf(b,
               "\"rope_scaling\":{\"mrope_interleaved\":true,\"mrope_section\":[24,20,20],"
               "\"rope_type\":\"default\"},\"rope_theta\":5000000,\"tie_word_embeddings\":%s,"
               "\"vocab_size\":%d},",
               s->tied ? "true" : "false", VOCABULARY);
}

static void add_vision_part(struct buf *b, const struct official_shape *s)
{
    buf_printf(b,
               "\"vision_config\":{\"model_type\":\"qwen3_vl\",\"deepstack_visual_indexes\":"
               "[%d,%d,%d],\"depth\":%d,\"hidden_act\":\"gelu_pytorch_tanh\",\"hidden_size\":%d,",
               s->deepstack[0], s->deepstack[1], s->deepstack[2], s->v_depth, s->v_hidden);
    buf_printf(b,
               "\"in_channels\":3,\"intermediate_size\":%d,\"num_heads\":16,"
               "\"num_position_embeddings\":%d,\"out_hidden_size\":%d,\"patch_size\":16,"
               "\"spatial_merge_size\":2,\"temporal_patch_size\":2}",
               s->v_mlp, POSITIONS, s->hidden);
}

static bool write_configuration(const struct official_model *m, const char *directory, ey_err *e)
{
    static const char fp8[] = "\"quantization_config\":{\"activation_scheme\":\"dynamic\","
                              "\"fmt\":\"e4m3\",\"quant_method\":\"fp8\","
                              "\"weight_block_size\":[128,128]},";
    struct buf b = buf_with_max(MAX_HEADER_BYTES);
    buf_printf(&b,
               "{\"architectures\":[\"Qwen3VLForConditionalGeneration\"],"
               "\"model_type\":\"qwen3_vl\",\"image_token_id\":151655,\"video_token_id\":151656,"
               "\"vision_start_token_id\":151652,\"vision_end_token_id\":151653,%s",
               m->fp8 ? fp8 : "");
    add_text_part(&b, m->shape);
    buf_printf(&b, "\"tie_word_embeddings\":%s,", m->shape->tied ? "true" : "false");
    add_vision_part(&b, m->shape);
    buf_add_text(&b, "}");
    bool ok = b.failed ? ey_fail_memory(e, "a model's configuration", b.size)
                       : sparse_file_write(directory, "config.json", &b, b.size, e);
    buf_free(&b);
    return ok;
}

static bool write_preprocessor(const char *directory, ey_err *e)
{
    static const char text[] =
        "{\"size\":{\"longest_edge\":16777216,\"shortest_edge\":65536},\"patch_size\":16,"
        "\"temporal_patch_size\":2,\"merge_size\":2,\"image_mean\":[0.5,0.5,0.5],"
        "\"image_std\":[0.5,0.5,0.5],\"image_processor_type\":\"Qwen2VLImageProcessorFast\"}";
    struct buf b = buf_with_max(sizeof(text));
    buf_add_text(&b, text);
    bool ok = sparse_file_write(directory, "preprocessor_config.json", &b, b.size, e);
    buf_free(&b);
    return ok;
}

static bool write_weights(const struct official_model *m, const char *directory, ey_err *e)
{
    struct header h = make_header(m);
    struct buf file = buf_with_max(MAX_HEADER_BYTES + 8);
    for (int i = 0; i < 8; i++) {
        char byte = (char)(h.json.size >> 8 * i);
        buf_add(&file, &byte, 1);
    }
    buf_add(&file, h.json.data, h.json.size);
    bool ok = file.failed || h.json.failed ? ey_fail_memory(e, "a model's header", h.json.size)
                                           : sparse_file_write(directory, "model.safetensors",
                                                               &file, file.size + h.bytes, e);
    buf_free(&file);
    buf_free(&h.json);
    return ok;
}

bool official_model_write_headers(const char *repository, const char *directory, ey_err *e)
{
    struct official_model m;
    if (!find_official(&m, repository))
        return ey_fail(e, EY_NOT_FOUND, "%s: its shapes are not known", repository);
    return write_configuration(&m, directory, e) && write_preprocessor(directory, e) &&
           write_weights(&m, directory, e);
}
