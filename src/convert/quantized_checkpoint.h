/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the result of --quantize as a checkpoint. */
#ifndef EY_QUANTIZED_CHECKPOINT_H
#define EY_QUANTIZED_CHECKPOINT_H
#include "backend/backend.h"
#include "checkpoint/checkpoint.h"
#include "convert/quantize.h"
#include "eyelet.h"

/* A checkpoint whose layers carry recipes (model_quantize_on_load). */
struct quantized_source {
    struct checkpoint *ckpt;
    const struct text_layer_tensors *layers; /* [n_layers] */
    int n_layers;
    size_t max_quantized_bytes; /* of the largest matrix */
    struct quantize_choice choice;
    struct pool *pool;
    const ey_engine_options *options; /* for the progress callback */
};

/* Writes the checkpoint to the directory `out`, which must be new or empty. Sets *bytes to the
 * total size of its tensors. A failure leaves nothing behind. */
bool quantized_checkpoint_write(const struct quantized_source *source, const char *out,
                                uint64_t *bytes, ey_err *e);

#endif
