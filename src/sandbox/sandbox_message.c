/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes and decodes message headers. */
#include "sandbox/sandbox_message.h"

#include <string.h>

#include "base/limits.h"

enum { MESSAGE_VERSION = 1 };
enum { JOB_MAGIC = 0x4a425359, REPLY_MAGIC = 0x52425359, BITMAP_MAGIC = 0x50425359 };

/* ---- little-endian fields ---- */

static void put_le(uint8_t *to, uint64_t value, int n)
{
    for (int i = 0; i < n; i++)
        to[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t get_le(const uint8_t *from, int n)
{
    uint64_t value = 0;
    for (int i = 0; i < n; i++)
        value |= (uint64_t)from[i] << 8 * i;
    return value;
}

static void put_start(uint8_t *to, size_t n, uint32_t magic)
{
    memset(to, 0, n);
    put_le(to, magic, 4);
    put_le(to + 4, MESSAGE_VERSION, 4);
}

static bool has_start(const uint8_t *from, uint32_t magic)
{
    return get_le(from, 4) == magic && get_le(from + 4, 4) == MESSAGE_VERSION;
}

static bool is_zero(const uint8_t *from, size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i++)
        if (from[i]) return false;
    return true;
}

/* ---- jobs ---- */

void job_message_write(uint8_t to[JOB_MESSAGE_BYTES], const struct job_message *job)
{
    put_start(to, JOB_MESSAGE_BYTES, JOB_MAGIC);
    put_le(to + 8, job->kind, 4);
    put_le(to + 12, job->cpu_seconds, 4);
    put_le(to + 16, job->input, 8);
    put_le(to + 24, job->output, 8);
    put_le(to + 32, job->memory, 8);
    put_le(to + 40, job->n_arguments, 4);
}

static const uint64_t MAX_JOB_BYTES = (uint64_t)1 << 40;

static bool job_is_sound(const struct job_message *job)
{
    bool program = job->kind == JOB_PROGRAM;
    return job->kind >= JOB_HEIC && job->kind < JOB_KIND_END && job->input <= MAX_JOB_BYTES &&
           job->output <= MAX_JOB_BYTES && job->memory <= MAX_JOB_BYTES && job->cpu_seconds > 0 &&
           job->n_arguments <= MAX_PROGRAM_ARGUMENTS && program == (job->n_arguments > 0);
}

/* Reads the n strings after the header. Fails if anything follows them. */
static bool read_program_arguments(const char *argument[MAX_PROGRAM_ARGUMENTS + 1], uint32_t n,
                                   const char *from, size_t size)
{
    if (size > MAX_ARGUMENT_BYTES) return false;
    for (uint32_t i = 0; i < n; i++) {
        const char *end = memchr(from, 0, size);
        if (!end) return false;
        argument[i] = from;
        size -= (size_t)(end - from) + 1;
        from = end + 1;
    }
    argument[n] = NULL;
    return size == 0;
}

bool job_message_read(struct job_message *out, const char *argument[MAX_PROGRAM_ARGUMENTS + 1],
                      const uint8_t *from, size_t n)
{
    if (n < JOB_MESSAGE_BYTES || !has_start(from, JOB_MAGIC)) return false;
    struct job_message job = {.kind = (enum job_kind)get_le(from + 8, 4),
                              .cpu_seconds = (uint32_t)get_le(from + 12, 4),
                              .input = get_le(from + 16, 8),
                              .output = get_le(from + 24, 8),
                              .memory = get_le(from + 32, 8),
                              .n_arguments = (uint32_t)get_le(from + 40, 4)};
    if (!job_is_sound(&job) || !is_zero(from, 44, JOB_MESSAGE_BYTES) ||
        !read_program_arguments(argument, job.n_arguments, (const char *)from + JOB_MESSAGE_BYTES,
                                n - JOB_MESSAGE_BYTES))
        return false;
    *out = job;
    return true;
}

/* ---- replies ---- */

enum { REPLY_TEXT_AT = 32 };

void reply_message_write(uint8_t to[REPLY_MESSAGE_BYTES], const struct reply_message *reply)
{
    size_t n = strnlen(reply->text, MAX_REPLY_TEXT);
    put_start(to, REPLY_MESSAGE_BYTES, REPLY_MAGIC);
    put_le(to + 8, reply->status, 4);
    put_le(to + 12, n, 4);
    put_le(to + 16, reply->value, 8);
    for (size_t i = 0; i < n; i++)
        to[REPLY_TEXT_AT + i] = reply->text[i] >= ' ' && reply->text[i] <= '~'
                                    ? (uint8_t)reply->text[i]
                                    : '?';
}

static bool is_printable(const uint8_t *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (text[i] < ' ' || text[i] > '~') return false;
    return true;
}

bool reply_message_read(struct reply_message *out, const uint8_t *from, size_t n)
{
    if (n != REPLY_MESSAGE_BYTES || !has_start(from, REPLY_MAGIC)) return false;
    uint64_t status = get_le(from + 8, 4), n_text = get_le(from + 12, 4);
    if (status < REPLY_READY || status >= REPLY_STATUS_END || n_text > MAX_REPLY_TEXT ||
        !is_printable(from + REPLY_TEXT_AT, n_text) || !is_zero(from, 24, REPLY_TEXT_AT) ||
        !is_zero(from, REPLY_TEXT_AT + n_text, REPLY_MESSAGE_BYTES))
        return false;
    *out = (struct reply_message){.status = (enum reply_status)status,
                                  .value = get_le(from + 16, 8)};
    memcpy(out->text, from + REPLY_TEXT_AT, n_text);
    return true;
}

/* ---- bitmaps ---- */

void bitmap_header_write(uint8_t to[BITMAP_HEADER_BYTES], const struct bitmap_header *header)
{
    put_start(to, BITMAP_HEADER_BYTES, BITMAP_MAGIC);
    put_le(to + 8, header->width, 4);
    put_le(to + 12, header->height, 4);
    put_le(to + 16, header->channels, 4);
}

bool bitmap_header_read(struct bitmap_header *out, const uint8_t *from, size_t n)
{
    if (n < BITMAP_HEADER_BYTES || !has_start(from, BITMAP_MAGIC)) return false;
    uint64_t width = get_le(from + 8, 4), height = get_le(from + 12, 4),
             channels = get_le(from + 16, 4);
    if (width < 1 || width > EY_MAX_IMAGE_SIDE || height < 1 || height > EY_MAX_IMAGE_SIDE ||
        width * height > EY_MAX_IMAGE_PIXELS || channels < 3 || channels > 4 ||
        !is_zero(from, 20, BITMAP_HEADER_BYTES) ||
        n - BITMAP_HEADER_BYTES != width * height * channels)
        return false;
    *out = (struct bitmap_header){(uint32_t)width, (uint32_t)height, (uint32_t)channels};
    return true;
}
