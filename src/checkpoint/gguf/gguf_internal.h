/* SPDX-License-Identifier: Apache-2.0 */
/* Internals shared by the files that assemble a gguf_model. */
#ifndef EY_CHECKPOINT_GGUF_INTERNAL_H
#define EY_CHECKPOINT_GGUF_INTERNAL_H

#include "checkpoint/gguf/gguf_arch.h"
#include "checkpoint/gguf/gguf_model.h"

struct gguf_model {
    const struct gguf_arch *arch;
    struct gguf **parts; /* [n_parts]; the first has all of the metadata */
    size_t n_parts;
    struct gguf *vision; /* NULL if there is none */
    bool one_file;       /* `vision` is parts[0], in Ollama's layout */
    int deepstack[EY_MAX_DEEPSTACK], n_deepstack;
    struct arena names;
    struct tensor_view *views; /* [n_views] */
    size_t n_views;
    json_object *config, *generation, *tokenizer_config, *preprocessor; /* the last may be NULL */
};

static inline struct gguf *gguf_main(const struct gguf_model *m)
{
    return m->parts[0];
}

/* Builds a JSON object member by member. A member that is NULL because memory ran out makes
 * json_made() fail. */
struct json_maker {
    json_object *object;
    bool ok;
};

static inline struct json_maker json_maker_start(void)
{
    struct json_maker m = {.object = json_object_new_object()};
    m.ok = m.object != NULL;
    return m;
}

/* Takes ownership of the value. */
static inline void json_make(struct json_maker *m, const char *key, json_object *value)
{
    if (m->ok && value && json_object_object_add(m->object, key, value) == 0) return;
    json_object_put(value);
    m->ok = false;
}

static inline void json_make_int(struct json_maker *m, const char *key, int64_t value)
{
    json_make(m, key, json_object_new_int64(value));
}

/* Returns the object, which the caller owns. Fails with NULL. */
static inline json_object *json_made(struct json_maker *m, ey_err *e)
{
    if (m->ok) return m->object;
    json_object_put(m->object);
    ey_fail_memory(e, "metadata", 0);
    return NULL;
}

/* Writes the key "ARCH.NAME" and returns it. */
enum { GGUF_KEY_BYTES = 128 };
const char *gguf_arch_key(char out[GGUF_KEY_BYTES], const struct gguf_arch *arch, const char *name);

/* Fills in config, generation and tokenizer_config. */
bool gguf_make_configs(struct gguf_model *m, ey_err *e);
/* Makes the equivalent of config.json's vision_config and fills in m->deepstack. Fails with NULL.
 */
json_object *gguf_vision_config(struct gguf_model *m, ey_err *e);
/* Returns whether m->vision is the vision encoder of this text model. Overwrites m->deepstack. */
bool gguf_vision_fits(struct gguf_model *m);
/* Makes the equivalent of preprocessor_config.json. Fails with NULL. */
json_object *gguf_preprocessor(const struct gguf_model *m, ey_err *e);
/* Finds a tensor of the text model's files by its GGUF name. Returns NULL if it is absent. */
const struct tensor_view *gguf_model_find(const struct gguf_model *m, const char *name);
/* Adds a copy of a view to the table under another name. Returns NULL if out of memory. */
struct tensor_view *gguf_add_view(struct gguf_model *m, const struct tensor_view *from,
                                  const char *name);

/* ---- gguf_ollama.c ---- */

/* Returns whether the file contains a vision encoder in the layout of Ollama's library. */
bool gguf_is_ollama(const struct gguf *file, const struct gguf_arch *arch);
/* Whether a tensor of such a file belongs to the vision encoder. */
bool gguf_is_ollama_vision(const struct gguf_model *m, const char *name);
/* Adds the vision encoder's tensors to m->views, which must have room for all tensors of the file.
 */
bool gguf_add_ollama_vision(struct gguf_model *m, ey_err *e);

#endif
