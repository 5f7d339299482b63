/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the container: a header with metadata and tensor descriptions, then the aligned data of
 * the tensors. Files are untrusted, so each number is checked here before it is used as a size or
 * an offset. */
#include "checkpoint/gguf/gguf.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/file.h"
#include "base/utf8.h"

enum {
    MAGIC_BYTES = 4,
    HEADER_BYTES = MAGIC_BYTES + 4 + 8 + 8,
    LEAST_PAIR = 8 + 1 + 4 + 1,         /* one-letter key, type, one byte */
    LEAST_INFO = 8 + 1 + 4 + 8 + 4 + 8, /* one-letter name, one dimension */
    MAX_VALUES = 65536,
    MAX_KEY_BYTES = 65535,
    MAX_NAME_BYTES = 255, /* ggml allows 63 */
    MAX_GGUF_DIMS = 4,
    DEFAULT_ALIGNMENT = 32,
    MAX_ALIGNMENT = 1 << 20,
};
#define MAX_ELEMENTS ((uint64_t)1 << 30)

/* Messages show a prefix of long names. */
#define NAME "%.200s"

struct gguf {
    struct file_map map; /* empty if the caller owns the bytes */
    char *path;
    struct arena names;
    struct gguf_value *values; /* [n_values], sorted by key */
    size_t n_values;
    struct tensor_view *views; /* [n_views] */
    size_t n_views;
};

/* The read position. */
struct gguf_reader {
    struct gguf *f;
    const uint8_t *begin, *at, *end;
    ey_err *e;
};

static bool fail_cut_off(const struct gguf_reader *r, const char *what)
{
    return ey_fail(r->e, EY_BAD_MODEL, "%s: the file ends within %s; download it again", r->f->path,
                   what);
}

static size_t bytes_left(const struct gguf_reader *r)
{
    return (size_t)(r->end - r->at);
}

static bool read_u32(struct gguf_reader *r, uint32_t *out, const char *what)
{
    *out = 0;
    if (bytes_left(r) < sizeof(*out)) return fail_cut_off(r, what);
    memcpy(out, r->at, sizeof(*out));
    r->at += sizeof(*out);
    return true;
}

static bool read_u64(struct gguf_reader *r, uint64_t *out, const char *what)
{
    *out = 0;
    if (bytes_left(r) < sizeof(*out)) return fail_cut_off(r, what);
    memcpy(out, r->at, sizeof(*out));
    r->at += sizeof(*out);
    return true;
}

/* Reads a length-prefixed string in place. */
static bool read_gguf_string(struct gguf_reader *r, const uint8_t **bytes, uint64_t *n,
                             const char *what)
{
    *bytes = NULL;
    if (!read_u64(r, n, what)) return false;
    if (*n > bytes_left(r))
        return ey_fail(r->e, EY_BAD_MODEL,
                       "%s: %s has a string of %" PRIu64 " bytes, but the file ends after %zu",
                       r->f->path, what, *n, bytes_left(r));
    *bytes = r->at;
    r->at += *n;
    return true;
}

/* Reads and copies a key or a tensor name. Fails with NULL if it is empty, too long, or contains a
 * NUL. */
static const char *read_gguf_name(struct gguf_reader *r, uint64_t most, const char *what)
{
    const uint8_t *bytes;
    uint64_t n;
    if (!read_gguf_string(r, &bytes, &n, what)) return NULL;
    if (!n || n > most || memchr(bytes, 0, (size_t)n)) {
        ey_fail(r->e, EY_BAD_MODEL,
                "%s: %s has a name of %" PRIu64 " bytes%s; names have 1 to %" PRIu64
                " bytes and no NUL",
                r->f->path, what, n, n && n <= most ? " with a NUL in it" : "", most);
        return NULL;
    }
    const char *name = arena_copy_text(&r->f->names, (const char *)bytes, (size_t)n);
    if (!name) ey_fail_memory(r->e, "names", (size_t)n);
    return name;
}

/* ---- metadata ---- */

/* Returns the size of a value in bytes, or 0 for strings and arrays, whose size varies. */
static size_t value_bytes(enum gguf_value_type type)
{
    static const uint8_t bytes[GGUF_VALUE_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return bytes[type];
}

static bool skip_strings(struct gguf_reader *r, uint64_t n, const char *key)
{
    for (uint64_t i = 0; i < n; i++) {
        const uint8_t *bytes;
        uint64_t length;
        if (!read_gguf_string(r, &bytes, &length, key)) return false;
    }
    return true;
}

static bool read_array(struct gguf_reader *r, struct gguf_value *v)
{
    uint32_t element;
    if (!read_u32(r, &element, v->key) || !read_u64(r, &v->n, v->key)) return false;
    if (element == GGUF_ARRAY || element >= GGUF_VALUE_TYPES)
        return ey_fail(r->e, EY_BAD_MODEL, "%s: " NAME " is an array of %s", r->f->path, v->key,
                       element == GGUF_ARRAY ? "arrays, which is not supported"
                                             : "values of an unknown type");
    v->element = (enum gguf_value_type)element;
    const size_t size = v->element == GGUF_STRING ? sizeof(uint64_t) : value_bytes(v->element);
    if (v->n > MAX_ELEMENTS)
        return ey_fail(r->e, EY_BAD_MODEL,
                       "%s: " NAME " is an array of %" PRIu64
                       " values, more than the limit of %" PRIu64,
                       r->f->path, v->key, v->n, MAX_ELEMENTS);
    if (v->n > bytes_left(r) / size)
        return ey_fail(r->e, EY_BAD_MODEL,
                       "%s: " NAME " is an array of %" PRIu64
                       " values, but the file ends after %zu bytes",
                       r->f->path, v->key, v->n, bytes_left(r));
    v->data = r->at;
    if (v->element == GGUF_STRING) return skip_strings(r, v->n, v->key);
    r->at += v->n * size;
    return true;
}

static bool read_gguf_value(struct gguf_reader *r, struct gguf_value *v)
{
    uint32_t type;
    if (!(v->key = read_gguf_name(r, MAX_KEY_BYTES, "the metadata")) || !read_u32(r, &type, v->key))
        return false;
    if (type >= GGUF_VALUE_TYPES)
        return ey_fail(r->e, EY_BAD_MODEL, "%s: " NAME " has the unknown value type %" PRIu32,
                       r->f->path, v->key, type);
    v->type = (enum gguf_value_type)type;
    if (v->type == GGUF_ARRAY) return read_array(r, v);
    if (v->type == GGUF_STRING) return read_gguf_string(r, &v->data, &v->n, v->key);
    if (bytes_left(r) < value_bytes(v->type)) return fail_cut_off(r, v->key);
    v->data = r->at;
    r->at += value_bytes(v->type);
    return true;
}

static int compare_values(const void *a, const void *b)
{
    return strcmp(((const struct gguf_value *)a)->key, ((const struct gguf_value *)b)->key);
}

static bool read_metadata(struct gguf_reader *r, uint64_t n)
{
    struct gguf *f = r->f;
    if (n > MAX_VALUES || n > bytes_left(r) / LEAST_PAIR)
        return ey_fail(r->e, EY_BAD_MODEL,
                       "%s: the header declares %" PRIu64
                       " metadata keys, more than the file can hold or than the limit of %d",
                       f->path, n, MAX_VALUES);
    f->values = calloc((size_t)n + 1, sizeof(*f->values));
    if (!f->values) return ey_fail_memory(r->e, "metadata", (size_t)n * sizeof(*f->values));
    for (; f->n_values < n; f->n_values++)
        if (!read_gguf_value(r, &f->values[f->n_values])) return false;
    qsort(f->values, f->n_values, sizeof(*f->values), compare_values);
    for (size_t i = 1; i < f->n_values; i++)
        if (strcmp(f->values[i - 1].key, f->values[i].key) == 0)
            return ey_fail(r->e, EY_BAD_MODEL, "%s: the key " NAME " occurs twice", f->path,
                           f->values[i].key);
    return true;
}

/* ---- tensors ---- */

/* A tensor's offset counts from the data section, which begins after the whole header. */
struct tensor_info {
    uint64_t offset;
};

/* Reads a shape and reverses it: files store the fastest dimension first, views store it last. */
static bool read_tensor_shape(struct gguf_reader *r, struct tensor_view *t, int64_t ne[],
                              uint32_t *n_dims)
{
    if (!read_u32(r, n_dims, t->name)) return false;
    if (*n_dims < 1 || *n_dims > MAX_GGUF_DIMS)
        return ey_fail(r->e, EY_BAD_MODEL,
                       "%s: tensor " NAME " has %" PRIu32 " dimensions, not 1 "
                       "to %d",
                       t->file, t->name, *n_dims, MAX_GGUF_DIMS);
    for (uint32_t i = 0; i < *n_dims; i++) {
        uint64_t n;
        if (!read_u64(r, &n, t->name)) return false;
        if (n < 1 || n > INT64_MAX)
            return ey_fail(r->e, EY_BAD_MODEL,
                           "%s: tensor " NAME ": dimension %" PRIu32 " is %" PRIu64, t->file,
                           t->name, i, n);
        ne[i] = (int64_t)n;
    }
    t->n_dims = (int)*n_dims;
    for (uint32_t i = 0; i < *n_dims; i++)
        t->shape[i] = ne[*n_dims - 1 - i];
    return true;
}

static bool count_bytes(const struct gguf_reader *r, struct tensor_view *t)
{
    const struct dtype_traits *type = dtype_info(t->dtype);
    const int64_t row = t->shape[t->n_dims - 1];
    if (row % type->values)
        return ey_fail(r->e, EY_BAD_MODEL,
                       "%s: tensor " NAME ": rows of %" PRId64
                       " values are not a multiple of %s's block of %d",
                       t->file, t->name, row, type->label, type->values);
    t->size = type->bytes;
    bool ok = checked_mul(t->size, (size_t)(row / type->values), &t->size);
    for (int i = 0; i < t->n_dims - 1; i++)
        ok = ok && checked_mul(t->size, (size_t)t->shape[i], &t->size);
    return ok || ey_fail(r->e, EY_BAD_MODEL,
                         "%s: tensor " NAME ": its size in bytes does not fit in 64 bits", t->file,
                         t->name);
}

static bool read_info(struct gguf_reader *r, struct tensor_view *t, struct tensor_info *info)
{
    int64_t ne[MAX_GGUF_DIMS];
    uint32_t n_dims, type;
    t->file = r->f->path;
    if (!(t->name = read_gguf_name(r, MAX_NAME_BYTES, "the list of tensors")) ||
        !read_tensor_shape(r, t, ne, &n_dims) || !read_u32(r, &type, t->name) ||
        !read_u64(r, &info->offset, t->name))
        return false;
    t->dtype = gguf_dtype(type, t->file, t->name, r->e);
    return t->dtype != DTYPE_NONE && count_bytes(r, t);
}

static bool find_data(struct gguf_reader *r, struct tensor_view *t, const struct tensor_info *info,
                      const uint8_t *data, size_t data_size, uint64_t alignment)
{
    if (info->offset % alignment)
        return ey_fail(r->e, EY_BAD_MODEL,
                       "%s: tensor " NAME ": its offset %" PRIu64
                       " is not a multiple of the alignment %" PRIu64,
                       t->file, t->name, info->offset, alignment);
    if (info->offset > data_size || t->size > data_size - info->offset)
        return ey_fail(
            r->e, EY_BAD_MODEL,
            "%s: tensor " NAME " needs %zu bytes at offset %" PRIu64
            ", but the file has only %zu bytes of data; it is truncated: download it again",
            t->file, t->name, t->size, info->offset, data_size);
    t->data = data + info->offset;
    return true;
}

static int compare_by_data(const void *a, const void *b)
{
    const struct tensor_view *x = *(const struct tensor_view *const *)a,
                             *y = *(const struct tensor_view *const *)b;
    return x->data < y->data ? -1 : x->data > y->data;
}

static int compare_tensor_names(const void *a, const void *b)
{
    return strcmp((*(const struct tensor_view *const *)a)->name,
                  (*(const struct tensor_view *const *)b)->name);
}

/* Fails if two tensors have the same name or overlap. */
static bool check_tensors_differ(const struct gguf *f, ey_err *e)
{
    const struct tensor_view **order = malloc((f->n_views + 1) * sizeof(*order));
    bool ok = order || ey_fail_memory(e, "the list of tensors", f->n_views * sizeof(*order));
    for (size_t i = 0; ok && i < f->n_views; i++)
        order[i] = &f->views[i];
    if (ok) qsort(order, f->n_views, sizeof(*order), compare_tensor_names);
    for (size_t i = 1; ok && i < f->n_views; i++)
        if (strcmp(order[i - 1]->name, order[i]->name) == 0)
            ok = ey_fail(e, EY_BAD_MODEL, "%s: tensor " NAME " occurs twice", f->path,
                         order[i]->name);
    if (ok) qsort(order, f->n_views, sizeof(*order), compare_by_data);
    for (size_t i = 1; ok && i < f->n_views; i++)
        if (order[i]->data < order[i - 1]->data + order[i - 1]->size)
            ok = ey_fail(e, EY_BAD_MODEL, "%s: tensors " NAME " and " NAME " overlap", f->path,
                         order[i - 1]->name, order[i]->name);
    free(order);
    return ok;
}

static bool read_alignment(struct gguf_reader *r, uint64_t *out)
{
    int64_t alignment = DEFAULT_ALIGNMENT;
    if (!gguf_optional_int(r->f, "general.alignment", 1, MAX_ALIGNMENT, &alignment, r->e))
        return false;
    *out = (uint64_t)alignment;
    return (alignment & (alignment - 1)) == 0 ||
           ey_fail(r->e, EY_BAD_MODEL,
                   "%s: general.alignment is %" PRId64 "; it must be a power of two", r->f->path,
                   alignment);
}

static bool read_infos(struct gguf_reader *r, struct tensor_info *infos, size_t n)
{
    struct gguf *f = r->f;
    for (; f->n_views < n; f->n_views++)
        if (!read_info(r, &f->views[f->n_views], &infos[f->n_views])) return false;
    return true;
}

static bool read_data_section(struct gguf_reader *r, const struct tensor_info *infos)
{
    uint64_t alignment;
    if (!read_alignment(r, &alignment)) return false;
    const size_t header = (size_t)(r->at - r->begin),
                 padding = (size_t)((alignment - header % alignment) % alignment);
    const bool any = padding < bytes_left(r);
    const uint8_t *data = any ? r->at + padding : r->end;
    for (size_t i = 0; i < r->f->n_views; i++)
        if (!find_data(r, &r->f->views[i], &infos[i], data, (size_t)(r->end - data), alignment))
            return false;
    return check_tensors_differ(r->f, r->e);
}

static bool read_tensors(struct gguf_reader *r, uint64_t n)
{
    struct gguf *f = r->f;
    if (n > EY_MAX_TENSORS || n > bytes_left(r) / LEAST_INFO)
        return ey_fail(r->e, EY_BAD_MODEL,
                       "%s: the header declares %" PRIu64
                       " tensors, more than the file can hold or than the limit of %d",
                       f->path, n, EY_MAX_TENSORS);
    f->views = calloc((size_t)n + 1, sizeof(*f->views));
    struct tensor_info *infos = calloc((size_t)n + 1, sizeof(*infos));
    bool ok = (f->views && infos) ||
              ey_fail_memory(r->e, "the list of tensors", (size_t)n * sizeof(*f->views));
    ok = ok && read_infos(r, infos, (size_t)n) && read_data_section(r, infos);
    free(infos);
    return ok;
}

/* ---- the header ---- */

static bool check_version(const struct gguf_reader *r, uint32_t version)
{
    if (version == 2 || version == 3) return true;
    if (!(version & 0xffff))
        return ey_fail(r->e, EY_BAD_MODEL,
                       "%s: big-endian GGUF files are not supported; use a little-endian one",
                       r->f->path);
    return ey_fail(r->e, EY_BAD_MODEL, "%s: GGUF version %" PRIu32 " is %s", r->f->path, version,
                   version == 1 ? "too old; convert the model again"
                                : "not supported (supported: 2 and 3)");
}

static bool gguf_read(struct gguf *f, const uint8_t *bytes, size_t size, ey_err *e)
{
    struct gguf_reader r = {f, bytes, bytes, bytes + size, e};
    uint32_t version;
    uint64_t n_tensors, n_values;
    if (!file_check_not_lfs_pointer(bytes, size, f->path, e)) return false;
    if (size < MAGIC_BYTES || memcmp(bytes, "GGUF", MAGIC_BYTES) != 0)
        return ey_fail(e, EY_BAD_MODEL, "%s: not a GGUF file: it does not begin with \"GGUF\"",
                       f->path);
    r.at += MAGIC_BYTES;
    return read_u32(&r, &version, "its header") && check_version(&r, version) &&
           read_u64(&r, &n_tensors, "its header") && read_u64(&r, &n_values, "its header") &&
           read_metadata(&r, n_values) && read_tensors(&r, n_tensors);
}

/* ---- open, close, look up ---- */

static struct gguf *new_gguf(const char *path, ey_err *e)
{
    struct gguf *f = calloc(1, sizeof(*f));
    char *copy = strdup(path);
    if (f && copy) return f->path = copy, f;
    free(f);
    free(copy);
    ey_fail_memory(e, path, sizeof(*f));
    return NULL;
}

bool gguf_open_memory(struct gguf **out, const uint8_t *bytes, size_t size, const char *path,
                      ey_err *e)
{
    struct gguf *f = new_gguf(path, e);
    if (!f) return false;
    if (gguf_read(f, bytes, size, e)) return *out = f, true;
    gguf_close(f);
    return false;
}

bool gguf_open(struct gguf **out, const char *path, ey_err *e)
{
    struct gguf *f = new_gguf(path, e);
    if (!f) return false;
    if (file_map_open(&f->map, path, e) && gguf_read(f, f->map.data, f->map.size, e))
        return *out = f, true;
    gguf_close(f);
    return false;
}

void gguf_close(struct gguf *f)
{
    if (!f) return;
    file_map_close(&f->map);
    arena_free(&f->names);
    free(f->values);
    free(f->views);
    free(f->path);
    free(f);
}

const char *gguf_path(const struct gguf *f)
{
    return f->path;
}

bool gguf_is_file(const char *path)
{
    const size_t n = strlen(path), ending = strlen(".gguf");
    char magic[MAGIC_BYTES];
    if (!path_is_file(path)) return false;
    if (n > ending && strcmp(path + n - ending, ".gguf") == 0) return true;
    FILE *file = fopen(path, "rb");
    if (!file) return false;
    const bool ok = fread(magic, 1, sizeof(magic), file) == sizeof(magic) &&
                    memcmp(magic, "GGUF", sizeof(magic)) == 0;
    fclose(file);
    return ok;
}

size_t gguf_n_tensors(const struct gguf *f)
{
    return f->n_views;
}

const struct tensor_view *gguf_tensor_at(const struct gguf *f, size_t i)
{
    return i < f->n_views ? &f->views[i] : NULL;
}

size_t gguf_n_values(const struct gguf *f)
{
    return f->n_values;
}

const struct gguf_value *gguf_find(const struct gguf *f, const char *key)
{
    const struct gguf_value wanted = {.key = key};
    return f->n_values
               ? bsearch(&wanted, f->values, f->n_values, sizeof(*f->values), compare_values)
               : NULL;
}

const char *gguf_text(struct gguf *f, const char *key)
{
    const struct gguf_value *v = gguf_find(f, key);
    if (!v || v->type != GGUF_STRING || memchr(v->data, 0, (size_t)v->n) ||
        !utf8_valid((const char *)v->data, (size_t)v->n))
        return NULL;
    return arena_copy_text(&f->names, (const char *)v->data, (size_t)v->n);
}
