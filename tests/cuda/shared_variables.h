/* SPDX-License-Identifier: Apache-2.0 */
/* Where a CPU thread has the __shared__ variables of kernels. */
#ifndef EY_TESTS_CUDA_SHARED_VARIABLES_H
#define EY_TESTS_CUDA_SHARED_VARIABLES_H

#include <cstddef>
#include <vector>

namespace emulator
{

struct shared_variable {
    unsigned char *address;
    size_t size;
    const char *name; /* as the linker has it */
};

std::vector<shared_variable> shared_variables_of_this_thread(void);

} // namespace emulator

#endif
