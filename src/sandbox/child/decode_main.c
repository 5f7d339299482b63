/* SPDX-License-Identifier: Apache-2.0 */
/* eyelet-decode: a child of the server that loads the decoders once and forks a worker for each
 * job. It has one thread and parses only the server's messages; workers read the inputs. */
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/child/confine.h"
#include "sandbox/child/libheif_decode.h"
#include "sandbox/child/libtiff_decode.h"
#include "sandbox/child/worker.h"

enum { SERVER_SOCKET = 3, STACK_BYTES = 1 << 20, MOST_SECONDS = 3600 };

static bool send_to_server(enum reply_status status, uint64_t value, const char *text)
{
    uint8_t bytes[REPLY_MESSAGE_BYTES];
    struct reply_message reply = {.status = status, .value = value};
    snprintf(reply.text, sizeof(reply.text), "%s", text);
    reply_message_write(bytes, &reply);
    return socket_send(SERVER_SOCKET, bytes, sizeof(bytes), NULL, 0);
}

/* Makes thread stacks and malloc arenas small, because RLIMIT_AS of a worker also counts reserved
 * addresses without memory. */
static void spare_address_space(void)
{
    pthread_attr_t attributes;
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_setattr_default_np(&attributes);
    pthread_attr_destroy(&attributes);
}

/* Waits until the worker has exited, and returns its wait() status. The server may send the next
 * job as soon as the worker has replied. The worker is killed if it has not exited when that job
 * arrives, or after `seconds`. */
static int worker_end(pid_t worker, uint32_t seconds)
{
    struct pollfd poll_for[] = {{.fd = (int)syscall(SYS_pidfd_open, worker, 0), .events = POLLIN},
                                {.fd = SERVER_SOCKET, .events = POLLIN}};
    const int exits = poll_for[0].fd, most = seconds < MOST_SECONDS ? (int)seconds : MOST_SECONDS;
    int status = 0;
    while (exits >= 0 && poll(poll_for, 2, most * 1000) < 0 && errno == EINTR)
        continue;
    if (exits >= 0 && !poll_for[0].revents) kill(worker, SIGKILL);
    while (waitpid(worker, &status, 0) < 0 && errno == EINTR)
        continue;
    if (exits >= 0) close(exits);
    return status;
}

/* Runs the job, and reports to the server that the worker has ended. */
static bool run_in_worker(const struct worker_job *job)
{
    pid_t worker = fork();
    const char *problem = worker < 0 ? strerror(errno) : NULL;
    if (worker == 0) {
        close(SERVER_SOCKET);
        worker_run(job);
    }
    for (size_t i = 0; i < JOB_DESCRIPTORS; i++)
        close(job->fds[i]);
    if (problem) return send_to_server(REPLY_NO_WORKER, 0, problem);
    return send_to_server(REPLY_ENDED, (uint64_t)worker_end(worker, job->message.cpu_seconds), "");
}

/* Serves jobs until the server closes its end of the socket. */
static int serve_jobs(void)
{
    static uint8_t bytes[JOB_MESSAGE_BYTES + MAX_ARGUMENT_BYTES];
    struct worker_job job = {.mapped = mapped_bytes(), .parent = getpid()};
    for (;;) {
        ssize_t n = socket_receive(SERVER_SOCKET, bytes, sizeof(bytes), job.fds, JOB_DESCRIPTORS);
        if (n <= 0) return n < 0;
        if (!job_message_read(&job.message, job.argument, bytes, (size_t)n)) return 1;
        if (!run_in_worker(&job)) return 1;
    }
}

int main(int argc, char **argv)
{
    ey_err e;
    if (argc != 2 || strcmp(argv[1], "--socket") != 0) {
        fprintf(stderr, "eyelet-decode is started by eyelet, to decode images in a sandbox\n");
        return 2;
    }
    if (!confine_child(&e)) {
        send_to_server(REPLY_NOT_CONFINED, 0, e.text);
        return 1;
    }
    spare_address_space();
    libheif_load();
    libtiff_load();
    return send_to_server(REPLY_READY, 0, "") ? serve_jobs() : 1;
}
