/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/child/worker.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sandbox/child/confine.h"
#include "sandbox/child/libheif_decode.h"
#include "sandbox/child/libtiff_decode.h"
#include "sandbox/child/libwebp_decode.h"
#include "sandbox/sealed_memory.h"

enum { INPUT, OUTPUT, REPLY };

static void send_reply(const struct worker_job *job, const struct reply_message *reply)
{
    uint8_t bytes[REPLY_MESSAGE_BYTES];
    reply_message_write(bytes, reply);
    socket_send(job->fds[REPLY], bytes, sizeof(bytes), NULL, 0);
}

static _Noreturn void fail_worker(const struct worker_job *job, enum reply_status status,
                                  const char *text)
{
    struct reply_message reply = {.status = status};
    snprintf(reply.text, sizeof(reply.text), "%s", text);
    send_reply(job, &reply);
    _exit(1);
}

/* Waits until the input is complete. If the server has died or given up, exits without a reply. */
static void await_input(const struct worker_job *job)
{
    char byte;
    ssize_t n;
    do
        n = read(job->fds[REPLY], &byte, 1);
    while (n < 0 && errno == EINTR);
    if (n != 1) _exit(1);
}

static void run_decoder(const struct worker_job *job)
{
    void *input;
    size_t n;
    ey_err e;
    struct reply_message reply = {.status = REPLY_DAMAGED};
    const struct decoder_output output = {job->fds[OUTPUT], job->message.output};
    await_input(job);
    if (!sealed_memory_map(&input, &n, job->fds[INPUT], job->message.input) ||
        n != job->message.input)
        fail_worker(job, REPLY_NOT_STARTED,
                    "the decoder's input is not sealed, or its size differs from the job's");
    if (!confine_decoder(&e)) fail_worker(job, REPLY_NOT_CONFINED, e.text);
    enum job_kind kind = job->message.kind;
    if (kind == JOB_WEBP_RGB || kind == JOB_WEBP_RGBA)
        libwebp_decode(&reply, kind, input, n, &output);
    else if (kind == JOB_TIFF)
        libtiff_decode(&reply, input, n, &output);
    else
        libheif_decode(&reply, kind, input, n, &output);
    send_reply(job, &reply);
    _exit(0);
}

static void run_program(const struct worker_job *job)
{
    char text[MAX_REPLY_TEXT + 1];
    char *const environment[] = {"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8", "HOME=/nonexistent", NULL};
    ey_err e;
    await_input(job);
    if (dup2(job->fds[INPUT], 0) < 0 || dup2(job->fds[OUTPUT], 1) < 0 || chdir("/") != 0)
        fail_worker(job, REPLY_NOT_STARTED,
                    "the program's standard input and output cannot be set");
    if (!confine_program(&e)) fail_worker(job, REPLY_NOT_CONFINED, e.text);
    execve(job->argument[0], (char *const *)job->argument, environment);
    snprintf(text, sizeof(text), "%s does not start: %s", job->argument[0], strerror(errno));
    fail_worker(job, REPLY_NOT_STARTED, text);
}

/* A decoder's limit of address space includes the child's mappings, which the worker inherits. A
 * program's limit does not, because execve() removes them. */
static struct worker_limits limits_of(const struct worker_job *job)
{
    const struct job_message *m = &job->message;
    bool program = m->kind == JOB_PROGRAM;
    return (struct worker_limits){
        .address_space = program ? m->memory : job->mapped + m->input + m->output + m->memory,
        .file_bytes = m->output,
        .cpu_seconds = m->cpu_seconds};
}

void worker_run(const struct worker_job *job)
{
    const struct worker_limits limits = limits_of(job);
    ey_err e;
    if (!confine_worker(&limits, job->parent, &e)) fail_worker(job, REPLY_NOT_CONFINED, e.text);
    if (job->message.kind == JOB_PROGRAM)
        run_program(job);
    else
        run_decoder(job);
    _exit(1);
}
