/* SPDX-License-Identifier: Apache-2.0 */
/* Runs kernels of the CUDA backend on the CPU: what tests call. The kernels are those of the .cu
 * files linked into the program, compiled as C++ with -DEY_EMULATE (see emulator.h). Plain C, so
 * that tests in either language may include it. */
#ifndef EY_TESTS_CUDA_EMULATED_H
#define EY_TESTS_CUDA_EMULATED_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct emulated_kernel {
    const char *name;
    size_t args_size;     /* of the struct that it takes */
    unsigned max_threads; /* a block */
};

/* NULL where there is no kernel of that name. */
const struct emulated_kernel *emulator_find(const char *name);
/* Each kernel once, in no order: 0, 1, ... until NULL. */
const struct emulated_kernel *emulator_kernel_at(unsigned i);

/* Runs the kernel over grid[3] blocks of block[3] threads each and returns when all are done.
 * `args` points to the kernel's struct. False, with a line on stderr, for a launch that a GPU would
 * refuse. A kernel that does what no kernel may (threads of a block that wait in different places,
 * a misaligned vector access, a write past its shared memory, a race where the build looks for
 * them) ends the program with a message. */
bool emulator_launch(const char *kernel, const void *args, const unsigned grid[3],
                     const unsigned block[3], size_t shared_bytes);

/* Threads of the CPU that take blocks; 2 unless told. */
void emulator_use_threads(int n);

#ifdef __cplusplus
}
#endif

#endif
