/* SPDX-License-Identifier: Apache-2.0 */
/* The Hugging Face cache: names of repositories, their directories, and a list of what is there.
 * Only reads, and never leaves the cache because of what a name or a file in it says. */
#ifndef EY_CHECKPOINT_HF_CACHE_H
#define EY_CHECKPOINT_HF_CACHE_H

#include "base/err.h"

enum { REPOSITORY_NAME_BYTES = 200, REPOSITORY_REVISION_BYTES = 200 };

struct repository {
    char name[REPOSITORY_NAME_BYTES + 1]; /* owner/name, or the name alone of very old ones */
    /* branch, tag or commit; "main" if none is given */
    char revision[REPOSITORY_REVISION_BYTES + 1];
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
    char *architecture; /* config.json's architectures[0], else its model_type; NULL: none */
    char *quantization; /* "fp8", "bf16" …; NULL when unknown */
    uint64_t bytes;     /* of the safetensors files */
};
/* Models of the cache, sorted by name; an absent cache is an empty list. The caller frees. */
bool model_list(struct model_listing **list, size_t *n, ey_err *e);
void model_list_free(struct model_listing *list, size_t n);

#endif
