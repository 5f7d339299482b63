/* SPDX-License-Identifier: Apache-2.0 */
/* Lossless forms of a stored tensor in another format. */
#ifndef EY_WEIGHT_FORMS_H
#define EY_WEIGHT_FORMS_H

#include "tensor/tensor.h"

enum weight_form {
    FORM_AS_STORED, /* F32, BF16 or F16, byte for byte */
    FORM_NARROWED,  /* F32 values that all fit a smaller type */
    FORM_FLOAT32,   /* dequantized to float32 */
    FORM_CODES,     /* 4- or 8-bit integers packed in rows, with scales and perhaps zero points per
                       group */
    FORM_MXFP4,     /* pairs of e2m1, one exponent per 32 */
    FORM_BLOCKS,    /* a GGUF block type */
};

struct weight_plan {
    enum weight_form form;
    enum dtype dtype;      /* of the output; for FORM_CODES, of the scales */
    int bits, group;       /* CODES */
    bool has_zeros;        /* FORM_CODES: some zero point is not the midpoint */
    const char *why_lossy; /* why the format has no lossless form; NULL if it has one */
};

/* Plans the safetensors form. F32 vectors become `main_type` if all their values fit it (DTYPE_F32
 * keeps them). `linear`: the tensor is the matrix of a linear layer. */
struct weight_plan plan_for_safetensors(const struct tensor *w, enum dtype main_type, bool linear);
/* Plans the GGUF form. Vectors are F32 there. */
struct weight_plan plan_for_gguf(const struct tensor *w, bool is_matrix);

/* The parts of a converted tensor, each in its own allocation. */
enum { FORM_PARTS = 3 }; /* values, scales, zero points */
struct formed_weight {
    uint8_t *part[FORM_PARTS];
    size_t size[FORM_PARTS];
    float factor; /* global scale of NVFP4 blocks; 0: none */
};

/* Computes the size of each part in bytes. */
void formed_sizes(size_t out[FORM_PARTS], const struct tensor *w, const struct weight_plan *plan);
/* Converts a tensor. Fails without memory, or with *differs if a value would change. The caller
 * frees *out in any case. */
bool form_weight(struct formed_weight *out, const struct tensor *w, const struct weight_plan *plan,
                 bool *differs);
void formed_weight_free(struct formed_weight *formed);

#endif
