/* SPDX-License-Identifier: Apache-2.0 */
/* Repacks the integer layouts of AutoAWQ, GPTQ and compressed-tensors into rows of int4 or uint8.
 * Repacking is lossless: it moves quantized values, zero points and scales and rounds none. */
#ifndef EY_CHECKPOINT_REPACK_H
#define EY_CHECKPOINT_REPACK_H

#include "base/pool.h"
#include "checkpoint/tensor_source.h"

/* Where the quantized value of row r and column c is stored. */
enum code_layout {
    CODES_IN_ROWS,    /* I32 [rows, words]: element c of row r's bit stream */
    CODES_IN_COLUMNS, /* I32 [words, rows]: element c of the bit stream down column r (GPTQ) */
    CODES_AWQ,        /* I32 [cols, rows/8]: eight rows per word, in AutoAWQ's order */
    CODES_SIGNED,     /* I8 [rows, cols] */
};

/* Where the zero point of row r and group g is stored. */
enum zero_layout {
    ZEROS_DEFAULT,   /* not stored: all are stored_weight.zero */
    ZEROS_DOWN_ROWS, /* I32 [words, groups]: element r of the bit stream down column g */
    ZEROS_OF_GROUPS, /* I32 [groups, words]: element r of row g's bit stream (GPTQ) */
    ZEROS_AWQ,       /* I32 [groups, rows/8] */
    ZEROS_OF_ROWS,   /* I32 [rows, words]: element g of row r's bit stream */
    ZEROS_SIGNED,    /* I8, indexed like the scales */
};

struct stored_weight {
    const struct tensor_view *codes, *scale, *zeros,
        *order; /* order: g_idx, the group of each column; NULL: consecutive groups */
    enum code_layout layout;
    enum zero_layout zero_layout;
    int bits;    /* of a value and of a zero point; streams are filled from the lowest bit */
    bool padded; /* values do not cross words: leftover bits of a word are unused */
    bool zeros_less_one; /* zero points are stored minus one (GPTQ's first version) */
    int zero;            /* the zero point of all values if none is stored */
    int64_t rows, cols;
    int group;                                /* columns */
    int64_t scale_row_step, scale_group_step; /* in elements */
};

/* Fills in dtype, shape and group of the repacked matrix. Its data is a placeholder and its scales
 * are NULL. */
void describe_repacked(struct tensor *out, const struct weight_recipe *recipe);
/* Bytes of memory that repack_weight() needs. */
size_t repacked_bytes(const struct tensor *w);
/* Repacks into memory[repacked_bytes()], aligned to 64 bytes; *out points into it. Fails if g_idx
 * does not fill every group or a scale is not finite. */
bool repack_weight(struct tensor *out, void *memory, const struct tensor *w, struct pool *pool,
                   ey_err *e);

#endif
