/* What every step reads of the checkpoint, moved into huge pages once the model is open: requests are taken meanwhile. Matrices of layers get places of their own, each at the begin
 * of a page: where a file has them they begin anywhere, and on some machines long streams that enter pages within a row are read a tenth slower. What else steps read is moved in
 * place. The tower stays in the file's pages, as it is read once a picture, and so does what a card has its own copy of. */
#include <stdatomic.h>
#include <stdlib.h>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/file.h"
#include "engine/engine_internal.h"

#define PATIENCE_SECONDS 10.0
enum { PAGE = 4096, LEAST = 64 << 10 /* bytes of a matrix */, UNSEEN = 4 /* copies that steps need not use yet: memory that is taken twice */ };

/* Matrices of layers and their copies; the first `n_used` weights point to those. */
struct moved_weights {
    struct huge_copy *copy;
    struct weight **weight;
    size_t n, bytes;
    void *room;
    atomic_size_t n_there, n_used; /* the latter changes while the device's lock is held */
};

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

static struct weight *weights_of(ey_engine *engine, int layer)
{
    return (struct weight *)&engine->model.layers[layer];
}

enum { LAYER_WEIGHTS = sizeof(struct decoder_layer) / sizeof(struct weight) };

static bool is_read(ey_engine *engine, int n_layers, const struct tensor_view *t)
{
    bool all = n_layers == engine->model.text.n_layers;
    for (int i = 0; i < n_layers; i++)
        for (size_t j = 0; j < LAYER_WEIGHTS; j++)
            if (is_of(t, &weights_of(engine, i)[j])) return true;
    return all && is_of(t, &engine->model.head);
}

/* ---- places of their own ---- */

/* 0: it is small, or not in the file. */
static size_t matrix_bytes(const ey_engine *engine, const struct weight *w)
{
    size_t bytes = w->data && w->rows > 1 ? (size_t)w->rows * weight_row_bytes(w) : 0;
    for (size_t i = 0; bytes >= LEAST && i < checkpoint_count(engine->ckpt); i++)
        if (is_in(checkpoint_at(engine->ckpt, i), w->data)) return bytes;
    return 0;
}

/* Without places yet: at most as many as there are weights. */
static void list_matrices(struct moved_weights *m, ey_engine *engine, int n_layers)
{
    for (int i = 0; i < n_layers; i++)
        for (size_t j = 0; j < LAYER_WEIGHTS; j++) {
            struct weight *w = &weights_of(engine, i)[j];
            size_t bytes = matrix_bytes(engine, w);
            if (!bytes) continue;
            m->copy[m->n] = (struct huge_copy){.from = w->data, .size = bytes}, m->weight[m->n++] = w;
            m->bytes += (bytes + PAGE - 1) / PAGE * PAGE;
        }
}

static struct moved_weights *moved_open(ey_engine *engine, int n_layers)
{
    struct moved_weights *m = calloc(1, sizeof(*m));
    const size_t most = (size_t)n_layers * LAYER_WEIGHTS;
    if (!m) return NULL;
    m->copy = calloc(most + 1, sizeof(*m->copy)), m->weight = calloc(most + 1, sizeof(struct weight *));
    if (m->copy && m->weight) list_matrices(m, engine, n_layers);
    if (m->bytes >= HUGE_PAGE) m->room = huge_room(m->bytes);
    uint8_t *to = m->room;
    for (size_t i = 0; to && i < m->n; to += (m->copy[i].size + PAGE - 1) / PAGE * PAGE, i++) m->copy[i].to = to;
    if (!to) m->n = 0;
    return m;
}

static void moved_close(struct moved_weights *m)
{
    if (!m) return;
    huge_room_free(m->room, m->bytes);
    free(m->copy);
    free(m->weight);
    free(m);
}

void engine_use_moved(ey_engine *engine)
{
    struct moved_weights *m = engine->moved;
    if (!m) return;
    for (size_t i = atomic_load(&m->n_used), n = atomic_load(&m->n_there); i < n; i++) {
        m->weight[i]->data = m->copy[i].to;
        file_map_forget(m->copy[i].from, m->copy[i].size);
        atomic_store(&m->n_used, i + 1);
    }
}

/* Steps take up what is there when they begin; between them, and when there are none, it is done here. */
static bool take_note(void *user, size_t n)
{
    ey_engine *engine = user;
    struct moved_weights *m = engine->moved;
    atomic_store(&m->n_there, n);
    if (pthread_mutex_trylock(&engine->device) == 0) {
        engine_use_moved(engine);
        pthread_mutex_unlock(&engine->device);
    }
    return n - atomic_load(&m->n_used) <= (n < m->n ? UNSEEN : 0);
}

/* ---- all ---- */

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

/* Whether the tensor has matrices that get places of their own. */
static bool is_copied(const struct moved_weights *m, const struct tensor_view *t)
{
    for (size_t i = 0; i < m->n; i++)
        if (is_in(t, m->copy[i].from)) return true;
    return false;
}

void engine_move_weights(ey_engine *engine, bool shared)
{
    size_t n = checkpoint_count(engine->ckpt), found = 0;
    int n_layers = engine->model.made_bytes ? 0 : host_layers(engine); /* those that were made lie in memory of their own */
    struct huge_span *span = n_layers ? malloc(n * sizeof(*span)) : NULL;
    struct moved_weights *moved = span ? engine->moved = moved_open(engine, n_layers) : NULL;
    for (size_t i = 0; moved && i < n; i++) {
        const struct tensor_view *t = checkpoint_at(engine->ckpt, i);
        if (t->size && is_read(engine, n_layers, t) && !is_copied(moved, t)) span[found++] = (struct huge_span){t->data, t->size};
    }
    engine->move_asked = seconds_now();
    if (moved)
        engine->move = huge_move_start(&(struct huge_plan){.copy = moved->copy, .n_copies = moved->n, .span = span, .n_spans = found,
                                                           .busy = shared ? NULL : is_busy, .copied = take_note, .user = engine});
    free(span);
}

void engine_end_move(ey_engine *engine)
{
    huge_move_stop(&engine->move);
    moved_close(engine->moved);
    engine->moved = NULL;
}

uint64_t ey_engine_settle(ey_engine *engine)
{
    return huge_move_wait(engine->move);
}
