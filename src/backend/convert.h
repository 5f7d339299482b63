/* Stored element types → float32, exactly. */
#ifndef EY_BACKEND_CONVERT_H
#define EY_BACKEND_CONVERT_H

#include "backend/tensor.h"

/* n elements of F32, BF16, F16 or F8_E4M3 (unscaled) at any alignment. */
void weight_floats(float *out, const void *in, enum dtype dtype, size_t n);

#endif
