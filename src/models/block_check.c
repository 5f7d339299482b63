/* SPDX-License-Identifier: Apache-2.0 */
#include "models/block_check.h"

#include <stdatomic.h>

#include "tensor/gguf_blocks.h"

struct block_check {
    const struct tensor *w;
    atomic_bool bad;
};

static void check_rows(void *context, size_t begin, size_t end, int thread)
{
    struct block_check *c = context;
    (void)thread;
    if (!gguf_rows_are_finite(c->w, (int64_t)begin, (int64_t)(end - begin)))
        atomic_store(&c->bad, true);
}

static bool are_finite(const struct tensor *w, size_t n, struct pool *pool)
{
    enum { ROWS_AT_ONCE = 256 };
    for (size_t i = 0; i < n; i++) {
        struct block_check c = {.w = &w[i]};
        if (!w[i].data || w[i].recipe || !dtype_is_gguf(w[i].dtype)) continue;
        pool_run(pool, (size_t)w[i].rows, ROWS_AT_ONCE, check_rows, &c);
        if (atomic_load(&c.bad)) return false;
    }
    return true;
}

static bool fail_blocks(const char *what, int layer, ey_err *e)
{
    return ey_fail(e, EY_BAD_MODEL,
                   "a scale in the weights of %s %d is no finite number; the file is damaged: "
                   "download it again",
                   what, layer);
}

bool model_check_blocks(struct model *m, struct pool *pool, ey_err *e)
{
    if (!are_finite(&m->embed, 1, pool) || !are_finite(&m->head, 1, pool))
        return ey_fail(e, EY_BAD_MODEL,
                       "a scale in the embedding or the head is no finite number; the file is "
                       "damaged: download it again");
    for (int i = 0; i < m->text.n_layers; i++) {
        struct text_layer_tensors *layer = &m->layers[i];
        if (!are_finite(TENSORS_OF(layer->attention), pool) ||
            !are_finite(TENSORS_OF(layer->mlp), pool))
            return fail_blocks("layer", i, e);
    }
    for (int i = 0; i < m->vision.depth; i++)
        if (!are_finite(TENSORS_OF(m->vision_tensors.blocks[i]), pool))
            return fail_blocks("the vision encoder's block", i, e);
    return true;
}
