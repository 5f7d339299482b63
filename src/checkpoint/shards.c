/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a checkpoint: a directory with config.json and safetensors files, or a GGUF file. Builds
 * one table of all tensors. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/gguf/gguf_model.h"
#include "checkpoint/gguf/gguf_stores.h"

#define SINGLE_FILE "model.safetensors"
#define INDEX_FILE "model.safetensors.index.json"

enum { MAX_JSON_FILES = 16 };

struct json_file {
    char name[64];
    json_object *value; /* NULL if the file is absent */
};

struct shard {
    char *name; /* as the index spells it */
    struct safetensors *file;
};

struct checkpoint {
    char directory[EY_MAX_PATH];
    struct gguf_model *gguf; /* NULL for a directory */
    struct shard *shards;
    size_t n_shards;
    const struct tensor_view **tensors; /* [n], sorted by name */
    size_t n;
    uint64_t bytes;
    struct json_file json[MAX_JSON_FILES];
    int n_json;
    const json_object *config;
};

/* ---- JSON files ---- */

static bool load_object(json_object **out, const char *path, ey_err *e)
{
    json_object *value = json_parse_file(path, EY_BAD_MODEL, e);
    if (!value) return false;
    if (json_object_is_type(value, json_type_object)) return *out = value, true;
    json_object_put(value);
    return ey_fail(e, EY_BAD_MODEL, "%s: not a JSON object", path);
}

bool checkpoint_json(struct checkpoint *c, const char *name, const json_object **out, ey_err *e)
{
    if (c->gguf) return *out = gguf_model_json(c->gguf, name), true;
    for (int i = 0; i < c->n_json; i++)
        if (strcmp(c->json[i].name, name) == 0) return *out = c->json[i].value, true;
    char path[EY_MAX_PATH];
    json_object *value = NULL;
    *out = NULL;
    if (c->n_json == MAX_JSON_FILES)
        return ey_fail(e, EY_INTERNAL, "%s: the limit is %d JSON files per checkpoint", name,
                       MAX_JSON_FILES);
    if (!path_join(path, c->directory, name, e)) return false;
    if (access(path, F_OK) == 0 && !load_object(&value, path, e)) return false;
    struct json_file *slot = &c->json[c->n_json++];
    snprintf(slot->name, sizeof(slot->name), "%s", name);
    *out = slot->value = value;
    return true;
}

static bool load_config(struct checkpoint *c, ey_err *e)
{
    if (!checkpoint_json(c, "config.json", &c->config, e)) return false;
    if (c->config) return true;
    char path[EY_MAX_PATH];
    if (path_join(path, c->directory, "config.json", NULL) && access(path, R_OK) != 0 &&
        errno != ENOENT)
        return ey_fail(e, EY_IO, "%s: %s", path, strerror(errno));
    struct stat link;
    if (lstat(path, &link) == 0)
        return ey_fail(e, EY_NOT_FOUND,
                       "%s: a dangling link; the download is incomplete or its blob was removed",
                       path);
    return ey_fail(e, EY_NOT_FOUND, "%s: it has no config.json; is it the directory of a model?",
                   c->directory);
}

/* ---- shards ---- */

/* Whether a name from the index stays within the directory. */
static bool is_plain_file_name(const char *name)
{
    return name[0] && !strchr(name, '/') && !strstr(name, "..") && strcmp(name, ".") != 0;
}

static bool add_shard(struct checkpoint *c, const char *name, ey_err *e)
{
    char path[EY_MAX_PATH];
    struct shard *larger = realloc(c->shards, (c->n_shards + 1) * sizeof(*larger));
    if (!larger)
        return ey_fail_memory(e, "the list of shards", (c->n_shards + 1) * sizeof(*larger));
    c->shards = larger;
    struct shard *s = &c->shards[c->n_shards];
    *s = (struct shard){.name = strdup(name)};
    if (!s->name) return ey_fail_memory(e, name, strlen(name));
    c->n_shards++;
    return path_join(path, c->directory, name, e) && safetensors_open(&s->file, path, e);
}

/* Returns the shard of this name, opened on first use. Tries the last shard first because the
 * tensors of a shard mostly follow each other in the index. */
static struct safetensors *open_shard(struct checkpoint *c, const char *name, const char *tensor,
                                      ey_err *e)
{
    for (size_t i = c->n_shards; i-- > 0;)
        if (strcmp(c->shards[i].name, name) == 0) return c->shards[i].file;
    if (!is_plain_file_name(name)) {
        ey_fail(e, EY_BAD_MODEL,
                "%s/" INDEX_FILE
                ": tensor %.200s: \"%.200s\" is not the name of a file in this directory",
                c->directory, tensor, name);
        return NULL;
    }
    if (c->n_shards == EY_MAX_SHARDS) {
        ey_fail(e, EY_BAD_MODEL, "%s/" INDEX_FILE ": it names more than %d files", c->directory,
                EY_MAX_SHARDS);
        return NULL;
    }
    char path[EY_MAX_PATH];
    if (path_join(path, c->directory, name, NULL) && !path_is_file(path)) {
        ey_fail(e, EY_BAD_MODEL,
                "%s: no such file, though the index puts tensor %.200s there; the download "
                "is incomplete",
                path, tensor);
        return NULL;
    }
    return add_shard(c, name, e) ? c->shards[c->n_shards - 1].file : NULL;
}

/* ---- the table of tensors ---- */

static int compare_by_name(const void *a, const void *b)
{
    return strcmp((*(const struct tensor_view *const *)a)->name,
                  (*(const struct tensor_view *const *)b)->name);
}

static int compare_by_name_and_file(const void *a, const void *b)
{
    int order = compare_by_name(a, b);
    return order ? order
                 : strcmp((*(const struct tensor_view *const *)a)->file,
                          (*(const struct tensor_view *const *)b)->file);
}

static bool alloc_tensor_table(struct checkpoint *c, size_t n, ey_err *e)
{
    if (n > EY_MAX_TENSORS)
        return ey_fail(e, EY_BAD_MODEL, "%s: %zu tensors are more than the limit of %d",
                       c->directory, n, EY_MAX_TENSORS);
    c->tensors = calloc(n + 1, sizeof(*c->tensors));
    return c->tensors || ey_fail_memory(e, "the table of tensors", n * sizeof(*c->tensors));
}

static void add_tensor(struct checkpoint *c, const struct tensor_view *t)
{
    c->tensors[c->n++] = t;
    c->bytes += t->size;
}

static bool open_indexed_shard(struct checkpoint *c, const char *tensor, json_object *file,
                               ey_err *e)
{
    if (!json_object_is_type(file, json_type_string))
        return ey_fail(e, EY_BAD_MODEL,
                       "%s/" INDEX_FILE ": tensor %.200s: its file is %.80s; it must be a name",
                       c->directory, tensor,
                       json_object_to_json_string_ext(file, JSON_C_TO_STRING_PLAIN));
    return open_shard(c, json_object_get_string(file), tensor, e) != NULL;
}

/* Whether the index maps the tensor to the file of this view. */
static bool is_where_index_says(const struct tensor_view *t, json_object *map)
{
    json_object *file = json_member(map, t->name);
    const char *slash = strrchr(t->file, '/');
    return file && strcmp(json_object_get_string(file), slash ? slash + 1 : t->file) == 0;
}

/* Drops duplicates of a tensor in several shards: keeps the one that the index names, else the
 * first. */
static void drop_duplicates(struct checkpoint *c, json_object *map)
{
    size_t kept = 0;
    c->bytes = 0;
    for (size_t i = 0; i < c->n; i++) {
        const struct tensor_view *t = c->tensors[i];
        if (!kept || strcmp(c->tensors[kept - 1]->name, t->name) != 0)
            kept++;
        else if (!is_where_index_says(t, map))
            continue;
        c->tensors[kept - 1] = t;
    }
    c->n = kept;
    for (size_t i = 0; i < kept; i++)
        c->bytes += c->tensors[i]->size;
}

static bool add_tensors_of_shards(struct checkpoint *c, json_object *map, ey_err *e)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n_shards; i++)
        n += safetensors_count(c->shards[i].file);
    if (!alloc_tensor_table(c, n, e)) return false;
    for (size_t i = 0; i < c->n_shards; i++)
        for (size_t k = 0; k < safetensors_count(c->shards[i].file); k++)
            add_tensor(c, safetensors_at(c->shards[i].file, k));
    qsort(c->tensors, c->n, sizeof(*c->tensors), compare_by_name_and_file);
    drop_duplicates(c, map);
    return true;
}

/* Opens the files that the index lists and adds all tensors in them, even those that the index does
 * not list, as transformers does. */
static bool open_shards(struct checkpoint *c, ey_err *e)
{
    const json_object *index;
    if (!checkpoint_json(c, INDEX_FILE, &index, e)) return false;
    json_object *map = json_member_of_type(index, "weight_map", json_type_object);
    if (!map)
        return ey_fail(e, EY_BAD_MODEL, "%s/" INDEX_FILE ": weight_map is absent or not an object",
                       c->directory);
    json_object_object_foreach(map, tensor, file)
    {
        if (!open_indexed_shard(c, tensor, file, e)) return false;
    }
    return add_tensors_of_shards(c, map, e);
}

static bool open_single(struct checkpoint *c, ey_err *e)
{
    if (!add_shard(c, SINGLE_FILE, e)) return false;
    const struct safetensors *file = c->shards[0].file;
    size_t n = safetensors_count(file);
    if (!alloc_tensor_table(c, n, e)) return false;
    for (size_t i = 0; i < n; i++)
        add_tensor(c, safetensors_at(file, i));
    return true;
}

static bool has_file(const struct checkpoint *c, const char *name)
{
    char path[EY_MAX_PATH];
    return path_join(path, c->directory, name, NULL) && path_is_file(path);
}

static bool open_files(struct checkpoint *c, ey_err *e)
{
    if (has_file(c, SINGLE_FILE)) return open_single(c, e); /* an index beside it is stale */
    if (has_file(c, INDEX_FILE)) return open_shards(c, e);
    return ey_fail(e, EY_NOT_FOUND,
                   "%s: neither " SINGLE_FILE " nor " INDEX_FILE
                   " is in it; the download is incomplete, or the "
                   "weights have another format",
                   c->directory);
}

/* Opens a GGUF file, or the files that one of Ollama's manifests names. */
static bool open_gguf_files(struct checkpoint *c, ey_err *e)
{
    char model[EY_MAX_PATH], projector[EY_MAX_PATH];
    if (!ollama_is_manifest(c->directory)) return gguf_model_open(&c->gguf, c->directory, NULL, e);
    return ollama_read_manifest(c->directory, model, projector, e) &&
           gguf_model_open(&c->gguf, model, projector[0] ? projector : NULL, e);
}

static bool open_gguf(struct checkpoint *c, ey_err *e)
{
    if (!open_gguf_files(c, e)) return false;
    const size_t n = gguf_model_n_tensors(c->gguf);
    if (!alloc_tensor_table(c, n, e)) return false;
    for (size_t i = 0; i < n; i++)
        add_tensor(c, gguf_model_tensor_at(c->gguf, i));
    c->config = gguf_model_json(c->gguf, "config.json");
    return true;
}

/* ---- open, close, look up ---- */

bool checkpoint_open(struct checkpoint **out, const char *directory, ey_err *e)
{
    const bool is_gguf = gguf_is_file(directory) || ollama_is_manifest(directory);
    if (!is_gguf && !path_is_directory(directory))
        return ey_fail(e, EY_NOT_FOUND, "%s: no such directory", directory);
    struct checkpoint *c = calloc(1, sizeof(*c));
    if (!c) return ey_fail_memory(e, directory, sizeof(*c));
    size_t length = strlen(directory);
    while (length > 1 && directory[length - 1] == '/')
        length--;
    if (length >= sizeof(c->directory)) {
        checkpoint_close(c);
        return ey_fail(e, EY_BAD_REQUEST, "%.200s…: the path is longer than %d bytes", directory,
                       EY_MAX_PATH);
    }
    memcpy(c->directory, directory, length);
    if (is_gguf ? open_gguf(c, e) : load_config(c, e) && open_files(c, e)) return *out = c, true;
    checkpoint_close(c);
    return false;
}

void checkpoint_close(struct checkpoint *c)
{
    if (!c) return;
    for (size_t i = 0; i < c->n_shards; i++) {
        safetensors_close(c->shards[i].file);
        free(c->shards[i].name);
    }
    for (int i = 0; i < c->n_json; i++)
        json_object_put(c->json[i].value);
    gguf_model_close(c->gguf);
    free(c->shards);
    free(c->tensors);
    free(c);
}

const char *checkpoint_directory(const struct checkpoint *c)
{
    return c->directory;
}

bool checkpoint_is_gguf(const struct checkpoint *c)
{
    return c->gguf != NULL;
}

bool checkpoint_json_path(char *out, const struct checkpoint *c, const char *name, ey_err *e)
{
    if (!c->gguf) return path_join(out, c->directory, name, e);
    memcpy(out, c->directory, strlen(c->directory) + 1);
    return true;
}

json_object *checkpoint_tokenizer(const struct checkpoint *c, ey_err *e)
{
    if (c->gguf) return gguf_model_tokenizer(c->gguf, e);
    ey_fail(e, EY_INTERNAL, "%s: this is not a GGUF file; its tokenizer is in tokenizer.json",
            c->directory);
    return NULL;
}

size_t checkpoint_count(const struct checkpoint *c)
{
    return c->n;
}

const struct tensor_view *checkpoint_at(const struct checkpoint *c, size_t i)
{
    return i < c->n ? c->tensors[i] : NULL;
}

const struct tensor_view *checkpoint_find(const struct checkpoint *c, const char *name)
{
    const struct tensor_view wanted = {.name = name}, *key = &wanted;
    const struct tensor_view **found = c->n ? bsearch(&key, c->tensors, c->n, sizeof(*c->tensors),
                                                      compare_by_name)
                                            : NULL;
    return found ? *found : NULL;
}

uint64_t checkpoint_bytes(const struct checkpoint *c)
{
    return c->bytes;
}

const json_object *checkpoint_config(const struct checkpoint *c)
{
    return c->config;
}
