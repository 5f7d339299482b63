/* SPDX-License-Identifier: Apache-2.0 */
/* eyelet search FOLDER [QUERY] prints the images that match a text or are similar to an image. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text/json_writer.h"
#include "cli/commands/commands.h"
#include "cli/options/model_default.h"
#include "cli/search/index_update.h"
#include "cli/terminal/cancel.h"

enum { MAX_LINE = 64 << 20 };
#define INDEX_NAME ".eyelet-index.sqlite"

struct found_image {
    float score;
    char *path;
};

struct search_run {
    struct options options; /* a copy, with the index's model if the user named none */
    struct cli_engine cli;
    struct embedder embedder;
    struct search_index *index;
    struct index_kind kind;
    const char *folder, *query;
    struct found_image *found; /* [n_found], best first */
    size_t n_found, n_most, n_searched;
    const float *wanted; /* [kind.dimensions] */
    bool no_memory;
};

/* ---- the index ---- */

static bool index_path(char *out, const struct search_run *r, ey_err *e)
{
    if (!r->options.index) return path_join(out, r->folder, INDEX_NAME, e);
    return snprintf(out, EY_MAX_PATH, "%s", r->options.index) < EY_MAX_PATH ||
           ey_fail(e, EY_BAD_REQUEST, "the path of --index is longer than %d bytes",
                   EY_MAX_PATH - 1);
}

/* Writes the name under which the index stores its model: the full path of a folder, otherwise the
 * repository, which stays the same when the cache of models is moved. */
static void name_model(char out[EY_MAX_PATH], const char *model)
{
    char *whole = path_is_directory(model) ? realpath(model, NULL) : NULL;
    snprintf(out, EY_MAX_PATH, "%s", whole ? whole : model);
    free(whole);
}

static bool fail_other_model(const struct index_kind *kind, const char *model, ey_err *e)
{
    return ey_fail(e, EY_BAD_REQUEST,
                   "the index was made with %.200s, and its vectors cannot be compared with those "
                   "of %.200s: use the index's model, or make a new index with --rebuild",
                   kind->model, model);
}

static void note_dimensions(const struct search_run *r)
{
    if (r->options.quiet || !options_was_given(&r->options, SEARCH, "dimensions") ||
        r->options.dimensions == r->kind.dimensions)
        return;
    fprintf(stderr,
            "eyelet: --dimensions %lld is for a new index; this one has vectors of %d numbers "
            "(--rebuild makes a new one)\n",
            (long long)r->options.dimensions, r->kind.dimensions);
}

/* Takes model and dimensions from the index, or from the options if the index is new. */
static bool settle_kind(struct search_run *r, ey_err *e)
{
    char chosen[EY_MAX_PATH];
    struct index_kind wanted = {.dimensions = (int)r->options.dimensions};
    if (!search_index_kind(r->index, &r->kind, e)) return false;
    const bool made = r->kind.model[0] && !r->options.rebuild;
    if (made) note_dimensions(r);
    if (made && !r->options.model) {
        r->options.model = r->kind.model;
        return true;
    }
    if (r->options.server) {
        if (!embedder_load(&r->embedder, e)) return false;
        snprintf(wanted.model, EY_MAX_PATH, "%s", remote_model(r->cli.remote));
    } else {
        if (!model_choose_embedding(chosen, r->options.model, r->options.quiet, e)) return false;
        name_model(wanted.model, chosen);
    }
    if (made)
        return strcmp(wanted.model, r->kind.model) == 0 ||
               fail_other_model(&r->kind, wanted.model, e);
    if (r->options.no_update)
        return ey_fail(e, EY_BAD_REQUEST,
                       "the index is empty; search without --no-update to fill it");
    r->kind = wanted;
    return true;
}

/* Restarts the index if it is empty or --rebuild is given. If the model's vectors are shorter than
 * --dimensions, the index has vectors of the model's length. */
static bool begin_index(struct search_run *r, ey_err *e)
{
    struct index_kind now;
    if (!search_index_kind(r->index, &now, e)) return false;
    if (now.model[0] && !r->options.rebuild) return true;
    if (!embedder_load(&r->embedder, e)) return false;
    int all;
    if (!embedder_dimensions(&r->embedder, &all, e)) return false;
    if (r->kind.dimensions > all) r->kind.dimensions = all;
    return search_index_restart(r->index, &r->kind, e);
}

static void say_updated(const struct search_run *r, const struct index_update *u)
{
    if (r->options.quiet || !(u->n_new || u->n_failed || u->n_removed)) return;
    fprintf(stderr, "eyelet: %zu image%s: %zu indexed, %zu failed, %zu removed\n", u->n_images,
            u->n_images == 1 ? "" : "s", u->n_new, u->n_failed, u->n_removed);
}

static bool update_index(struct search_run *r, ey_err *e)
{
    struct index_update update = {.index = r->index, .embedder = &r->embedder, .folder = r->folder};
    r->embedder.instruction = NULL; /* images get the model's own instruction */
    r->embedder.dimensions = 0;
    if (!begin_index(r, e)) return false;
    r->embedder.dimensions = r->kind.dimensions;
    bool ok = index_update_run(&update, e);
    say_updated(r, &update);
    return ok;
}

/* ---- the search ---- */

/* Independent partial sums let the compiler vectorize the loop. */
static float similarity(const float *a, const float *b, int n)
{
    enum { LANES = 16 };
    float lane[LANES] = {0}, sum = 0;
    int i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++)
            lane[k] += a[i + k] * b[i + k];
    for (; i < n; i++)
        sum += a[i] * b[i];
    for (int k = 0; k < LANES; k++)
        sum += lane[k];
    return sum;
}

/* Inserts an image into the sorted list of the best ones found so far. */
static bool keep_found(struct search_run *r, const char *path, float score)
{
    size_t at = r->n_found;
    if (at == r->n_most && score <= r->found[at - 1].score) return true;
    char *copy = strdup(path);
    if (!copy) return !(r->no_memory = true);
    if (at == r->n_most)
        free(r->found[--at].path);
    else
        r->n_found++;
    for (; at && r->found[at - 1].score < score; at--)
        r->found[at] = r->found[at - 1];
    r->found[at] = (struct found_image){score, copy};
    return true;
}

static bool compare_image(void *user, const char *path, const float *vector, int dimensions)
{
    struct search_run *r = user;
    if (!vector || dimensions != r->kind.dimensions) return true;
    r->n_searched++;
    return keep_found(r, path, similarity(r->wanted, vector, dimensions));
}

static bool look_for(struct search_run *r, const float *wanted, ey_err *e)
{
    r->wanted = wanted;
    r->n_most = (size_t)r->options.top;
    r->found = calloc(r->n_most, sizeof(*r->found));
    if (!r->found) return ey_fail_memory(e, "the results", r->n_most * sizeof(*r->found));
    if (!search_index_each(r->index, compare_image, r, e)) return false;
    return !r->no_memory || ey_fail_memory(e, "the results", 0);
}

static bool fail_other_length(const struct index_kind *kind, size_t n, ey_err *e)
{
    return ey_fail(e, EY_BAD_REQUEST,
                   "the model's vectors have %zu numbers, but those of the index have %d: make a "
                   "new index with --rebuild",
                   n, kind->dimensions);
}

static bool search_folder(struct search_run *r, ey_err *e)
{
    const struct embed_input input = {
        .text = r->query, .n_text = r->query ? strlen(r->query) : 0, .image = r->options.like};
    struct batch_item item;
    r->embedder.instruction = r->query ? r->options.instruction
                                       : NULL; /* like the images of the index */
    r->embedder.dimensions = r->kind.dimensions;
    if (!embedder_load(&r->embedder, e)) return false;
    embedder_run(&r->embedder, &input, &item);
    if (!item.ok) *e = item.error;
    const struct embedded vector = embedded_of(&item);
    bool ok = item.ok &&
              (vector.n == (size_t)r->kind.dimensions || fail_other_length(&r->kind, vector.n, e));
    ok = ok && look_for(r, vector.number, e);
    batch_item_free(&item);
    return ok;
}

/* ---- output ---- */

static void add_whole_path(struct buf *out, const struct search_run *r, const char *path)
{
    size_t n = strlen(r->folder);
    while (n > 1 && r->folder[n - 1] == '/')
        n--;
    buf_add(out, r->folder, n);
    if (r->folder[n - 1] != '/') buf_add_text(out, "/");
    buf_add_text(out, path);
}

static void write_found(struct json_writer *w, const struct search_run *r,
                        const struct found_image *found)
{
    struct buf path = buf_with_max(2 * EY_MAX_PATH);
    add_whole_path(&path, r, found->path);
    json_open_object(w);
    json_write_key(w, "image");
    json_write_text(w, path.data ? path.data : "", path.size);
    json_add_digits(w, "score", (double)found->score, 6);
    json_close_object(w);
    buf_free(&path);
}

static void add_found_json(struct buf *out, const struct search_run *r)
{
    struct json_writer w = json_write_to(out, JSON_SPACED);
    json_open_object(&w);
    json_add_string(&w, "query", r->query);
    if (r->options.like) json_add_string(&w, "like", r->options.like);
    json_add_uint(&w, "images", r->n_searched);
    json_write_key(&w, "results");
    json_open_array(&w);
    for (size_t i = 0; i < r->n_found; i++)
        write_found(&w, r, &r->found[i]);
    json_close_array(&w);
    json_close_object(&w);
    buf_add_text(out, "\n");
}

/* Appends a line with score and path for each image. Names are escaped for terminals only. */
static void add_found_table(struct buf *out, const struct search_run *r)
{
    for (size_t i = 0; i < r->n_found; i++) {
        struct buf path = buf_with_max(2 * EY_MAX_PATH);
        add_whole_path(&path, r, r->found[i].path);
        buf_printf(out, "%7.4f  ", (double)r->found[i].score);
        if (r->cli.out.terminal)
            term_add_name(out, path.data ? path.data : "");
        else
            buf_add(out, path.data, path.size);
        buf_add_text(out, "\n");
        buf_free(&path);
    }
}

static bool print_found(struct search_run *r, ey_err *e)
{
    struct buf out = buf_with_max(MAX_LINE);
    if (r->options.json)
        add_found_json(&out, r);
    else
        add_found_table(&out, r);
    bool fits = !out.failed;
    if (out.size) term_write(&r->cli.out, out.data, out.size);
    if (!r->n_found && !r->options.quiet)
        fprintf(stderr, "eyelet: the index has no image to compare with\n");
    buf_free(&out);
    return fits || ey_fail(e, EY_BAD_REQUEST,
                           "the result would be longer than 64 MiB: take a "
                           "smaller --top or a shorter query");
}

/* ---- the run ---- */

static bool check_search_arguments(struct search_run *r, ey_err *e)
{
    const struct options *o = &r->options;
    if (o->n_args < 1 || o->n_args > 2)
        return ey_fail(e, EY_BAD_REQUEST,
                       "search takes a folder and a query, as in: eyelet search photos \"red "
                       "bicycle at night\"");
    r->folder = o->args[0];
    r->query = o->n_args == 2 ? o->args[1] : NULL;
    if (!path_is_directory(r->folder))
        return ey_fail(e, EY_NOT_FOUND, "%.200s: no such folder", r->folder);
    if (o->rebuild && o->no_update)
        return ey_fail(e, EY_BAD_REQUEST, "--rebuild and --no-update cannot be used together");
    return !r->query || input_check_text(r->query, strlen(r->query), "the query", e);
}

/* Removes an index that is still empty, so that a failed search leaves no file behind. */
static void remove_empty_index(struct search_run *r, const char *path)
{
    struct index_kind kind;
    bool empty = r->index && search_index_kind(r->index, &kind, NULL) && !kind.model[0];
    search_index_close(&r->index);
    if (empty) unlink(path);
}

static bool search_run_all(struct search_run *r, ey_err *e)
{
    char path[EY_MAX_PATH];
    if (!check_search_arguments(r, e) || !index_path(path, r, e)) return false;
    const bool asks = r->query || r->options.like;
    if (r->options.no_update && !path_is_file(path))
        return ey_fail(e, EY_NOT_FOUND,
                       "%.200s: there is no index yet; search without --no-update to create it",
                       path);
    const bool is_new = !path_is_file(path);
    if (!search_index_open(&r->index, path, !r->options.no_update, e) || !settle_kind(r, e) ||
        (!r->options.no_update && !update_index(r, e))) {
        if (is_new) remove_empty_index(r, path);
        return false;
    }
    if (cancel_requested()) return true;
    if (asks && !search_folder(r, e)) return false;
    return !asks || cancel_requested() || print_found(r, e);
}

int cmd_search(const struct options *o)
{
    struct search_run r = {.options = *o};
    ey_err e;
    cli_engine_init(&r.cli, &r.options);
    r.embedder.cli = &r.cli;
    bool ok = search_run_all(&r, &e);
    progress_clear(&r.cli.progress);
    int status = cancel_requested() ? EXIT_INTERRUPTED : ok ? 0 : term_complain(&e);
    status = term_finish(&r.cli.out, status);
    for (size_t i = 0; i < r.n_found; i++)
        free(r.found[i].path);
    free(r.found);
    search_index_close(&r.index);
    cli_engine_close(&r.cli);
    return status;
}
