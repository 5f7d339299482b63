/* SPDX-License-Identifier: Apache-2.0 */
/* Writes safetensors files (spec 2.1). */
#include "checkpoint/safetensors_writer.h"

#include <errno.h>
#include <stdio.h>

#include "base/file.h"
#include "base/limits.h"

enum { LENGTH_BYTES = 8, HEADER_ALIGN = 8 };

void safetensors_writer_begin(struct safetensors_writer *w, int fd)
{
    *w = (struct safetensors_writer){
        .fd = fd, .header = buf_with_max(LENGTH_BYTES + EY_MAX_SAFETENSORS_HEADER)};
    w->json = json_write_to(&w->header, JSON_COMPACT);
    buf_add(&w->header, "\0\0\0\0\0\0\0\0", LENGTH_BYTES);
    json_open_object(&w->json);
    json_write_key(&w->json, "__metadata__");
    json_open_object(&w->json);
    json_add_string(&w->json, "format", "pt");
    json_close_object(&w->json);
}

uint64_t safetensors_writer_add(struct safetensors_writer *w, const char *name, enum dtype dtype,
                                const int64_t *shape, int n_dims)
{
    const uint64_t begin = w->data_size;
    const struct dtype_traits *type = dtype_info(dtype);
    uint64_t size = type->bytes;
    json_write_key(&w->json, name);
    json_open_object(&w->json);
    json_add_string(&w->json, "dtype", type->name);
    json_write_key(&w->json, "shape");
    json_open_array(&w->json);
    for (int i = 0; i < n_dims; i++) {
        size *= (uint64_t)shape[i] / (i + 1 == n_dims ? type->values : 1);
        json_write_int(&w->json, shape[i]);
    }
    json_close_array(&w->json);
    json_write_key(&w->json, "data_offsets");
    json_open_array(&w->json);
    json_write_uint(&w->json, begin);
    json_write_uint(&w->json, begin + size);
    json_close_array(&w->json);
    json_close_object(&w->json);
    w->data_size += size;
    return begin;
}

bool safetensors_write_header(struct safetensors_writer *w)
{
    struct buf *header = &w->header;
    json_close_object(&w->json);
    while (!header->failed && header->size % HEADER_ALIGN)
        buf_add(header, " ", 1);
    bool ok = !header->failed;
    if (ok) {
        const uint64_t length = header->size - LENGTH_BYTES;
        for (int i = 0; i < LENGTH_BYTES; i++) /* little-endian */
            header->data[i] = (char)(length >> 8 * i & 0xff);
        w->data_begin = header->size;
        ok = file_write_at(w->fd, header->data, header->size, 0);
    } else {
        errno = ENOMEM;
    }
    const int error = errno;
    safetensors_writer_free(w);
    errno = error;
    return ok;
}

bool safetensors_write_data(const struct safetensors_writer *w, const void *bytes, uint64_t n,
                            uint64_t offset)
{
    return file_write_at(w->fd, bytes, n, w->data_begin + offset);
}

void safetensors_writer_free(struct safetensors_writer *w)
{
    buf_free(&w->header);
}

/* ---- several files ---- */

void shard_file_name(char out[SHARD_NAME_BYTES], int shard, int n_shards)
{
    if (n_shards == 1)
        snprintf(out, SHARD_NAME_BYTES, "model.safetensors");
    else
        snprintf(out, SHARD_NAME_BYTES, "model-%05d-of-%05d.safetensors", shard + 1, n_shards);
}

struct json_writer shard_index_open(struct buf *out, uint64_t total_size)
{
    struct json_writer w = json_write_to(out, JSON_INDENTED);
    json_open_object(&w);
    json_write_key(&w, "metadata");
    json_open_object(&w);
    json_add_uint(&w, "total_size", total_size);
    json_close_object(&w);
    json_write_key(&w, "weight_map");
    json_open_object(&w);
    return w;
}

void shard_index_add(struct json_writer *w, const char *tensor, int shard, int n_shards)
{
    char file[SHARD_NAME_BYTES];
    shard_file_name(file, shard, n_shards);
    json_add_string(w, tensor, file);
}

void shard_index_close(struct json_writer *w)
{
    json_close_object(w);
    json_close_object(w);
    buf_add(w->out, "\n", 1);
}
