/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between the server and its children: fixed-size little-endian headers. Neither side
 * trusts the other: a reader fills *out only if every field is valid. */
#ifndef EY_SANDBOX_MESSAGE_H
#define EY_SANDBOX_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    JOB_MESSAGE_BYTES = 64,
    REPLY_MESSAGE_BYTES = 256,
    BITMAP_HEADER_BYTES = 64,
    MAX_PROGRAM_ARGUMENTS = 16,
    MAX_ARGUMENT_BYTES = 1024, /* all arguments together, NULs included */
    MAX_REPLY_TEXT = 191,
};

/* A job for a child. Three descriptors come with it: input, output and a socket for the reply, from
 * which the worker receives a byte once the input is complete and sealed. */
enum job_kind {
    JOB_HEIC = 1,
    JOB_AVIF = 2,
    JOB_PROGRAM = 3,
    JOB_WEBP_RGB = 4,
    JOB_WEBP_RGBA = 5,
    JOB_TIFF = 6,
    JOB_KIND_END
};

struct job_message {
    enum job_kind kind;
    uint64_t input;  /* size in bytes */
    uint64_t output; /* largest size in bytes */
    uint64_t memory; /* largest size of all other memory, in bytes */
    uint32_t cpu_seconds;
    uint32_t n_arguments; /* of a program: NUL-terminated strings after the header */
};

void job_message_write(uint8_t to[JOB_MESSAGE_BYTES], const struct job_message *job);
bool job_message_read(struct job_message *out, const char *argument[MAX_PROGRAM_ARGUMENTS + 1],
                      const uint8_t *from, size_t n);

/* Replies of a child (READY, ENDED, NO_WORKER) or of its worker (all others). */
enum reply_status {
    REPLY_READY = 1,       /* the child waits for jobs */
    REPLY_ENDED,           /* the worker has exited; `value` is its wait() status */
    REPLY_DONE,            /* `value` bytes of output */
    REPLY_DAMAGED,         /* the input is damaged; the text says how */
    REPLY_UNSUPPORTED,     /* the decoder does not support this kind of input */
    REPLY_NO_DECODER,      /* the decoder's library is missing */
    REPLY_NO_MEMORY,       /* the decoder needs more memory than the job allows */
    REPLY_OUTPUT_TOO_LONG, /* the output exceeds the job's limit */
    REPLY_NOT_CONFINED,    /* the sandbox cannot be set up; the text says why */
    REPLY_NOT_STARTED,     /* the decoder or program cannot start; the text says why */
    REPLY_NO_WORKER,       /* a worker cannot be started; the text says why */
    REPLY_STATUS_END
};

struct reply_message {
    enum reply_status status;
    uint64_t value;
    char text[MAX_REPLY_TEXT + 1]; /* printable ASCII */
};

void reply_message_write(uint8_t to[REPLY_MESSAGE_BYTES], const struct reply_message *reply);
bool reply_message_read(struct reply_message *out, const uint8_t *from, size_t n);

/* Header of a decoder's output; the pixels follow. */
struct bitmap_header {
    uint32_t width, height, channels; /* channels: 3 or 4 */
};

void bitmap_header_write(uint8_t to[BITMAP_HEADER_BYTES], const struct bitmap_header *header);
/* Reads the header of an output of n bytes. Fails unless exactly its pixels follow. */
bool bitmap_header_read(struct bitmap_header *out, const uint8_t *from, size_t n);

#endif
