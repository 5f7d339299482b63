/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes untrusted bytes in a separate process that cannot open files or reach the network, and
 * whose memory and time are limited.
 *
 * The first job creates a thread that starts a few children (the program eyelet-decode) and never
 * exits. A child forks a worker for each job, so that no job sees another's memory. Clients
 * (compute_turns_for) share the children: none can use all of them. Thread-safe. */
#ifndef EY_SANDBOX_H
#define EY_SANDBOX_H

#include "base/err.h"

/* Limits of a job, and a callback that tells whether its client has hung up. */
struct sandbox_limits {
    uint64_t memory;          /* bytes, in addition to input and output */
    uint64_t output;          /* bytes */
    double seconds;           /* the job is killed after this time */
    bool (*gone)(void *user); /* called every 50 ms if not NULL; true kills the job */
    void *user;
};

/* The decoders, with the values of enum job_kind (sandbox_message.h). */
enum sandbox_decoder {
    SANDBOX_HEIC = 1,
    SANDBOX_AVIF = 2,
    SANDBOX_WEBP_RGB = 4,
    SANDBOX_WEBP_RGBA = 5,
    SANDBOX_TIFF = 6 /* RGBA, premultiplied; the file's orientation is not applied */
};

/* A decoded image. No other process can modify it. */
struct sandbox_image {
    uint8_t *pixels; /* [height, width, channels], a private copy that may be changed */
    int width, height, channels;
    void *map;
    size_t map_size;
};

/* Decodes n bytes of input to an image. Error messages do not name the input:
 *   EY_BAD_IMAGE  the decoder rejected the input, crashed, or exceeded a limit
 *   EY_NO_MEMORY  there is too little memory, or no descriptor, for the job
 *   EY_BUSY       no child became free in time, the system cannot start a process, or a decoder
 *                 that has replied does not exit
 *   EY_CANCELLED  gone() returned true, or sandbox_kill_all was called
 *   EY_IO         eyelet-decode is missing or cannot confine itself on this system */
bool sandbox_decode(struct sandbox_image *out, enum sandbox_decoder decoder, const void *input,
                    size_t n, const struct sandbox_limits *limits, ey_err *e);
void sandbox_image_close(struct sandbox_image *image);

/* A program's standard output, in sealed memory. */
struct sandbox_output {
    const uint8_t *bytes; /* NULL if it wrote nothing */
    size_t n;
};

/* Runs an installed program without network access, with `input` as its standard input. Landlock
 * restricts it to reading system folders such as /usr, /lib and /etc/fonts. argv ends with NULL,
 * and argv[0] is the program's path. Fails with EY_IO if the kernel has no Landlock, and with
 * EY_BAD_IMAGE if the program fails. */
bool sandbox_run_program(struct sandbox_output *out, const char *const *argv, const void *input,
                         size_t n, const struct sandbox_limits *limits, ey_err *e);
void sandbox_output_close(struct sandbox_output *output);

/* Sets the path of eyelet-decode, for programs that are not installed beside it (tests). With
 * NULL, it is searched for beside the running program and in ../libexec/eyelet. Call it before the
 * first job. */
void sandbox_set_helper(const char *path);

/* Kills all children; running jobs fail. The next job starts new children. */
void sandbox_kill_all(void);

#endif
