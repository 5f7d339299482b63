/* SPDX-License-Identifier: Apache-2.0 */
/* A worker: the process that runs one job. */
#ifndef EY_SANDBOX_WORKER_H
#define EY_SANDBOX_WORKER_H

#include "sandbox/sandbox_message.h"
#include "sandbox/sandbox_socket.h"

struct worker_job {
    struct job_message message;
    const char *argument[MAX_PROGRAM_ARGUMENTS + 1];
    int fds[JOB_DESCRIPTORS]; /* input, output, reply */
    uint64_t mapped;          /* bytes mapped before the job */
    int parent;               /* process id of the child, which forked this worker */
};

/* Confines the process, runs the job, replies and exits. */
_Noreturn void worker_run(const struct worker_job *job);

#endif
