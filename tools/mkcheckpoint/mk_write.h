/* SPDX-License-Identifier: Apache-2.0 */
/* Writes tensors to model.safetensors, or to shards with an index. */
#ifndef EY_TOOLS_MKCHECKPOINT_MK_WRITE_H
#define EY_TOOLS_MKCHECKPOINT_MK_WRITE_H

#include "base/pool.h"
#include "mk_output.h"
#include "mk_tensors.h"

struct mk_write_options {
    int shards;
    bool sparse; /* write files of the right length without data, which read as zeros and take no
                    space */
};

bool checkpoint_write(struct mk_output *o, struct mk_list *list, struct mk_write_options options,
                      struct pool *pool, ey_err *e);

#endif
