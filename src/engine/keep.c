/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps what --quantize makes as a checkpoint: shards of safetensors with the quantised matrices in
 * place of the stored ones, every other tensor as it was, config.json with what was done, and the
 * small files beside it. config.json comes last, so half a checkpoint is none. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/system.h"
#include "engine/engine_internal.h"
#include "models/shrink.h"

enum { MAX_NAME = 256, MAX_PARTS = 4, MAX_FUSED = 3, MAX_SMALL_FILE = 64 << 20, MAX_FILES = 256 };
#define SHARD_BYTES ((uint64_t)4 << 30)
#define SPARE_BYTES \
    ((uint64_t)64 << 20) /* beside the tensors: the tokenizer and other small files */

/* A tensor of the new checkpoint. */
struct kept {
    char name[MAX_NAME];
    const char *dtype;
    int n_dims;
    int64_t shape[EY_MAX_DIMS];
    uint64_t size, at; /* `at` in its shard's data */
    int shard;
    const void *data; /* as stored; NULL: part of a matrix that is made */
};

/* What is made of a stored tensor, which holds one matrix or the rows of several, and which tensors
 * hold the result: codes, multipliers, zeros, shape. */
struct made {
    const struct weight *w[MAX_FUSED]; /* in the order of their rows */
    int n_fused;
    size_t part[MAX_PARTS];
    int n_parts;
};

struct keeping {
    ey_engine *engine;
    const char *out;
    struct kept *kept;
    size_t n_kept, most_kept;
    struct made *made;
    size_t n_made;
    int n_shards, fd;
    uint64_t data_at;          /* of the shard that is written now */
    char names[MAX_FILES][64]; /* files that were made */
    int n_files;
    bool made_dir;
    uint64_t bytes;
};

/* ---- what there will be ---- */

static struct kept *add(struct keeping *k, const char *dtype, const void *data, uint64_t size,
                        const char *fmt, const char *name)
{
    if (k->n_kept == k->most_kept) return NULL;
    struct kept *t = &k->kept[k->n_kept++];
    *t = (struct kept){.dtype = dtype, .data = data, .size = size};
    snprintf(t->name, sizeof(t->name), fmt, name);
    return t;
}

static void add_part(struct keeping *k, struct made *m, const char *dtype, size_t element,
                     int64_t rows, int64_t cols, const char *fmt, const char *name)
{
    struct kept *t = add(k, dtype, NULL, (uint64_t)(rows * cols) * element, fmt, name);
    if (!t) return;
    t->n_dims = 2;
    t->shape[0] = rows;
    t->shape[1] = cols;
    m->part[m->n_parts++] = k->n_kept - 1;
}

static int64_t over(int64_t n, int64_t block)
{
    return (n + block - 1) / block;
}

/* Of made matrices that lie in one tensor. */
static int64_t all_rows(const struct made *m)
{
    int64_t rows = 0;
    for (int i = 0; i < m->n_fused; i++)
        rows += m->w[i]->rows;
    return rows;
}

static void add_made(struct keeping *k, const struct made *made, const char *name)
{
    struct made *m = &k->made[k->n_made++];
    *m = *made;
    const struct weight *w = m->w[0];
    const int64_t rows = all_rows(m);
    if (w->dtype == DTYPE_F8_E4M3) {
        add_part(k, m, "F8_E4M3", 1, rows, w->cols, "%s", name);
        add_part(k, m, "F32", sizeof(float), over(rows, FP8_BLOCK), over(w->cols, FP8_BLOCK),
                 "%s_scale_inv", name);
        return;
    }
    add_part(k, m, "I32", sizeof(uint32_t), rows, w->cols / 8, "%s_packed", name);
    add_part(k, m, "BF16", sizeof(uint16_t), rows, weight_groups(w), "%s_scale", name);
    add_part(k, m, "I32", sizeof(uint32_t), over(rows, ZEROS_PACKED), weight_groups(w),
             "%s_zero_point", name);
    struct kept *shape = add(k, "I64", NULL, 2 * sizeof(int64_t), "%s_shape", name);
    if (shape) {
        shape->n_dims = 1;
        shape->shape[0] = 2;
        m->part[m->n_parts++] = k->n_kept - 1;
    }
}

/* Bytes of so many rows in a part of what is made; none in the shape, which is not of rows. */
static uint64_t part_bytes(const struct weight *w, int part, int64_t rows)
{
    const int64_t groups = w->group ? weight_groups(w) : 0, across = over(w->cols, FP8_BLOCK);
    const int64_t fp8[MAX_PARTS] = {rows * w->cols,
                                    over(rows, FP8_BLOCK) * across * (int64_t)sizeof(float)};
    const int64_t int4[MAX_PARTS] = {rows * w->cols / 2, rows * groups * (int64_t)sizeof(uint16_t),
                                     over(rows, ZEROS_PACKED) * groups * (int64_t)sizeof(uint32_t)};
    return (uint64_t)(w->dtype == DTYPE_F8_E4M3 ? fp8 : int4)[part];
}

static const uint8_t *stored_at(const struct weight *w)
{
    return w->recipe ? w->recipe->stored.data : NULL;
}

/* By where their rows are. */
static void insert(struct made *out, const struct weight *w)
{
    int at = out->n_fused++;
    for (; at > 0 && stored_at(out->w[at - 1]) > stored_at(w); at--)
        out->w[at] = out->w[at - 1];
    out->w[at] = w;
}

/* Which matrices are made of a stored tensor. */
static struct made made_of(const struct model *m, const struct tensor_view *t)
{
    struct made out = {0};
    for (int i = 0; i < m->text.n_layers && !out.n_fused; i++) {
        const struct weight *w = (const struct weight *)&m->layers[i];
        for (int j = 0; j < LAYER_WEIGHTS; j++) {
            const uint8_t *from = stored_at(&w[j]);
            if (from && from >= t->data && from < t->data + t->size && out.n_fused < MAX_FUSED)
                insert(&out, &w[j]);
        }
    }
    return out;
}

/* All rows of the tensor are made, and each matrix begins where its blocks can begin. */
static bool can_be_kept(const struct made *m, const struct tensor_view *t, ey_err *e)
{
    const int block = m->w[0]->dtype == DTYPE_F8_E4M3 ? FP8_BLOCK : ZEROS_PACKED;
    const uint8_t *next = t->data;
    int64_t row = 0;
    for (int i = 0; i < m->n_fused; i++) {
        const struct weight *w = m->w[i];
        if (row % block)
            return ey_fail(e, EY_BAD_REQUEST,
                           "%s holds several matrices, one from row %" PRId64
                           " on, inside a block of %d rows; use --quantize while loading",
                           t->name, row, block);
        if (stored_at(w) != next) break;
        next += (size_t)w->rows * weight_row_bytes(&w->recipe->stored);
        row += w->rows;
    }
    return next == t->data + t->size ||
           ey_fail(e, EY_BAD_REQUEST,
                   "%s: only some of its rows would be made smaller; use --quantize while loading",
                   t->name);
}

static const char *stored_dtype(enum dtype d)
{
    static const char *const names[] = {"",    "F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2",
                                        "I64", "I32", "I16", "I8",  "U8",   "BOOL"};
    return names[d];
}

/* Multipliers of an FP8 matrix that is made four bits have no use any more. */
static bool belongs_to_made(const struct keeping *k, const struct tensor_view *t)
{
    char name[MAX_NAME];
    const char *end = strstr(t->name, "_scale_inv");
    if (!end || end[strlen("_scale_inv")] || (size_t)(end - t->name) >= sizeof(name)) return false;
    snprintf(name, sizeof(name), "%.*s", (int)(end - t->name), t->name);
    const struct tensor_view *matrix = checkpoint_find(k->engine->ckpt, name);
    return matrix && made_of(&k->engine->model, matrix).n_fused > 0;
}

static bool list_tensors(struct keeping *k, ey_err *e)
{
    struct checkpoint *ckpt = k->engine->ckpt;
    for (size_t i = 0; i < checkpoint_count(ckpt); i++) {
        const struct tensor_view *t = checkpoint_at(ckpt, i);
        const struct made m = made_of(&k->engine->model, t);
        if (m.n_fused) {
            if (!can_be_kept(&m, t, e)) return false;
            add_made(k, &m, t->name);
        } else if (!belongs_to_made(k, t)) {
            struct kept *copy = add(k, stored_dtype(t->dtype), t->data, t->size, "%s", t->name);
            if (copy) {
                copy->n_dims = t->n_dims;
                memcpy(copy->shape, t->shape, sizeof(copy->shape));
            }
        }
    }
    return true;
}

static bool list_all(struct keeping *k, ey_err *e)
{
    const size_t n = checkpoint_count(k->engine->ckpt);
    k->most_kept = n * MAX_PARTS;
    k->kept = calloc(k->most_kept + 1, sizeof(*k->kept));
    k->made = calloc(n + 1, sizeof(*k->made));
    if (!k->kept || !k->made)
        return ey_fail_memory(e, "the list of tensors", k->most_kept * sizeof(*k->kept));
    if (!list_tensors(k, e)) return false;
    uint64_t used = 0;
    for (size_t i = 0; i < k->n_kept; i++) {
        if (used && used + k->kept[i].size > SHARD_BYTES) {
            k->n_shards++;
            used = 0;
        }
        k->kept[i].shard = k->n_shards;
        k->kept[i].at = used;
        used += k->kept[i].size;
        k->bytes += k->kept[i].size;
    }
    k->n_shards++;
    return true;
}

/* ---- files ---- */

/* name: "" is the directory itself. */
static bool fail_file(const struct keeping *k, const char *name, ey_err *e)
{
    const char *slash = name[0] ? "/" : "";
    if (errno_is_full())
        return ey_fail(e, EY_IO,
                       "%.300s%s%.100s: the disk is full; the checkpoint takes %.2f GB. Nothing of "
                       "it was kept: make room or name a directory on another disk, "
                       "then run the same again",
                       k->out, slash, name, (double)k->bytes / 1e9);
    return ey_fail(e, EY_IO, "%.400s%s%.100s: %s", k->out, slash, name, strerror(errno));
}

/* Before an hour's work, not after it. */
static bool check_room(const struct keeping *k, ey_err *e)
{
    uint64_t there;
    if (!system_free_space(k->out, &there) || there >= k->bytes + SPARE_BYTES) return true;
    return ey_fail(e, EY_IO,
                   "the checkpoint takes %.2f GB and %.300s has room for %.2f GB; make room or "
                   "name a directory on another disk",
                   (double)k->bytes / 1e9, k->out, (double)there / 1e9);
}

static int create(struct keeping *k, const char *name, ey_err *e)
{
    char path[EY_MAX_PATH];
    if (k->n_files == MAX_FILES || strlen(name) >= sizeof(k->names[0]))
        return ey_fail(e, EY_IO, "%s: too many files, or too long a name", name), -1;
    if (!path_join(path, k->out, name, e)) return -1;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) return fail_file(k, name, e), -1;
    strcpy(k->names[k->n_files++], name);
    return fd;
}

/* To the file that was created last. */
static bool write_at(struct keeping *k, int fd, const void *data, uint64_t n, uint64_t at,
                     ey_err *e)
{
    const char *from = data;
    while (n) {
        ssize_t wrote = pwrite(fd, from, n > 1u << 30 ? 1u << 30 : n, (off_t)at);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) return fail_file(k, k->names[k->n_files - 1], e);
        from += wrote;
        at += (uint64_t)wrote;
        n -= (uint64_t)wrote;
    }
    return true;
}

/* Some file systems find out only now that the disk is full; and config.json must not be on it
 * before the rest is. */
static bool finish_file(struct keeping *k, int fd, bool ok, ey_err *e)
{
    const char *name = k->names[k->n_files - 1];
    if (ok && fdatasync(fd) != 0) ok = fail_file(k, name, e);
    if (close(fd) != 0 && ok) ok = fail_file(k, name, e);
    return ok;
}

static bool write_text(struct keeping *k, const char *name, const char *text, size_t n, ey_err *e)
{
    int fd = create(k, name, e);
    if (fd < 0) return false;
    bool ok = write_at(k, fd, text, n, 0, e);
    return finish_file(k, fd, ok, e);
}

static void discard(struct keeping *k)
{
    char path[EY_MAX_PATH];
    for (int i = 0; i < k->n_files; i++)
        if (path_join(path, k->out, k->names[i], NULL)) unlink(path);
    if (k->made_dir) rmdir(k->out);
}

static bool open_directory(struct keeping *k, ey_err *e)
{
    if (mkdir(k->out, 0777) == 0) return k->made_dir = true;
    if (errno != EEXIST) return fail_file(k, "", e);
    DIR *d = opendir(k->out);
    if (!d) return fail_file(k, "", e);
    bool empty = true;
    for (struct dirent *entry; empty && (entry = readdir(d));)
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    closedir(d);
    return empty ||
           ey_fail(e, EY_BAD_REQUEST, "%.500s: the directory is not empty; name a new one", k->out);
}

/* ---- shards ---- */

static void shard_name(char out[64], int i, int n)
{
    if (n == 1)
        snprintf(out, 64, "model.safetensors");
    else
        snprintf(out, 64, "model-%05d-of-%05d.safetensors", i + 1, n);
}

static bool write_header(struct keeping *k, int shard, ey_err *e)
{
    struct buf b = buf_with_max(EY_MAX_SAFETENSORS_HEADER);
    buf_add(&b, "\0\0\0\0\0\0\0\0", 8);
    buf_add_text(&b, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (size_t i = 0; i < k->n_kept; i++) {
        const struct kept *t = &k->kept[i];
        if (t->shard != shard) continue;
        buf_add_text(&b, ",");
        json_dump_string(&b, t->name, strlen(t->name));
        buf_printf(&b, ":{\"dtype\":\"%s\",\"shape\":[", t->dtype);
        for (int d = 0; d < t->n_dims; d++)
            buf_printf(&b, "%s%" PRId64, d ? "," : "", t->shape[d]);
        buf_printf(&b, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", t->at, t->at + t->size);
    }
    buf_add_text(&b, "}");
    while (!b.failed && b.size % 8)
        buf_add_text(&b, " ");
    if (b.failed) return ey_fail_memory(e, "a shard's header", 0);
    uint64_t length = b.size - 8;
    memcpy(b.data, &length, sizeof(length));
    k->data_at = b.size;
    bool ok = write_at(k, k->fd, b.data, b.size, 0, e);
    buf_free(&b);
    return ok;
}

static bool write_kept(struct keeping *k, size_t i, const void *data, ey_err *e)
{
    return write_at(k, k->fd, data, k->kept[i].size, k->data_at + k->kept[i].at, e);
}

/* A matrix, whose rows begin at `row` of the tensors that hold it. */
static bool write_matrix(struct keeping *k, const struct made *m, const struct weight *recipe,
                         int64_t row, int shard, void *memory, ey_err *e)
{
    struct weight w;
    if (!quantize_weight(&w, memory, recipe, k->engine->pool))
        return ey_fail(e, EY_BAD_MODEL, "%s: a weight is not finite", k->kept[m->part[0]].name);
    const struct weight *stored = &recipe->recipe->stored;
    file_map_forget(stored->data, (size_t)stored->rows * weight_row_bytes(stored));
    const void *data[MAX_PARTS] = {w.data, w.dtype == DTYPE_INT4 ? w.group_scale : w.scale,
                                   w.group_zero};
    for (int p = 0; p < m->n_parts; p++) {
        const struct kept *t = &k->kept[m->part[p]];
        if (t->shard == shard && data[p] &&
            !write_at(k, k->fd, data[p], part_bytes(&w, p, w.rows),
                      k->data_at + t->at + part_bytes(&w, p, row), e))
            return false;
    }
    return true;
}

/* All parts of a matrix lie beside each other in the list, but a shard may end between them: it is
 * made again then. */
static bool write_made(struct keeping *k, const struct made *m, int shard, void *memory, ey_err *e)
{
    const int64_t shape[2] = {all_rows(m), m->w[0]->cols};
    bool wanted = false;
    int64_t row = 0;
    for (int p = 0; p < m->n_parts; p++)
        wanted = wanted || k->kept[m->part[p]].shard == shard;
    for (int i = 0; wanted && i < m->n_fused; row += m->w[i++]->rows)
        if (!write_matrix(k, m, m->w[i], row, shard, memory, e)) return false;
    return m->n_parts < MAX_PARTS || k->kept[m->part[MAX_PARTS - 1]].shard != shard ||
           write_kept(k, m->part[MAX_PARTS - 1], shape, e);
}

static bool write_shard(struct keeping *k, int shard, void *memory, const ey_engine_options *o,
                        ey_err *e)
{
    if (!write_header(k, shard, e)) return false;
    for (size_t i = 0; i < k->n_kept; i++)
        if (k->kept[i].shard == shard && k->kept[i].data && !write_kept(k, i, k->kept[i].data, e))
            return false;
    for (size_t i = 0; i < k->n_made; i++) {
        if (!write_made(k, &k->made[i], shard, memory, e)) return false;
        if (o->progress) o->progress(o->progress_user, "quantising", i + 1, k->n_made);
    }
    return true;
}

static bool write_shards(struct keeping *k, const ey_engine_options *o, ey_err *e)
{
    const size_t most = k->engine->model.largest_made;
    void *memory = aligned_alloc(64, most ? most : 64);
    bool ok = memory || ey_fail_memory(e, "weights on their way", most);
    for (int i = 0; ok && i < k->n_shards; i++) {
        char name[64];
        shard_name(name, i, k->n_shards);
        k->fd = create(k, name, e);
        if (k->fd < 0)
            ok = false;
        else
            ok = finish_file(k, k->fd, write_shard(k, i, memory, o, e), e);
    }
    free(memory);
    return ok;
}

static bool write_index(struct keeping *k, ey_err *e)
{
    struct buf b = buf_with_max(EY_MAX_JSON_BYTES);
    if (k->n_shards == 1) return true;
    buf_printf(&b,
               "{\n  \"metadata\": {\n    \"total_size\": %" PRIu64 "\n  },\n  \"weight_map\": {",
               k->bytes);
    for (size_t i = 0; i < k->n_kept; i++) {
        char file[64];
        shard_name(file, k->kept[i].shard, k->n_shards);
        buf_printf(&b, "%s\n    ", i ? "," : "");
        json_dump_string(&b, k->kept[i].name, strlen(k->kept[i].name));
        buf_printf(&b, ": \"%s\"", file);
    }
    buf_add_text(&b, "\n  }\n}\n");
    bool ok = b.failed ? ey_fail_memory(e, "the index", 0)
                       : write_text(k, "model.safetensors.index.json", b.data, b.size, e);
    buf_free(&b);
    return ok;
}

/* ---- the small files ---- */

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

/* Not weights in any format, nor what is written anew. */
static bool is_copied(const char *name)
{
    static const char *const left[] = {".safetensors", ".safetensors.index.json",
                                       ".bin",         ".bin.index.json",
                                       ".pt",          ".pth",
                                       ".gguf",        ".onnx",
                                       ".h5",          ".msgpack"};
    for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++)
        if (ends_with(name, left[i])) return false;
    return name[0] != '.' && strcmp(name, "config.json") != 0;
}

static bool copy_file(struct keeping *k, const char *name, ey_err *e)
{
    char path[EY_MAX_PATH], *data = NULL;
    size_t n;
    struct stat st;
    if (!path_join(path, checkpoint_directory(k->engine->ckpt), name, e)) return false;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > MAX_SMALL_FILE) return true;
    bool ok = file_read(&data, &n, path, MAX_SMALL_FILE, e) && write_text(k, name, data, n, e);
    free(data);
    return ok;
}

static bool copy_files(struct keeping *k, ey_err *e)
{
    DIR *d = opendir(checkpoint_directory(k->engine->ckpt));
    bool ok = d || ey_fail(e, EY_IO, "%.500s: %s", checkpoint_directory(k->engine->ckpt),
                           strerror(errno));
    for (struct dirent *entry; ok && (entry = readdir(d));)
        if (is_copied(entry->d_name)) ok = copy_file(k, entry->d_name, e);
    if (d) closedir(d);
    return ok;
}

/* ---- config.json ---- */

/* Modules whose matrices stay, as readers of such checkpoints want them listed. */
static json_object *ignored(const struct keeping *k)
{
    json_object *list = json_object_new_array();
    for (size_t i = 0; i < k->n_kept; i++) {
        const struct kept *t = &k->kept[i];
        if (!t->data || t->n_dims != 2 || !ends_with(t->name, ".weight") ||
            strstr(t->name, "embed_tokens") || strstr(t->name, "pos_embed"))
            continue;
        json_object_array_add(
            list, json_object_new_string_len(t->name, (int)(strlen(t->name) - strlen(".weight"))));
    }
    bool head = false;
    for (size_t i = 0; i < json_object_array_length(list); i++)
        head = head ||
               strcmp(json_object_get_string(json_object_array_get_idx(list, i)), "lm_head") == 0;
    if (!head) json_object_array_add(list, json_object_new_string("lm_head"));
    return list;
}

static json_object *fp8_config(const struct keeping *k)
{
    json_object *q = json_object_new_object(), *block = json_object_new_array();
    json_object_array_add(block, json_object_new_int(FP8_BLOCK));
    json_object_array_add(block, json_object_new_int(FP8_BLOCK));
    json_object_object_add(q, "quant_method", json_object_new_string("fp8"));
    json_object_object_add(q, "fmt", json_object_new_string("e4m3"));
    json_object_object_add(q, "activation_scheme", json_object_new_string("dynamic"));
    json_object_object_add(q, "weight_block_size", block);
    json_object_object_add(q, "ignored_layers", ignored(k));
    json_object_object_add(q, "modules_to_not_convert", ignored(k));
    return q;
}

static json_object *int4_config(const struct keeping *k, int group)
{
    json_object *q = json_object_new_object(), *weights = json_object_new_object(),
                *first = json_object_new_object(), *groups = json_object_new_object();
    json_object *targets = json_object_new_array();
    json_object_array_add(targets, json_object_new_string("Linear"));
    json_object_object_add(weights, "num_bits", json_object_new_int(4));
    json_object_object_add(weights, "type", json_object_new_string("int"));
    json_object_object_add(weights, "symmetric", json_object_new_boolean(false));
    json_object_object_add(weights, "strategy", json_object_new_string("group"));
    json_object_object_add(weights, "group_size", json_object_new_int(group));
    json_object_object_add(weights, "dynamic", json_object_new_boolean(false));
    json_object_object_add(weights, "actorder", NULL);
    json_object_object_add(weights, "observer", json_object_new_string("mse"));
    json_object_object_add(first, "targets", targets);
    json_object_object_add(first, "weights", weights);
    json_object_object_add(first, "input_activations", NULL);
    json_object_object_add(first, "output_activations", NULL);
    json_object_object_add(groups, "group_0", first);
    json_object_object_add(q, "quant_method", json_object_new_string("compressed-tensors"));
    json_object_object_add(q, "format", json_object_new_string("pack-quantized"));
    json_object_object_add(q, "quantization_status", json_object_new_string("compressed"));
    json_object_object_add(q, "kv_cache_scheme", NULL);
    json_object_object_add(q, "config_groups", groups);
    json_object_object_add(q, "ignore", ignored(k));
    return q;
}

static bool write_config(struct keeping *k, const struct shrink_choice *choice, ey_err *e)
{
    json_object *config = NULL;
    if (json_object_deep_copy((json_object *)(uintptr_t)checkpoint_config(k->engine->ckpt), &config,
                              NULL) != 0)
        return ey_fail_memory(e, "config.json", 0);
    json_object_object_add(config, "quantization_config",
                           choice->to == DTYPE_INT4 ? int4_config(k, choice->group)
                                                    : fp8_config(k));
    const char *text = json_object_to_json_string_ext(
        config, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE);
    bool ok = text ? write_text(k, "config.json", text, strlen(text), e)
                   : ey_fail_memory(e, "config.json", 0);
    json_object_put(config);
    return ok;
}

/* ---- all ---- */

static bool keep(struct keeping *k, const struct shrink_choice *choice, const ey_engine_options *o,
                 ey_err *e)
{
    bool ok = list_all(k, e) && check_room(k, e) && open_directory(k, e) && write_shards(k, o, e) &&
              write_index(k, e) && copy_files(k, e) && write_config(k, choice, e);
    if (!ok) discard(k);
    free(k->kept);
    free(k->made);
    return ok;
}

bool ey_quantize(const ey_engine_options *options, const char *out, ey_quantized *report, ey_err *e)
{
    struct shrink_choice choice;
    struct shrink_report r = {0};
    ey_engine *engine = engine_new(e);
    struct keeping k = {.engine = engine, .out = out};
    *report = (ey_quantized){0};
    bool ok = engine && engine_read_shrink(&choice, options, e) &&
              engine_open_headers(engine, options->model, e) &&
              engine_open_pool(engine, options, e);
    if (ok && choice.to == DTYPE_NONE)
        ok = ey_fail(e, EY_BAD_REQUEST, "say --quantize int4 or --quantize fp8");
    const uint64_t before = ok ? engine->model.weight_bytes : 0;
    ok = ok && model_shrink(&engine->model, &choice, &r, engine->pool, e);
    if (ok && !r.n_made)
        ok = ey_fail(e, EY_BAD_REQUEST,
                     "nothing of this model would change: its matrices are that small already, or "
                     "would lose too much");
    ok = ok && keep(&k, &choice, options, e);
    if (ok) {
        *report = (ey_quantized){.n_made = r.n_made,
                                 .n_kept = r.n_kept,
                                 .bytes_before = before,
                                 .bytes = k.bytes,
                                 .worst_error = r.worst,
                                 .mean_error = r.mean};
        snprintf(report->kept, sizeof(report->kept), "%s", r.kept);
    }
    ey_engine_close(&engine);
    return ok;
}
