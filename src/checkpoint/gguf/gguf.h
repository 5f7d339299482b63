/* SPDX-License-Identifier: Apache-2.0 */
/* One GGUF file, version 2 or 3, mapped and checked: its metadata by key, and views of its tensors
 * that point into the map. */
#ifndef EY_CHECKPOINT_GGUF_H
#define EY_CHECKPOINT_GGUF_H

#include "base/buf.h"
#include "tensor/tensor_view.h"

/* Types of values of the metadata, by their numbers in files. */
enum gguf_value_type {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_VALUE_TYPES
};

struct gguf_value {
    const char *key;
    enum gguf_value_type type, element; /* element: of an array */
    uint64_t n;                         /* bytes of a string, elements of an array */
    const uint8_t *data;                /* of a string or array: the first */
};

struct gguf;
/* Maps and checks a file: every length, count, offset and product, once. Twice the same key or
 * tensor, tensors that overlap, and types that eyelet does not read are errors. */
bool gguf_open(struct gguf **file, const char *path, ey_err *e);
/* The same over bytes that the caller keeps alive (tests, fuzzing); `path` is for messages. */
bool gguf_open_memory(struct gguf **file, const uint8_t *data, size_t size, const char *path,
                      ey_err *e);
void gguf_close(struct gguf *file);
const char *gguf_path(const struct gguf *file);
/* Whether the file at `path` begins as a GGUF file, or is named so. */
bool gguf_is_file(const char *path);

/* Tensors with shapes as elsewhere, the fastest dimension last; in the order of the file. */
size_t gguf_n_tensors(const struct gguf *file);
const struct tensor_view *gguf_tensor_at(const struct gguf *file, size_t i);

/* ---- metadata ---- */

size_t gguf_n_values(const struct gguf *file);
/* NULL: there is no such key. */
const struct gguf_value *gguf_find(const struct gguf *file, const char *key);
/* Of any integer type, a bool too, in [lo, hi]; an array of equal integers is one. False with a
 * message: the key is absent, or it is none. */
bool gguf_int(const struct gguf *file, const char *key, int64_t lo, int64_t hi, int64_t *out,
              ey_err *e);
/* Absent: *out keeps its value, and true is returned. */
bool gguf_optional_int(const struct gguf *file, const char *key, int64_t lo, int64_t hi,
                       int64_t *out, ey_err *e);
bool gguf_optional_bool(const struct gguf *file, const char *key, bool *out, ey_err *e);
/* A float, or an integer, that is finite. */
bool gguf_optional_real(const struct gguf *file, const char *key, double *out, ey_err *e);
/* A copy with a NUL; NULL: absent, no string, not UTF-8 or with a NUL in it. */
const char *gguf_text(struct gguf *file, const char *key);
/* Whether a string value is this text. */
bool gguf_text_is(const struct gguf *file, const char *key, const char *text);

/* The strings of an array, one after the other. */
struct gguf_strings {
    const uint8_t *at;
    uint64_t left;
};
/* False with a message: absent, or no array of strings. */
bool gguf_strings_of(const struct gguf *file, const char *key, struct gguf_strings *out, ey_err *e);
/* False: there are no more. */
bool gguf_next_string(struct gguf_strings *s, const char **text, size_t *n);
/* Element i of an array of integers or floats, which has more than i. */
int64_t gguf_array_int(const struct gguf_value *array, uint64_t i);
double gguf_array_real(const struct gguf_value *array, uint64_t i);
/* Whether an element of this type is an integer (a bool too), a float. */
bool gguf_is_integer(enum gguf_value_type type);
bool gguf_is_real(enum gguf_value_type type);

/* ---- types of tensors ---- */

/* The type that a number in a file stands for; DTYPE_NONE with a message that says what to take
 * instead: eyelet does not read it. */
enum dtype gguf_dtype(uint32_t type, const char *path, const char *tensor, ey_err *e);
/* What general.file_type calls a mix, "Q4_K_M"; NULL: unknown. */
const char *gguf_file_type_name(int64_t file_type);

#endif
