/* SPDX-License-Identifier: Apache-2.0 */
/* What a checkpoint's configuration says of its quantized weights, as far as the tensors do not say
 * it themselves: which matrix is stored how is read off its tensors. */
#ifndef EY_CHECKPOINT_QUANTIZATION_H
#define EY_CHECKPOINT_QUANTIZATION_H

#include <stdbool.h>

/* Of tensors called qweight; their shapes alone can mean two things. */
enum qweight_layout { QWEIGHT_BY_SHAPE, QWEIGHT_GPTQ, QWEIGHT_AWQ, QWEIGHT_AWQ_ROWS };

struct quantization {
    unsigned bits; /* 1 << bits of an integer, for each that is named; 0: none is */
    enum qweight_layout qweight;
    int group;           /* columns; 0: not said, -1: all of a row */
    bool zeros_less_one; /* GPTQ's first version */
    bool symmetric;      /* it is said that all zeros are in the middle */
    bool asymmetric;     /* every integer matrix has zeros of its own */
};

#endif
