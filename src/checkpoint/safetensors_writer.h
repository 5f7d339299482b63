/* SPDX-License-Identifier: Apache-2.0 */
/* Writes safetensors files as the format's own writer does: a compact header padded with blanks to
 * a multiple of 8, data without holes. Only the header is ever in memory: tensors are named first,
 * then their bytes come in pieces, in any order and from any thread. */
#ifndef EY_CHECKPOINT_SAFETENSORS_WRITER_H
#define EY_CHECKPOINT_SAFETENSORS_WRITER_H

#include "base/text/json_writer.h"
#include "tensor/tensor.h"

struct safetensors_writer {
    int fd; /* the caller's, of a new file */
    struct buf header;
    struct json_writer json; /* writes to `header`: the struct stays where it was begun */
    uint64_t data_begin;     /* in the file, when the header is written */
    uint64_t data_size;      /* of all tensors so far */
};

void safetensors_writer_begin(struct safetensors_writer *w, int fd);
/* Names the next tensor. Returns where its bytes begin, counted from the first tensor's. */
uint64_t safetensors_writer_add(struct safetensors_writer *w, const char *name, enum dtype dtype,
                                const int64_t *shape, int n_dims);
/* Writes and drops the header: all tensors are named. False with errno; ENOMEM also where the
 * header is longer than readers take. */
bool safetensors_write_header(struct safetensors_writer *w);
/* n bytes at `offset`, counted from the first tensor's. False with errno. */
bool safetensors_write_data(const struct safetensors_writer *w, const void *bytes, uint64_t n,
                            uint64_t offset);
/* Needed only where the header was not written. */
void safetensors_writer_free(struct safetensors_writer *w);

/* ---- several files ---- */

enum { SHARD_NAME_BYTES = 64 };
/* model.safetensors, or model-00001-of-00003.safetensors of several. */
void shard_file_name(char out[SHARD_NAME_BYTES], int shard, int n_shards);

/* The text of model.safetensors.index.json: opened, a line for each tensor, closed. */
struct json_writer shard_index_open(struct buf *out, uint64_t total_size);
void shard_index_add(struct json_writer *w, const char *tensor, int shard, int n_shards);
void shard_index_close(struct json_writer *w);

#endif
