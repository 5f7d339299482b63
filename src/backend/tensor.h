/* What a tensor is to everyone: a dtype, a shape and a place in memory that somebody else owns. */
#ifndef EY_BACKEND_TENSOR_H
#define EY_BACKEND_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dtype {
    DTYPE_NONE, /* no tensor */
    DTYPE_F64,
    DTYPE_F32,
    DTYPE_F16,
    DTYPE_BF16,
    DTYPE_F8_E4M3,
    DTYPE_F8_E5M2,
    DTYPE_I64,
    DTYPE_I32,
    DTYPE_I16,
    DTYPE_I8,
    DTYPE_U8,
    DTYPE_BOOL,
};

/* Bytes of one element; 0 for DTYPE_NONE. */
static inline size_t dtype_size(enum dtype d)
{
    static const uint8_t size[] = {0, 8, 4, 2, 2, 1, 1, 8, 4, 2, 1, 1, 1};
    return (size_t)d < sizeof(size) ? size[d] : 0;
}

/* A weight matrix [rows, cols], row-major, used as y = x · Wᵀ; a vector is [1, cols]. Data may lie at any
 * address (files give no alignment): read it with memcpy or unaligned loads. */
struct weight {
    const void *data;
    enum dtype dtype;
    int64_t rows, cols;
    const float *scale; /* block FP8: [ceil(rows/128), ceil(cols/128)] multipliers; int8: [rows]; NULL otherwise */
    bool packed;        /* lies in an order of the backend's own */
    int streamed;       /* 0: always there; otherwise a number of the backend's: it comes to the device when it is needed */
};

enum { FP8_BLOCK = 128 };

#endif
