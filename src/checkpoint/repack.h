/* SPDX-License-Identifier: Apache-2.0 */
/* Matrices of integer codes as AutoAWQ, GPTQ and compressed-tensors pack them → rows of int4 or
 * uint8, the same values: codes, zeros and scales are moved, none is rounded. */
#ifndef EY_CHECKPOINT_REPACK_H
#define EY_CHECKPOINT_REPACK_H

#include "base/pool.h"
#include "checkpoint/tensor_source.h"

/* Where the code of row r and column c is. */
enum code_layout {
    CODES_IN_ROWS,    /* I32 [rows, words]: in the row's stream, at c */
    CODES_IN_COLUMNS, /* I32 [words, rows]: in the stream that runs down column r, at c (GPTQ) */
    CODES_AWQ,        /* I32 [cols, rows/8]: eight rows a word, in an order of AutoAWQ's */
    CODES_SIGNED,     /* I8 [rows, cols] */
};

/* Where the zero of row r and group g is. */
enum zero_layout {
    ZEROS_DEFAULT,   /* nowhere: all are stored_weight.zero */
    ZEROS_DOWN_ROWS, /* I32 [words, groups]: in the stream that runs down column g, at r */
    ZEROS_OF_GROUPS, /* I32 [groups, words]: in the stream of row g, at r (GPTQ) */
    ZEROS_AWQ,       /* I32 [groups, rows/8] */
    ZEROS_OF_ROWS,   /* I32 [rows, words]: in the stream of row r, at g */
    ZEROS_SIGNED,    /* I8, where the scale is */
};

struct stored_weight {
    const struct tensor_view *codes, *scale, *zeros,
        *order; /* order: g_idx, the group of each column; NULL: groups follow each other */
    enum code_layout layout;
    enum zero_layout zero_layout;
    int bits;            /* of a code, and of a zero; a stream has them lowest bit first */
    bool padded;         /* streams leave the bits of a word that make no whole code */
    bool zeros_less_one; /* zeros are stored as one less, with carries (GPTQ's first version) */
    int zero;
    int64_t rows, cols;
    int group;                                /* columns */
    int64_t scale_row_step, scale_group_step; /* elements from scale to scale */
};

/* The matrix that it becomes: its data and scales are not there yet. */
void describe_repacked(struct tensor *out, const struct weight_recipe *recipe);
/* Bytes of memory that repack_weight() takes for it. */
size_t repacked_bytes(const struct tensor *w);
/* Into memory[repacked_bytes()], aligned to 64; *out points into it. False: columns are in no order
 * that makes whole groups, or a scale is not finite. */
bool repack_weight(struct tensor *out, void *memory, const struct tensor *w, struct pool *pool,
                   ey_err *e);

#endif
