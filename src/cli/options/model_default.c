/* SPDX-License-Identifier: Apache-2.0 */
/* The default model is the largest one in the cache that eyelet can run, or else the demo model
 * that lies next to the program. */
#include "cli/options/model_default.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/limits.h"
#include "base/text/short_names.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/hf_cache.h"

static const char architecture[] = "Qwen3VLForConditionalGeneration";
static const char suggestion[] = "eyelet pull Qwen/Qwen3-VL-2B-Instruct-FP8";

static bool copy_path(char *out, const char *path, ey_err *e)
{
    size_t n = strlen(path);
    if (n >= EY_MAX_PATH)
        return ey_fail(e, EY_BAD_REQUEST, "the path %.200s… has %d bytes or more", path,
                       EY_MAX_PATH);
    memcpy(out, path, n + 1);
    return true;
}

/* Writes the directory of the running program to out[EY_MAX_PATH]. */
static bool program_directory(char *out)
{
    ssize_t n = readlink("/proc/self/exe", out, EY_MAX_PATH - 1);
    if (n <= 0) return false;
    out[n] = 0;
    char *slash = strrchr(out, '/');
    if (slash) *slash = 0;
    return slash != NULL;
}

/* Looks for the demo model next to the program (as in a release), in the parent folder (as in a
 * source tree, which has the program in build/), and where `make install` puts it. */
static bool find_demo(char *out)
{
    static const char *const places[] = {"models/demo", "../models/demo",
                                         "../share/eyelet/models/demo"};
    char program[EY_MAX_PATH], config[EY_MAX_PATH];
    if (!program_directory(program)) return false;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        if (path_join(out, program, places[i], NULL) &&
            path_join(config, out, "config.json", NULL) && path_is_file(config))
            return true;
    return false;
}

/* Models that embed or rerank share the architecture of those that answer; only their names differ.
 */
static bool is_wanted(const struct model_listing *model, bool embeds)
{
    const bool does_embed = strcasestr(model->name, "embedding") != NULL,
               reranks = strcasestr(model->name, "rerank") != NULL;
    return model->bytes && model->architecture && strcmp(model->architecture, architecture) == 0 &&
           !reranks && does_embed == embeds;
}

static struct model_listing *largest_listing(struct model_listing *list, size_t n, bool embeds)
{
    struct model_listing *best = NULL;
    for (size_t i = 0; i < n; i++)
        if (is_wanted(&list[i], embeds) && (!best || list[i].bytes > best->bytes)) best = &list[i];
    return best;
}

/* Returns whether the model's files are complete, judged by their headers. */
static bool is_whole(const struct model_listing *model, bool quiet)
{
    struct checkpoint *ckpt = NULL;
    ey_err e;
    bool ok = checkpoint_open(&ckpt, model->directory, &e);
    checkpoint_close(ckpt);
    if (!ok && !quiet)
        fprintf(stderr, "eyelet: skipping %s in the cache: %s\n", model->name, e.text);
    return ok;
}

/* Finds the largest complete model in the cache that eyelet can run. Returns false if there is
 * none. */
static bool find_in_cache(char *out, bool embeds, bool quiet, ey_err *e)
{
    struct model_listing *list = NULL, *best;
    size_t n = 0;
    if (!model_list(&list, &n, NULL)) return false;
    while ((best = largest_listing(list, n, embeds)) && !is_whole(best, quiet))
        best->bytes = 0;
    bool found = best && copy_path(out, best->directory, e);
    model_list_free(list, n);
    return found;
}

bool model_name_expand(char *out, const char *asked, ey_err *e)
{
    char repositories[SHORT_NAME_REPOSITORIES][SHORT_NAME_BYTES], directory[EY_MAX_PATH];
    size_t n = path_is_directory(asked) ? 0 : short_name_find(asked, repositories);
    for (size_t i = 0; i < n; i++)
        if (model_directory_find(directory, repositories[i], NULL))
            return copy_path(out, repositories[i], e);
    /* Ollama may have a model of this name. */
    bool elsewhere = n && model_directory_find(directory, asked, NULL);
    return copy_path(out, n && !elsewhere ? repositories[0] : asked, e);
}

bool model_choose_embedding(char *out, const char *asked, bool quiet, ey_err *e)
{
    if (asked && strcmp(asked, "demo") == 0)
        return ey_fail(e, EY_BAD_REQUEST,
                       "the demo model is not an embedding model; get one with: eyelet pull "
                       "Qwen/Qwen3-VL-Embedding-2B");
    if (asked) return model_name_expand(out, asked, e);
    return find_in_cache(out, true, quiet, e) ||
           ey_fail(e, EY_NOT_FOUND,
                   "no model: none is named with --model or EYELET_MODEL, and the Hugging Face "
                   "cache has no Qwen3-VL-Embedding; get one with: eyelet pull "
                   "Qwen/Qwen3-VL-Embedding-2B");
}

bool model_choose(char *out, const char *asked, bool quiet, ey_err *e)
{
    bool demo = asked && strcmp(asked, "demo") == 0;
    if (asked && !demo) return model_name_expand(out, asked, e);
    if (!demo && find_in_cache(out, false, quiet, e)) return true;
    if (find_demo(out)) {
        if (!demo && !quiet)
            fprintf(stderr,
                    "eyelet: using the demo model, a toy that knows colored shapes and printed "
                    "words; for photos, get a model with: %s\n",
                    suggestion);
        return true;
    }
    if (demo)
        return ey_fail(e, EY_NOT_FOUND,
                       "the demo model is missing: models/demo is not next to the program");
    return ey_fail(e, EY_NOT_FOUND,
                   "no model: none is named with --model or EYELET_MODEL, and the Hugging Face "
                   "cache has no Qwen3-VL; get one with: %s",
                   suggestion);
}
