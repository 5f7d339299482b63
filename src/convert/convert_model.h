/* SPDX-License-Identifier: Apache-2.0 */
/* Converts a checkpoint to another format without loss: safetensors (plain, or compressed-tensors'
 * pack-quantized and mxfp4-pack-quantized) or GGUF. */
#ifndef EY_CONVERT_MODEL_H
#define EY_CONVERT_MODEL_H

#include "backend/model_shape.h"
#include "base/pool.h"
#include "checkpoint/tensor_source.h"
#include "eyelet.h"

struct convert_source {
    struct checkpoint *ckpt;
    const struct text_shape *text;
    const struct vision_shape *vision; /* depth 0 for a text-only model */
    struct quantization quantization;  /* from config.json */
    struct pool *pool;
    const ey_engine_options *options; /* for the progress callback */
    bool to_float32; /* write float32 matrices in place of those that the format cannot hold */
};

/* Convert to the GGUF file `out`, with a vision encoder in mmproj-FILE in the same folder, or to
 * the safetensors directory `out`. `out` must not exist. A failure leaves nothing behind. */
bool convert_to_gguf(const struct convert_source *source, const char *out,
                     ey_convert_report *report, ey_err *e);
bool convert_to_safetensors(const struct convert_source *source, const char *out,
                            ey_convert_report *report, ey_err *e);

#endif
