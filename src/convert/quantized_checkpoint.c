/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a quantized checkpoint: safetensors shards with quantized matrices in place of the stored
 * ones and all other tensors unchanged, config.json with a quantization_config, and the small
 * files. config.json is written last, so that an incomplete checkpoint cannot be loaded. */
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
#include "base/limits.h"
#include "checkpoint/safetensors_writer.h"
#include "convert/quantized_checkpoint.h"
#include "convert/small_files.h"

enum {
    MAX_TENSOR_NAME = 256,
    MAX_QUANTIZED_TENSORS = 4,
    MAX_FUSED = 3,
    MAX_FILES = 256,
    FILE_NAME_BYTES = 256 /* the longest name that file systems allow, and a NUL */
};
#define SHARD_BYTES ((uint64_t)4 << 30)
#define SMALL_FILES_BYTES \
    ((uint64_t)64 << 20) /* estimate for the tokenizer and other small files */

/* A tensor of the output. */
struct output_tensor {
    char name[MAX_TENSOR_NAME];
    enum dtype dtype;
    int n_dims;
    int64_t shape[EY_MAX_DIMS];
    uint64_t size, shard_offset; /* shard_offset: from the first tensor's data in the shard */
    int shard;
    const void *data; /* stored bytes; NULL for a part of a quantized matrix */
};

/* A stored tensor (one matrix, or several fused by rows), and the output tensors of its result:
 * quantized values, scales, zeros, shape. */
struct quantized_tensor {
    const struct tensor *weights[MAX_FUSED]; /* in row order */
    int n_weights;
    size_t tensor[MAX_QUANTIZED_TENSORS];
    int n_tensors;
};

struct checkpoint_writer {
    const struct quantized_source *source;
    const char *out;
    struct output_tensor *tensor;
    size_t n_tensors, max_tensors;
    struct quantized_tensor *quantized;
    size_t n_quantized;
    int n_shards;
    struct safetensors_writer file;             /* the current shard */
    char file_name[MAX_FILES][FILE_NAME_BYTES]; /* files created so far */
    int n_files;
    bool created_dir;
    uint64_t bytes;
};

/* ---- layout of the output ---- */

static struct output_tensor *writer_add_tensor(struct checkpoint_writer *writer, enum dtype dtype,
                                               const void *data, uint64_t size, const char *fmt,
                                               const char *name)
{
    if (writer->n_tensors == writer->max_tensors) return NULL;
    struct output_tensor *t = &writer->tensor[writer->n_tensors++];
    *t = (struct output_tensor){.dtype = dtype, .data = data, .size = size};
    snprintf(t->name, sizeof(t->name), fmt, name);
    return t;
}

static void add_quantized_part(struct checkpoint_writer *writer, struct quantized_tensor *m,
                               enum dtype dtype, int64_t rows, int64_t cols, const char *fmt,
                               const char *name)
{
    struct output_tensor *t = writer_add_tensor(
        writer, dtype, NULL, (uint64_t)(rows * cols) * dtype_size(dtype), fmt, name);
    if (!t) return;
    t->n_dims = 2;
    t->shape[0] = rows;
    t->shape[1] = cols;
    m->tensor[m->n_tensors++] = writer->n_tensors - 1;
}

static int64_t ceil_div(int64_t n, int64_t block)
{
    return (n + block - 1) / block;
}

/* Total rows of the matrices that are fused in one tensor. */
static int64_t fused_rows(const struct quantized_tensor *m)
{
    int64_t rows = 0;
    for (int i = 0; i < m->n_weights; i++)
        rows += m->weights[i]->rows;
    return rows;
}

static void add_quantized(struct checkpoint_writer *writer,
                          const struct quantized_tensor *quantized, const char *name)
{
    struct quantized_tensor *m = &writer->quantized[writer->n_quantized++];
    *m = *quantized;
    const struct tensor *w = m->weights[0];
    const int64_t rows = fused_rows(m);
    if (w->dtype == DTYPE_F8_E4M3) {
        add_quantized_part(writer, m, DTYPE_F8_E4M3, rows, w->cols, "%s", name);
        add_quantized_part(writer, m, DTYPE_F32, ceil_div(rows, FP8_BLOCK),
                           ceil_div(w->cols, FP8_BLOCK), "%s_scale_inv", name);
        return;
    }
    add_quantized_part(writer, m, DTYPE_I32, rows, w->cols / 8, "%s_packed", name);
    add_quantized_part(writer, m, DTYPE_BF16, rows, weight_groups(w), "%s_scale", name);
    add_quantized_part(writer, m, DTYPE_I32, ceil_div(rows, ZEROS_PER_WORD), weight_groups(w),
                       "%s_zero_point", name);
    struct output_tensor *shape = writer_add_tensor(writer, DTYPE_I64, NULL, 2 * sizeof(int64_t),
                                                    "%s_shape", name);
    if (shape) {
        shape->n_dims = 1;
        shape->shape[0] = 2;
        m->tensor[m->n_tensors++] = writer->n_tensors - 1;
    }
}

/* Returns the bytes of `rows` rows of one output tensor of a matrix. Returns 0 for weight_shape,
 * whose size does not depend on rows. */
static uint64_t quantized_part_bytes(const struct tensor *w, int part, int64_t rows)
{
    const int64_t groups = w->group_size ? weight_groups(w) : 0,
                  block_cols = ceil_div(w->cols, FP8_BLOCK);
    const int64_t fp8[MAX_QUANTIZED_TENSORS] = {
        rows * w->cols, ceil_div(rows, FP8_BLOCK) * block_cols * (int64_t)sizeof(float)};
    const int64_t int4[MAX_QUANTIZED_TENSORS] = {
        rows * w->cols / 2, rows * groups * (int64_t)sizeof(uint16_t),
        ceil_div(rows, ZEROS_PER_WORD) * groups * (int64_t)sizeof(uint32_t)};
    return (uint64_t)(w->dtype == DTYPE_F8_E4M3 ? fp8 : int4)[part];
}

static const uint8_t *source_data(const struct tensor *w)
{
    return w->recipe ? w->recipe->source.data : NULL;
}

/* Inserts a matrix in the order of its rows' addresses. */
static void insert_by_address(struct quantized_tensor *out, const struct tensor *w)
{
    int at = out->n_weights++;
    for (; at > 0 && source_data(out->weights[at - 1]) > source_data(w); at--)
        out->weights[at] = out->weights[at - 1];
    out->weights[at] = w;
}

static void collect_weights(struct quantized_tensor *out, const struct tensor_view *t,
                            const struct tensor *w, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const uint8_t *from = source_data(&w[i]);
        if (from && from >= t->data && from < t->data + t->size && out->n_weights < MAX_FUSED)
            insert_by_address(out, &w[i]);
    }
}

/* Collects the quantized matrices of a stored tensor. */
static struct quantized_tensor quantized_from(const struct quantized_source *source,
                                              const struct tensor_view *t)
{
    struct quantized_tensor out = {0};
    for (int i = 0; i < source->n_layers && !out.n_weights; i++) {
        const struct text_layer_tensors *layer = &source->layers[i];
        collect_weights(&out, t, TENSORS_OF(layer->attention));
        collect_weights(&out, t, TENSORS_OF(layer->mlp));
    }
    return out;
}

/* Checks that all rows are quantized and that each matrix begins at a block. */
static bool check_quantized_rows(const struct quantized_tensor *m, const struct tensor_view *t,
                                 ey_err *e)
{
    const int block = weight_row_unit(m->weights[0]);
    const uint8_t *next = t->data;
    int64_t row = 0;
    for (int i = 0; i < m->n_weights; i++) {
        const struct tensor *w = m->weights[i];
        if (row % block)
            return ey_fail(
                e, EY_BAD_REQUEST,
                "%s holds several matrices, one of which begins at row %" PRId64
                ", inside a block of %d rows; quantize the model at load time (--quantize) instead",
                t->name, row, block);
        if (source_data(w) != next) break;
        next += weight_data_bytes(&w->recipe->source);
        row += w->rows;
    }
    return next == t->data + t->size ||
           ey_fail(e, EY_BAD_REQUEST,
                   "%s: only some of its rows would be quantized; quantize the model at load time "
                   "(--quantize) instead",
                   t->name);
}

/* Returns whether the tensor holds the scales of an FP8 matrix that becomes int4. They are dropped.
 */
static bool is_replaced_scale(const struct checkpoint_writer *writer, const struct tensor_view *t)
{
    char name[MAX_TENSOR_NAME];
    const char *end = strstr(t->name, "_scale_inv");
    if (!end || end[strlen("_scale_inv")] || (size_t)(end - t->name) >= sizeof(name)) return false;
    snprintf(name, sizeof(name), "%.*s", (int)(end - t->name), t->name);
    const struct tensor_view *matrix = checkpoint_find(writer->source->ckpt, name);
    return matrix && quantized_from(writer->source, matrix).n_weights > 0;
}

/* Fails for quantized layouts of other programs, which the new config.json would not describe. */
static bool check_source_layout(const struct tensor_view *t, ey_err *e)
{
    static const char *const foreign[] = {".qweight", ".weight_packed", ".weight_scale"};
    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++)
        if (name_ends_with(t->name, foreign[i]))
            return ey_fail(e, EY_BAD_MODEL,
                           "%s: tensor %s is quantized already, in another program's layout; "
                           "quantize the original checkpoint",
                           t->file, t->name);
    return true;
}

static bool list_tensors(struct checkpoint_writer *writer, ey_err *e)
{
    struct checkpoint *ckpt = writer->source->ckpt;
    for (size_t i = 0; i < checkpoint_count(ckpt); i++) {
        const struct tensor_view *t = checkpoint_at(ckpt, i);
        if (!check_source_layout(t, e)) return false;
        const struct quantized_tensor m = quantized_from(writer->source, t);
        if (m.n_weights) {
            if (!check_quantized_rows(&m, t, e)) return false;
            add_quantized(writer, &m, t->name);
        } else if (!is_replaced_scale(writer, t)) {
            struct output_tensor *copy = writer_add_tensor(writer, t->dtype, t->data, t->size, "%s",
                                                           t->name);
            if (copy) {
                copy->n_dims = t->n_dims;
                memcpy(copy->shape, t->shape, sizeof(copy->shape));
            }
        }
    }
    return true;
}

static bool plan_shards(struct checkpoint_writer *writer, ey_err *e)
{
    const size_t n = checkpoint_count(writer->source->ckpt);
    writer->max_tensors = n * MAX_QUANTIZED_TENSORS;
    writer->tensor = calloc(writer->max_tensors + 1, sizeof(*writer->tensor));
    writer->quantized = calloc(n + 1, sizeof(*writer->quantized));
    if (!writer->tensor || !writer->quantized)
        return ey_fail_memory(e, "the list of tensors",
                              writer->max_tensors * sizeof(*writer->tensor));
    if (!list_tensors(writer, e)) return false;
    uint64_t used = 0;
    for (size_t i = 0; i < writer->n_tensors; i++) {
        if (used && used + writer->tensor[i].size > SHARD_BYTES) {
            writer->n_shards++;
            used = 0;
        }
        writer->tensor[i].shard = writer->n_shards;
        used += writer->tensor[i].size;
        writer->bytes += writer->tensor[i].size;
    }
    writer->n_shards++;
    return true;
}

/* ---- files ---- */

/* Fails with errno's text for a file, or for the directory itself if `name` is "". */
static bool fail_output_file(const struct checkpoint_writer *writer, const char *name, ey_err *e)
{
    const char *slash = name[0] ? "/" : "";
    if (errno_is_disk_full())
        return ey_fail(e, EY_IO,
                       "%.300s%s%.100s: the disk is full; the checkpoint needs %.2f GB. Nothing of "
                       "it was kept: make room or choose a directory on another disk, "
                       "then run the same command again",
                       writer->out, slash, name, (double)writer->bytes / 1e9);
    return ey_fail(e, EY_IO, "%.400s%s%.100s: %s", writer->out, slash, name, strerror(errno));
}

/* Checks the disk space before the work begins. */
static bool check_output_space(const struct checkpoint_writer *writer, ey_err *e)
{
    uint64_t free_bytes;
    if (!system_free_space(writer->out, &free_bytes) ||
        free_bytes >= writer->bytes + SMALL_FILES_BYTES)
        return true;
    return ey_fail(e, EY_IO,
                   "the checkpoint needs %.2f GB, but %.300s has only %.2f GB free; make room or "
                   "choose a directory on another disk",
                   (double)writer->bytes / 1e9, writer->out, (double)free_bytes / 1e9);
}

static int create_output_file(struct checkpoint_writer *writer, const char *name, ey_err *e)
{
    char path[EY_MAX_PATH];
    if (writer->n_files == MAX_FILES || strlen(name) >= sizeof(writer->file_name[0])) {
        ey_fail(e, EY_IO, "%s: too many files, or the name is too long", name);
        return -1;
    }
    if (!path_join(path, writer->out, name, e)) return -1;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) {
        fail_output_file(writer, name, e);
        return -1;
    }
    strcpy(writer->file_name[writer->n_files++], name);
    return fd;
}

static bool fail_last_file(const struct checkpoint_writer *writer, ey_err *e)
{
    return fail_output_file(writer, writer->file_name[writer->n_files - 1], e);
}

/* Syncs and closes a file. Some file systems report a full disk only now; and config.json must not
 * reach the disk before the rest. */
static bool finish_file(struct checkpoint_writer *writer, int fd, bool ok, ey_err *e)
{
    if (ok && fdatasync(fd) != 0) ok = fail_last_file(writer, e);
    if (close(fd) != 0 && ok) ok = fail_last_file(writer, e);
    return ok;
}

static bool write_text_file(struct checkpoint_writer *writer, const char *name, const char *text,
                            size_t n, ey_err *e)
{
    int fd = create_output_file(writer, name, e);
    if (fd < 0) return false;
    bool ok = file_write(fd, text, n) || fail_last_file(writer, e);
    return finish_file(writer, fd, ok, e);
}

static void remove_output(struct checkpoint_writer *writer)
{
    char path[EY_MAX_PATH];
    for (int i = 0; i < writer->n_files; i++)
        if (path_join(path, writer->out, writer->file_name[i], NULL)) unlink(path);
    if (writer->created_dir) rmdir(writer->out);
}

static bool create_output_directory(struct checkpoint_writer *writer, ey_err *e)
{
    if (mkdir(writer->out, 0777) == 0) return writer->created_dir = true;
    if (errno != EEXIST) return fail_output_file(writer, "", e);
    DIR *d = opendir(writer->out);
    if (!d) return fail_output_file(writer, "", e);
    bool empty = true;
    for (struct dirent *entry; empty && (entry = readdir(d));)
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    closedir(d);
    return empty || ey_fail(e, EY_BAD_REQUEST,
                            "%.500s: the directory is not empty; give another one", writer->out);
}

/* ---- shards ---- */

static bool name_tensors(struct checkpoint_writer *writer, int shard, ey_err *e)
{
    for (size_t i = 0; i < writer->n_tensors; i++) {
        struct output_tensor *t = &writer->tensor[i];
        if (t->shard == shard)
            t->shard_offset = safetensors_writer_add(&writer->file, t->name, t->dtype, t->shape,
                                                     t->n_dims);
    }
    return safetensors_write_header(&writer->file) || fail_last_file(writer, e);
}

static bool write_output(struct checkpoint_writer *writer, const void *data, uint64_t n,
                         uint64_t offset, ey_err *e)
{
    return safetensors_write_data(&writer->file, data, n, offset) || fail_last_file(writer, e);
}

static bool write_copied(struct checkpoint_writer *writer, size_t i, const void *data, ey_err *e)
{
    const struct output_tensor *t = &writer->tensor[i];
    return write_output(writer, data, t->size, t->shard_offset, e);
}

/* Quantizes one matrix and writes the parts in this shard. Its rows begin at `row` of the output
 * tensors. */
static bool write_matrix(struct checkpoint_writer *writer, const struct quantized_tensor *m,
                         const struct tensor *recipe, int64_t row, int shard, void *memory,
                         ey_err *e)
{
    struct tensor w;
    if (!quantize_weight(&w, memory, recipe, writer->source->pool))
        return ey_fail(e, EY_BAD_MODEL, "%s: a weight is not finite",
                       writer->tensor[m->tensor[0]].name);
    const struct tensor *stored = &recipe->recipe->source;
    file_map_release_pages(stored->data, weight_data_bytes(stored));
    const void *data[MAX_QUANTIZED_TENSORS] = {
        w.data, w.dtype == DTYPE_INT4 ? w.group_scale : w.scale, w.group_zero};
    for (int p = 0; p < m->n_tensors; p++) {
        const struct output_tensor *t = &writer->tensor[m->tensor[p]];
        if (t->shard == shard && data[p] &&
            !write_output(writer, data[p], quantized_part_bytes(&w, p, w.rows),
                          t->shard_offset + quantized_part_bytes(&w, p, row), e))
            return false;
    }
    return true;
}

/* Writes the matrices of one tensor. Their values, scales and zero points are consecutive
 * output tensors. If a shard ends between them, the matrices are quantized again for the next one.
 */
static bool write_quantized(struct checkpoint_writer *writer, const struct quantized_tensor *m,
                            int shard, void *memory, ey_err *e)
{
    const int64_t shape[2] = {fused_rows(m), m->weights[0]->cols};
    bool wanted = false;
    int64_t row = 0;
    for (int p = 0; p < m->n_tensors; p++)
        wanted = wanted || writer->tensor[m->tensor[p]].shard == shard;
    for (int i = 0; wanted && i < m->n_weights; row += m->weights[i++]->rows)
        if (!write_matrix(writer, m, m->weights[i], row, shard, memory, e)) return false;
    return m->n_tensors < MAX_QUANTIZED_TENSORS ||
           writer->tensor[m->tensor[MAX_QUANTIZED_TENSORS - 1]].shard != shard ||
           write_copied(writer, m->tensor[MAX_QUANTIZED_TENSORS - 1], shape, e);
}

static bool write_shard(struct checkpoint_writer *writer, int shard, void *memory, ey_err *e)
{
    const ey_engine_options *o = writer->source->options;
    if (!name_tensors(writer, shard, e)) return false;
    for (size_t i = 0; i < writer->n_tensors; i++)
        if (writer->tensor[i].shard == shard && writer->tensor[i].data &&
            !write_copied(writer, i, writer->tensor[i].data, e))
            return false;
    for (size_t i = 0; i < writer->n_quantized; i++) {
        if (!write_quantized(writer, &writer->quantized[i], shard, memory, e)) return false;
        if (o->progress)
            o->progress(o->progress_user, EY_PHASE_QUANTIZING, i + 1, writer->n_quantized);
    }
    return true;
}

static bool write_shards(struct checkpoint_writer *writer, ey_err *e)
{
    const size_t max_bytes = writer->source->max_quantized_bytes;
    void *memory = aligned_alloc(64, max_bytes ? max_bytes : 64);
    bool ok = memory || ey_fail_memory(e, "a quantized matrix", max_bytes);
    for (int i = 0; ok && i < writer->n_shards; i++) {
        char name[SHARD_NAME_BYTES];
        shard_file_name(name, i, writer->n_shards);
        int fd = create_output_file(writer, name, e);
        ok = fd >= 0;
        if (!ok) break;
        safetensors_writer_begin(&writer->file, fd);
        ok = finish_file(writer, fd, write_shard(writer, i, memory, e), e);
    }
    free(memory);
    return ok;
}

static bool write_index(struct checkpoint_writer *writer, ey_err *e)
{
    struct buf b = buf_with_max(EY_MAX_JSON_BYTES);
    if (writer->n_shards == 1) return true;
    struct json_writer index = shard_index_open(&b, writer->bytes);
    for (size_t i = 0; i < writer->n_tensors; i++)
        shard_index_add(&index, writer->tensor[i].name, writer->tensor[i].shard, writer->n_shards);
    shard_index_close(&index);
    bool ok = b.failed ? ey_fail_memory(e, "the index", 0)
                       : write_text_file(writer, "model.safetensors.index.json", b.data, b.size, e);
    buf_free(&b);
    return ok;
}

/* ---- the small files ---- */

static bool write_kept_file(void *user, const char *name, const char *bytes, size_t n, ey_err *e)
{
    return write_text_file(user, name, bytes, n, e);
}

/* ---- config.json ---- */

/* Lists the modules that are not quantized, as readers of such checkpoints require. */
static json_object *unquantized_modules(const struct checkpoint_writer *writer)
{
    json_object *list = json_object_new_array();
    for (size_t i = 0; i < writer->n_tensors; i++) {
        const struct output_tensor *t = &writer->tensor[i];
        if (!t->data || t->n_dims != 2 || !name_ends_with(t->name, ".weight") ||
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

static json_object *fp8_config(const struct checkpoint_writer *writer)
{
    json_object *q = json_object_new_object(), *block = json_object_new_array();
    json_object_array_add(block, json_object_new_int(FP8_BLOCK));
    json_object_array_add(block, json_object_new_int(FP8_BLOCK));
    json_object_object_add(q, "quant_method", json_object_new_string("fp8"));
    json_object_object_add(q, "fmt", json_object_new_string("e4m3"));
    json_object_object_add(q, "activation_scheme", json_object_new_string("dynamic"));
    json_object_object_add(q, "weight_block_size", block);
    json_object_object_add(q, "ignored_layers", unquantized_modules(writer));
    json_object_object_add(q, "modules_to_not_convert", unquantized_modules(writer));
    return q;
}

static json_object *int4_config(const struct checkpoint_writer *writer, int group)
{
    json_object *q = json_object_new_object();
    json_object *weights = json_object_new_object();
    json_object *first = json_object_new_object();
    json_object *groups = json_object_new_object();
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
    json_object_object_add(q, "ignore", unquantized_modules(writer));
    return q;
}

static bool write_config(struct checkpoint_writer *writer, ey_err *e)
{
    const struct quantize_choice *choice = &writer->source->choice;
    json_object *config = NULL;
    if (json_object_deep_copy((json_object *)(uintptr_t)checkpoint_config(writer->source->ckpt),
                              &config, NULL) != 0)
        return ey_fail_memory(e, "config.json", 0);
    json_object_object_add(config, "quantization_config",
                           choice->dtype == DTYPE_INT4 ? int4_config(writer, choice->group_size)
                                                       : fp8_config(writer));
    const char *text = json_object_to_json_string_ext(
        config, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE);
    bool ok = text ? write_text_file(writer, "config.json", text, strlen(text), e)
                   : ey_fail_memory(e, "config.json", 0);
    json_object_put(config);
    return ok;
}

/* ---- write ---- */

bool quantized_checkpoint_write(const struct quantized_source *source, const char *out,
                                uint64_t *bytes, ey_err *e)
{
    struct checkpoint_writer all = {.source = source, .out = out};
    struct checkpoint_writer *writer = &all;
    bool ok = plan_shards(writer, e) && check_output_space(writer, e) &&
              create_output_directory(writer, e) && write_shards(writer, e) &&
              write_index(writer, e) &&
              small_files_each(checkpoint_directory(source->ckpt), write_kept_file, writer, e) &&
              write_config(writer, e);
    if (!ok) remove_output(writer);
    free(writer->tensor);
    free(writer->quantized);
    *bytes = writer->bytes;
    return ok;
}
