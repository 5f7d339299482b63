/* SPDX-License-Identifier: Apache-2.0 */
/* Writes safetensors files laid out like the reference writer's: a compact header padded with
 * blanks to a multiple of 8, data without gaps. Memory holds only the header: tensors are named
 * first, then their bytes are written in pieces, in any order and from any thread. */
#ifndef EY_CHECKPOINT_SAFETENSORS_WRITER_H
#define EY_CHECKPOINT_SAFETENSORS_WRITER_H

#include "base/text/json_writer.h"
#include "tensor/tensor.h"

struct safetensors_writer {
    int fd; /* of a new file, owned by the caller */
    struct buf header;
    struct json_writer json; /* writes to `header`, so the struct must not move */
    uint64_t data_begin;     /* file offset of the first tensor, set when the header is written */
    uint64_t data_size;      /* of all tensors so far */
};

void safetensors_writer_begin(struct safetensors_writer *w, int fd);
/* Adds a tensor to the header. Returns the offset of its bytes from the first tensor. */
uint64_t safetensors_writer_add(struct safetensors_writer *w, const char *name, enum dtype dtype,
                                const int64_t *shape, int n_dims);
/* Writes the header and frees it. All tensors must have been added before. Sets errno on failure,
 * to ENOMEM if the header is longer than readers accept. */
bool safetensors_write_header(struct safetensors_writer *w);
/* Writes n bytes at `offset` from the first tensor. Sets errno on failure. */
bool safetensors_write_data(const struct safetensors_writer *w, const void *bytes, uint64_t n,
                            uint64_t offset);
/* Only needed if the header was not written. */
void safetensors_writer_free(struct safetensors_writer *w);

/* ---- several files ---- */

enum { SHARD_NAME_BYTES = 64 };
/* Writes "model.safetensors", or "model-00001-of-00003.safetensors" if there are several. */
void shard_file_name(char out[SHARD_NAME_BYTES], int shard, int n_shards);

/* Write model.safetensors.index.json: open, add each tensor, close. */
struct json_writer shard_index_open(struct buf *out, uint64_t total_size);
void shard_index_add(struct json_writer *w, const char *tensor, int shard, int n_shards);
void shard_index_close(struct json_writer *w);

#endif
