/* SPDX-License-Identifier: Apache-2.0 */
/* The addresses of kernels' __shared__ variables in a CPU thread. */
#ifndef EY_TESTS_CUDA_SHARED_VARIABLES_H
#define EY_TESTS_CUDA_SHARED_VARIABLES_H

#include <cstddef>
#include <vector>

namespace emulator
{

struct shared_variable {
    unsigned char *address;
    size_t size;
    const char *name; /* symbol name */
};

std::vector<shared_variable> shared_variables_of_this_thread(void);

} // namespace emulator

#endif
