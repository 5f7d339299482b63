/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the matrices to quantize while loading, before the plan is made, so that it counts what
 * they become. */
#ifndef EY_MODELS_SHRINK_H
#define EY_MODELS_SHRINK_H

#include "models/model.h"
#include "convert/quantize.h"

/* What became of the text model's matrices. */
struct quantize_report {
    int n_quantized, n_unquantized; /* quantized; left as they are because of their error */
    int n_already;                  /* stored at most that large, or of a shape that cannot be */
    double max_error,
        mean_error; /* relative error of the samples of those that are quantized; int4 alone */
    char unquantized_names[512]; /* their names: "layer 3 down, …" */
};

/* An int4 matrix whose sample has a larger relative error than this stays as it is stored, with
 * those that are multiplied together with it. */
#define QUANTIZE_MAX_ERROR 0.16

/* Marks the projections of the text layers (as in the official FP8 files: embedding, head, norms
 * and the vision encoder stay). False: none can be quantized, or a value of a sample is not finite.
 */
bool model_quantize_on_load(struct model *model, const struct quantize_choice *choice,
                            struct quantize_report *report, struct pool *pool, ey_err *e);

#endif
