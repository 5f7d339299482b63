/* SPDX-License-Identifier: Apache-2.0 */
/* The chat template that a checkpoint brings, beside the format that is built in. */
#ifndef EY_MODELS_OWN_TEMPLATE_H
#define EY_MODELS_OWN_TEMPLATE_H

#include "models/model.h"

/* Remarks on the checkpoint's template where it is none that the built-in format stands for, and
 * names what differs. Never a reason to refuse the model. */
void model_remark_on_template(struct model *model, struct checkpoint *ckpt);
#endif
