/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of a plan whose choices are made. Private to src/plan. */
#ifndef EY_PLAN_PLAN_INTERNAL_H
#define EY_PLAN_PLAN_INTERNAL_H

#include "plan/weight_sizes.h"

enum { CPU_MAX_ROWS = 512 }; /* rows of a chunk or a tile on the CPU: enough to be compute-bound */

/* A plan's inputs. */
struct plan_question {
    const struct model *model;
    const struct backend *be;
    const struct device_info *device;
    const struct plan_limits *limits;
    struct weight_sizes weights;
};

/* Computes the plan's other fields from its context, pool, sequences, images, rows and knobs. */
void plan_size(struct plan *plan, const struct plan_question *question);

static inline int plan_ceil_div(int n, int block)
{
    return (n + block - 1) / block;
}

#endif
