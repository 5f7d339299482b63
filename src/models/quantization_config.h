/* SPDX-License-Identifier: Apache-2.0 */
/* Reads quantization_config of config.json, and the separate files of old checkpoints. */
#ifndef EY_MODELS_QUANTIZATION_CONFIG_H
#define EY_MODELS_QUANTIZATION_CONFIG_H

#include "checkpoint/quantization.h"
#include "models/text_config.h"

/* Reads the facts that the tensors do not show. An unsupported method or variant is an error that
 * says what to use instead. `path` is that of config.json. */
bool config_read_quantization(struct quantization *out, struct checkpoint *ckpt, const char *path,
                              ey_err *e);

#endif
