/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a running block; private to the emulator. */
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
    FIBER_STACK = 256 * 1024 /* kernels keep tiles in local arrays, and sanitizers need much more */
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
    void *operand;  /* operand of the instruction at which it waits */
    const void *pc; /* where it waits */
    std::vector<pending_copy> copies;
    int n_groups; /* committed */
    std::vector<pending_wgmma> products;
    int n_product_groups;
};

struct block {
    const kernel *of;
    const void *args;
    int n_threads;
    int n_stacks; /* threads with a stack, at least n_threads */
    struct lane_state threads[MAX_BLOCK_THREADS];
    struct lane_state *current;
    struct fiber caller;
    unsigned char *dynamic;
    size_t dynamic_size;
    std::vector<shared_variable> variables;
    int n_at_barrier;
    uint8_t n_met[32];         /* threads of each warp that have arrived */
    uint32_t epoch;            /* number of barriers and block starts so far */
    uint32_t warp_epoch[32];   /* number of __syncwarps so far, for each warp */
    struct race_memory *races; /* owned by races.cpp */
    block() = default;
    ~block();
    block(const block &) = delete;
};

bool is_shared(const void *p, size_t size);
[[noreturn]] __attribute__((format(printf, 1, 2))) void fault(const char *format, ...);

/* The race detector (races.cpp; builds with EY_RACES). note_access: a thread whose code is at pc
 * accesses shared memory. The others begin and end a launch on this CPU thread. */
enum access { ACCESS_READ, ACCESS_WRITE };
void note_access(const void *p, size_t size, const struct lane_state *who, enum access what,
                 const void *pc);
void watch_shared(struct block *b);
void stop_watching(void);
void free_races(struct block *b);

} // namespace emulator

#endif
