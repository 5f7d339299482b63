/* SPDX-License-Identifier: Apache-2.0 */
/* Lists a repository: gets its listing, then sends a HEAD for each file that we need, as
 * huggingface_hub does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/gguf/gguf_files.h"
#include "hub/blob.h"
#include "hub/hub_request.h"

enum { MAX_LISTING_BYTES = 16 << 20 };

#define INDEX_FILE "model.safetensors.index.json"
#define SINGLE_FILE "model.safetensors"

/* Small files that eyelet, transformers and vLLM read. */
static const struct {
    const char *name, *must; /* must: a question to the user if the file is missing; NULL if the
                                file is optional */
} small_files[] = {
    {"config.json", "is this repository a model?"},
    {"tokenizer.json", NULL},
    {"generation_config.json", NULL},
    {"preprocessor_config.json", NULL},
    {"processor_config.json", NULL},
    {"video_preprocessor_config.json", NULL},
    {"tokenizer_config.json", NULL},
    {"chat_template.json", NULL},
    {"chat_template.jinja", NULL},
    {"special_tokens_map.json", NULL},
    {"added_tokens.json", NULL},
    {"vocab.json", NULL},
    {"merges.txt", NULL},
    /* sentence-transformers' layout of embedding models */
    {"modules.json", NULL},
    {"config_sentence_transformers.json", NULL},
    {"sentence_bert_config.json", NULL},
    {"1_Pooling/config.json", NULL},
};

struct repo_query {
    struct hub *hub;
    struct hub_request request;
    struct hub_model *model;
    struct repo_listing listing;
    struct buf text;
    char what[REPOSITORY_NAME_BYTES + REPOSITORY_REVISION_BYTES + 2]; /* NAME or NAME@REVISION */
};

/* ---- the listing ---- */

/* A branch's '/' becomes %2F; all other characters of a revision are plain (repository_parse). */
static char *listing_url(const struct repo_query *s)
{
    const struct repository *r = &s->model->repository;
    struct buf url = buf_with_max(ENDPOINT_BYTES + 4096);
    buf_printf(&url, "%s/api/models/%s/revision/", s->hub->endpoint.url, r->name);
    for (const char *c = r->revision; *c; c++)
        buf_printf(&url, *c == '/' ? "%%2F" : "%c", *c);
    return url.data;
}

static bool read_listing(struct repo_query *s, ey_err *e)
{
    char *url = listing_url(s);
    bool ok = hub_request_get(&s->request, s->what, url, 0, &s->text, e) &&
              repo_listing_read(&s->listing, s->text.data ? s->text.data : "", s->text.size, e);
    if (ok) memcpy(s->model->commit, s->listing.commit, sizeof(s->model->commit));
    free(url);
    return ok;
}

/* ---- files ---- */

static bool read_file_metadata(struct repo_query *s, struct hub_file *file, ey_err *e)
{
    char *url = hub_file_url(s->hub, s->model, file->name);
    bool ok = hub_request_head(&s->request, s->what, url, e) &&
              hub_response_metadata(&s->request.reply, s->model->commit, file, e);
    free(url);
    return ok;
}

static bool add_repo_file(struct repo_query *s, const char *name, ey_err *e)
{
    struct hub_model *m = s->model;
    struct hub_file *more = realloc(m->files, (m->n + 1) * sizeof(*more));
    if (!more) return ey_fail_memory(e, "names of files", m->n * sizeof(*more));
    m->files = more;
    struct hub_file *file = &m->files[m->n++];
    *file = (struct hub_file){0};
    snprintf(file->name, sizeof(file->name), "%s", name);
    return read_file_metadata(s, file, e);
}

static bool add_small_files(struct repo_query *s, ey_err *e)
{
    for (size_t i = 0; i < sizeof(small_files) / sizeof(small_files[0]); i++) {
        bool there = repo_listing_has(&s->listing, small_files[i].name);
        if (!there && small_files[i].must)
            return ey_fail(e, EY_BAD_MODEL, "%s has no %s; %s", s->what, small_files[i].name,
                           small_files[i].must);
        if (there && !add_repo_file(s, small_files[i].name, e)) return false;
    }
    return repo_listing_has(&s->listing, "tokenizer.json") ||
           (repo_listing_has(&s->listing, "vocab.json") &&
            repo_listing_has(&s->listing, "merges.txt")) ||
           ey_fail(e, EY_BAD_MODEL,
                   "%s has no tokenizer.json, nor vocab.json with merges.txt, which eyelet needs "
                   "to tokenize texts",
                   s->what);
}

static bool add_shards(struct repo_query *s, ey_err *e)
{
    struct shard_names names = {0};
    char *url = hub_file_url(s->hub, s->model, INDEX_FILE);
    bool ok = hub_request_get(&s->request, s->what, url, 0, &s->text, e) &&
              shard_names_read(&names, s->text.data ? s->text.data : "", s->text.size, e);
    for (size_t i = 0; ok && i < names.n; i++) {
        if (!repo_listing_has(&s->listing, names.item[i]))
            ok = ey_fail(e, EY_BAD_MODEL,
                         "%s: its index names %s, but the repository does not have that file",
                         s->what, names.item[i]);
        ok = ok && add_repo_file(s, names.item[i], e);
    }
    shard_names_free(&names);
    free(url);
    return ok;
}

static bool add_weights(struct repo_query *s, ey_err *e)
{
    if (repo_listing_has(&s->listing, SINGLE_FILE)) /* an index beside it is stale */
        return add_repo_file(s, SINGLE_FILE, e);
    if (repo_listing_has(&s->listing, INDEX_FILE))
        return add_repo_file(s, INDEX_FILE, e) && add_shards(s, e);
    return ey_fail(e, EY_BAD_MODEL,
                   "%s has neither " SINGLE_FILE " nor " INDEX_FILE
                   " nor a GGUF file; eyelet reads safetensors and GGUF, not ONNX or others",
                   s->what);
}

/* ---- GGUF files ---- */

/* Returns the names of the n GGUF files that are models. The caller frees the list. */
static const char **gguf_names(const struct repo_query *s, int *n)
{
    const size_t all = repo_listing_count(&s->listing);
    const char **names = calloc(all + 1, sizeof(*names));
    *n = 0;
    for (size_t i = 0; names && i < all; i++) {
        const char *name = repo_listing_at(&s->listing, i);
        if (name && gguf_is_model_name(name)) names[(*n)++] = name;
    }
    return names;
}

/* Returns whether to download GGUF: if a tag is given, or if the repository has no safetensors. */
static bool wants_gguf(const struct repo_query *s)
{
    int n;
    if (s->model->repository.tag[0]) return true;
    if (repo_listing_has(&s->listing, SINGLE_FILE) || repo_listing_has(&s->listing, INDEX_FILE))
        return false;
    free(gguf_names(s, &n));
    return n > 0;
}

static bool fail_tag(const struct repo_query *s, const char *const *names, int n, ey_err *e)
{
    char tags[1024] = "";
    for (int i = 0; i < n; i++) {
        char tag[REPOSITORY_TAG_BYTES];
        const size_t used = strlen(tags);
        gguf_tag_of(tag, sizeof(tag), names[i]);
        snprintf(tags + used, sizeof(tags) - used, "%s%s", i ? ", " : "", tag);
    }
    return ey_fail(e, EY_NOT_FOUND, "%s has no GGUF file with the tag %s%s%s", s->what,
                   s->model->repository.tag, n ? "; the tags are: " : ", nor any other GGUF file",
                   tags);
}

/* Returns the best vision encoder file (mmproj), or NULL. */
static const char *best_mmproj(const struct repo_query *s)
{
    const char *best = NULL;
    for (size_t i = 0; i < repo_listing_count(&s->listing); i++) {
        const char *name = repo_listing_at(&s->listing, i);
        if (!name || !gguf_is_mmproj_name(name) || !is_safe_file_name(name)) continue;
        if (!best || gguf_mmproj_rank(name) < gguf_mmproj_rank(best)) best = name;
    }
    return best;
}

/* Adds all parts of a split file, and the vision encoder's. */
static bool add_gguf_files(struct repo_query *s, const char *first, ey_err *e)
{
    const char *mmproj = best_mmproj(s);
    if (!is_safe_file_name(first))
        return ey_fail(e, EY_BAD_MODEL,
                       "%s: %.200s is in a folder of the repository, which is not supported; "
                       "download it yourself and give --model its path",
                       s->what, first);
    for (size_t i = 0; i < repo_listing_count(&s->listing); i++) {
        const char *name = repo_listing_at(&s->listing, i);
        if (name && is_safe_file_name(name) && gguf_is_part_of(name, first) &&
            !add_repo_file(s, name, e))
            return false;
    }
    return !mmproj || add_repo_file(s, mmproj, e);
}

static bool add_gguf(struct repo_query *s, ey_err *e)
{
    int n;
    const char *tag = s->model->repository.tag[0] ? s->model->repository.tag : NULL;
    const char **names = gguf_names(s, &n);
    if (!names) return ey_fail_memory(e, "names of files", 0);
    const int at = gguf_choose_name(names, n, tag);
    const bool ok = at >= 0 ? add_gguf_files(s, names[at], e) : fail_tag(s, names, n, e);
    free(names);
    return ok;
}

/* ---- bytes in the cache ---- */

static bool count_missing_bytes(struct hub_model *model, ey_err *e)
{
    char cache[EY_MAX_PATH];
    if (!hf_cache_directory(cache, e)) return false;
    if (!repository_directory(model->directory, cache, model->repository.name))
        return ey_fail(e, EY_BAD_REQUEST, "%.200s…: the path of the cache is too long", cache);
    for (size_t i = 0; i < model->n; i++) {
        model->bytes += model->files[i].size;
        model->missing_bytes += model->files[i].size - blob_bytes_present(model, &model->files[i]);
    }
    return true;
}

/* ---- the listing as a whole ---- */

static bool check_repo_name(const struct repository *r, ey_err *e)
{
    if (!is_hub_repo_name(r->name))
        return ey_fail(e, EY_BAD_REQUEST,
                       "\"%s\" is not a repository name; it must be owner/name, such as "
                       "Qwen/Qwen3-VL-2B-Instruct-FP8",
                       r->name);
    return true;
}

bool hub_list_repo(struct hub *hub, const struct repository *repository, struct hub_model *model,
                   ey_err *e)
{
    *model = (struct hub_model){.repository = *repository};
    struct repo_query s = {.hub = hub, .model = model, .text = buf_with_max(MAX_LISTING_BYTES)};
    snprintf(s.what, sizeof(s.what), "%.200s%s%s", repository->name,
             repository->revision_given ? "@" : "",
             repository->revision_given ? repository->revision : "");
    bool ok = check_repo_name(repository, e) && hub_request_open(&s.request, hub, e) &&
              read_listing(&s, e) &&
              (wants_gguf(&s) ? add_gguf(&s, e) : add_small_files(&s, e) && add_weights(&s, e)) &&
              count_missing_bytes(model, e);
    hub_request_close(&s.request);
    repo_listing_free(&s.listing);
    buf_free(&s.text);
    if (!ok) hub_model_free(model);
    return ok;
}

void hub_model_free(struct hub_model *model)
{
    free(model->files);
    *model = (struct hub_model){0};
}
