/* SPDX-License-Identifier: Apache-2.0 */
/* config.json, generation_config.json and preprocessor_config.json of a Qwen3-VL checkpoint (spec
 * 1). */
#ifndef EY_QWEN3VL_CONFIG_H
#define EY_QWEN3VL_CONFIG_H

#include "models/quantization_config.h"

/* Fills model->text, vision, patch_spec and eos; *tied says whether the head is the embedding, and
 * *quantization what is said of the weights.
 * Every number is checked here, once: later code may multiply them without looking. */
bool qwen3vl_config_read(struct model *model, bool *tied, struct quantization *quantization,
                         struct checkpoint *ckpt, ey_err *e);

#endif
