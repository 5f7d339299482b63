/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a job: sends it to a child, waits for the reply and checks the output. */
#include "sandbox/sandbox.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "sandbox/landlock.h"
#include "sandbox/sandbox_child.h"
#include "sandbox/sandbox_message.h"
#include "sandbox/sandbox_socket.h"
#include "sandbox/sealed_memory.h"

enum {
    CHECK_GONE_MS = 50,
    CHILD_WAIT_SECONDS = 20, /* the longest wait for a free child */
    END_SECONDS = 5,         /* the longest time from a worker's reply to its exit */
    MIB = 1 << 20,
    MOST_UNFREED = 96 * MIB /* memory of a worker that may still be exiting */
};

struct sandbox_job {
    const struct sandbox_limits *limits;
    struct job_message message;
    char arguments[MAX_ARGUMENT_BYTES];
    size_t n_arguments; /* bytes */
    struct sandbox_child *child;
    int input, output; /* descriptors, or -1 */
    int reply;         /* our end of the worker's socket */
    double deadline;
    bool child_idle; /* the child has reported the end of the worker */
};

/* ---- waiting ---- */

static bool fail_job_time(const struct sandbox_job *job, ey_err *e)
{
    return ey_fail(e, EY_BAD_IMAGE, "decoding it takes longer than the %.0f s that are allowed",
                   job->limits->seconds);
}

/* Waits until fd is readable or its peer has closed. A deadline other than the job's is for the
 * exit of a worker; the image is not to blame if it passes. */
static bool wait_readable(const struct sandbox_job *job, int fd, double deadline, ey_err *e)
{
    struct pollfd poll_for = {.fd = fd, .events = POLLIN};
    for (;;) {
        double left = (deadline - seconds_now()) * 1e3;
        if (left <= 0 && deadline == job->deadline) return fail_job_time(job, e);
        if (left <= 0)
            return ey_fail(e, EY_BUSY, "a decoder does not exit in %d s; try again later",
                           END_SECONDS);
        int n = poll(&poll_for, 1, left < CHECK_GONE_MS ? (int)left + 1 : CHECK_GONE_MS);
        if (n > 0) return true;
        if (n < 0 && errno != EINTR) return ey_fail(e, EY_IO, "poll: %s", strerror(errno));
        if (job->limits->gone && job->limits->gone(job->limits->user))
            return ey_fail(e, EY_CANCELLED, "decoding was cancelled");
    }
}

/* Receives the worker's only message. Fails if the worker died without sending it. */
static bool receive_reply(struct reply_message *out, int fd)
{
    uint8_t bytes[REPLY_MESSAGE_BYTES];
    ssize_t n = socket_receive(fd, bytes, sizeof(bytes), NULL, 0);
    return n > 0 && reply_message_read(out, bytes, (size_t)n);
}

/* ---- errors ---- */

static bool fail_job_memory(const struct sandbox_job *job, ey_err *e)
{
    return ey_fail(e, EY_BAD_IMAGE, "decoding it takes more than the %llu MiB that are allowed",
                   (unsigned long long)(job->message.memory / MIB));
}

static bool fail_job_killed(const struct sandbox_job *job, int status, ey_err *e)
{
    int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (job->child->killed) return ey_fail(e, EY_CANCELLED, "all decoders were stopped");
    /* the C++ runtime and glibc call abort() when an allocation fails */
    if (signal == SIGABRT) return fail_job_memory(job, e);
    if (signal == SIGXCPU) return fail_job_time(job, e);
    if (signal == SIGXFSZ)
        return ey_fail(e, EY_BAD_IMAGE, "it decodes to more data than is allowed");
    if (signal == SIGSYS)
        return ey_fail(e, EY_BAD_IMAGE, "the decoder made a forbidden system call and was killed");
    if (signal) return ey_fail(e, EY_BAD_IMAGE, "the decoder crashed on it (signal %d)", signal);
    return ey_fail(e, EY_BAD_IMAGE, "the decoder exited with status %d and without a reply",
                   WEXITSTATUS(status));
}

static bool fail_job_reply(const struct sandbox_job *job, const struct reply_message *reply,
                           ey_err *e)
{
    switch (reply->status) {
    case REPLY_DAMAGED:
        return ey_fail(e, EY_BAD_IMAGE, "truncated or damaged%s%s%s", reply->text[0] ? " (" : "",
                       reply->text, reply->text[0] ? ")" : "");
    case REPLY_UNSUPPORTED:
        return ey_fail(e, EY_BAD_IMAGE, "the decoder installed here cannot read it (%s)",
                       reply->text);
    case REPLY_NO_DECODER: return ey_fail(e, EY_BAD_IMAGE, "%s", reply->text);
    case REPLY_NO_MEMORY: return fail_job_memory(job, e);
    case REPLY_OUTPUT_TOO_LONG:
        return ey_fail(e, EY_BAD_IMAGE, "it decodes to more data than its header announces");
    case REPLY_NOT_CONFINED:
        return ey_fail(e, EY_IO, "this system cannot confine a decoder (%s)", reply->text);
    case REPLY_NOT_STARTED: return ey_fail(e, EY_IO, "%s", reply->text);
    default: return ey_fail(e, EY_BAD_IMAGE, "the decoder sent an invalid reply");
    }
}

/* ---- a job's steps ---- */

static bool open_job(struct sandbox_job *job, ey_err *e)
{
    job->input = sealed_memory_create("eyelet-input", e);
    if (job->input < 0) return false;
    job->output = sealed_memory_create("eyelet-output", e);
    return job->output >= 0;
}

static bool send_job(struct sandbox_job *job, ey_err *e)
{
    uint8_t bytes[JOB_MESSAGE_BYTES + MAX_ARGUMENT_BYTES];
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return ey_fail(e, EY_NO_MEMORY, "a socket for the decoder cannot be created: %s",
                       strerror(errno));
    const int fds[JOB_DESCRIPTORS] = {job->input, job->output, ends[1]};
    job_message_write(bytes, &job->message);
    memcpy(bytes + JOB_MESSAGE_BYTES, job->arguments, job->n_arguments);
    bool sent = socket_send(job->child->socket, bytes, JOB_MESSAGE_BYTES + job->n_arguments, fds,
                            JOB_DESCRIPTORS);
    job->reply = ends[0];
    close(ends[1]);
    return sent || ey_fail(e, EY_BUSY, "the decoder process died; try again");
}

/* Stores the input while the worker starts. The worker waits for a byte before it reads the input.
 */
static bool send_input(struct sandbox_job *job, const void *input, size_t n, ey_err *e)
{
    if (!sealed_memory_store(job->input, input, n, e)) return false;
    /* a failure means that the worker has died; run_job() sees that from the missing reply */
    socket_send(job->reply, "", 1, NULL, 0);
    return true;
}

/* Receives the child's next report about a worker. */
static bool await_report(struct sandbox_job *job, struct reply_message *report, double deadline,
                         ey_err *e)
{
    if (!wait_readable(job, job->child->socket, deadline, e)) return false;
    if (receive_reply(report, job->child->socket)) return true;
    return ey_fail(e, job->child->killed ? EY_CANCELLED : EY_BUSY,
                   "the decoder process died; try again");
}

/* Receives the reports that earlier workers have ended, which the child sent before it started this
 * one. */
static bool read_earlier_ends(struct sandbox_job *job, double deadline, ey_err *e)
{
    struct reply_message end;
    for (; job->child->ends_unread; job->child->ends_unread--)
        if (!await_report(job, &end, deadline, e)) return false;
    return true;
}

/* Leaves the child without waiting until the worker has exited; the child's next job receives the
 * report of the exit. Freeing the worker's memory takes a twentieth of the time of decoding. */
static bool leave_end(struct sandbox_job *job, ey_err *e)
{
    if (!read_earlier_ends(job, seconds_now() + END_SECONDS, e)) return false;
    job->child->ends_unread++;
    job->child_idle = true;
    return true;
}

/* Whether the worker has so little memory that it may exit after the job has given its share of the
 * budget back. */
static bool end_may_wait(const struct sandbox_job *job)
{
    return job->message.memory + job->message.output <= MOST_UNFREED;
}

/* Waits until the child reports that the worker has exited, and stores the worker's wait() status.
 * A worker that did not reply has died or executed a program, which may run until the deadline. */
static bool await_end(struct sandbox_job *job, bool replied, int *status, ey_err *e)
{
    struct reply_message end;
    double deadline = replied ? seconds_now() + END_SECONDS : job->deadline;
    if (!read_earlier_ends(job, deadline, e)) return false;
    if (!await_report(job, &end, deadline, e)) return false;
    if (end.status == REPLY_NO_WORKER) {
        job->child_idle = true;
        return ey_fail(e, EY_BUSY, "the system cannot start a decoder now (%s); try again later",
                       end.text);
    }
    if (end.status != REPLY_ENDED)
        return ey_fail(e, job->child->killed ? EY_CANCELLED : EY_BUSY,
                       "the decoder process died; try again");
    job->child_idle = true;
    *status = (int)end.value;
    return true;
}

/* Runs the job until its worker has replied or exited. Sets *replied, and then *reply if the worker
 * has replied, or *status if it has not. */
static bool run_job(struct sandbox_job *job, const void *input, size_t n,
                    struct reply_message *reply, bool *replied, int *status, ey_err *e)
{
    if (!open_job(job, e)) return false;
    job->child = pool_borrow_child(job->message.kind == JOB_PROGRAM, job->limits,
                                   seconds_now() + CHILD_WAIT_SECONDS, e);
    if (!job->child) return false;
    job->deadline = seconds_now() + job->limits->seconds;
    if (!send_job(job, e) || !send_input(job, input, n, e)) return false;
    if (!wait_readable(job, job->reply, job->deadline, e)) return false;
    *replied = receive_reply(reply, job->reply);
    if (*replied && end_may_wait(job)) return leave_end(job, e);
    return await_end(job, *replied, status, e);
}

static void close_job(struct sandbox_job *job)
{
    if (job->child) pool_return_child(job->child, job->child_idle);
    const int fds[] = {job->input, job->output, job->reply};
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        if (fds[i] >= 0) close(fds[i]);
}

static struct sandbox_job job_for(enum job_kind kind, size_t n, const struct sandbox_limits *limits)
{
    return (struct sandbox_job){
        .limits = limits,
        .message = {.kind = kind,
                    .input = n,
                    .output = limits->output,
                    .memory = limits->memory,
                    /* of all threads; normally the deadline ends the job first */
                    .cpu_seconds = (uint32_t)(limits->seconds * 4) + 1},
        .input = -1,
        .output = -1,
        .reply = -1};
}

/* ---- decoders ---- */

static bool open_bitmap(struct sandbox_image *out, int fd, uint64_t max, ey_err *e)
{
    struct bitmap_header header;
    if (!sealed_memory_map(&out->map, &out->map_size, fd, max))
        return ey_fail(e, EY_BAD_IMAGE, "the decoder's output is empty, too large or not sealed");
    if (!bitmap_header_read(&header, out->map, out->map_size)) {
        sandbox_image_close(out);
        return ey_fail(e, EY_BAD_IMAGE, "the decoder's output is not a bitmap");
    }
    out->pixels = (uint8_t *)out->map + BITMAP_HEADER_BYTES;
    out->width = (int)header.width;
    out->height = (int)header.height;
    out->channels = (int)header.channels;
    return true;
}

bool sandbox_decode(struct sandbox_image *out, enum sandbox_decoder decoder, const void *input,
                    size_t n, const struct sandbox_limits *limits, ey_err *e)
{
    struct reply_message reply;
    bool replied = false;
    int status = 0;
    struct sandbox_job job = job_for((enum job_kind)decoder, n, limits);
    *out = (struct sandbox_image){0};
    bool ok = run_job(&job, input, n, &reply, &replied, &status, e);
    if (ok && !replied) ok = fail_job_killed(&job, status, e);
    if (ok && reply.status != REPLY_DONE) ok = fail_job_reply(&job, &reply, e);
    if (ok) ok = open_bitmap(out, job.output, limits->output, e);
    close_job(&job);
    return ok;
}

void sandbox_image_close(struct sandbox_image *image)
{
    if (image->map) munmap(image->map, image->map_size);
    *image = (struct sandbox_image){0};
}

/* ---- programs ---- */

static bool set_arguments(struct sandbox_job *job, const char *const *argv, ey_err *e)
{
    for (; *argv; argv++) {
        size_t n = strlen(*argv) + 1;
        if (job->message.n_arguments == MAX_PROGRAM_ARGUMENTS ||
            n > sizeof(job->arguments) - job->n_arguments)
            return ey_fail(e, EY_INTERNAL, "too many arguments for a program in the sandbox");
        memcpy(job->arguments + job->n_arguments, *argv, n);
        job->n_arguments += n;
        job->message.n_arguments++;
    }
    return true;
}

static bool open_output(struct sandbox_output *out, int fd, uint64_t max, ey_err *e)
{
    void *map;
    if (lseek(fd, 0, SEEK_END) == 0) return true; /* the program wrote nothing */
    if (!sealed_memory_seal(fd) || !sealed_memory_map(&map, &out->n, fd, max))
        return ey_fail(e, EY_BAD_IMAGE, "the program's output is too large or cannot be sealed");
    out->bytes = map;
    return true;
}

bool sandbox_run_program(struct sandbox_output *out, const char *const *argv, const void *input,
                         size_t n, const struct sandbox_limits *limits, ey_err *e)
{
    struct reply_message reply;
    bool replied = false;
    int status = 0;
    struct sandbox_job job = job_for(JOB_PROGRAM, n, limits);
    *out = (struct sandbox_output){0};
    if (!landlock_available())
        return ey_fail(e, EY_IO,
                       "%s runs only with Landlock, which restricts its access to files: it "
                       "needs Linux 5.13 or later with landlock in the boot parameter lsm=",
                       argv[0]);
    bool ok = set_arguments(&job, argv, e) && run_job(&job, input, n, &reply, &replied, &status, e);
    if (ok && replied) ok = fail_job_reply(&job, &reply, e);
    if (ok && WIFSIGNALED(status)) ok = fail_job_killed(&job, status, e);
    if (ok && status != 0)
        ok = ey_fail(e, EY_BAD_IMAGE, "%s failed with status %d", argv[0], WEXITSTATUS(status));
    if (ok) ok = open_output(out, job.output, limits->output, e);
    close_job(&job);
    return ok;
}

void sandbox_output_close(struct sandbox_output *output)
{
    if (output->bytes) munmap((void *)output->bytes, output->n);
    *output = (struct sandbox_output){0};
}
