/* What every step reads of the checkpoint, moved into huge pages once the model is open: requests are taken meanwhile. The tower stays in the file's pages,
 * as it is read once a picture, and so does what a card has its own copy of. */
#include <stdlib.h>

#include "base/clock.h"
#include "engine/engine_internal.h"

#define PATIENCE_SECONDS 10.0

static bool is_in(const struct tensor_view *t, const void *data)
{
    return (const uint8_t *)data >= t->data && (const uint8_t *)data < t->data + t->size;
}

static bool is_of(const struct tensor_view *t, const struct weight *w)
{
    return is_in(t, w->data) || is_in(t, w->group_scale) || is_in(t, w->group_zero);
}

/* Layers on the host, all or the first ones. */
static int host_layers(const ey_engine *engine)
{
    const struct backend *be = engine->be;
    return be->ops->weight_bytes(be, &engine->model.layers[0].gate, PLACE_RESIDENT) ? engine->plan.first_layers : engine->model.text.n_layers;
}

static bool is_read(const ey_engine *engine, int n_layers, const struct tensor_view *t)
{
    bool all = n_layers == engine->model.text.n_layers;
    for (int i = 0; i < n_layers; i++) {
        const struct weight *w = (const struct weight *)&engine->model.layers[i];
        for (size_t j = 0; j < sizeof(struct decoder_layer) / sizeof(struct weight); j++)
            if (is_of(t, &w[j])) return true;
    }
    return all && is_of(t, &engine->model.head);
}

/* Copies take processors and memory from the first answers, which are all there will be unless this is a server: for a while they are made only when there is
 * nothing else to do. */
static bool is_busy(void *user)
{
    ey_engine *engine = user;
    pthread_mutex_lock(&engine->lock);
    bool busy = engine->n_running || engine->queue.n;
    pthread_mutex_unlock(&engine->lock);
    return busy && seconds_now() - engine->move_asked < PATIENCE_SECONDS;
}

void engine_move_weights(ey_engine *engine, bool shared)
{
    size_t n = checkpoint_count(engine->ckpt), found = 0;
    int n_layers = engine->model.made_bytes ? 0 : host_layers(engine); /* those that were made lie in memory of their own */
    struct huge_span *span = n_layers ? malloc(n * sizeof(*span)) : NULL;
    for (size_t i = 0; span && i < n; i++) {
        const struct tensor_view *t = checkpoint_at(engine->ckpt, i);
        if (t->size && is_read(engine, n_layers, t)) span[found++] = (struct huge_span){t->data, t->size};
    }
    engine->move_asked = seconds_now();
    if (found) engine->move = huge_move_start(span, found, shared ? NULL : is_busy, engine);
    free(span);
}

uint64_t ey_engine_settle(ey_engine *engine)
{
    return huge_move_wait(engine->move);
}
