/* SPDX-License-Identifier: Apache-2.0 */
/* What every step reads of the checkpoint, copied into huge pages once the model is open: between
 * steps, some at a time, by all threads. Each matrix begins with a page there: in files they begin
 * anywhere, and on some machines long streams that enter a page within a row are read a sixth
 * slower. BF16 matrices become smaller by a quarter where the kernels take that, without loss
 * (backend/cpu/bf12.h). The tower stays in the file's pages, as it is read once a picture, and so
 * does what a card has its own copy of. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/huge.h"
#include "base/memory.h"
#include "engine/engine_internal.h"

#define PATIENCE_SECONDS 10.0
enum {
    PAGE = 4096,
    LEAST = 64 << 10,   /* bytes of a matrix, or of the multipliers of one */
    AT_ONCE = 64 << 20, /* bytes between two steps, unless a matrix has more */
    PIECE = 32 << 20    /* of a matrix, that is in memory twice while it is copied */
};

struct copy {
    const void **at, **also;          /* what points to it, or will; the second may be NULL */
    const struct weight *twelve_bits; /* the matrix, where the copy is its form of twelve bits a
                                         weight; NULL: bytes as they are */
    const uint8_t *from;
    uint8_t *to;
    size_t size;
};

struct moved_weights {
    struct copy *copy;
    size_t n;
    void *room;
    size_t room_bytes;
    bool at_once; /* requests do not keep it waiting */
    double asked; /* when it began */
    double
        next; /* before that, steps are not kept waiting once more: finding pages may take long */
    /* under the engine's lock */
    size_t n_done;
    uint64_t bytes;             /* of those */
    atomic_uint_least64_t less; /* than they take in the file */
    pthread_cond_t ended;
};

/* ---- which ---- */

static bool is_in_file(const ey_engine *engine, const void *data)
{
    for (size_t i = 0; i < checkpoint_count(engine->ckpt); i++) {
        const struct tensor_view *t = checkpoint_at(engine->ckpt, i);
        if ((const uint8_t *)data >= t->data && (const uint8_t *)data < t->data + t->size)
            return true;
    }
    return false;
}

/* What reads weights in host memory. */
static const struct backend *host_backend(const ey_engine *engine)
{
    return engine->cpu ? engine->cpu : engine->be;
}

static size_t whole_pages(size_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

/* Small ones stay where they are, and what was made of the file's. */
static void add_copy(struct moved_weights *m, const ey_engine *engine, const void *from,
                     struct copy copy)
{
    if (!from || copy.size < LEAST || !is_in_file(engine, from)) return;
    copy.from = from;
    m->copy[m->n++] = copy;
    m->room_bytes += whole_pages(copy.size);
}

enum { WEIGHT_PARTS = 3 };

static void add_weight(struct moved_weights *m, const ey_engine *engine, struct weight *w)
{
    if (!w->data) return;
    const struct backend *be = host_backend(engine);
    const size_t smaller = be->ops->bf12_bytes ? be->ops->bf12_bytes(be, w) : 0;
    if (smaller)
        add_copy(m, engine, w->data,
                 (struct copy){.at = &w->bf12, .twelve_bits = w, .size = smaller});
    else
        add_copy(m, engine, w->data,
                 (struct copy){.at = &w->data, .size = (size_t)w->rows * weight_row_bytes(w)});
    if (w->dtype != DTYPE_INT4) return;
    add_copy(m, engine, w->group_scale,
             (struct copy){.at = &w->group_scale, .size = weight_group_scale_bytes(w)});
    add_copy(m, engine, w->group_zero,
             (struct copy){.at = &w->group_zero, .size = weight_group_zero_bytes(w)});
}

/* Layers on the host, all or the first ones. */
static int host_layers(const ey_engine *engine)
{
    const struct backend *be = engine->be;
    return be->ops->weight_bytes(be, &engine->model.layers[0].gate, PLACE_RESIDENT)
               ? engine->plan.first_layers
               : engine->model.text.n_layers;
}

static void list_copies(struct moved_weights *m, ey_engine *engine, int n_layers)
{
    struct model *model = &engine->model;
    if (n_layers == model->text.n_layers)
        add_weight(m, engine,
                   &model->head); /* the largest comes first: mostly before there are requests */
    if (m->n &&
        model->embed.data == model->head.data) /* or its pages would come back, token by token */
        m->copy[0].also = m->copy[0].twelve_bits ? &model->embed.bf12 : &model->embed.data;
    for (int i = 0; i < n_layers; i++) {
        struct weight *w = (struct weight *)&engine->model.layers[i];
        for (size_t j = 0; j < LAYER_WEIGHTS; j++)
            add_weight(m, engine, &w[j]);
    }
}

/* The file's own pages are among those that are said to be available; an eighth stays. */
static bool have_room(size_t bytes)
{
    return bytes >= HUGE_PAGE && bytes + bytes / 8 <= memory_available();
}

static void place_copies(struct moved_weights *m)
{
    uint8_t *to = m->room = huge_pages_given() && have_room(m->room_bytes)
                                ? huge_room(m->room_bytes)
                                : NULL;
    for (size_t i = 0; to && i < m->n; to += whole_pages(m->copy[i].size), i++)
        m->copy[i].to = to;
    if (!to) m->n = 0;
}

void engine_move_weights(ey_engine *engine, bool at_once)
{
    int n_layers = engine->model.made_bytes
                       ? 0
                       : host_layers(engine); /* those that were made lie in memory of their own */
    struct moved_weights *m = n_layers ? calloc(1, sizeof(*m)) : NULL;
    if (!m) return;
    m->at_once = at_once;
    m->asked = seconds_now();
    m->copy = calloc((size_t)n_layers * LAYER_WEIGHTS * WEIGHT_PARTS + WEIGHT_PARTS,
                     sizeof(*m->copy));
    if (m->copy) list_copies(m, engine, n_layers);
    place_copies(m);
    pthread_cond_init(&m->ended, NULL);
    engine->moved = m;
}

void engine_end_move(ey_engine *engine)
{
    struct moved_weights *m = engine->moved;
    if (!m) return;
    huge_room_free(m->room, m->room_bytes);
    pthread_cond_destroy(&m->ended);
    free(m->copy);
    free(m);
    engine->moved = NULL;
}

/* ---- copies ---- */

static bool is_left(const struct moved_weights *m)
{
    return m && m->n_done < m->n;
}

/* A server's requests are faster in the end when they wait for this, a third of the time; another
 * command's may be its only one. */
bool engine_may_move(const ey_engine *engine, bool works)
{
    const struct moved_weights *m = engine->moved;
    const double now = is_left(m) && works ? seconds_now() : 0;
    return is_left(m) &&
           (!works || (now >= m->next && (m->at_once || now - m->asked > PATIENCE_SECONDS)));
}

struct piece {
    uint8_t *to;
    const uint8_t *from;
    size_t size;
};

static void copy_pages(void *context, size_t begin, size_t end, int thread)
{
    const struct piece *p = context;
    size_t first = begin * HUGE_PAGE, last = end * HUGE_PAGE < p->size ? end * HUGE_PAGE : p->size;
    (void)thread;
    memcpy(p->to + first, p->from + first, last - first);
}

static void copy_bytes(const struct copy *c, struct pool *pool)
{
    for (size_t at = 0; at < c->size; at += PIECE) {
        struct piece p = {c->to + at, c->from + at, c->size - at < PIECE ? c->size - at : PIECE};
        pool_run(pool, (p.size + HUGE_PAGE - 1) / HUGE_PAGE, 1, copy_pages, &p);
        file_map_forget(p.from, p.size);
    }
}

struct strips {
    const struct copy *copy;
    const struct backend *be;
    size_t first;
};

static void write_strips(void *context, size_t begin, size_t end, int thread)
{
    const struct strips *s = context;
    (void)thread;
    s->be->ops->write_bf12(s->be, s->copy->to, s->copy->twelve_bits, s->first + begin,
                           s->first + end);
}

static void write_twelve_bits(const struct copy *c, const struct backend *be, struct pool *pool)
{
    const struct weight *w = c->twelve_bits;
    const size_t strip = BF12_ROWS * weight_row_bytes(w),
                 bytes = (size_t)w->rows * weight_row_bytes(w), n = weight_bf12_strips(w),
                 step = PIECE / strip + 1;
    for (size_t first = 0; first < n; first += step) {
        struct strips s = {c, be, first};
        const size_t count = n - first < step ? n - first : step, at = first * strip;
        pool_run(pool, count, HUGE_PAGE / strip + 1, write_strips, &s);
        file_map_forget(c->from + at, bytes - at < count * strip ? bytes - at : count * strip);
    }
}

/* The file's pages leave this process's memory as their copies take it. */
static void copy_all_of(const struct copy *c, ey_engine *engine)
{
    const struct weight *w = c->twelve_bits;
    if (w) {
        write_twelve_bits(c, host_backend(engine), engine->pool);
        atomic_fetch_add(&engine->moved->less, (size_t)w->rows * weight_row_bytes(w) - c->size);
    } else
        copy_bytes(c, engine->pool);
    *c->at = c->to;
    if (c->also) *c->also = c->to;
}

void engine_move_some(ey_engine *engine)
{
    struct moved_weights *m = engine->moved;
    const double start = seconds_now();
    size_t bytes = 0, i = m->n_done; /* no other thread changes it */
    for (; i < m->n && bytes < AT_ONCE; bytes += m->copy[i++].size)
        copy_all_of(&m->copy[i], engine);
    const double end = seconds_now();
    pthread_mutex_lock(&engine->lock);
    m->n_done = i;
    m->bytes += bytes;
    m->next = end + 2 * (end - start);
    if (!is_left(m)) pthread_cond_broadcast(&m->ended);
    pthread_mutex_unlock(&engine->lock);
}

uint64_t engine_bytes_less(const ey_engine *engine)
{
    return engine->moved ? atomic_load(&engine->moved->less) : 0;
}

uint64_t ey_engine_settle(ey_engine *engine)
{
    struct moved_weights *m = engine->moved;
    if (!m) return 0;
    pthread_mutex_lock(&engine->lock);
    while (is_left(m))
        pthread_cond_wait(&m->ended, &engine->lock);
    uint64_t bytes = m->bytes;
    pthread_mutex_unlock(&engine->lock);
    return bytes;
}
