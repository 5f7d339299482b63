/* SPDX-License-Identifier: Apache-2.0 */
/* GGUF files as they are written: keys and tensors are named first, then the header goes to the
 * file, then the tensors' bytes, in any order. */
#ifndef EY_CHECKPOINT_GGUF_WRITER_H
#define EY_CHECKPOINT_GGUF_WRITER_H

#include "base/buf.h"
#include "checkpoint/gguf/gguf.h"

enum { GGUF_ALIGNMENT = 32 };

struct gguf_writer {
    struct buf keys, tensors;
    uint64_t n_keys, n_tensors;
    uint64_t data_size, data_begin;
    int fd; /* the caller's, of a new file */
};

void gguf_writer_begin(struct gguf_writer *w);
void gguf_writer_free(struct gguf_writer *w);

void gguf_put_u32(struct gguf_writer *w, const char *key, uint32_t value);
void gguf_put_f32(struct gguf_writer *w, const char *key, float value);
void gguf_put_bool(struct gguf_writer *w, const char *key, bool value);
void gguf_put_text(struct gguf_writer *w, const char *key, const char *text, size_t n);
/* n elements of the type follow, by the functions below. */
void gguf_put_array(struct gguf_writer *w, const char *key, enum gguf_value_type element, size_t n);
void gguf_add_u32(struct gguf_writer *w, uint32_t value);
void gguf_add_f32(struct gguf_writer *w, float value);
void gguf_add_bool(struct gguf_writer *w, bool value);
void gguf_add_text(struct gguf_writer *w, const char *text, size_t n);

/* The number of a type in files; -1: it has none. */
int gguf_type_number(enum dtype dtype);
/* Names the next tensor, the fastest dimension of its shape last. Returns where its bytes begin,
 * counted from the first tensor's. */
uint64_t gguf_writer_add(struct gguf_writer *w, const char *name, enum dtype dtype,
                         const int64_t *shape, int n_dims);
/* All are named: writes the header. False with errno. */
bool gguf_write_header(struct gguf_writer *w, int fd);
/* A whole tensor of n bytes at `offset`, counted from the first one's. False with errno. */
bool gguf_write_data(const struct gguf_writer *w, const void *bytes, uint64_t n, uint64_t offset);

#endif
