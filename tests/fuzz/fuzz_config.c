/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as config.json, with valid other files and no weights: refused with a message, or read
 * into shapes whose products cannot overflow. The model type is Qwen3-VL or what the file says. */
#include <stdint.h>
#include <stdlib.h>

#include "checkpoint/temp_dir.h"
#include "models/qwen3vl/qwen3vl_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *dir;

static void make_directory(void)
{
    static const char eos[] = "{\"eos_token_id\": [5, 3]}";
    static const char preprocessor[] =
        "{\"size\": {\"longest_edge\": 16777216, \"shortest_edge\": 65536}, \"patch_size\": 16, "
        "\"temporal_patch_size\": 2,"
        "\"merge_size\": 2, \"image_mean\": [0.5, 0.5, 0.5], \"image_std\": [0.5, 0.5, 0.5]}";
    static const char no_tensors[] = "\x08\0\0\0\0\0\0\0{}      ";
    dir = temp_dir_until_exit();
    temp_text(dir, "generation_config.json", eos);
    temp_text(dir, "preprocessor_config.json", preprocessor);
    temp_file(dir, "model.safetensors", no_tensors, sizeof(no_tensors) - 1);
}

static void require(bool ok)
{
    if (!ok) abort();
}

static void check_shapes(const struct model *m)
{
    const struct text_shape *t = &m->text;
    const struct vision_shape *v = &m->vision;
    int pairs = t->head_dim / 2;
    require(t->hidden >= 1 && t->hidden <= EY_MAX_WIDTH && t->n_layers >= 1 &&
            t->n_layers <= EY_MAX_LAYERS);
    require(t->n_kv_heads >= 1 && t->n_heads % t->n_kv_heads == 0 &&
            (int64_t)t->n_heads * t->head_dim <= EY_MAX_WIDTH);
    require(t->head_dim % 2 == 0 && t->mlp >= 1 && t->mlp <= EY_MAX_WIDTH && t->vocab_size >= 1 &&
            t->vocab_size <= EY_MAX_VOCAB_SIZE);
    require(t->rope_section[0] >= 0 && t->rope_section[1] >= 0 && t->rope_section[2] >= 0);
    require(t->rope_section[0] + t->rope_section[1] + t->rope_section[2] == pairs &&
            t->rope_theta >= 1);
    require(v->depth >= 1 && v->depth <= EY_MAX_LAYERS && v->n_heads * v->head_dim == v->hidden &&
            v->head_dim % 4 == 0 && v->hidden <= EY_MAX_WIDTH / 4);
    require(v->out_hidden == t->hidden && v->mlp >= 1 && v->mlp <= EY_MAX_WIDTH &&
            v->position_side >= 2);
    require(v->n_deepstack <= EY_MAX_DEEPSTACK && v->n_deepstack <= t->n_layers);
    for (int i = 0; i < v->n_deepstack; i++)
        require(v->deepstack[i] >= (i ? v->deepstack[i - 1] + 1 : 0) && v->deepstack[i] < v->depth);
    require(m->patch_spec.patch == v->patch && m->patch_spec.merge == v->merge && m->n_eos >= 1);
    for (int i = 0; i < m->n_eos; i++)
        require(m->eos[i] >= 0 && m->eos[i] < t->vocab_size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct checkpoint *ckpt = NULL;
    struct model m = {0};
    struct quantization quantization;
    bool tied;
    ey_err e = {0};
    if (!dir) make_directory();
    temp_file(dir, "config.json", data, size);
    if (checkpoint_open(&ckpt, dir, &e) && qwen3vl_config_read(&m, &tied, &quantization, ckpt, &e))
        check_shapes(&m);
    else
        require(e.text[0] != 0 && e.code == EY_BAD_MODEL);
    checkpoint_close(ckpt);
    ckpt = NULL;
    m = (struct model){0};
    /* opening the model must fail, at the latest because its tensors are missing */
    if (!checkpoint_open(&ckpt, dir, &e)) return 0;
    require(!model_open(&m, ckpt, NULL, &e) && e.text[0] != 0);
    checkpoint_close(ckpt);
    return 0;
}
