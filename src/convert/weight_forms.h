/* SPDX-License-Identifier: Apache-2.0 */
/* Converts a stored tensor to another format without changing a value: first plans its form, then
 * makes it. */
#ifndef EY_WEIGHT_FORMS_H
#define EY_WEIGHT_FORMS_H

#include "tensor/tensor.h"

enum weight_form {
    FORM_AS_STORED, /* F32, BF16 or F16, byte for byte */
    FORM_NARROWED,  /* the values in a 16-bit type that holds all of them exactly */
    FORM_FLOAT32,   /* the values in float32 */
    FORM_CODES, /* integers of 4 or 8 bits packed in rows, with a scale and perhaps a zero point per
                   group */
    FORM_MXFP4, /* pairs of e2m1 values, with an exponent per 32 */
    FORM_BLOCKS, /* blocks of a GGUF type */
};

struct weight_plan {
    enum weight_form form;
    enum dtype dtype;      /* of the written values; for FORM_CODES that of the scales */
    int bits, group;       /* of FORM_CODES */
    bool has_zeros;        /* of FORM_CODES: some zero point is not the midpoint */
    const char *why_lossy; /* why the format cannot hold the tensor, or NULL if it can */
};

/* Plans for safetensors. F32 tensors, and matrices for which safetensors has no form, become
 * `main_type` if that type holds all of their values exactly. DTYPE_F32 narrows nothing.
 * `linear`: the tensor is the matrix of a linear layer. */
struct weight_plan plan_for_safetensors(const struct tensor *w, enum dtype main_type, bool linear);
/* Plans for GGUF, where vectors are F32. A matrix for which GGUF has no type becomes BF16 or F16 if
 * that type holds all of its values exactly. */
struct weight_plan plan_for_gguf(const struct tensor *w, bool is_matrix);

/* The parts of a tensor in its new form, in memory of their own. */
enum { FORM_PARTS = 3 }; /* values, scales, zero points */
struct formed_weight {
    uint8_t *part[FORM_PARTS];
    size_t size[FORM_PARTS];
    float factor; /* of NVFP4 blocks; 0: none */
};

/* Writes the size of each part in bytes. */
void formed_sizes(size_t out[FORM_PARTS], const struct tensor *w, const struct weight_plan *plan);
/* Makes the planned form. Fails if memory runs out, or with *differs set if a value would change.
 * The caller frees *out, even after a failure. */
bool form_weight(struct formed_weight *out, const struct tensor *w, const struct weight_plan *plan,
                 bool *differs);
void formed_weight_free(struct formed_weight *formed);

#endif
