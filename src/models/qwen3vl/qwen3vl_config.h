/* SPDX-License-Identifier: Apache-2.0 */
/* Reads config.json, generation_config.json and preprocessor_config.json of a Qwen3-VL checkpoint
 * (spec 1). */
#ifndef EY_QWEN3VL_CONFIG_H
#define EY_QWEN3VL_CONFIG_H

#include "models/quantization_config.h"

/* Fills model->text, vision, patch_spec and eos; *tied tells whether the head is the embedding, and
 * *quantization what is declared about the weights. Every number is range-checked here, so later
 * code may multiply without overflow checks. */
bool qwen3vl_config_read(struct model *model, bool *tied, struct quantization *quantization,
                         struct checkpoint *ckpt, ey_err *e);

#endif
