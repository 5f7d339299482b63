/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the matrices to quantize while loading, before the memory plan is made, so that the plan
 * counts their new sizes. */
#ifndef EY_MODELS_ON_LOAD_QUANTIZATION_H
#define EY_MODELS_ON_LOAD_QUANTIZATION_H

#include "models/model.h"
#include "convert/quantize.h"

/* How many of the text model's matrices are quantized, and their errors. */
struct quantize_report {
    int n_quantized, n_unquantized; /* n_unquantized: their error was too large */
    int n_already;                  /* already stored in as few bits, or of an unsuitable shape */
    double max_error,
        mean_error; /* relative error of samples of the quantized matrices; int4 only */
    char unquantized_names[512]; /* names of n_unquantized: "layer 3 down, …" */
};

/* If a sample of an int4 matrix has a larger relative error than this, all matrices of its
 * fused matmul stay as stored. */
#define QUANTIZE_MAX_ERROR 0.16

/* Marks the projections of the text layers. Embedding, head, norms and the vision encoder stay as
 * stored, as in the official FP8 checkpoints. With int4, fails if no matrix can be quantized or a
 * sampled value is not finite. */
bool model_quantize_on_load(struct model *model, const struct quantize_choice *choice,
                            struct quantize_report *report, struct pool *pool, ey_err *e);

#endif
