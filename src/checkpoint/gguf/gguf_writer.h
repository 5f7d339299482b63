/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a GGUF file. The caller adds keys and tensors, writes the header, and then the data of the
 * tensors in any order. */
#ifndef EY_CHECKPOINT_GGUF_WRITER_H
#define EY_CHECKPOINT_GGUF_WRITER_H

#include "base/buf.h"
#include "checkpoint/gguf/gguf.h"

enum { GGUF_ALIGNMENT = 32 };

struct gguf_writer {
    struct buf keys, tensors;
    uint64_t n_keys, n_tensors;
    uint64_t data_size, data_begin;
    int fd; /* of a new file, owned by the caller */
};

void gguf_writer_begin(struct gguf_writer *w);
void gguf_writer_free(struct gguf_writer *w);

void gguf_put_u32(struct gguf_writer *w, const char *key, uint32_t value);
void gguf_put_f32(struct gguf_writer *w, const char *key, float value);
void gguf_put_bool(struct gguf_writer *w, const char *key, bool value);
void gguf_put_text(struct gguf_writer *w, const char *key, const char *text, size_t n);
/* Begins an array; n calls of the function below for its element type must follow. */
void gguf_put_array(struct gguf_writer *w, const char *key, enum gguf_value_type element, size_t n);
void gguf_add_u32(struct gguf_writer *w, uint32_t value);
void gguf_add_f32(struct gguf_writer *w, float value);
void gguf_add_bool(struct gguf_writer *w, bool value);
void gguf_add_text(struct gguf_writer *w, const char *text, size_t n);

/* Returns the number that GGUF files use for a dtype, or -1 if they have none. */
int gguf_type_number(enum dtype dtype);
/* Adds a tensor; `shape` lists the fastest dimension last. Returns the offset of its data from the
 * data of the first tensor. */
uint64_t gguf_writer_add(struct gguf_writer *w, const char *name, enum dtype dtype,
                         const int64_t *shape, int n_dims);
/* Writes the header once all keys and tensors are added. Sets errno on failure. */
bool gguf_write_header(struct gguf_writer *w, int fd);
/* Writes the n bytes of a whole tensor at the offset that gguf_writer_add() returned, and the
 * padding behind it. Sets errno on failure. */
bool gguf_write_data(const struct gguf_writer *w, const void *bytes, uint64_t n, uint64_t offset);

#endif
