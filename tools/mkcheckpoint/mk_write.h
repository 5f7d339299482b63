/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors → model.safetensors, or shards with their index. */
#ifndef MK_WRITE_H
#define MK_WRITE_H

#include "base/pool.h"
#include "mk_output.h"
#include "mk_tensors.h"

struct mk_write_options {
    int shards;
    bool sparse; /* files of the right length without data (they read as zeros and take no space) */
};

bool checkpoint_write(struct mk_output *o, struct mk_list *list, struct mk_write_options options,
                      struct pool *pool, ey_err *e);

#endif
