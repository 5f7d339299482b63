/* SPDX-License-Identifier: Apache-2.0 */
/* Quantization settings that only a checkpoint's configuration tells, not its tensors. The layout
 * of a matrix is recognized by its tensors. */
#ifndef EY_CHECKPOINT_QUANTIZATION_H
#define EY_CHECKPOINT_QUANTIZATION_H

#include <stdbool.h>

/* The layout of tensors named qweight, whose shapes can be ambiguous. */
enum qweight_layout { QWEIGHT_BY_SHAPE, QWEIGHT_GPTQ, QWEIGHT_AWQ, QWEIGHT_AWQ_ROWS };

struct quantization {
    unsigned bits; /* mask: 1 << N for each integer width of N bits in the configuration; 0: none */
    enum qweight_layout qweight;
    int group;           /* columns per group; 0: not given, -1: the whole row */
    bool zeros_less_one; /* zeros are stored minus one (GPTQ's first version) */
    bool symmetric;      /* declared: all zero points are the midpoint */
    bool asymmetric;     /* declared: every integer matrix has a zero_point tensor */
};

#endif
