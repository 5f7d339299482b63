/* SPDX-License-Identifier: Apache-2.0 */
/* Runs CUDA kernels on the CPU. The kernels are in the .cu files that are linked into the program,
 * compiled as C++ with -DEY_EMULATE (see emulator.h). Plain C, so that C and C++ tests may include
 * it. */
#ifndef EY_TESTS_CUDA_EMULATED_H
#define EY_TESTS_CUDA_EMULATED_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct emulated_kernel {
    const char *name;
    size_t args_size;     /* size of the kernel's argument struct */
    unsigned max_threads; /* largest block */
};

/* Returns NULL if there is no kernel with this name. */
const struct emulated_kernel *emulator_find(const char *name);
/* Enumerates the kernels in no order: 0, 1, ... until NULL. */
const struct emulated_kernel *emulator_kernel_at(unsigned i);

/* Runs the kernel over grid[3] blocks of block[3] threads and returns when all are done. `args` is
 * the kernel's struct. Returns false, with a line on stderr, for a launch that a GPU would refuse.
 * A faulty kernel (divergent barriers, a misaligned vector access, a write past its shared memory,
 * a race if the build looks for them) ends the program with a message. */
bool emulator_launch(const char *kernel, const void *args, const unsigned grid[3],
                     const unsigned block[3], size_t shared_bytes);

/* Sets the number of CPU threads that run blocks; default 2. */
void emulator_use_threads(int n);

#ifdef __cplusplus
}
#endif

#endif
