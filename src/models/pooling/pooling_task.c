/* SPDX-License-Identifier: Apache-2.0 */
/* Qwen3-VL-Embedding and -Reranker have the config.json of the chat models: only other files and
 * names tell them apart (spec 4 of the APIs). */
#include "models/pooling/pooling_task.h"

#include <string.h>

#define POOLING_FILE "1_Pooling/config.json"

/* ---- by name ---- */

/* Returns the last part of a path, or the repository of a snapshot in the Hugging Face cache. */
static const char *telling_part(const char *path, size_t *n)
{
    const char *repository = strstr(path, "/models--"), *end;
    if (repository && (end = strstr(repository, "/snapshots/"))) {
        *n = (size_t)(end - repository);
        return repository;
    }
    *n = strlen(path);
    while (*n > 1 && path[*n - 1] == '/')
        --*n;
    const char *slash = memrchr(path, '/', *n);
    if (!slash) return path;
    *n -= (size_t)(slash + 1 - path);
    return slash + 1;
}

static bool has_word(const char *text, size_t n, const char *word)
{
    size_t length = strlen(word);
    for (size_t i = 0; i + length <= n; i++)
        if (strncasecmp(text + i, word, length) == 0) return true;
    return false;
}

static ey_task task_by_name(const char *path)
{
    size_t n;
    const char *name = telling_part(path, &n);
    if (has_word(name, n, "rerank")) return EY_TASK_RERANK;
    return has_word(name, n, "embedding") ? EY_TASK_EMBED : EY_TASK_GENERATE;
}

/* ---- by files ---- */

/* Checks for last-token pooling, on which these models were trained. */
static bool check_pooling(const json_object *file, const char *directory, ey_err *e)
{
    bool last = false;
    if (!json_optional_bool(file, "pooling_mode_lasttoken", &last, POOLING_FILE, e)) return false;
    return last || ey_fail(e, EY_BAD_MODEL,
                           "%s/" POOLING_FILE ": pooling_mode_lasttoken is not true; no other "
                           "pooling is supported",
                           directory);
}

static bool task_by_files(ey_task *out, struct checkpoint *ckpt, ey_err *e)
{
    const json_object *file;
    *out = task_by_name(checkpoint_directory(ckpt));
    if (*out == EY_TASK_RERANK) return true;
    if (!checkpoint_json(ckpt, POOLING_FILE, &file, e)) return false;
    if (!file) return true;
    *out = EY_TASK_EMBED;
    return check_pooling(file, checkpoint_directory(ckpt), e);
}

bool pooling_task_find(ey_task *out, struct checkpoint *ckpt, const char *wanted, bool pools,
                       ey_err *e)
{
    static const char *const words[] = {"generate", "embed", "rerank"};
    *out = EY_TASK_GENERATE;
    if (!wanted || strcmp(wanted, "auto") == 0) return !pools || task_by_files(out, ckpt, e);
    for (int i = 0; i < 3; i++)
        if (strcmp(wanted, words[i]) == 0) *out = (ey_task)i;
    if (strcmp(wanted, words[*out]) != 0)
        return ey_fail(e, EY_BAD_REQUEST,
                       "--task %.40s is not a task; use generate, embed or rerank", wanted);
    return pools || *out == EY_TASK_GENERATE ||
           ey_fail(e, EY_BAD_REQUEST,
                   "--task %s: only Qwen3-VL models embed and rerank; this one generates", wanted);
}
