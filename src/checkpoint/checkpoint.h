/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a checkpoint directory → typed, checked views of its tensors, read in place.
 * Knows nothing of any model: names, dtypes, shapes and bytes. */
#ifndef EY_CHECKPOINT_H
#define EY_CHECKPOINT_H

#include "tensor/tensor.h"
#include "base/json.h"
#include "base/limits.h"

struct tensor_view {
    const char *name; /* as in the file; lives as long as the checkpoint */
    const char *file; /* path of its file, for errors */
    enum dtype dtype;
    int n_dims;
    int64_t shape[EY_MAX_DIMS];
    const uint8_t *data; /* in the map; any alignment */
    size_t size;         /* bytes */
};

/* ---- one safetensors file (spec 2.1) ---- */
struct safetensors;
/* Maps and checks a file: header within the file and within 100 MB, JSON object, known dtypes,
 * shapes whose product times the element size equals the length, offsets without holes or overlap
 * that end with the file. */
bool safetensors_open(struct safetensors **file, const char *path, ey_err *e);
/* The same over bytes that the caller keeps alive (tests, fuzzing); `path` is for messages. */
bool safetensors_open_memory(struct safetensors **file, const uint8_t *data, size_t size,
                             const char *path, ey_err *e);
void safetensors_close(struct safetensors *file);
size_t safetensors_count(const struct safetensors *file);
const struct tensor_view *safetensors_at(const struct safetensors *file, size_t i);
const struct tensor_view *safetensors_find(const struct safetensors *file,
                                           const char *name); /* NULL: not there */

/* ---- a checkpoint directory ---- */
struct checkpoint;
/* Opens model.safetensors.index.json with its shards, else model.safetensors. Names in the index
 * with '/' or
 * ".." are errors; symbolic links are followed. A tensor that the index names and its shard lacks
 * is an error. */
bool checkpoint_open(struct checkpoint **ckpt, const char *directory, ey_err *e);
void checkpoint_close(struct checkpoint *ckpt);
const char *checkpoint_directory(const struct checkpoint *ckpt);
size_t checkpoint_count(const struct checkpoint *ckpt);
const struct tensor_view *checkpoint_at(const struct checkpoint *ckpt, size_t i);
const struct tensor_view *checkpoint_find(const struct checkpoint *ckpt, const char *name);
/* Bytes of all tensors. */
uint64_t checkpoint_bytes(const struct checkpoint *ckpt);
/* config.json, parsed; borrowed from the checkpoint. */
const json_object *checkpoint_config(const struct checkpoint *ckpt);
/* generation_config.json, preprocessor_config.json …: borrowed, NULL when the file is absent; a
 * damaged one is an error, which returns false. */
bool checkpoint_json(struct checkpoint *ckpt, const char *name, const json_object **out, ey_err *e);

/* ---- names ---- */
enum { REPOSITORY_NAME_BYTES = 200, REPOSITORY_REVISION_BYTES = 200 };

struct repository {
    char name[REPOSITORY_NAME_BYTES + 1]; /* owner/name, or the name alone of very old ones */
    char revision[REPOSITORY_REVISION_BYTES +
                  1]; /* branch, tag or commit; "main" when none is given */
    bool revision_given;
};

/* "owner/name" or "owner/name@revision". False: it is no such name; what is one cannot climb out of
 * the cache. */
bool repository_parse(struct repository *r, const char *name);
/* Writes CACHE/models--owner--name to out[EY_MAX_PATH]; false: too long. */
bool repository_directory(char *out, const char *cache, const char *name);

/* Where Hugging Face's tools keep models, in out[EY_MAX_PATH]: HF_HUB_CACHE, else HF_HOME/hub, else
 * XDG_CACHE_HOME/huggingface/hub, else ~/.cache/huggingface/hub. It need not exist. */
bool hf_cache_directory(char *out, ey_err *e);

/* A directory, or "owner/name" (with "@revision" or without) in that cache:
 * models--owner--name/refs/main → snapshots/COMMIT. Writes the directory to out[EY_MAX_PATH]. The
 * error says where it was looked for and what to do. */
bool model_directory_find(char *out, const char *name, ey_err *e);

struct model_listing {
    char *name;         /* owner/name */
    char *directory;    /* of the snapshot refs/main points to (or the only one) */
    char *architecture; /* config.json's architectures[0]; NULL when there is none */
    char *quantization; /* "fp8", "bf16" …; NULL when unknown */
    uint64_t bytes;     /* of the safetensors files */
};
/* Models of the cache, sorted by name; an absent cache is an empty list. The caller frees. */
bool model_list(struct model_listing **list, size_t *n, ey_err *e);
void model_list_free(struct model_listing *list, size_t n);

#endif
