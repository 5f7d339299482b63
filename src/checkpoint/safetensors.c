/* SPDX-License-Identifier: Apache-2.0 */
/* One safetensors file (spec 2.1): an eight-byte header length, a JSON header, then the tensors.
 * The file is mapped and read in place. Every number of the header is checked here, once, so that
 * callers can trust a view's shape, size and address. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors_writer.h"

enum { LENGTH_BYTES = 8 };

/* Names can be as long as the header; messages show a prefix. */
#define NAME "%.200s"

struct safetensors {
    struct file_map map; /* empty if the caller owns the bytes */
    char *path;
    struct arena names;
    struct tensor_view *views; /* [n], sorted by name */
    size_t n;
    const uint8_t *data; /* the data section, base of all offsets */
    size_t data_size;
};

/* ---- one entry of the header ---- */

static bool fail_tensor_value(ey_err *e, const struct tensor_view *t, const char *what,
                              json_object *value, const char *wanted)
{
    const char *shown = value ? json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN)
                              : "absent";
    return ey_fail(e, EY_BAD_MODEL, "%s: tensor " NAME ": %s is %.80s; it must be %s", t->file,
                   t->name, what, shown, wanted);
}

/* json-c saturates numbers beyond 64 bits, so INT64_MAX is rejected. */
static bool whole_number(json_object *value, int64_t *out)
{
    if (!json_object_is_type(value, json_type_int)) return false;
    *out = json_object_get_int64(value);
    return *out >= 0 && *out < INT64_MAX;
}

static bool read_dtype(struct tensor_view *t, const json_object *entry, ey_err *e)
{
    json_object *value = json_member(entry, "dtype");
    if (!json_object_is_type(value, json_type_string))
        return fail_tensor_value(e, t, "dtype", value, "the name of an element type");
    t->dtype = dtype_from_name(json_object_get_string(value));
    if (t->dtype != DTYPE_NONE) return true;
    char names[160] = "", wanted[200];
    dtype_append_names(names, sizeof(names), ~0U);
    snprintf(wanted, sizeof(wanted), "one that is supported: %s", names);
    return fail_tensor_value(e, t, "dtype", value, wanted);
}

/* Whether the last dimension is a multiple of the dtype's block. */
static bool has_whole_blocks(const struct tensor_view *t)
{
    const int64_t row = t->n_dims ? t->shape[t->n_dims - 1] : 1;
    return row % dtype_info(t->dtype)->values == 0;
}

static bool safetensors_read_shape(struct tensor_view *t, const json_object *entry, ey_err *e)
{
    json_object *shape = json_member(entry, "shape");
    if (!json_object_is_type(shape, json_type_array))
        return fail_tensor_value(e, t, "shape", shape, "an array of whole numbers");
    size_t n = json_object_array_length(shape);
    if (n > EY_MAX_DIMS)
        return ey_fail(e, EY_BAD_MODEL,
                       "%s: tensor " NAME ": shape has %zu dimensions; the limit is %d", t->file,
                       t->name, n, EY_MAX_DIMS);
    t->n_dims = (int)n;
    const struct dtype_traits *type = dtype_info(t->dtype);
    t->size = type->bytes;
    for (size_t i = 0; i < n; i++) {
        if (!whole_number(json_object_array_get_idx(shape, i), &t->shape[i]))
            return fail_tensor_value(e, t, "shape", shape, "an array of whole numbers");
        const size_t blocks = (size_t)t->shape[i] / (i + 1 == n ? type->values : 1);
        if (!checked_mul(t->size, blocks, &t->size))
            return fail_tensor_value(e, t, "shape", shape, "one whose size in bytes fits 64 bits");
    }
    return has_whole_blocks(t) ||
           fail_tensor_value(e, t, "shape", shape, "one whose rows are whole blocks of its dtype");
}

static bool read_offsets(struct tensor_view *t, const struct safetensors *f,
                         const json_object *entry, ey_err *e)
{
    json_object *offsets = json_member(entry, "data_offsets");
    int64_t begin, end;
    if (!json_object_is_type(offsets, json_type_array) || json_object_array_length(offsets) != 2 ||
        !whole_number(json_object_array_get_idx(offsets, 0), &begin) ||
        !whole_number(json_object_array_get_idx(offsets, 1), &end) || begin > end)
        return fail_tensor_value(e, t, "data_offsets", offsets, "[begin, end] in whole numbers");
    if ((uint64_t)end > f->data_size)
        return ey_fail(
            e, EY_BAD_MODEL,
            "%s: tensor " NAME ": data_offsets end at %" PRId64
            ", but the file has only %zu bytes of data; it is truncated: download it again",
            t->file, t->name, end, f->data_size);
    if ((size_t)(end - begin) != t->size)
        return ey_fail(e, EY_BAD_MODEL,
                       "%s: tensor " NAME ": data_offsets hold %" PRId64
                       " bytes, but shape and dtype require %zu",
                       t->file, t->name, end - begin, t->size);
    t->data = f->data + begin;
    return true;
}

static bool read_entry(struct safetensors *f, const char *name, json_object *entry, ey_err *e)
{
    struct tensor_view *t = &f->views[f->n];
    *t = (struct tensor_view){.name = arena_copy_text(&f->names, name, strlen(name)),
                              .file = f->path};
    if (!t->name) return ey_fail_memory(e, "tensor names", strlen(name));
    if (!json_object_is_type(entry, json_type_object))
        return fail_tensor_value(e, t, "its entry", entry,
                                 "an object with dtype, shape and data_offsets");
    if (!read_dtype(t, entry, e) || !safetensors_read_shape(t, entry, e) ||
        !read_offsets(t, f, entry, e))
        return false;
    f->n++;
    return true;
}

/* ---- duplicate names ---- */

/* A key in the text of the header. json_parse() silently keeps the last of two members with the
 * same name, so duplicates are searched for in the text. It is known to be valid JSON, so only
 * strings and nesting matter. */
struct safetensors_key {
    const char *p;
    size_t n;
};

/* Returns the length of the string literal at s, which ends at `end` at the latest. */
static size_t string_length(const char *s, const char *end)
{
    const char *p = s + 1;
    while (p < end && *p != '"')
        p += *p == '\\' ? 2 : 1;
    return p < end ? (size_t)(p - s) + 1 : (size_t)(end - s);
}

static bool is_key(const char *s, const char *end)
{
    while (s < end && strchr(" \t\r\n", *s))
        s++;
    return s < end && *s == ':';
}

/* Finds the keys of the outermost object and returns their number; `keys` may be NULL. */
static size_t outer_keys(const char *text, size_t size, struct safetensors_key *keys)
{
    int depth = 0;
    size_t n = 0;
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        if (c != '"') continue;
        size_t length = string_length(text + i, text + size);
        if (depth == 1 && is_key(text + i + length, text + size)) {
            if (keys) keys[n] = (struct safetensors_key){text + i, length};
            n++;
        }
        i += length - 1;
    }
    return n;
}

static int compare_keys(const void *a, const void *b)
{
    const struct safetensors_key *x = a, *y = b;
    int order = memcmp(x->p, y->p, x->n < y->n ? x->n : y->n);
    return order ? order : (x->n > y->n) - (x->n < y->n);
}

static bool fail_duplicate(const char *text, size_t size, size_t n, const char *path, ey_err *e)
{
    struct safetensors_key *keys = malloc((n + 1) * sizeof(*keys));
    if (!keys) return ey_fail_memory(e, "tensor names", n * sizeof(*keys));
    outer_keys(text, size, keys);
    qsort(keys, n, sizeof(*keys), compare_keys);
    size_t i = 1;
    while (i < n && compare_keys(&keys[i - 1], &keys[i]) != 0)
        i++;
    if (i < n)
        ey_fail(e, EY_BAD_MODEL, "%s: tensor %.*s is in the header twice", path,
                (int)(keys[i].n < 200 ? keys[i].n : 200), keys[i].p);
    else
        ey_fail(e, EY_BAD_MODEL, "%s: a tensor is in the header twice, spelled in two ways", path);
    free(keys);
    return false;
}

static bool check_duplicates(const char *text, size_t size, const json_object *header,
                             const char *path, ey_err *e)
{
    size_t n = outer_keys(text, size, NULL), parsed = (size_t)json_object_object_length(header);
    return n == parsed || fail_duplicate(text, size, n, path, e);
}

/* ---- the header ---- */

static int compare_views_by_address(const void *a, const void *b)
{
    const struct tensor_view *x = a, *y = b;
    if (x->data != y->data) return x->data < y->data ? -1 : 1;
    return (x->size > y->size) - (x->size < y->size);
}

static int compare_views_by_name(const void *a, const void *b)
{
    return strcmp(((const struct tensor_view *)a)->name, ((const struct tensor_view *)b)->name);
}

/* Fails unless the tensors cover the data section without gap or overlap. */
static bool check_coverage(const struct safetensors *f, ey_err *e)
{
    size_t covered = 0;
    for (size_t i = 0; i < f->n; i++) {
        const struct tensor_view *t = &f->views[i];
        size_t begin = (size_t)(t->data - f->data);
        if (begin > covered)
            return ey_fail(e, EY_BAD_MODEL,
                           "%s: tensor " NAME
                           ": the %zu bytes before its offset %zu belong to no tensor",
                           f->path, t->name, begin - covered, begin);
        if (begin < covered)
            return ey_fail(e, EY_BAD_MODEL,
                           "%s: tensor " NAME ": its offset %zu lies within tensor " NAME
                           ", which ends at %zu",
                           f->path, t->name, begin, f->views[i - 1].name, covered);
        covered += t->size;
    }
    if (covered == f->data_size) return true;
    return ey_fail(e, EY_BAD_MODEL, "%s: %zu bytes after the last tensor belong to no tensor",
                   f->path, f->data_size - covered);
}

static bool read_entries(struct safetensors *f, const json_object *header, ey_err *e)
{
    size_t n = (size_t)json_object_object_length(header);
    if (n > EY_MAX_TENSORS + 1)
        return ey_fail(e, EY_BAD_MODEL, "%s: it has %zu tensors; the limit is %d", f->path, n,
                       EY_MAX_TENSORS);
    f->views = calloc(n + 1, sizeof(*f->views));
    if (!f->views) return ey_fail_memory(e, "the table of tensors", n * sizeof(*f->views));
    json_object_object_foreach(header, name, entry)
    {
        if (strcmp(name, "__metadata__") != 0 && !read_entry(f, name, entry, e)) return false;
    }
    qsort(f->views, f->n, sizeof(*f->views), compare_views_by_address);
    if (!check_coverage(f, e)) return false;
    qsort(f->views, f->n, sizeof(*f->views), compare_views_by_name);
    return true;
}

static bool safetensors_read_header(struct safetensors *f, const char *text, size_t size, ey_err *e)
{
    if (text[0] != '{')
        return ey_fail(e, EY_BAD_MODEL, "%s: the header begins with byte 0x%02x and not with '{'",
                       f->path, (uint8_t)text[0]);
    json_object *header = json_parse_up_to(text, size, EY_MAX_SAFETENSORS_HEADER, f->path,
                                           EY_BAD_MODEL, e);
    if (!header) return ey_fail_within(e, "safetensors header");
    bool ok = check_duplicates(text, size, header, f->path, e) && read_entries(f, header, e);
    json_object_put(header);
    return ok;
}

static bool safetensors_read(struct safetensors *f, const uint8_t *bytes, size_t size, ey_err *e)
{
    if (size < LENGTH_BYTES)
        return ey_fail(e, EY_BAD_MODEL,
                       "%s: %zu bytes are too few for a safetensors file; download it again",
                       f->path, size);
    if (!file_check_not_lfs_pointer(bytes, size, f->path, e)) return false;
    uint64_t length = 0;
    for (int i = LENGTH_BYTES - 1; i >= 0; i--)
        length = length << 8 | bytes[i];
    if (length > EY_MAX_SAFETENSORS_HEADER)
        return ey_fail(e, EY_BAD_MODEL,
                       "%s: a header of %" PRIu64
                       " bytes is more than the limit of %zu; is this a safetensors file?",
                       f->path, length, EY_MAX_SAFETENSORS_HEADER);
    if (length > size - LENGTH_BYTES || !length)
        return ey_fail(e, EY_BAD_MODEL,
                       "%s: a header of %" PRIu64
                       " bytes is impossible in a file of %zu bytes; download it again",
                       f->path, length, size);
    f->data = bytes + LENGTH_BYTES + length;
    f->data_size = size - LENGTH_BYTES - (size_t)length;
    return safetensors_read_header(f, (const char *)bytes + LENGTH_BYTES, (size_t)length, e);
}

/* ---- open, close, look up ---- */

static struct safetensors *new_file(const char *path, ey_err *e)
{
    struct safetensors *f = calloc(1, sizeof(*f));
    char *copy = strdup(path);
    if (f && copy) return f->path = copy, f;
    free(f);
    free(copy);
    ey_fail_memory(e, path, sizeof(*f));
    return NULL;
}

bool safetensors_open_memory(struct safetensors **out, const uint8_t *bytes, size_t size,
                             const char *path, ey_err *e)
{
    struct safetensors *f = new_file(path, e);
    if (!f) return false;
    if (safetensors_read(f, bytes, size, e)) return *out = f, true;
    safetensors_close(f);
    return false;
}

bool safetensors_open(struct safetensors **out, const char *path, ey_err *e)
{
    struct safetensors *f = new_file(path, e);
    if (!f) return false;
    if (file_map_open(&f->map, path, e) && safetensors_read(f, f->map.data, f->map.size, e))
        return *out = f, true;
    safetensors_close(f);
    return false;
}

void safetensors_close(struct safetensors *f)
{
    if (!f) return;
    file_map_close(&f->map);
    arena_free(&f->names);
    free(f->views);
    free(f->path);
    free(f);
}

size_t safetensors_count(const struct safetensors *f)
{
    return f->n;
}

const struct tensor_view *safetensors_at(const struct safetensors *f, size_t i)
{
    return i < f->n ? &f->views[i] : NULL;
}

const struct tensor_view *safetensors_find(const struct safetensors *f, const char *name)
{
    struct tensor_view wanted = {.name = name};
    return f->n ? bsearch(&wanted, f->views, f->n, sizeof(*f->views), compare_views_by_name) : NULL;
}
