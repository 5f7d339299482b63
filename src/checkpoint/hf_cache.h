/* SPDX-License-Identifier: Apache-2.0 */
/* The Hugging Face cache: names of repositories, their directories, and a list of what is there.
 * Only reads, and never leaves the cache because of what a name or a file in it says. */
#ifndef EY_CHECKPOINT_HF_CACHE_H
#define EY_CHECKPOINT_HF_CACHE_H

#include "base/err.h"

enum { REPOSITORY_NAME_BYTES = 200, REPOSITORY_REVISION_BYTES = 200, REPOSITORY_TAG_BYTES = 80 };

struct repository {
    char name[REPOSITORY_NAME_BYTES + 1]; /* owner/name, or the name alone of very old ones */
    /* branch, tag or commit; "main" if none is given */
    char revision[REPOSITORY_REVISION_BYTES + 1];
    bool revision_given;
    char tag[REPOSITORY_TAG_BYTES + 1]; /* which of its GGUF files; "": none is named */
};

/* "owner/name", with "hf.co/" before it or without, with ":TAG", "@revision" or both behind it.
 * False: it is no such name; what is one cannot climb out of the cache. */
bool repository_parse(struct repository *r, const char *name);
/* Writes CACHE/models--owner--name to out[EY_MAX_PATH]; false: too long. */
bool repository_directory(char *out, const char *cache, const char *name);

/* Where Hugging Face's tools keep models, in out[EY_MAX_PATH]: HF_HUB_CACHE, else HF_HOME/hub, else
 * XDG_CACHE_HOME/huggingface/hub, else ~/.cache/huggingface/hub. It need not exist. */
bool hf_cache_directory(char *out, ey_err *e);

/* The snapshot of a repository in that cache: models--owner--name/refs/main → snapshots/COMMIT, in
 * out[EY_MAX_PATH]. The error says where it was looked for and what to do. */
bool model_snapshot_find(char *out, const struct repository *repository, ey_err *e);
/* What checkpoint_open() takes: a directory, a GGUF file, or "owner/name" in that cache; where it
 * has GGUF files, one of them. What is not there may be Ollama's or LM Studio's, by the names that
 * these give it. */
bool model_directory_find(char *out, const char *name, ey_err *e);

struct model_listing {
    char *name;         /* owner/name, with :TAG that of a GGUF file */
    char *directory;    /* of the snapshot refs/main points to (or the only one), or the file */
    char *architecture; /* config.json's architectures[0], else its model_type; NULL: none */
    char *quantization; /* "fp8", "bf16" …; NULL when unknown */
    uint64_t bytes;     /* of its safetensors files, or the GGUF file's */
};
/* Models of the cache, of Ollama and of LM Studio, sorted by name; an absent cache is an empty
 * list. The caller frees. */
bool model_list(struct model_listing **list, size_t *n, ey_err *e);
void model_list_free(struct model_listing *list, size_t n);

#endif
