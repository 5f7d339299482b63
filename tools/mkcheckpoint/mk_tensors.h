/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors of a made-up checkpoint: names, shapes, dtypes and the distribution of their values.
 */
#ifndef EY_TOOLS_MKCHECKPOINT_MK_TENSORS_H
#define EY_TOOLS_MKCHECKPOINT_MK_TENSORS_H

#include "base/buf.h"
#include "mk_kinds.h"
#include "mk_values.h"

struct mk_tensor {
    const char *name;
    enum dtype dtype;
    int n_dims;
    int64_t shape[5];
    size_t elements, size;
    struct recipe recipe;
    uint64_t key;
    int shard;      /* filled by mk_write.c */
    uint64_t begin; /* within the shard's data */
};

struct mk_list {
    struct mk_tensor *tensors; /* in the model's order: embedding, layers, norm, vision, head */
    size_t n, capacity;
    struct arena names;
    const struct kind *kind;
    uint64_t seed;
    bool failed; /* out of memory */
};

bool mk_list_make(struct mk_list *list, const struct kind *kind, uint64_t seed, ey_err *e);
void mk_list_free(struct mk_list *list);
uint64_t mk_list_bytes(const struct mk_list *list);

#endif
