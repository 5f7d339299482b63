/* SPDX-License-Identifier: Apache-2.0 */
/* Converts a plain checkpoint to GGUF files, for tests. As in llama.cpp's converter, matrices keep
 * their type, vectors become F32, and the rows of Llama's queries and keys are interleaved.
 *
 * mkgguf CHECKPOINT OUT.gguf [MMPROJ.gguf [PARTS]]: PARTS splits the text model into that many
 * files, OUT-00001-of-0000N.gguf.
 *
 * mkgguf --mix Q4_K_M|Q6_K|Q8_0 CHECKPOINT OUT.gguf [MMPROJ.gguf]: gives matrices the types of
 * llama.cpp's mix, for plans. The file is sparse: it has no values.
 *
 * mkgguf --ollama CHECKPOINT OUT.gguf: writes text model and vision encoder to one file, in the
 * layout of Ollama's library. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "tensor/dequantize.h"

enum { ALIGNMENT = 32, MAX_OUT = 1 << 30, MAX_OUT_TENSORS = 4096, TEXT = 512 };

/* The numbers of value types in the file. */
enum { U32 = 4, I32 = 5, F32 = 6, BOOL = 7, STRING = 8, ARRAY = 9 };

static struct {
    struct checkpoint *ckpt;
    const json_object *config, *text; /* text: the part of config for the text model */
    json_object *tokenizer;
    const char *arch;
    const char *mix; /* NULL: matrices keep their type */
    bool images;
    bool ollama; /* write Ollama's layout */
} in;

struct out_tensor {
    char name[TEXT];
    int n_dims;
    uint64_t ne[4];
    uint32_t type;
    void *data;
    size_t size;
};

struct out_file {
    struct buf keys;
    uint64_t n_keys;
    struct out_tensor *tensors; /* [MAX_OUT_TENSORS] */
    size_t n;
};

static void fail(const char *what)
{
    fprintf(stderr, "mkgguf: %s\n", what);
    exit(1);
}

/* ---- values ---- */

static void add_u32(struct buf *b, uint32_t v)
{
    buf_add(b, &v, sizeof(v));
}

static void add_u64(struct buf *b, uint64_t v)
{
    buf_add(b, &v, sizeof(v));
}

static void add_text(struct buf *b, const char *text)
{
    add_u64(b, strlen(text));
    buf_add_text(b, text);
}

static void add_key(struct out_file *f, const char *key, uint32_t type)
{
    char full[TEXT];
    snprintf(full, sizeof(full), "%s%s", key[0] == '.' ? in.arch : "", key);
    add_text(&f->keys, full);
    add_u32(&f->keys, type);
    f->n_keys++;
}

static void key_u32(struct out_file *f, const char *key, int64_t value)
{
    add_key(f, key, U32);
    add_u32(&f->keys, (uint32_t)value);
}

static void key_f32(struct out_file *f, const char *key, double value)
{
    const float narrow = (float)value;
    add_key(f, key, F32);
    buf_add(&f->keys, &narrow, sizeof(narrow));
}

static void key_bool(struct out_file *f, const char *key, bool value)
{
    add_key(f, key, BOOL);
    buf_add(&f->keys, &value, 1);
}

static void key_text(struct out_file *f, const char *key, const char *text)
{
    add_key(f, key, STRING);
    add_text(&f->keys, text);
}

static void key_array(struct out_file *f, const char *key, uint32_t element, size_t n)
{
    add_key(f, key, ARRAY);
    add_u32(&f->keys, element);
    add_u64(&f->keys, n);
}

/* ---- tensors ---- */

static const char *after(const char *name, const char *prefix)
{
    const size_t n = strlen(prefix);
    return strncmp(name, prefix, n) == 0 ? name + n : NULL;
}

static uint32_t type_of(enum dtype d)
{
    if (d == DTYPE_F32) return 0;
    if (d == DTYPE_F16) return 1;
    if (d != DTYPE_BF16) fail("a tensor is not F32, F16 or BF16");
    return 30;
}

static struct out_tensor *new_tensor(struct out_file *f, const char *name, size_t size)
{
    if (f->n == MAX_OUT_TENSORS) fail("too many tensors");
    struct out_tensor *o = &f->tensors[f->n++];
    *o = (struct out_tensor){.size = size, .data = malloc(size)};
    snprintf(o->name, sizeof(o->name), "%s", name);
    if (!o->data) fail("no memory");
    return o;
}

/* Interleaves rows i and i + half of each head. */
static void pair_rows(void *to, const uint8_t *from, int64_t rows, size_t row_bytes, int64_t head)
{
    for (int64_t row = 0; row < rows; row++) {
        const int64_t at = row % head, i = at % (head / 2), p = at / (head / 2);
        memcpy((char *)to + (size_t)(row - at + 2 * i + p) * row_bytes,
               from + (size_t)row * row_bytes, row_bytes);
    }
}

/* A type by its number in the file and its dtype. */
struct mixed_type {
    uint32_t number;
    enum dtype dtype;
};

/* Returns the type of a matrix in a mix. llama.cpp's Q4_K_M uses six bits for the LM head, and for
 * the value and down projections in the first and last eighth of the layers and every third layer
 * between them. */
static struct mixed_type type_in_mix(const char *name)
{
    static const struct mixed_type q4 = {12, DTYPE_Q4_K}, q6 = {14, DTYPE_Q6_K},
                                   q8 = {8, DTYPE_Q8_0};
    const int layers = json_object_get_int(json_member(in.text, "num_hidden_layers")),
              eighth = layers / 8;
    int layer = -1;
    if (strcmp(in.mix, "Q8_0") == 0) return q8;
    if (strcmp(in.mix, "Q6_K") == 0) return q6;
    if (strcmp(in.mix, "Q4_K_M") != 0) fail("--mix must be Q4_K_M, Q6_K or Q8_0");
    const bool tied = json_object_get_boolean(json_member(in.config, "tie_word_embeddings"));
    if (strcmp(name, "output.weight") == 0 || (tied && strcmp(name, "token_embd.weight") == 0))
        return q6;
    if (sscanf(name, "blk.%d.", &layer) != 1 ||
        !(strstr(name, "attn_v.") || strstr(name, "ffn_down.")))
        return q4;
    return layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2 ? q6 : q4;
}

/* Adds a matrix without values. Those of the vision encoder keep their type. */
static void add_hole(struct out_file *f, const char *name, const struct tensor_view *t)
{
    struct out_tensor *o = &f->tensors[f->n++];
    *o = (struct out_tensor){.n_dims = t->n_dims, .size = t->size, .type = type_of(t->dtype)};
    snprintf(o->name, sizeof(o->name), "%s", name);
    for (int i = 0; i < t->n_dims; i++)
        o->ne[i] = (uint64_t)t->shape[t->n_dims - 1 - i];
    if (after(name, "v.") || after(name, "mm.")) return;
    const struct mixed_type type = type_in_mix(name);
    const struct dtype_traits *block = dtype_info(type.dtype);
    o->type = type.number;
    o->size = t->size / dtype_size(t->dtype) / block->values * block->bytes;
}

/* Adds a tensor. `heads`: the number of heads whose rows are interleaved; 0: no rows are. */
static void add_tensor(struct out_file *f, const char *name, const struct tensor_view *t,
                       int64_t heads)
{
    const bool vector = t->n_dims == 1;
    const size_t n = t->size / dtype_size(t->dtype);
    if (in.mix && t->n_dims == 2) {
        add_hole(f, name, t);
        return;
    }
    struct out_tensor *o = new_tensor(f, name, vector ? n * sizeof(float) : t->size);
    o->type = vector ? 0 : type_of(t->dtype);
    o->n_dims = t->n_dims;
    for (int i = 0; i < t->n_dims; i++)
        o->ne[i] = (uint64_t)t->shape[t->n_dims - 1 - i];
    if (vector)
        elements_to_f32(o->data, t->data, t->dtype, n);
    else if (heads)
        pair_rows(o->data, t->data, t->shape[0], t->size / (size_t)t->shape[0],
                  t->shape[0] / heads);
    else
        memcpy(o->data, t->data, t->size);
}

/* Splits [out, colors, frames, rows, columns] into one tensor per frame. */
static void add_patch_frames(struct out_file *f, const struct tensor_view *t)
{
    const size_t plane = (size_t)(t->shape[3] * t->shape[4]) * dtype_size(t->dtype),
                 n = (size_t)(t->shape[0] * t->shape[1]);
    for (size_t frame = 0; frame < 2; frame++) {
        struct out_tensor *o = new_tensor(
            f, frame ? "v.patch_embd.weight.1" : "v.patch_embd.weight", n * plane);
        o->type = type_of(t->dtype);
        o->n_dims = 4;
        o->ne[0] = (uint64_t)t->shape[4];
        o->ne[1] = (uint64_t)t->shape[3];
        o->ne[2] = (uint64_t)t->shape[1];
        o->ne[3] = (uint64_t)t->shape[0];
        for (size_t i = 0; i < n; i++)
            memcpy((char *)o->data + i * plane, t->data + (2 * i + frame) * plane, plane);
    }
}

/* Adds the patch embedding as one tensor. */
static void add_ollama_patch(struct out_file *f, const struct tensor_view *t)
{
    struct out_tensor *o = new_tensor(f, "v.patch_embed.weight", t->size);
    o->type = type_of(t->dtype);
    o->n_dims = 4;
    for (int i = 0; i < 3; i++)
        o->ne[i] = (uint64_t)t->shape[4 - i];
    o->ne[3] = (uint64_t)(t->shape[0] * t->shape[1]);
    memcpy(o->data, t->data, t->size);
}

/* Splits a matrix or bias into queries, keys and values. Values become float32, because Ollama's
 * files mix types, too. */
static void add_ollama_qkv(struct out_file *f, const struct tensor_view *t, int block,
                           const char *ending)
{
    for (size_t i = 0; i < 3; i++) {
        char name[TEXT];
        struct tensor_view part = *t;
        part.shape[0] = t->shape[0] / 3;
        part.size = t->size / 3;
        part.data = t->data + i * part.size;
        snprintf(name, sizeof(name), "v.blk.%d.attn_%c%s", block, "qkv"[i], ending);
        add_tensor(f, name, &part, 0);
        struct out_tensor *o = &f->tensors[f->n - 1];
        if (i < 2 || o->type == 0) continue;
        const size_t n = part.size / dtype_size(part.dtype);
        free(o->data);
        o->type = 0;
        o->size = n * sizeof(float);
        if (!(o->data = malloc(o->size))) fail("no memory");
        elements_to_f32(o->data, part.data, part.dtype, n);
    }
}

static void write_bytes(FILE *file, const void *bytes, size_t n)
{
    if (n && fwrite(bytes, 1, n, file) != n) fail("cannot write");
}

static void write_padding(FILE *file, size_t at)
{
    static const char zeros[ALIGNMENT];
    write_bytes(file, zeros, (ALIGNMENT - at % ALIGNMENT) % ALIGNMENT);
}

static void write_file(struct out_file *f, const char *path)
{
    struct buf head = buf_with_max(MAX_OUT);
    uint64_t offset = 0;
    buf_add_text(&head, "GGUF");
    add_u32(&head, 3);
    add_u64(&head, f->n);
    add_u64(&head, f->n_keys);
    buf_add(&head, f->keys.data, f->keys.size);
    for (size_t i = 0; i < f->n; i++) {
        const struct out_tensor *o = &f->tensors[i];
        add_text(&head, o->name);
        add_u32(&head, (uint32_t)o->n_dims);
        for (int d = 0; d < o->n_dims; d++)
            add_u64(&head, o->ne[d]);
        add_u32(&head, o->type);
        add_u64(&head, offset);
        offset += (o->size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    FILE *file = fopen(path, "wb");
    if (!file || head.failed) fail(path);
    write_bytes(file, head.data, head.size);
    write_padding(file, head.size);
    for (size_t i = 0; i < f->n; i++) {
        const struct out_tensor *o = &f->tensors[i];
        if (o->data)
            write_bytes(file, o->data, o->size);
        else if (fseek(file, (long)o->size, SEEK_CUR) != 0)
            fail(path);
        write_padding(file, o->size);
    }
    if (fflush(file) != 0 || ftruncate(fileno(file), ftell(file)) != 0) fail(path);
    if (fclose(file) != 0) fail(path);
    buf_free(&head);
}

/* ---- names ---- */

static const char *const layer_names[][2] = {
    {"input_layernorm", "attn_norm"},    {"post_attention_layernorm", "ffn_norm"},
    {"self_attn.q_proj", "attn_q"},      {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},      {"self_attn.qkv_proj", "attn_qkv"},
    {"self_attn.o_proj", "attn_output"}, {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"}, {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},           {"mlp.gate_up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
};
static const char *const vision_names[][2] = {
    {"patch_embed.proj", "v.patch_embd"}, {"pos_embed", "v.position_embd"},
    {"merger.norm", "v.post_ln"},         {"merger.linear_fc1", "mm.0"},
    {"merger.linear_fc2", "mm.2"},
};
static const char *const block_names[][2] = {
    {"norm1", "ln1"},
    {"norm2", "ln2"},
    {"attn.qkv", "attn_qkv"},
    {"attn.proj", "attn_out"},
    {"mlp.linear_fc1", "ffn_up"},
    {"mlp.linear_fc2", "ffn_down"},
};
static const char *const deepstack_names[][2] = {
    {"norm", "norm"}, {"linear_fc1", "fc1"}, {"linear_fc2", "fc2"}};
#define COUNT(names) (sizeof(names) / sizeof((names)[0]))

/* Renames "STEM.weight" or "STEM.bias" by a list of stems. Returns false if the list lacks the
 * stem. */
static bool rename_stem(char *out, const char *folder, const char *rest,
                        const char *const (*names)[2], size_t n)
{
    const char *dot = strrchr(rest, '.');
    for (size_t i = 0; dot && i < n; i++) {
        const size_t length = strlen(names[i][0]);
        if ((size_t)(dot - rest) != length || strncmp(rest, names[i][0], length) != 0) continue;
        snprintf(out, TEXT, "%s%s%s", folder, names[i][1], dot);
        return true;
    }
    return false;
}

static int64_t number(const json_object *object, const char *key, int64_t missing)
{
    json_object *value = json_member(object, key);
    return value ? json_object_get_int64(value) : missing;
}

static bool text_name(char *out, const char *rest)
{
    int layer, used = 0;
    char folder[TEXT];
    if (strcmp(rest, "embed_tokens.weight") == 0) return strcpy(out, "token_embd.weight");
    if (strcmp(rest, "norm.weight") == 0) return strcpy(out, "output_norm.weight");
    if (sscanf(rest, "layers.%d.%n", &layer, &used) != 1 || !used) return false;
    snprintf(folder, sizeof(folder), "blk.%d.", layer);
    return rename_stem(out, folder, rest + used, layer_names, COUNT(layer_names));
}

static bool vision_name(char *out, const char *rest)
{
    int i, used = 0;
    char folder[TEXT];
    if (sscanf(rest, "blocks.%d.%n", &i, &used) == 1 && used) {
        snprintf(folder, sizeof(folder), "v.blk.%d.", i);
        return rename_stem(out, folder, rest + used, block_names, COUNT(block_names));
    }
    if (sscanf(rest, "deepstack_merger_list.%d.%n", &i, &used) == 1 && used) {
        const json_object *vision = json_member(in.config, "vision_config");
        json_object *layers = json_member(vision, "deepstack_visual_indexes");
        snprintf(folder, sizeof(folder), "v.deepstack.%d.",
                 json_object_get_int(json_object_array_get_idx(layers, (size_t)i)));
        return rename_stem(out, folder, rest + used, deepstack_names, COUNT(deepstack_names));
    }
    return rename_stem(out, "", rest, vision_names, COUNT(vision_names));
}

static bool add_ollama_tensor(struct out_file *f, const struct tensor_view *t, const char *rest)
{
    static const char *const outer_names[][2] = {{"patch_embed.proj", "v.patch_embed"},
                                                 {"pos_embed", "v.pos_embed"},
                                                 {"merger.norm", "v.merger.norm"},
                                                 {"merger.linear_fc1", "v.merger.linear_fc1"},
                                                 {"merger.linear_fc2", "v.merger.linear_fc2"}};
    static const char *const inner_names[][2] = {{"norm1", "norm1"},
                                                 {"norm2", "norm2"},
                                                 {"norm", "norm"},
                                                 {"attn.proj", "attn_out"},
                                                 {"mlp.linear_fc1", "mlp.linear_fc1"},
                                                 {"mlp.linear_fc2", "mlp.linear_fc2"},
                                                 {"linear_fc1", "linear_fc1"},
                                                 {"linear_fc2", "linear_fc2"}};
    char name[TEXT], folder[TEXT];
    int i, used = 0;
    if (strcmp(rest, "patch_embed.proj.weight") == 0) return add_ollama_patch(f, t), true;
    if (sscanf(rest, "blocks.%d.attn.qkv%n", &i, &used) == 1 && used)
        return add_ollama_qkv(f, t, i, rest + used), true;
    bool known;
    if (sscanf(rest, "blocks.%d.%n", &i, &used) == 1 && used) {
        snprintf(folder, sizeof(folder), "v.blk.%d.", i);
        known = rename_stem(name, folder, rest + used, inner_names, COUNT(inner_names));
    } else if (sscanf(rest, "deepstack_merger_list.%d.%n", &i, &used) == 1 && used) {
        snprintf(folder, sizeof(folder), "v.deepstack_merger.%d.", i);
        known = rename_stem(name, folder, rest + used, inner_names, COUNT(inner_names));
    } else {
        known = rename_stem(name, "", rest, outer_names, COUNT(outer_names));
    }
    if (known) add_tensor(f, name, t, 0);
    return known;
}

static void add_all_tensors(struct out_file *text, size_t n_parts, struct out_file *vision)
{
    for (size_t i = 0; i < checkpoint_count(in.ckpt); i++) {
        const struct tensor_view *t = checkpoint_at(in.ckpt, i);
        struct out_file *f = &text[i % n_parts];
        char name[TEXT];
        const char *rest;
        int64_t heads = 0;
        if ((rest = after(t->name, "model.visual."))) {
            if (!vision) continue;
            if (in.ollama) {
                if (!add_ollama_tensor(f, t, rest)) fail(t->name);
            } else if (strcmp(rest, "patch_embed.proj.weight") == 0)
                add_patch_frames(vision, t);
            else if (vision_name(name, rest))
                add_tensor(vision, name, t, 0);
            else
                fail(t->name);
            continue;
        }
        if (strcmp(t->name, "lm_head.weight") == 0) {
            add_tensor(f, "output.weight", t, 0);
            continue;
        }
        rest = after(t->name, "model.language_model.");
        if (!rest) rest = after(t->name, "model.");
        if (!rest || !text_name(name, rest)) fail(t->name);
        if (strcmp(in.arch, "llama") == 0 && strstr(name, "attn_q."))
            heads = number(in.text, "num_attention_heads", 0);
        if (strcmp(in.arch, "llama") == 0 && strstr(name, "attn_k."))
            heads = number(in.text, "num_key_value_heads", 0);
        add_tensor(f, name, t, heads);
    }
}

/* ---- keys ---- */

static void add_model_keys(struct out_file *f)
{
    static const char *const names[][2] = {{"hidden_size", ".embedding_length"},
                                           {"num_hidden_layers", ".block_count"},
                                           {"intermediate_size", ".feed_forward_length"},
                                           {"num_attention_heads", ".attention.head_count"},
                                           {"num_key_value_heads", ".attention.head_count_kv"},
                                           {"max_position_embeddings", ".context_length"},
                                           {"head_dim", ".attention.key_length"},
                                           {"head_dim", ".attention.value_length"},
                                           {"sliding_window", ".attention.sliding_window"}};
    json_object *theta = json_member(in.text, "rope_theta");
    key_text(f, "general.architecture", in.arch);
    key_text(f, "general.name", "made by mkgguf");
    key_u32(f, "general.file_type", 1);
    for (size_t i = 0; i < COUNT(names); i++)
        if (json_member(in.text, names[i][0]))
            key_u32(f, names[i][1], number(in.text, names[i][0], 0));
    key_f32(f, ".attention.layer_norm_rms_epsilon",
            json_object_get_double(json_member(in.text, "rms_norm_eps")));
    if (theta) key_f32(f, ".rope.freq_base", json_object_get_double(theta));
    if (!in.images) return;
    json_object *sections = json_member(json_member(in.text, "rope_scaling"), "mrope_section"),
                *taps = json_member(json_member(in.config, "vision_config"),
                                    "deepstack_visual_indexes");
    key_array(f, ".rope.dimension_sections", I32, 4);
    for (size_t i = 0; i < 4; i++)
        add_u32(&f->keys,
                i < 3 ? (uint32_t)json_object_get_int(json_object_array_get_idx(sections, i)) : 0);
    key_u32(f, ".n_deepstack_layers", (int64_t)json_object_array_length(taps));
}

static void add_colors(struct out_file *f, const json_object *images, const char *prefix)
{
    for (int k = 0; k < 2; k++) {
        const char *name = k ? "image_std" : "image_mean";
        char key[TEXT];
        json_object *list = json_member(images, name);
        snprintf(key, sizeof(key), "%s.vision.%s", prefix, name);
        key_array(f, key, F32, 3);
        for (size_t i = 0; i < 3; i++) {
            const float v = (float)json_object_get_double(json_object_array_get_idx(list, i));
            buf_add(&f->keys, &v, sizeof(v));
        }
    }
}

static void add_ollama_vision_keys(struct out_file *f)
{
    static const char *const names[][2] = {{"depth", ".vision.block_count"},
                                           {"hidden_size", ".vision.embedding_length"},
                                           {"num_heads", ".vision.attention.head_count"},
                                           {"patch_size", ".vision.patch_size"},
                                           {"spatial_merge_size", ".vision.spatial_merge_size"}};
    const json_object *vision = json_member(in.config, "vision_config"), *images = NULL;
    json_object *taps = json_member(vision, "deepstack_visual_indexes");
    ey_err e;
    if (!checkpoint_json(in.ckpt, "preprocessor_config.json", &images, &e)) fail(e.text);
    for (size_t i = 0; i < COUNT(names); i++)
        key_u32(f, names[i][1], number(vision, names[i][0], 0));
    add_colors(f, images, in.arch);
    const json_object *size = json_member(images, "size");
    key_u32(f, ".vision.shortest_edge", number(size, "shortest_edge", 65536));
    key_u32(f, ".vision.longest_edge", number(size, "longest_edge", 16777216));
    key_array(f, ".vision.deepstack_visual_indexes", I32, json_object_array_length(taps));
    for (size_t i = 0; i < json_object_array_length(taps); i++)
        add_u32(&f->keys, (uint32_t)json_object_get_int(json_object_array_get_idx(taps, i)));
}

static void add_vision_keys(struct out_file *f)
{
    static const char *const names[][2] = {
        {"depth", "clip.vision.block_count"},
        {"hidden_size", "clip.vision.embedding_length"},
        {"num_heads", "clip.vision.attention.head_count"},
        {"intermediate_size", "clip.vision.feed_forward_length"},
        {"out_hidden_size", "clip.vision.projection_dim"},
        {"patch_size", "clip.vision.patch_size"},
        {"spatial_merge_size", "clip.vision.spatial_merge_size"}};
    const json_object *vision = json_member(in.config, "vision_config"), *images = NULL;
    json_object *taps = json_member(vision, "deepstack_visual_indexes");
    const int64_t patch = number(vision, "patch_size", 0),
                  table = number(vision, "num_position_embeddings", 0),
                  depth = number(vision, "depth", 0);
    int64_t side = 1;
    ey_err e;
    while (side * side < table)
        side++;
    if (!checkpoint_json(in.ckpt, "preprocessor_config.json", &images, &e)) fail(e.text);
    key_text(f, "general.architecture", "clip");
    key_text(f, "clip.projector_type", "qwen3vl_merger");
    key_bool(f, "clip.has_vision_encoder", true);
    for (size_t i = 0; i < COUNT(names); i++)
        key_u32(f, names[i][1], number(vision, names[i][0], 0));
    key_u32(f, "clip.vision.image_size", side * patch);
    add_colors(f, images, "clip");
    const json_object *size = json_member(images, "size");
    key_u32(f, "clip.vision.image_min_pixels", number(size, "shortest_edge", 65536));
    key_u32(f, "clip.vision.image_max_pixels", number(size, "longest_edge", 16777216));
    key_array(f, "clip.vision.is_deepstack_layers", BOOL, (size_t)depth);
    for (int64_t i = 0; i < depth; i++) {
        bool tap = false;
        for (size_t k = 0; k < json_object_array_length(taps); k++)
            tap = tap || json_object_get_int64(json_object_array_get_idx(taps, k)) == i;
        buf_add(&f->keys, &tap, 1);
    }
}

/* ---- the tokenizer ---- */

struct out_token {
    const char *text;
    int kind;
    float score;
};

static struct out_token *read_tokens(size_t n, bool pieces)
{
    const json_object *model = json_member(in.tokenizer, "model");
    json_object *vocab = json_member(model, "vocab"),
                *added = json_member(in.tokenizer, "added_tokens");
    struct out_token *tokens = calloc(n, sizeof(*tokens));
    if (!tokens) fail("no memory");
    for (size_t i = 0; i < n; i++)
        tokens[i] = (struct out_token){NULL, 5, -1e5f - (float)i};
    json_object_object_foreach(vocab, text, id)
    {
        const size_t at = (size_t)json_object_get_int64(id);
        if (at >= n) fail("a token id is outside the vocabulary");
        tokens[at].text = text;
        tokens[at].kind = pieces && strncmp(text, "<0x", 3) == 0 && strlen(text) == 6 ? 6 : 1;
    }
    for (size_t i = 0; i < json_object_array_length(added); i++) {
        json_object *entry = json_object_array_get_idx(added, i);
        const size_t at = (size_t)number(entry, "id", 0);
        if (at >= n) fail("a token id is outside the vocabulary");
        tokens[at].text = json_object_get_string(json_member(entry, "content"));
        tokens[at].kind = json_object_get_boolean(json_member(entry, "special")) ? 3 : 4;
    }
    return tokens;
}

/* Writes the parts of a merge, "A B" or ["A", "B"], with `between` between them. */
static void merge_text(char out[TEXT], const json_object *pair, const char *between)
{
    const char *text = json_object_get_string((json_object *)(uintptr_t)pair), *space;
    if (json_object_is_type(pair, json_type_string)) {
        space = strchr(text, ' ');
        if (!space) fail("a merge is not a pair");
        snprintf(out, TEXT, "%.*s%s%s", (int)(space - text), text, between, space + 1);
        return;
    }
    snprintf(out, TEXT, "%s%s%s", json_object_get_string(json_object_array_get_idx(pair, 0)),
             between, json_object_get_string(json_object_array_get_idx(pair, 1)));
}

/* Scores tokens: the earlier its merge, the higher a token's score. */
static void score_tokens(struct out_token *tokens)
{
    const json_object *model = json_member(in.tokenizer, "model");
    json_object *vocab = json_member(model, "vocab"), *merges = json_member(model, "merges");
    for (size_t i = json_object_array_length(merges); i-- > 0;) {
        json_object *pair = json_object_array_get_idx(merges, i), *id;
        char text[TEXT];
        merge_text(text, pair, "");
        if (json_object_object_get_ex(vocab, text, &id))
            tokens[json_object_get_int64(id)].score = -(float)i;
    }
}

static void add_merges(struct out_file *f)
{
    json_object *merges = json_member(json_member(in.tokenizer, "model"), "merges");
    key_array(f, "tokenizer.ggml.merges", STRING, json_object_array_length(merges));
    for (size_t i = 0; i < json_object_array_length(merges); i++) {
        char text[TEXT];
        merge_text(text, json_object_array_get_idx(merges, i), " ");
        add_text(&f->keys, text);
    }
}

static void add_tokenizer_keys(struct out_file *f)
{
    const size_t n = (size_t)number(in.text, "vocab_size", 0);
    const bool pieces = json_member(json_member(in.tokenizer, "normalizer"), "normalizers") != NULL;
    struct out_token *tokens = read_tokens(n, pieces);
    const json_object *file;
    ey_err e;
    key_text(f, "tokenizer.ggml.model", pieces ? "llama" : "gpt2");
    key_text(f, "tokenizer.ggml.pre", pieces ? "default" : "qwen2");
    key_array(f, "tokenizer.ggml.tokens", STRING, n);
    for (size_t i = 0; i < n; i++) {
        char padding[32];
        snprintf(padding, sizeof(padding), "[PAD%zu]", i);
        add_text(&f->keys, tokens[i].text ? tokens[i].text : padding);
    }
    key_array(f, "tokenizer.ggml.token_type", I32, n);
    for (size_t i = 0; i < n; i++)
        add_u32(&f->keys, (uint32_t)tokens[i].kind);
    if (pieces) {
        score_tokens(tokens);
        key_array(f, "tokenizer.ggml.scores", F32, n);
        for (size_t i = 0; i < n; i++)
            buf_add(&f->keys, &tokens[i].score, sizeof(float));
        key_u32(f, "tokenizer.ggml.unknown_token_id", 0);
        key_u32(f, "tokenizer.ggml.bos_token_id", 1);
    } else {
        add_merges(f);
    }
    const int64_t eos = number(in.text, "eos_token_id", -1);
    if (eos >= 0) key_u32(f, "tokenizer.ggml.eos_token_id", eos);
    if (checkpoint_json(in.ckpt, "tokenizer_config.json", &file, &e) &&
        json_member_of_type(file, "chat_template", json_type_string))
        key_text(f, "tokenizer.chat_template",
                 json_object_get_string(json_member(file, "chat_template")));
    free(tokens);
}

/* ---- all ---- */

static struct out_file new_out_file(void)
{
    struct out_file f = {.keys = buf_with_max(MAX_OUT),
                         .tensors = calloc(MAX_OUT_TENSORS, sizeof(*f.tensors))};
    if (!f.tensors) fail("no memory");
    return f;
}

static void read_checkpoint(const char *dir)
{
    static const char *const archs[][2] = {{"llama", "llama"},
                                           {"qwen2", "qwen2"},
                                           {"qwen3", "qwen3"},
                                           {"phi3", "phi3"},
                                           {"qwen3_vl", "qwen3vl"}};
    char path[EY_MAX_PATH];
    ey_err e;
    if (!checkpoint_open(&in.ckpt, dir, &e) || !path_join(path, dir, "tokenizer.json", &e) ||
        !(in.tokenizer = json_parse_file(path, EY_BAD_MODEL, &e)))
        fail(e.text);
    in.config = checkpoint_config(in.ckpt);
    in.images = json_member(in.config, "text_config") != NULL;
    in.text = in.images ? json_member(in.config, "text_config") : in.config;
    json_object *type = json_member(in.config, "model_type");
    for (size_t i = 0; i < COUNT(archs); i++)
        if (type && strcmp(json_object_get_string(type), archs[i][0]) == 0) in.arch = archs[i][1];
    if (!in.arch) fail("the architecture is not supported");
}

static void write_parts(struct out_file *parts, size_t n, const char *path)
{
    size_t all = 0;
    for (size_t i = 0; i < n; i++)
        all += parts[i].n;
    for (size_t i = 0; i < n; i++) {
        char name[EY_MAX_PATH];
        snprintf(name, sizeof(name), "%.*s-%05zu-of-%05zu.gguf",
                 (int)(strlen(path) - strlen(".gguf")), path, i + 1, n);
        key_u32(&parts[i], "split.no", (int64_t)i);
        key_u32(&parts[i], "split.count", (int64_t)n);
        key_u32(&parts[i], "split.tensors.count", (int64_t)all);
        write_file(&parts[i], n > 1 ? name : path);
    }
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "--mix") == 0) {
        in.mix = argv[2];
        argc -= 2;
        argv += 2;
    }
    if (argc > 1 && strcmp(argv[1], "--ollama") == 0) {
        in.ollama = true;
        argc--;
        argv++;
    }
    if (argc < 3 || argc > (in.ollama ? 3 : 5))
        fail("usage: mkgguf [--mix MIX | --ollama] CHECKPOINT OUT.gguf [MMPROJ.gguf [PARTS]]");
    const size_t n_parts = argc > 4 ? strtoul(argv[4], NULL, 10) : 1;
    if (!n_parts || strlen(argv[2]) <= strlen(".gguf"))
        fail("OUT must end with .gguf, and PARTS must be at least 1");
    struct out_file *parts = calloc(n_parts, sizeof(*parts)), vision = new_out_file();
    if (!parts) fail("no memory");
    for (size_t i = 0; i < n_parts; i++)
        parts[i] = new_out_file();
    read_checkpoint(argv[1]);
    add_model_keys(&parts[0]);
    add_tokenizer_keys(&parts[0]);
    if (in.ollama) add_ollama_vision_keys(&parts[0]);
    add_all_tensors(parts, n_parts, in.images ? &vision : NULL);
    write_parts(parts, n_parts, argv[2]);
    if (in.images && argc > 3) {
        add_vision_keys(&vision);
        write_file(&vision, argv[3]);
    }
    return 0; /* the system frees the memory */
}
