/* SPDX-License-Identifier: Apache-2.0 */
/* Assembles GGUF files into one table of tensors under the model's own names. */
#include "checkpoint/gguf/gguf_model.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "checkpoint/gguf/gguf_files.h"
#include "checkpoint/gguf/gguf_internal.h"

const struct tensor_view *gguf_model_find(const struct gguf_model *m, const char *name)
{
    for (size_t p = 0; p < m->n_parts; p++)
        for (size_t i = 0; i < gguf_n_tensors(m->parts[p]); i++) {
            const struct tensor_view *t = gguf_tensor_at(m->parts[p], i);
            if (strcmp(t->name, name) == 0) return t;
        }
    return NULL;
}

/* ---- parts of a split file ---- */

#define PART_PATTERN "-%05d-of-%05d.gguf"
enum { PART_BYTES = sizeof("-00001-of-00001.gguf") - 1 };

/* Returns the length of the path before its part number, or 0 if the path has none. */
static size_t part_prefix(const char *path, int *n_parts)
{
    const size_t n = strlen(path);
    int part, length = 0;
    char ending[PART_BYTES + 1];
    if (n <= PART_BYTES) return 0;
    memcpy(ending, path + n - PART_BYTES, sizeof(ending));
    if (sscanf(ending, "-%5d-of-%5d.gguf%n", &part, n_parts, &length) != 2 || length != PART_BYTES)
        return 0;
    return n - PART_BYTES;
}

static bool add_part(struct gguf_model *m, const char *path, ey_err *e)
{
    struct gguf **more = realloc(m->parts, (m->n_parts + 1) * sizeof(struct gguf *));
    if (!more) return ey_fail_memory(e, "parts of a file", m->n_parts * sizeof(struct gguf *));
    m->parts = more;
    if (!gguf_open(&m->parts[m->n_parts], path, e)) return false;
    m->n_parts++;
    return true;
}

static bool texts_agree(const struct gguf *a, const struct gguf *b, const char *key)
{
    const struct gguf_value *x = gguf_find(a, key), *y = gguf_find(b, key);
    return !x || !y ||
           (x->type == y->type && x->n == y->n && memcmp(x->data, y->data, (size_t)x->n) == 0);
}

/* Checks a part's number and count, and that it belongs to the same model as the first. */
static bool check_split(const struct gguf_model *m, size_t i, int64_t count, ey_err *e)
{
    const struct gguf *f = m->parts[i], *first = m->parts[0];
    int64_t number, of;
    if (!gguf_int(f, "split.no", 0, EY_MAX_SHARDS, &number, e) ||
        !gguf_int(f, "split.count", 1, EY_MAX_SHARDS, &of, e))
        return false;
    if (number != (int64_t)i || of != count)
        return ey_fail(e, EY_BAD_MODEL,
                       "%s: the file says that it is part %" PRId64 " of %" PRId64
                       ", but its name says %zu of %" PRId64,
                       gguf_path(f), number + 1, of, i + 1, count);
    return (texts_agree(f, first, "general.architecture") &&
            texts_agree(f, first, "general.name")) ||
           ey_fail(e, EY_BAD_MODEL, "%s: the file is not a part of the same model as %s",
                   gguf_path(f), gguf_path(first));
}

static bool check_part_tensors(const struct gguf_model *m, ey_err *e)
{
    int64_t wanted = -1, n = 0;
    if (!gguf_optional_int(m->parts[0], "split.tensors.count", 0, EY_MAX_TENSORS, &wanted, e))
        return false;
    for (size_t i = 0; i < m->n_parts; i++)
        n += (int64_t)gguf_n_tensors(m->parts[i]);
    return wanted < 0 || n == wanted ||
           ey_fail(e, EY_BAD_MODEL,
                   "%s: its parts have %" PRId64 " tensors, but split.tensors.count is %" PRId64,
                   gguf_path(m->parts[0]), n, wanted);
}

static bool open_all_parts(struct gguf_model *m, const char *path, size_t prefix, int count,
                           ey_err *e)
{
    if (count < 1 || count > EY_MAX_SHARDS)
        return ey_fail(e, EY_BAD_MODEL,
                       "%s: the name says that there are %d parts; the number must be from 1 to %d",
                       path, count, EY_MAX_SHARDS);
    for (int i = 1; i <= count; i++) {
        char part[EY_MAX_PATH];
        if (snprintf(part, sizeof(part), "%.*s" PART_PATTERN, (int)prefix, path, i, count) >=
            (int)sizeof(part))
            return ey_fail(e, EY_BAD_REQUEST, "%.200s…: the path is too long", path);
        if (!path_is_file(part))
            return ey_fail(e, EY_NOT_FOUND,
                           "%s: part %d of %d is missing; the download is incomplete", part, i,
                           count);
        if (!add_part(m, part, e) || !check_split(m, (size_t)i - 1, count, e)) return false;
    }
    return check_part_tensors(m, e);
}

static bool open_parts(struct gguf_model *m, const char *path, ey_err *e)
{
    int count = 0;
    int64_t of = 1;
    const size_t prefix = part_prefix(path, &count);
    if (prefix) return open_all_parts(m, path, prefix, count, e);
    if (!add_part(m, path, e) ||
        !gguf_optional_int(m->parts[0], "split.count", 0, EY_MAX_SHARDS, &of, e))
        return false;
    return of <= 1 || ey_fail(e, EY_BAD_MODEL,
                              "%s: the file is one of %" PRId64
                              " parts, so its name must end with -00001-of-%05" PRId64 ".gguf",
                              path, of, of);
}

/* ---- the vision encoder's file ---- */

static bool mmproj_fits(struct gguf_model *m, const char *folder, const char *name)
{
    char path[EY_MAX_PATH];
    const bool fits = path_join(path, folder, name, NULL) && gguf_open(&m->vision, path, NULL) &&
                      gguf_vision_fits(m);
    gguf_close(m->vision);
    m->vision = NULL;
    return fits;
}

/* Finds the vision encoder's file in the model's folder. Files that fit the model come first, then
 * the preferred type. If none fits, one that does not is chosen, so that opening it reports why.
 * Returns false if the folder has none. */
static bool find_mmproj(char *out, struct gguf_model *m, const char *path)
{
    char folder[EY_MAX_PATH], best[256] = "";
    bool best_fits = false;
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - path) + 1 : 1,
             slash ? path : ".");
    DIR *d = opendir(folder);
    if (!d) return false;
    for (struct dirent *entry; (entry = readdir(d));) {
        const int order = gguf_mmproj_rank(entry->d_name) - gguf_mmproj_rank(best);
        if (!gguf_is_mmproj_name(entry->d_name) || strlen(entry->d_name) >= sizeof(best)) continue;
        const bool fits = mmproj_fits(m, folder, entry->d_name),
                   first = order < 0 || (order == 0 && strcmp(entry->d_name, best) < 0);
        if (best[0] && (fits == best_fits ? !first : best_fits)) continue;
        snprintf(best, sizeof(best), "%s", entry->d_name);
        best_fits = fits;
    }
    closedir(d);
    return best[0] && path_join(out, folder, best, NULL);
}

/* Opens the vision encoder. A Qwen3-VL without one runs as Qwen3: its text has equal positions on
 * all axes of M-RoPE, which is plain RoPE. */
static bool open_vision(struct gguf_model *m, const char *path, const char *mmproj, ey_err *e)
{
    char found[EY_MAX_PATH];
    if (!m->arch->images)
        return !mmproj ||
               ey_fail(e, EY_BAD_REQUEST, "%s: a text-only model cannot use the vision encoder %s",
                       path, mmproj);
    if (!mmproj && gguf_is_ollama(gguf_main(m), m->arch)) {
        m->one_file = true;
        m->vision = gguf_main(m);
        return true;
    }
    if (!mmproj && find_mmproj(found, m, path)) mmproj = found;
    return !mmproj || gguf_open(&m->vision, mmproj, e);
}

/* ---- the table ---- */

struct tensor_view *gguf_add_view(struct gguf_model *m, const struct tensor_view *from,
                                  const char *name)
{
    struct tensor_view *t = &m->views[m->n_views];
    *t = *from;
    t->name = arena_copy_text(&m->names, name, strlen(name));
    if (!t->name) return NULL;
    m->n_views++;
    return t;
}

/* Marks query and key weights whose rows llama.cpp's converter interleaved within each head. The
 * global scale of an NVFP4 weight ("….weight.factor") is one number, so it stays as it is. */
static bool mark_paired_rows(const struct gguf_model *m, struct tensor_view *t, ey_err *e)
{
    char key[GGUF_KEY_BYTES];
    int64_t heads, width;
    const bool keys = strstr(t->name, ".k_proj.") != NULL;
    if (!m->arch->paired_rows || (!keys && !strstr(t->name, ".q_proj."))) return true;
    if (strstr(t->name, ".factor")) return true;
    gguf_arch_key(key, m->arch, keys ? "attention.head_count_kv" : "attention.head_count");
    if (!gguf_find(gguf_main(m), key)) gguf_arch_key(key, m->arch, "attention.head_count");
    if (!gguf_int(gguf_main(m), key, 1, INT32_MAX, &heads, e)) return false;
    width = t->shape[0] / heads;
    if (t->shape[0] % heads || width % 2)
        return ey_fail(e, EY_BAD_MODEL,
                       "%s: tensor %.200s has %" PRId64 " rows, which do not make %" PRId64
                       " heads of even size",
                       t->file, t->name, t->shape[0], heads);
    t->paired_rows = width;
    return true;
}

/* Fails for tensors of experts and for those that scale RoPE. */
static bool check_is_supported(const struct tensor_view *t, ey_err *e)
{
    const char *what = NULL;
    if (strncmp(t->name, "rope_f", 6) == 0)
        what = "scales RoPE by frequency (as Llama 3.1 does)";
    else if (strncmp(t->name, "blk.", 4) == 0 &&
             (strstr(t->name, "_exps.") || strstr(t->name, "_gate_inp.") ||
              strstr(t->name, "_shexp.")))
        what = "belongs to a mixture of experts";
    return !what || ey_fail(e, EY_BAD_MODEL, "%s: tensor %.200s %s, which is not supported",
                            t->file, t->name, what);
}

static bool add_text_views(struct gguf_model *m, const struct gguf *part, ey_err *e)
{
    char name[GGUF_NAME_BYTES];
    for (size_t i = 0; i < gguf_n_tensors(part); i++) {
        const struct tensor_view *from = gguf_tensor_at(part, i);
        if (gguf_is_ollama_vision(m, from->name)) continue;
        if (!check_is_supported(from, e)) return false;
        if (!gguf_model_name(name, m->arch, from->name))
            return ey_fail(e, EY_BAD_MODEL,
                           "%s: tensor %.200s does not belong to a model of the architecture %s",
                           from->file, from->name, m->arch->name);
        struct tensor_view *t = gguf_add_view(m, from, name);
        if (!t) return ey_fail_memory(e, "names of tensors", GGUF_NAME_BYTES);
        if (!mark_paired_rows(m, t, e)) return false;
    }
    return true;
}

/* Joins the two tensors into which llama.cpp splits the patch embedding, a convolution over two
 * frames, to [out, colors, frames, rows, columns]. */
static bool add_patch_weights(struct gguf_model *m, const struct tensor_view *frame[2], ey_err *e)
{
    const struct tensor_view *a = frame[0], *b = frame[1];
    if (!a || !b || a->n_dims != 4 || a->dtype != b->dtype || a->size != b->size ||
        memcmp(a->shape, b->shape, sizeof(a->shape)) != 0 || !dtype_size(a->dtype))
        return ey_fail(e, EY_BAD_MODEL,
                       "%s: v.patch_embd.weight and v.patch_embd.weight.1 must both exist, with "
                       "equal shapes and types",
                       gguf_path(m->vision));
    uint8_t *both = arena_array(&m->names, 2, a->size);
    if (!both) return ey_fail_memory(e, "the patch embedding", 2 * a->size);
    const size_t plane = (size_t)a->shape[2] * (size_t)a->shape[3] * dtype_size(a->dtype);
    for (size_t i = 0; i < a->size / plane; i++) {
        memcpy(both + 2 * i * plane, a->data + i * plane, plane);
        memcpy(both + (2 * i + 1) * plane, b->data + i * plane, plane);
    }
    struct tensor_view *t = gguf_add_view(m, a, "model.visual.patch_embed.proj.weight");
    if (!t) return ey_fail_memory(e, "names of tensors", GGUF_NAME_BYTES);
    t->n_dims = 5;
    t->data = both;
    t->size = 2 * a->size;
    t->shape[4] = t->shape[3];
    t->shape[3] = t->shape[2];
    t->shape[2] = 2;
    return true;
}

static bool add_vision_views(struct gguf_model *m, ey_err *e)
{
    char name[GGUF_NAME_BYTES];
    const struct tensor_view *frame[2] = {NULL, NULL};
    for (size_t i = 0; i < gguf_n_tensors(m->vision); i++) {
        const struct tensor_view *from = gguf_tensor_at(m->vision, i);
        if (strcmp(from->name, "v.patch_embd.weight") == 0)
            frame[0] = from;
        else if (strcmp(from->name, "v.patch_embd.weight.1") == 0)
            frame[1] = from;
        else if (!gguf_vision_name(name, from->name, m->deepstack, m->n_deepstack))
            return ey_fail(e, EY_BAD_MODEL,
                           "%s: tensor %.200s does not belong to Qwen3-VL's vision encoder",
                           from->file, from->name);
        else if (!gguf_add_view(m, from, name))
            return ey_fail_memory(e, "names of tensors", GGUF_NAME_BYTES);
    }
    return add_patch_weights(m, frame, e);
}

static bool make_table(struct gguf_model *m, ey_err *e)
{
    size_t n = 1 + (m->vision ? gguf_n_tensors(m->vision) : 0);
    for (size_t i = 0; i < m->n_parts; i++)
        n += gguf_n_tensors(m->parts[i]);
    m->views = calloc(n, sizeof(*m->views));
    if (!m->views) return ey_fail_memory(e, "the table of tensors", n * sizeof(*m->views));
    for (size_t i = 0; i < m->n_parts; i++)
        if (!add_text_views(m, m->parts[i], e)) return false;
    if (m->one_file) return gguf_add_ollama_vision(m, e);
    return !m->vision || add_vision_views(m, e);
}

static int compare_views(const void *a, const void *b)
{
    return strcmp(((const struct tensor_view *)a)->name, ((const struct tensor_view *)b)->name);
}

/* Sorts the table. Fails if two files have a tensor of the same name. */
static bool sort_views(struct gguf_model *m, ey_err *e)
{
    qsort(m->views, m->n_views, sizeof(*m->views), compare_views);
    for (size_t i = 1; i < m->n_views; i++)
        if (strcmp(m->views[i - 1].name, m->views[i].name) == 0)
            return ey_fail(e, EY_BAD_MODEL, "tensor %.200s is in both %s and %s", m->views[i].name,
                           m->views[i - 1].file, m->views[i].file);
    return true;
}

/* ---- open, close, look up ---- */

static bool fill_model(struct gguf_model *m, const char *path, const char *mmproj, ey_err *e)
{
    if (!(m->arch = gguf_arch_of(gguf_main(m), e)) || !open_vision(m, path, mmproj, e))
        return false;
    if (m->arch->images && !m->vision) m->arch = gguf_text_arch(m->arch);
    return gguf_make_configs(m, e) && make_table(m, e) && sort_views(m, e) &&
           (!m->vision || (m->preprocessor = gguf_preprocessor(m, e)));
}

bool gguf_model_open(struct gguf_model **out, const char *path, const char *mmproj, ey_err *e)
{
    struct gguf_model *m = calloc(1, sizeof(*m));
    if (!m) return ey_fail_memory(e, path, sizeof(*m));
    if (open_parts(m, path, e) && fill_model(m, path, mmproj, e)) return *out = m, true;
    gguf_model_close(m);
    return false;
}

bool gguf_model_of(struct gguf_model **out, struct gguf *file, ey_err *e)
{
    struct gguf_model *m = calloc(1, sizeof(*m));
    if (m) m->parts = calloc(1, sizeof(struct gguf *));
    if (!m || !m->parts) {
        gguf_close(file);
        free(m);
        return ey_fail_memory(e, "a model", sizeof(*m));
    }
    m->parts[0] = file;
    m->n_parts = 1;
    if (fill_model(m, "/", NULL, e)) return *out = m, true;
    gguf_model_close(m);
    return false;
}

void gguf_model_close(struct gguf_model *m)
{
    if (!m) return;
    for (size_t i = 0; i < m->n_parts; i++)
        gguf_close(m->parts[i]);
    if (!m->one_file) gguf_close(m->vision);
    json_object_put(m->config);
    json_object_put(m->generation);
    json_object_put(m->tokenizer_config);
    json_object_put(m->preprocessor);
    arena_free(&m->names);
    free(m->parts);
    free(m->views);
    free(m);
}

size_t gguf_model_n_tensors(const struct gguf_model *m)
{
    return m->n_views;
}

const struct tensor_view *gguf_model_tensor_at(const struct gguf_model *m, size_t i)
{
    return i < m->n_views ? &m->views[i] : NULL;
}

json_object *gguf_model_json(const struct gguf_model *m, const char *name)
{
    if (strcmp(name, "config.json") == 0) return m->config;
    if (strcmp(name, "generation_config.json") == 0) return m->generation;
    if (strcmp(name, "tokenizer_config.json") == 0) return m->tokenizer_config;
    return strcmp(name, "preprocessor_config.json") == 0 ? m->preprocessor : NULL;
}
