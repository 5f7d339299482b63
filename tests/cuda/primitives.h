/* SPDX-License-Identifier: Apache-2.0 */
/* The host's view of primitives.cu, which has a kernel for each instruction of ptx.cuh. */
#ifndef EY_TESTS_CUDA_PRIMITIVES_H
#define EY_TESTS_CUDA_PRIMITIVES_H

#include "kernels/cuda/common/abi.h"

/* out[i] is the result of thread i of one block for in[i]; see the kernels for shapes */
struct primitive_args {
    uint32_t *out;
    const uint32_t *in;
    int32_t mode;
};

/* c[16, 8] = a[16, 16] · b[16, 8] + c, row-major 16-bit a and b, through shared memory and
 * load_matrices */
struct product_args {
    float *c;
    const uint16_t *a, *b;
    int32_t f16;
};

/* c[16, 8] = a[16, 32] · b[8, 32]ᵀ of e4m3, then the product is added again */
struct e4m3_product_args {
    float *c;
    const uint8_t *a, *b;
};

/* c[16, 8] += a[16, 32] · b[8, 32]ᵀ of int8 */
struct s8_product_args {
    int32_t *c;
    const int8_t *a, *b;
};

/* out[i] = the sum of in[i] over the blocks, computed by the last one to arrive */
struct sum_args {
    float *out;
    const float *in;
    float *part;
    uint32_t *arrived;
    int32_t n;
};

#endif
