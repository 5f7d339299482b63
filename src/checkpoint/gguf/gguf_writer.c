/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/gguf/gguf_writer.h"

#include <errno.h>
#include <string.h>

#include "base/file.h"

enum { MAX_HEADER = 256 << 20, VERSION = 3 };

void gguf_writer_begin(struct gguf_writer *w)
{
    *w = (struct gguf_writer){
        .keys = buf_with_max(MAX_HEADER), .tensors = buf_with_max(MAX_HEADER), .fd = -1};
}

void gguf_writer_free(struct gguf_writer *w)
{
    buf_free(&w->keys);
    buf_free(&w->tensors);
}

/* ---- little-endian numbers ---- */

static void add_number(struct buf *b, uint64_t value, int bytes)
{
    char out[8];
    for (int i = 0; i < bytes; i++)
        out[i] = (char)(value >> 8 * i & 0xff);
    buf_add(b, out, (size_t)bytes);
}

static void add_string(struct buf *b, const char *text, size_t n)
{
    add_number(b, n, 8);
    buf_add(b, text, n);
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

/* ---- keys ---- */

static void put_key(struct gguf_writer *w, const char *key, enum gguf_value_type type)
{
    add_string(&w->keys, key, strlen(key));
    add_number(&w->keys, (uint64_t)type, 4);
    w->n_keys++;
}

void gguf_add_u32(struct gguf_writer *w, uint32_t value)
{
    add_number(&w->keys, value, 4);
}

void gguf_add_f32(struct gguf_writer *w, float value)
{
    add_number(&w->keys, bits_of(value), 4);
}

void gguf_add_bool(struct gguf_writer *w, bool value)
{
    add_number(&w->keys, value, 1);
}

void gguf_add_text(struct gguf_writer *w, const char *text, size_t n)
{
    add_string(&w->keys, text, n);
}

void gguf_put_u32(struct gguf_writer *w, const char *key, uint32_t value)
{
    put_key(w, key, GGUF_U32);
    gguf_add_u32(w, value);
}

void gguf_put_f32(struct gguf_writer *w, const char *key, float value)
{
    put_key(w, key, GGUF_F32);
    gguf_add_f32(w, value);
}

void gguf_put_bool(struct gguf_writer *w, const char *key, bool value)
{
    put_key(w, key, GGUF_BOOL);
    gguf_add_bool(w, value);
}

void gguf_put_text(struct gguf_writer *w, const char *key, const char *text, size_t n)
{
    put_key(w, key, GGUF_STRING);
    gguf_add_text(w, text, n);
}

void gguf_put_array(struct gguf_writer *w, const char *key, enum gguf_value_type element, size_t n)
{
    put_key(w, key, GGUF_ARRAY);
    add_number(&w->keys, (uint64_t)element, 4);
    add_number(&w->keys, n, 8);
}

/* ---- tensors ---- */

static uint64_t aligned_size(uint64_t n)
{
    return (n + GGUF_ALIGNMENT - 1) / GGUF_ALIGNMENT * GGUF_ALIGNMENT;
}

uint64_t gguf_writer_add(struct gguf_writer *w, const char *name, enum dtype dtype,
                         const int64_t *shape, int n_dims)
{
    const struct dtype_traits *type = dtype_info(dtype);
    const uint64_t begin = w->data_size;
    uint64_t values = 1;
    add_string(&w->tensors, name, strlen(name));
    add_number(&w->tensors, (uint64_t)n_dims, 4);
    for (int i = n_dims; i-- > 0;) {
        add_number(&w->tensors, (uint64_t)shape[i], 8);
        values *= (uint64_t)shape[i];
    }
    add_number(&w->tensors, (uint64_t)gguf_type_number(dtype), 4);
    add_number(&w->tensors, begin, 8);
    w->data_size = aligned_size(begin + values / type->values * type->bytes);
    w->n_tensors++;
    return begin;
}

bool gguf_write_header(struct gguf_writer *w, int fd)
{
    struct buf head = buf_with_max(3 * (size_t)MAX_HEADER);
    buf_add_text(&head, "GGUF");
    add_number(&head, VERSION, 4);
    add_number(&head, w->n_tensors, 8);
    add_number(&head, w->n_keys, 8);
    buf_add(&head, w->keys.data, w->keys.size);
    buf_add(&head, w->tensors.data, w->tensors.size);
    while (!head.failed && head.size % GGUF_ALIGNMENT)
        buf_add(&head, "", 1);
    bool ok = !head.failed && !w->keys.failed && !w->tensors.failed;
    if (!ok) errno = ENOMEM;
    w->fd = fd;
    w->data_begin = head.size;
    ok = ok && file_write_at(fd, head.data, head.size, 0);
    const int error = errno;
    buf_free(&head);
    errno = error;
    return ok;
}

bool gguf_write_data(const struct gguf_writer *w, const void *bytes, uint64_t n, uint64_t offset)
{
    static const char zeros[GGUF_ALIGNMENT];
    return file_write_at(w->fd, bytes, n, w->data_begin + offset) &&
           file_write_at(w->fd, zeros, aligned_size(n) - n, w->data_begin + offset + n);
}
