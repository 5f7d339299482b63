/* SPDX-License-Identifier: Apache-2.0 */
/* Writes config.json and the other JSON files, except the tokenizer. */
#ifndef EY_TOOLS_MKCHECKPOINT_MK_CONFIG_H
#define EY_TOOLS_MKCHECKPOINT_MK_CONFIG_H

#include "mk_kinds.h"
#include "mk_output.h"

/* Writes config.json, generation_config.json, preprocessor_config.json and
 * video_preprocessor_config.json, and for embedding models 1_Pooling/config.json. */
bool config_write(struct mk_output *o, const struct kind *k, ey_err *e);

#endif
