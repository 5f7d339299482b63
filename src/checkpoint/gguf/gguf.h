/* SPDX-License-Identifier: Apache-2.0 */
/* Reads one GGUF file (version 2 or 3). The file is mapped and checked; metadata is found by key,
 * and tensor views point into the mapping. */
#ifndef EY_CHECKPOINT_GGUF_H
#define EY_CHECKPOINT_GGUF_H

#include "base/buf.h"
#include "tensor/tensor_view.h"

/* Metadata value types, numbered as in the file. */
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
    enum gguf_value_type type, element; /* element: the type of an array's elements */
    uint64_t n;                         /* length: bytes of a string, elements of an array */
    const uint8_t *data;                /* the value; the first byte of a string or array */
};

struct gguf;
/* Maps a file and checks every length, count and offset in it. Duplicate keys or tensors,
 * overlapping tensors, and unsupported tensor types are errors. */
bool gguf_open(struct gguf **file, const char *path, ey_err *e);
/* Like gguf_open(), over bytes that the caller keeps alive (tests, fuzzing). `path` is only for
 * messages. */
bool gguf_open_memory(struct gguf **file, const uint8_t *data, size_t size, const char *path,
                      ey_err *e);
void gguf_close(struct gguf *file);
const char *gguf_path(const struct gguf *file);
/* Returns whether the path is a file that begins with "GGUF" or whose name ends with ".gguf". */
bool gguf_is_file(const char *path);

/* The tensors, in file order. Their shapes list the fastest dimension last, as everywhere in
 * eyelet; the file lists it first. */
size_t gguf_n_tensors(const struct gguf *file);
const struct tensor_view *gguf_tensor_at(const struct gguf *file, size_t i);

/* ---- metadata ---- */

size_t gguf_n_values(const struct gguf *file);
/* Returns NULL if the key is absent. */
const struct gguf_value *gguf_find(const struct gguf *file, const char *key);
/* Reads an integer of any width, a bool, or an array of equal integers. Fails if the key is absent,
 * has another type, or is outside [lo, hi]. */
bool gguf_int(const struct gguf *file, const char *key, int64_t lo, int64_t hi, int64_t *out,
              ey_err *e);
/* Like gguf_int(), but an absent key leaves *out unchanged and succeeds. */
bool gguf_optional_int(const struct gguf *file, const char *key, int64_t lo, int64_t hi,
                       int64_t *out, ey_err *e);
bool gguf_optional_bool(const struct gguf *file, const char *key, bool *out, ey_err *e);
/* Reads a finite float or an integer; an absent key leaves *out unchanged. */
bool gguf_optional_real(const struct gguf *file, const char *key, double *out, ey_err *e);
/* Returns a NUL-terminated copy, owned by the file. Returns NULL if the key is absent, not a
 * string, not UTF-8, or has a NUL inside. */
const char *gguf_text(struct gguf *file, const char *key);
/* Returns whether the key exists and is a string equal to `text`. */
bool gguf_text_is(const struct gguf *file, const char *key, const char *text);

/* Iterates over the strings of an array. */
struct gguf_strings {
    const uint8_t *at;
    uint64_t left;
};
/* Starts the iteration. Fails if the key is absent or not an array of strings. */
bool gguf_strings_of(const struct gguf *file, const char *key, struct gguf_strings *out, ey_err *e);
/* Sets *text to the next string, of *n bytes and without a NUL at its end. Returns false after the
 * last one. */
bool gguf_next_string(struct gguf_strings *s, const char **text, size_t *n);
/* Return element i of an array of integers or floats; i must be less than array->n. */
int64_t gguf_array_int(const struct gguf_value *array, uint64_t i);
double gguf_array_real(const struct gguf_value *array, uint64_t i);
/* Return whether a value type is an integer or bool, and whether it is a float. */
bool gguf_is_integer(enum gguf_value_type type);
bool gguf_is_real(enum gguf_value_type type);

/* ---- types of tensors ---- */

/* Converts the type number of a tensor. For an unsupported type, fails with DTYPE_NONE and an error
 * that recommends another type. */
enum dtype gguf_dtype(uint32_t type, const char *path, const char *tensor, ey_err *e);
/* Returns the name of a general.file_type, such as "Q4_K_M", or NULL if it is unknown. */
const char *gguf_file_type_name(int64_t file_type);

#endif
