/* SPDX-License-Identifier: Apache-2.0 */
/* quantization_config of config.json, and the files that old checkpoints have beside it. */
#ifndef EY_MODELS_QUANTIZATION_CONFIG_H
#define EY_MODELS_QUANTIZATION_CONFIG_H

#include "checkpoint/quantization.h"
#include "models/text_config.h"

/* What it says that tensors do not say themselves. A method or a variant that is not read is an
 * error that names what to use instead. `path`: of config.json. */
bool config_read_quantization(struct quantization *out, struct checkpoint *ckpt, const char *path,
                              ey_err *e);

#endif
