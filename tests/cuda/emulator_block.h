/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a block of threads that the emulator runs; for its own files. */
#ifndef EY_TESTS_CUDA_EMULATOR_BLOCK_H
#define EY_TESTS_CUDA_EMULATOR_BLOCK_H

#include <cstdio>
#include <vector>

#include "cuda/emulator.h"
#include "cuda/fiber.h"
#include "cuda/shared_variables.h"

namespace emulator
{

enum {
    MAX_BLOCK_THREADS = 1024,
    FIBER_STACK =
        256 *
        1024 /* kernels keep their tiles in local arrays, and sanitizers much more about them */
};

enum phase : uint8_t { PHASE_RUNS, PHASE_AT_MEETING, PHASE_AT_BARRIER, PHASE_ENDED };

struct pending_copy {
    void *to;
    const void *from;
    int bytes, group;
};

struct pending_wgmma {
    float *c;
    const uint32_t *a;
    const unsigned char *b;
    int tiles, group;
    bool add;
};

struct lane_state {
    struct fiber fiber;
    uint3 index;
    int number; /* in the block */
    enum phase phase;
    enum meeting at;
    void *operand;  /* of the meeting */
    const void *pc; /* from where it came there */
    std::vector<pending_copy> copies;
    int n_groups; /* committed */
    std::vector<pending_wgmma> products;
    int n_product_groups;
};

struct block {
    const kernel *of;
    const void *args;
    int n_threads;
    int n_stacks; /* the threads that have one: at least n_threads */
    struct lane_state threads[MAX_BLOCK_THREADS];
    struct lane_state *current;
    struct fiber caller;
    unsigned char *dynamic;
    size_t dynamic_size;
    std::vector<shared_variable> variables;
    int n_at_barrier;
    uint8_t n_met[32];         /* [warp] */
    uint32_t epoch;            /* barriers passed, in total blocks so far, and their starts */
    uint32_t warp_epoch[32];   /* __syncwarps passed, in total blocks so far */
    struct race_memory *races; /* races.cpp's */
    block() = default;
    ~block();
    block(const block &) = delete;
};

bool is_shared(const void *p, size_t size);
[[noreturn]] __attribute__((format(printf, 1, 2))) void fault(const char *format, ...);

/* The search for races (races.cpp), which a build has with EY_RACES: an access to shared memory by
 * a thread whose code is at pc; a launch of blocks on this CPU thread, to watch from here on; its
 * end. */
enum access { ACCESS_READ, ACCESS_WRITE };
void note_access(const void *p, size_t size, const struct lane_state *who, enum access what,
                 const void *pc);
void watch_shared(struct block *b);
void stop_watching(void);
void free_races(struct block *b);

} // namespace emulator

#endif
