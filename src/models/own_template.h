/* SPDX-License-Identifier: Apache-2.0 */
/* Compares a checkpoint's own chat template with the built-in format. */
#ifndef EY_MODELS_OWN_TEMPLATE_H
#define EY_MODELS_OWN_TEMPLATE_H

#include "models/model.h"

/* Adds a remark that lists the differences if the checkpoint's template differs from the built-in
 * format. Never refuses the model. Sets model->thinks. */
void model_remark_on_template(struct model *model, struct checkpoint *ckpt);
#endif
