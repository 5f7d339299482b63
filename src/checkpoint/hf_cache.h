/* SPDX-License-Identifier: Apache-2.0 */
/* The Hugging Face cache, read-only: repository names, snapshot directories, and a list of the
 * models present. Neither a model's name nor the text of a file in the cache can lead outside it.
 */
#ifndef EY_CHECKPOINT_HF_CACHE_H
#define EY_CHECKPOINT_HF_CACHE_H

#include "base/err.h"

enum { REPOSITORY_NAME_BYTES = 200, REPOSITORY_REVISION_BYTES = 200, REPOSITORY_TAG_BYTES = 80 };

struct repository {
    char name[REPOSITORY_NAME_BYTES + 1]; /* owner/name; very old repositories have no owner */
    /* branch, tag or commit; "main" by default */
    char revision[REPOSITORY_REVISION_BYTES + 1];
    bool revision_given;
    char tag[REPOSITORY_TAG_BYTES + 1]; /* selects a GGUF file; "" if not given */
};

/* Parses "[hf.co/]owner/name[:TAG][@revision]". Returns false if it is not such a name. A name that
 * parses cannot lead outside the cache. */
bool repository_parse(struct repository *r, const char *name);
/* Writes CACHE/models--owner--name to out[EY_MAX_PATH]. Returns false if it is too long. */
bool repository_directory(char *out, const char *cache, const char *name);

/* Writes the directory in which Hugging Face's tools keep models to out[EY_MAX_PATH]: HF_HUB_CACHE,
 * else HUGGINGFACE_HUB_CACHE, else HF_HOME/hub, else XDG_CACHE_HOME/huggingface/hub, else
 * ~/.cache/huggingface/hub. The directory need not exist. */
bool hf_cache_directory(char *out, ey_err *e);

/* Writes a repository's snapshot directory to out[EY_MAX_PATH]: models--owner--name/refs/REVISION
 * holds the commit, snapshots/COMMIT the files. The error names the cache and the command that
 * downloads the model. */
bool model_snapshot_find(char *out, const struct repository *repository, ey_err *e);
/* Resolves a --model argument to a path for checkpoint_open(), in out[EY_MAX_PATH]. `name` is a
 * directory, a GGUF file, a manifest of Ollama, a short name, or a repository in the cache. If a
 * repository has several GGUF files, one is chosen. A name that is none of these is looked up in
 * the stores of Ollama and LM Studio. */
bool model_directory_find(char *out, const char *name, ey_err *e);

struct model_listing {
    char *name;         /* owner/name, with :TAG for a GGUF file */
    char *directory;    /* the snapshot of refs/main (or the only one), or the GGUF file */
    char *architecture; /* architectures[0] or model_type, as in config.json; NULL if unknown */
    char *quantization; /* "fp8", "bf16" ...; NULL if unknown */
    uint64_t bytes;     /* size of its safetensors files, or of the GGUF file with all its parts */
};
/* Lists the models of the cache, of Ollama and of LM Studio, sorted by name. An absent cache is
 * not an error. The caller frees it with model_list_free(). */
bool model_list(struct model_listing **list, size_t *n, ey_err *e);
void model_list_free(struct model_listing *list, size_t n);

#endif
