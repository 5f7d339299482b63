/* SPDX-License-Identifier: Apache-2.0 */
/* Untrusted bytes decoded in another process, which can do nothing but that: no files, no network,
 * no more memory and time than it is given.
 *
 * A few children (the program eyelet-decode) are started when the first job comes, by a thread
 * that lives as long as the process; a child forks a worker of its own for each job, so that no
 * job sees another's memory. Thread-safe. */
#ifndef EY_SANDBOX_H
#define EY_SANDBOX_H

#include "base/err.h"

/* What a job may take, and who waits for it. */
struct sandbox_limits {
    uint64_t memory;          /* bytes, besides its input and output */
    uint64_t output;          /* bytes */
    double seconds;           /* until it is killed */
    bool (*gone)(void *user); /* asked every 50 ms; true kills it. NULL: never */
    void *user;
};

/* As enum job_kind (sandbox_message.h) has them. */
enum sandbox_decoder {
    SANDBOX_HEIC = 1,
    SANDBOX_AVIF = 2,
    SANDBOX_WEBP_RGB = 4,
    SANDBOX_WEBP_RGBA = 5
};

/* Pixels in sealed memory, which nobody can change any more. */
struct sandbox_image {
    const uint8_t *pixels; /* [height, width, channels] */
    int width, height, channels;
    void *map;
    size_t map_size;
};

/* Errors, whose texts do not name the input:
 *   EY_BAD_IMAGE  the decoder says so, or died of it
 *   EY_NO_MEMORY  this machine gives no memory or no process for it
 *   EY_BUSY       all children were at work for long
 *   EY_CANCELLED  gone() said so
 *   EY_IO         eyelet-decode is missing, or cannot confine itself here */
bool sandbox_decode(struct sandbox_image *out, enum sandbox_decoder decoder, const void *input,
                    size_t n, const struct sandbox_limits *limits, ey_err *e);
void sandbox_image_close(struct sandbox_image *image);

/* What a program wrote to its standard output, in sealed memory. */
struct sandbox_output {
    const uint8_t *bytes; /* NULL: nothing */
    size_t n;
};

/* Runs a program of this system that has no use for the network, with `input` as its standard
 * input. It reads what lies below /usr, /lib, /etc/fonts and the like, and writes nothing else;
 * where the kernel has no Landlock, which sees to that, it is not run. argv ends with NULL;
 * argv[0] is a path. EY_BAD_IMAGE: it failed. */
bool sandbox_run_program(struct sandbox_output *out, const char *const *argv, const void *input,
                         size_t n, const struct sandbox_limits *limits, ey_err *e);
void sandbox_output_close(struct sandbox_output *output);

/* Where eyelet-decode is, for programs that are not installed beside it (tests). NULL: it is looked
 * for beside the running program, and in ../libexec/eyelet. Call it before the first job. */
void sandbox_set_helper(const char *path);

/* Kills all children; a job that runs fails. The next one starts new children. */
void sandbox_kill_all(void);

#endif
