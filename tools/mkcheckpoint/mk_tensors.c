/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the tensors of a kind with the names and shapes of the official checkpoints
 * (spec 2.3, 2.5).
 *
 * The gains keep a forward pass in range. Layer inputs are normalized, so weights of 1/sqrt(fan_in)
 * give values about 1, and attention and MLP outputs about 0.5. These are scaled so that the
 * residual stream ends at about 2, whatever the depth is; if it were much less, a tied head would
 * mostly predict the input token. Image features are as large as embeddings. The standard deviation
 * of logits is about 3. */
#include "mk_tensors.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GAIN_HALF = 2, GAIN_1 = 4, GAIN_2 = 8, GAIN_3 = 12 }; /* quarters */

static const struct recipe around_one = {4096, 2, 12}; /* 1 ± 0.125 */
static const struct recipe sharpening = {
    6144, 6, 12}; /* 1.5 ± 0.37: q_norm and k_norm, so that attention selects */
static const struct recipe small_bias = {0, 1, 12}; /* ± 0.06 */
static const struct recipe large_bias = {0, 1, 6};  /* ± 4: of queries and keys, as in Qwen2.5 */
static const struct recipe position_embedding = {0, 1, 8}; /* standard deviation 0.4 */

struct shape {
    int n;
    int64_t d[5];
};

#define SHAPE1(a)  \
    (struct shape) \
    {              \
        1,         \
        {          \
            a      \
        }          \
    }
#define SHAPE2(a, b) \
    (struct shape)   \
    {                \
        2,           \
        {            \
            a, b     \
        }            \
    }

static struct mk_tensor *next_slot(struct mk_list *l)
{
    if (l->n == l->capacity) {
        size_t capacity = l->capacity ? 2 * l->capacity : 256;
        struct mk_tensor *larger = realloc(l->tensors, capacity * sizeof(*larger));
        if (!larger) return NULL;
        l->tensors = larger;
        l->capacity = capacity;
    }
    return &l->tensors[l->n];
}

static void add_typed(struct mk_list *l, enum dtype dtype, struct shape s, struct recipe r,
                      const char *name)
{
    struct mk_tensor *t = next_slot(l);
    char *kept = arena_copy_text(&l->names, name, strlen(name));
    if (!t || !kept) {
        l->failed = true;
        return;
    }
    *t = (struct mk_tensor){
        .name = kept, .dtype = dtype, .n_dims = s.n, .recipe = r, .elements = 1};
    memcpy(t->shape, s.d, sizeof(t->shape));
    for (int i = 0; i < s.n; i++)
        t->elements *= (size_t)s.d[i];
    t->size = t->elements * dtype_size(dtype);
    t->key = values_key(l->kind->family, l->seed, name);
    l->n++;
}

static void add(struct mk_list *l, struct shape s, struct recipe r, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static void add(struct mk_list *l, struct shape s, struct recipe r, const char *fmt, ...)
{
    char name[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(name, sizeof(name), fmt, args);
    va_end(args);
    add_typed(l, l->kind->plain, s, r, name);
}

/* ---- text ---- */

static const char *text_prefix(const struct mk_list *l)
{
    return l->kind->old_layout || l->kind->architecture != MK_QWEN3VL ? "model."
                                                                      : "model.language_model.";
}

static int64_t blocks(int64_t n)
{
    return (n + FP8_BLOCK - 1) / FP8_BLOCK;
}

/* Adds one of the tensors of a quantized matrix. */
static void add_part(struct mk_list *l, const char *module, const char *part, enum dtype dtype,
                     struct shape s, struct recipe r)
{
    char name[300];
    snprintf(name, sizeof(name), "%.200s.%s", module, part);
    add_typed(l, dtype, s, r, name);
}

static const struct recipe any_bits = {.exponent = ANY_BITS};

/* Adds a matrix of packed integers with its zero points, scales and g_idx. Values and zero points
 * are random bits. */
static void add_words(struct mk_list *l, const char *module, int64_t rows, int64_t cols, int gain)
{
    enum { GROUP = 64, PACKED_GROUP = 32 };
    enum { VARIANCE4 = 42, VARIANCE8 = 5461 }; /* of value - zero point */
    const bool awq = l->kind->layout == MK_AWQ;
    if (l->kind->layout == MK_PACKED8) {
        add_part(l, module, "weight_packed", DTYPE_I32, SHAPE2(rows, cols / 4), any_bits);
        add_part(l, module, "weight_scale", DTYPE_BF16, SHAPE2(rows, cols / PACKED_GROUP),
                 recipe_scale_of(VARIANCE8, cols, gain));
        return;
    }
    add_part(l, module, "qweight", DTYPE_I32, awq ? SHAPE2(cols, rows / 8) : SHAPE2(cols / 8, rows),
             any_bits);
    add_part(l, module, "qzeros", DTYPE_I32, SHAPE2(cols / GROUP, rows / 8), any_bits);
    add_part(l, module, "scales", DTYPE_F16, SHAPE2(cols / GROUP, rows),
             recipe_scale_of(VARIANCE4, cols, gain));
    if (!awq)
        add_part(l, module, "g_idx", DTYPE_I32, SHAPE1(cols),
                 (struct recipe){(int32_t)cols, GROUP, GROUP_INDEX});
}

static int32_t integer_root(int64_t n)
{
    int32_t root = 1;
    while ((int64_t)root * root < n)
        root++;
    return root;
}

/* Adds an NVFP4 matrix. e2m1 has a mean square of 8.6, and scales are 32 to 96. */
static void add_nvfp4(struct mk_list *l, const char *module, int64_t rows, int64_t cols, int gain)
{
    enum { FOUR_TIMES_SIZE = 760 };
    add_part(l, module, "weight_packed", DTYPE_U8, SHAPE2(rows, cols / 2), any_bits);
    add_part(l, module, "weight_scale", DTYPE_F8_E4M3, SHAPE2(rows, cols / 16),
             (struct recipe){512, 1, 3});
    add_part(l, module, "weight_global_scale", DTYPE_F32, SHAPE1(1),
             (struct recipe){FOUR_TIMES_SIZE * integer_root(cols) / gain, 0, 0});
}

/* Adds a matrix in the quantized layout of another program. Returns false if the kind does not use
 * one. */
static bool add_foreign_linear(struct mk_list *l, const char *module, int64_t rows, int64_t cols,
                               int gain)
{
    switch (l->kind->layout) {
    case MK_USUAL: return false;
    case MK_FP8_ROWS:
        add_part(l, module, "weight", DTYPE_F8_E4M3, SHAPE2(rows, cols), recipe_fp8_code());
        add_part(l, module, "weight_scale", DTYPE_BF16, SHAPE2(rows, 1), recipe_scale(cols, gain));
        return true;
    case MK_NVFP4: add_nvfp4(l, module, rows, cols, gain); return true;
    default: add_words(l, module, rows, cols, gain); return true;
    }
}

static void add_decoder_linear(struct mk_list *l, int layer, const char *part, int64_t rows,
                               int64_t cols, int gain)
{
    char name[256];
    snprintf(name, sizeof(name), "%slayers.%d.%s", text_prefix(l), layer, part);
    if (add_foreign_linear(l, name, rows, cols, gain)) return;
    snprintf(name, sizeof(name), "%slayers.%d.%s.weight", text_prefix(l), layer, part);
    if (l->kind->scales == DTYPE_NONE) {
        add_typed(l, l->kind->plain, SHAPE2(rows, cols), recipe_weight(cols, gain), name);
        return;
    }
    add_typed(l, DTYPE_F8_E4M3, SHAPE2(rows, cols), recipe_fp8_code(), name);
    strcat(name, "_scale_inv");
    add_typed(l, l->kind->scales, SHAPE2(blocks(rows), blocks(cols)), recipe_scale(cols, gain),
              name);
}

static int residual_gain(int layers)
{
    return layers < 12 ? GAIN_2 : GAIN_HALF;
}

static void add_qkv(struct mk_list *l, int i, int64_t q, int64_t kv)
{
    const struct kind *k = l->kind;
    bool normed = k->architecture == MK_QWEN3VL || k->architecture == MK_QWEN3;
    int gain = normed ? GAIN_1 : GAIN_2; /* replaces the sharpening norms */
    if (k->architecture == MK_PHI3) {
        add_decoder_linear(l, i, "self_attn.qkv_proj", q + 2 * kv, k->hidden, gain);
        return;
    }
    add_decoder_linear(l, i, "self_attn.q_proj", q, k->hidden, gain);
    add_decoder_linear(l, i, "self_attn.k_proj", kv, k->hidden, GAIN_1);
    add_decoder_linear(l, i, "self_attn.v_proj", kv, k->hidden, GAIN_1);
    if (k->architecture == MK_QWEN2) {
        add(l, SHAPE1(q), large_bias, "%slayers.%d.self_attn.q_proj.bias", text_prefix(l), i);
        add(l, SHAPE1(kv), large_bias, "%slayers.%d.self_attn.k_proj.bias", text_prefix(l), i);
        add(l, SHAPE1(kv), small_bias, "%slayers.%d.self_attn.v_proj.bias", text_prefix(l), i);
    }
    if (normed) {
        add(l, SHAPE1(kind_head_dim(k)), sharpening, "%slayers.%d.self_attn.q_norm.weight",
            text_prefix(l), i);
        add(l, SHAPE1(kind_head_dim(k)), sharpening, "%slayers.%d.self_attn.k_norm.weight",
            text_prefix(l), i);
    }
}

static void add_mlp(struct mk_list *l, int i)
{
    const struct kind *k = l->kind;
    if (k->architecture == MK_PHI3) {
        add_decoder_linear(l, i, "mlp.gate_up_proj", 2 * (int64_t)k->mlp, k->hidden, GAIN_1);
    } else {
        add_decoder_linear(l, i, "mlp.gate_proj", k->mlp, k->hidden, GAIN_1);
        add_decoder_linear(l, i, "mlp.up_proj", k->mlp, k->hidden, GAIN_1);
    }
    add_decoder_linear(l, i, "mlp.down_proj", k->hidden, k->mlp, residual_gain(k->layers));
}

static void add_decoder_layer(struct mk_list *l, int i)
{
    const struct kind *k = l->kind;
    int64_t q = (int64_t)k->heads * kind_head_dim(k), kv = (int64_t)k->kv_heads * kind_head_dim(k);
    add(l, SHAPE1(k->hidden), around_one, "%slayers.%d.input_layernorm.weight", text_prefix(l), i);
    add_qkv(l, i, q, kv);
    add_decoder_linear(l, i, "self_attn.o_proj", k->hidden, q, residual_gain(k->layers));
    add(l, SHAPE1(k->hidden), around_one, "%slayers.%d.post_attention_layernorm.weight",
        text_prefix(l), i);
    add_mlp(l, i);
}

/* Adds the LM head if it is stored. With tied embeddings it has the embedding's key, so that it is
 * a copy. */
static void add_head(struct mk_list *l, uint64_t embedding_key)
{
    const struct kind *k = l->kind;
    if (!k->head_stored) return;
    size_t at = l->n;
    add(l, SHAPE2(k->vocabulary, k->hidden), recipe_weight(k->hidden, GAIN_3), "lm_head.weight");
    if (k->tied && l->n > at) l->tensors[at].key = embedding_key;
}

/* ---- vision ---- */

static const char *vision_prefix(const struct mk_list *l)
{
    return l->kind->old_layout ? "visual." : "model.visual.";
}

static void add_vision_linear(struct mk_list *l, const char *part, int64_t rows, int64_t cols,
                              int gain)
{
    add(l, SHAPE2(rows, cols), recipe_weight(cols, gain), "%s%s.weight", vision_prefix(l), part);
    add(l, SHAPE1(rows), small_bias, "%s%s.bias", vision_prefix(l), part);
}

static void add_layer_norm(struct mk_list *l, const char *part, int64_t width)
{
    add(l, SHAPE1(width), around_one, "%s%s.weight", vision_prefix(l), part);
    add(l, SHAPE1(width), small_bias, "%s%s.bias", vision_prefix(l), part);
}

static void add_vision_block(struct mk_list *l, int i)
{
    int64_t h = l->kind->v_hidden, mlp = l->kind->v_mlp;
    char part[64];
#define PART(text) (snprintf(part, sizeof(part), "blocks.%d." text, i), part)
    add_layer_norm(l, PART("norm1"), h);
    add_layer_norm(l, PART("norm2"), h);
    add_vision_linear(l, PART("attn.qkv"), 3 * h, h, GAIN_1);
    add_vision_linear(l, PART("attn.proj"), h, h, GAIN_HALF);
    add_vision_linear(l, PART("mlp.linear_fc1"), mlp, h, GAIN_1);
    add_vision_linear(l, PART("mlp.linear_fc2"), h, mlp, GAIN_HALF);
#undef PART
}

static void add_merger(struct mk_list *l, const char *name, int64_t norm_width)
{
    int64_t wide = 4 * (int64_t)l->kind->v_hidden;
    char part[64];
#define PART(text) (snprintf(part, sizeof(part), "%s" text, name), part)
    add_layer_norm(l, PART(".norm"), norm_width);
    add_vision_linear(l, PART(".linear_fc1"), wide, wide, GAIN_1);
    add_vision_linear(l, PART(".linear_fc2"), l->kind->hidden, wide, GAIN_HALF);
#undef PART
}

static void add_vision(struct mk_list *l)
{
    const struct kind *k = l->kind;
    const char *p = vision_prefix(l);
    struct shape patch = {5, {k->v_hidden, 3, 2, 16, 16}};
    add(l, patch, recipe_weight(3 * 2 * 16 * 16, GAIN_1), "%spatch_embed.proj.weight", p);
    add(l, SHAPE1(k->v_hidden), small_bias, "%spatch_embed.proj.bias", p);
    add(l, SHAPE2(k->v_positions, k->v_hidden), position_embedding, "%spos_embed.weight", p);
    for (int i = 0; i < k->v_depth; i++)
        add_vision_block(l, i);
    add_merger(l, "merger", k->v_hidden);
    for (int i = 0; i < 3; i++) {
        char name[48];
        snprintf(name, sizeof(name), "deepstack_merger_list.%d", i);
        add_merger(l, name, 4 * (int64_t)k->v_hidden);
    }
}

/* ---- the list ---- */

bool mk_list_make(struct mk_list *l, const struct kind *k, uint64_t seed, ey_err *e)
{
    *l = (struct mk_list){.kind = k, .seed = seed};
    add(l, SHAPE2(k->vocabulary, k->hidden), recipe_weight(k->hidden, GAIN_3),
        "%sembed_tokens.weight", text_prefix(l));
    for (int i = 0; i < k->layers; i++)
        add_decoder_layer(l, i);
    add(l, SHAPE1(k->hidden), around_one, "%snorm.weight", text_prefix(l));
    if (k->architecture == MK_QWEN3VL) add_vision(l);
    add_head(l, l->n ? l->tensors[0].key : 0);
    if (!l->failed) return true;
    mk_list_free(l);
    return ey_fail_memory(e, "the list of tensors", 0);
}

void mk_list_free(struct mk_list *l)
{
    free(l->tensors);
    arena_free(&l->names);
    *l = (struct mk_list){0};
}

uint64_t mk_list_bytes(const struct mk_list *l)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < l->n; i++)
        bytes += l->tensors[i].size;
    return bytes;
}
