/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes that config.json may have but no released model does: odd widths, one head, one patch a
 * token, no DeepStack. Every device and instruction set agrees with the reference or refuses the
 * model. */
#include <math.h>

#include "engine/engine_fixture.h"
#include "models/ckpt_edit.h"

struct odd {
    const char *what;
    int hidden, layers, heads, kv_heads, head_dim, mlp;
    const char *section;
    int v_hidden, v_heads, v_mlp, depth, side, patch, temporal, merge;
    const char *deepstack;
    int n_deepstack;
    bool fp8;
};

static const struct odd shapes[] = {
    {"odd widths", 33, 2, 3, 1, 10, 17, "[3,1,1]", 20, 1, 7, 3, 3, 6, 1, 3, "[0,2]", 2, false},
    {"smallest of all", 1, 1, 1, 1, 2, 1, "[1,0,0]", 4, 1, 1, 1, 2, 2, 1, 1, "[]", 0, false},
    {"no DeepStack, one patch a token", 130, 2, 5, 5, 6, 129, "[1,1,1]", 36, 3, 65, 2, 5, 4, 2, 1,
     "[]", 0, false},
    {"every layer tapped", 64, 3, 4, 2, 16, 96, "[4,2,2]", 32, 2, 48, 3, 4, 8, 2, 2, "[0,1,2]", 3,
     false},
    {"ragged FP8", 131, 2, 3, 3, 98, 257, "[17,16,16]", 40, 2, 41, 2, 6, 5, 2, 2, "[1]", 1, true},
    {"wide heads", 48, 2, 2, 1, 512, 40, "[86,85,85]", 24, 6, 24, 2, 2, 3, 2, 4, "[0]", 1, false},
};

static uint32_t noise;

static float next_value(float scale)
{
    noise = noise * 1664525u + 1013904223u;
    return ((float)(noise >> 8) / (float)(1 << 23) - 1.0f) * scale;
}

/* F32 values of about 1/sqrt(columns), norms of about 1, small biases; FP8 values of moderate size
 * with scales. */
static void add(struct tensor_list *list, const char *name, int n_dims, const int64_t *dims,
                bool fp8)
{
    size_t n = 1, cols = n_dims > 1 ? 1 : 0;
    struct edited_tensor *t = tensors_add(list, name, NULL);
    t->dtype = fp8 ? DTYPE_F8_E4M3 : DTYPE_F32;
    t->n_dims = n_dims;
    for (int i = 0; i < n_dims; i++) {
        t->shape[i] = dims[i];
        n *= (size_t)dims[i];
        cols *= i ? (size_t)dims[i] : 1;
    }
    tensor_fit(t);
    bool norm = n_dims == 1 && strstr(name, "norm") && strstr(name, "weight");
    for (size_t i = 0; i < n; i++) {
        float v = norm ? 1 + next_value(0.2f) : next_value(cols ? 1.5f / sqrtf((float)cols) : 0.1f);
        noise = noise * 1664525u + 1013904223u;
        if (fp8)
            t->data[i] = (uint8_t)(((noise >> 24) & 0x80) | (0x20 + ((noise >> 16) & 0x1f)));
        else
            memcpy(t->data + 4 * i, &v, 4);
    }
}

static void add_vector(struct tensor_list *list, const char *prefix, const char *name, int n)
{
    char whole[200];
    snprintf(whole, sizeof(whole), "%s%s", prefix, name);
    add(list, whole, 1, (int64_t[]){n}, false);
}

static void add_matrix(struct tensor_list *list, const char *prefix, const char *name, int rows,
                       int cols, bool fp8)
{
    char whole[200];
    snprintf(whole, sizeof(whole), "%s%s.weight", prefix, name);
    add(list, whole, 2, (int64_t[]){rows, cols}, fp8);
    if (!fp8) return;
    snprintf(whole, sizeof(whole), "%s%s.weight_scale_inv", prefix, name);
    add(list, whole, 2, (int64_t[]){(rows + 127) / 128, (cols + 127) / 128}, false);
}

static void add_affine(struct tensor_list *list, const char *prefix, const char *name, int rows,
                       int cols)
{
    char bias[100];
    snprintf(bias, sizeof(bias), "%s.bias", name);
    add_matrix(list, prefix, name, rows, cols, false);
    add_vector(list, prefix, bias, rows);
}

static void add_norm(struct tensor_list *list, const char *prefix, const char *name, int n)
{
    char part[100];
    snprintf(part, sizeof(part), "%s.weight", name);
    add_vector(list, prefix, part, n);
    snprintf(part, sizeof(part), "%s.bias", name);
    add_vector(list, prefix, part, n);
}

enum { VOCABULARY = 1536 };

static void add_text(struct tensor_list *list, const struct odd *s)
{
    int q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    add_matrix(list, "model.language_model.", "embed_tokens", VOCABULARY, s->hidden, false);
    add_vector(list, "model.language_model.", "norm.weight", s->hidden);
    for (int i = 0; i < s->layers; i++) {
        char p[80];
        snprintf(p, sizeof(p), "model.language_model.layers.%d.", i);
        add_vector(list, p, "input_layernorm.weight", s->hidden);
        add_vector(list, p, "post_attention_layernorm.weight", s->hidden);
        add_vector(list, p, "self_attn.q_norm.weight", s->head_dim);
        add_vector(list, p, "self_attn.k_norm.weight", s->head_dim);
        add_matrix(list, p, "self_attn.q_proj", q, s->hidden, s->fp8);
        add_matrix(list, p, "self_attn.k_proj", kv, s->hidden, s->fp8);
        add_matrix(list, p, "self_attn.v_proj", kv, s->hidden, s->fp8);
        add_matrix(list, p, "self_attn.o_proj", s->hidden, q, s->fp8);
        add_matrix(list, p, "mlp.gate_proj", s->mlp, s->hidden, s->fp8);
        add_matrix(list, p, "mlp.up_proj", s->mlp, s->hidden, s->fp8);
        add_matrix(list, p, "mlp.down_proj", s->hidden, s->mlp, s->fp8);
    }
}

static void add_merger(struct tensor_list *list, const struct odd *s, const char *name,
                       bool grouped)
{
    char p[80];
    int wide = s->merge * s->merge * s->v_hidden;
    snprintf(p, sizeof(p), "model.visual.%s.", name);
    add_norm(list, p, "norm", grouped ? wide : s->v_hidden);
    add_affine(list, p, "linear_fc1", wide, wide);
    add_affine(list, p, "linear_fc2", s->hidden, wide);
}

static void add_vision(struct tensor_list *list, const struct odd *s)
{
    int h = s->v_hidden;
    add(list, "model.visual.patch_embed.proj.weight", 5,
        (int64_t[]){h, 3, s->temporal, s->patch, s->patch}, false);
    add_vector(list, "model.visual.", "patch_embed.proj.bias", h);
    add_matrix(list, "model.visual.", "pos_embed", s->side * s->side, h, false);
    for (int i = 0; i < s->depth; i++) {
        char p[80];
        snprintf(p, sizeof(p), "model.visual.blocks.%d.", i);
        add_norm(list, p, "norm1", h);
        add_norm(list, p, "norm2", h);
        add_affine(list, p, "attn.qkv", 3 * h, h);
        add_affine(list, p, "attn.proj", h, h);
        add_affine(list, p, "mlp.linear_fc1", s->v_mlp, h);
        add_affine(list, p, "mlp.linear_fc2", h, s->v_mlp);
    }
    add_merger(list, s, "merger", false);
    for (int i = 0; i < s->n_deepstack; i++) {
        char name[40];
        snprintf(name, sizeof(name), "deepstack_merger_list.%d", i);
        add_merger(list, s, name, true);
    }
}

static void set_number(const char *dir, const char *file, const char *path, int value)
{
    char text[16];
    snprintf(text, sizeof(text), "%d", value);
    ckpt_set(dir, file, path, text);
}

static void write_config(const char *dir, const struct odd *s)
{
    const struct {
        const char *path;
        int value;
    } numbers[] = {
        {"text_config.hidden_size", s->hidden},
        {"text_config.num_hidden_layers", s->layers},
        {"text_config.num_attention_heads", s->heads},
        {"text_config.num_key_value_heads", s->kv_heads},
        {"text_config.head_dim", s->head_dim},
        {"text_config.intermediate_size", s->mlp},
        {"vision_config.hidden_size", s->v_hidden},
        {"vision_config.num_heads", s->v_heads},
        {"vision_config.intermediate_size", s->v_mlp},
        {"vision_config.depth", s->depth},
        {"vision_config.num_position_embeddings", s->side * s->side},
        {"vision_config.patch_size", s->patch},
        {"vision_config.temporal_patch_size", s->temporal},
        {"vision_config.spatial_merge_size", s->merge},
        {"vision_config.out_hidden_size", s->hidden},
    };
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        set_number(dir, "config.json", numbers[i].path, numbers[i].value);
    ckpt_set(dir, "config.json", "text_config.rope_scaling.mrope_section", s->section);
    ckpt_set(dir, "config.json", "vision_config.deepstack_visual_indexes", s->deepstack);
    set_number(dir, "preprocessor_config.json", "patch_size", s->patch);
    set_number(dir, "preprocessor_config.json", "temporal_patch_size", s->temporal);
    set_number(dir, "preprocessor_config.json", "merge_size", s->merge);
    ckpt_set(dir, "preprocessor_config.json", "size",
             "{\"shortest_edge\": 64, \"longest_edge\": 6400}");
}

static const char *make_odd(const struct odd *s)
{
    static char dir[400];
    struct tensor_list list = {0};
    snprintf(dir, sizeof(dir), "%s/odd", fixture_dir());
    ckpt_copy(ckpt_make(fixture_dir(), "tiny-ragged-fp8"), dir);
    write_config(dir, s);
    noise = 1;
    add_text(&list, s);
    add_vision(&list, s);
    tensors_write(&list, dir);
    return dir;
}

static struct outcome outcome_on(const char *model, const char *device, const char *mask)
{
    static struct question q;
    ey_engine_options options = ey_engine_defaults();
    ey_engine *engine;
    ey_err e;
    options.model = model;
    options.device = device;
    options.cpu_mask = mask;
    options.threads = 2;
    options.max_model_len = 3000;
    if (!ey_engine_open(&engine, &options, &e)) fail_msg("%s: %s", device, e.text);
    question_simple(&q, 2, "What is this?", 1); /* two images, several tiles and chunks */
    struct outcome o = outcome_of(engine, &q);
    ey_engine_close(&engine);
    return o;
}

static void odd_shapes(void **state)
{
    (void)state;
    static const char *const masks[] = {"generic",       "avx2-novnni", "avx2",
                                        "avx512-nobf16", "avx512",      "amx"};
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        const char *dir = make_odd(&shapes[i]);
        struct outcome ref = outcome_on(dir, "ref", NULL);
        double size = 0;
        for (int k = 0; k < VOCABULARY; k++)
            size = fmax(size, fabs((double)ref.logits[k]));
        assert_true(isfinite(size) && size > 0);
        for (size_t m = 0; m < sizeof(masks) / sizeof(masks[0]); m++) {
            double difference = 0;
            struct outcome cpu = outcome_on(dir, "cpu", masks[m]);
            assert_int_equal(cpu.prompt_tokens, ref.prompt_tokens);
            for (int k = 0; k < VOCABULARY; k++) {
                double d = fabs((double)ref.logits[k] - (double)cpu.logits[k]);
                difference = d >= difference || isnan(d) ? d : difference;
            }
            print_message("%s, %s: %d tokens, logits to %.2f, differ by %.1e\n", shapes[i].what,
                          masks[m], ref.prompt_tokens, size, difference);
            assert_true(difference <= 0.06 * size);
            outcome_free(&cpu);
        }
        outcome_free(&ref);
    }
}

/* With nine patches a token, tile sizes that are multiples of 64 do not hold whole tokens. */
static void tiles_hold_whole_tokens(void **state)
{
    static struct question q;
    (void)state;
    assert_int_equal(shapes[0].merge, 3);
    ey_engine *engine = engine_open(make_odd(&shapes[0]), "ref", 2, 3000);
    question_start(&q, 1);
    question_turn(&q, "user");
    question_part(&q, test_image(72, 72, 1)); /* 16 tokens, 144 patches */
    const int rows = engine->buffers.ws.max_rows;
    engine_set_rows(engine, rows, 140);
    struct outcome tiles = outcome_of(engine, &q);
    engine_forget(engine);
    engine_set_rows(engine, rows, rows);
    struct outcome whole = outcome_of(engine, &q);
    assert_same_outcome(&whole, &tiles, "tiles");
    outcome_free(&whole);
    outcome_free(&tiles);
    ey_engine_close(&engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(odd_shapes),
                                       cmocka_unit_test(tiles_hold_whole_tokens)};
    return cmocka_run_group_tests(tests, engine_fixture_open, engine_fixture_close);
}
