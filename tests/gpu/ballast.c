/* SPDX-License-Identifier: Apache-2.0 */
/* ballast MIB: allocates GPU memory until this many MiB are free, prints "ready FREE", and holds it
 * until its standard input ends. Then it prints "least FREE", the least free memory meanwhile,
 * which shows the peak of other programs. It simulates a small GPU on a large one. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "backend/cuda/cuda_driver.h"

enum { MIB = 1 << 20, GRAIN = 2 * MIB /* the driver's granularity */, LOOK_EVERY_MS = 5 };

static size_t free_bytes(const struct cuda_driver *d)
{
    size_t free_now = 0, total;
    d->memory_info(&free_now, &total);
    return free_now;
}

/* Allocates large pieces first, and halves the size when one fails. */
static bool fill(const struct cuda_driver *d, size_t leave, ey_err *e)
{
    size_t free_now, piece = (size_t)1 << 40;
    while ((free_now = free_bytes(d)) > leave + GRAIN) {
        CUdeviceptr p;
        if (piece > free_now - leave) piece = (free_now - leave) / GRAIN * GRAIN;
        if (d->memory_alloc(&p, piece) == CUDA_SUCCESS) continue;
        piece = piece / 2 / GRAIN * GRAIN;
        if (!piece)
            return ey_fail(e, EY_NO_MEMORY, "%zu MiB are free and cannot be taken", free_now / MIB);
    }
    return free_now + GRAIN >= leave ||
           ey_fail(e, EY_NO_MEMORY, "%zu MiB are free, less than the %zu that shall stay",
                   free_now / MIB, leave / MIB);
}

/* Returns the least free memory until standard input ended. */
static size_t least_until_end(const struct cuda_driver *d)
{
    size_t least = free_bytes(d);
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    char byte;
    while (poll(&in, 1, LOOK_EVERY_MS) == 0 || read(STDIN_FILENO, &byte, 1) > 0) {
        size_t now = free_bytes(d);
        if (now < least) least = now;
    }
    return least;
}

static bool open_gpu(struct cuda_driver *d, ey_err *e)
{
    CUdevice device;
    CUcontext context;
    return cuda_driver_open(d, e) && cuda_ok(d, d->init(0), "it cannot be used", e) &&
           cuda_ok(d, d->device_get(&device, 0), "there is none", e) &&
           cuda_ok(d, d->context_retain(&context, device), "no context", e) &&
           cuda_ok(d, d->context_current(context), "no context", e);
}

int main(int argc, char **argv)
{
    struct cuda_driver d;
    ey_err e = {0};
    size_t leave = argc == 2 ? strtoull(argv[1], NULL, 10) : 0;
    if (!leave) {
        fputs("usage: ballast MIB\n", stderr);
        return 2;
    }
    if (!open_gpu(&d, &e) || !fill(&d, leave * MIB, &e)) {
        fprintf(stderr, "ballast: %s\n", e.text);
        return 1;
    }
    printf("ready %zu\n", free_bytes(&d) / MIB);
    fflush(stdout);
    printf("least %zu\n", least_until_end(&d) / MIB);
    return 0;
}
