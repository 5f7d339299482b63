/* SPDX-License-Identifier: Apache-2.0 */
/* Marks, and what is left alone. */
#include "models/shrink.h"

#include <stdio.h>
#include <string.h>

#include "backend/convert.h"

enum { MOST_TOGETHER = 3, SETS = 4 };

/* Matrices that one product takes beside each other: kernels want them alike. */
struct together {
    struct weight *w[MOST_TOGETHER];
    const char *name[MOST_TOGETHER];
    int n;
    const struct weight *norm; /* what their input was multiplied with; NULL: not known */
};

static void sets_of(struct together out[SETS], struct decoder_layer *w)
{
    out[0] = (struct together){{&w->q, &w->k, &w->v}, {"q", "k", "v"}, 3, &w->input_norm};
    out[1] = (struct together){{&w->o}, {"o"}, 1, NULL};
    out[2] = (struct together){{&w->gate, &w->up}, {"gate", "up"}, 2, &w->post_norm};
    out[3] = (struct together){{&w->down}, {"down"}, 1, NULL};
}

/* Squares of the norm's weights: normed inputs are about equally large in every column, so that is
 * how an error there counts. */
static const float *importance_of(const struct weight *norm, struct arena *arena)
{
    const size_t n = (size_t)norm->cols;
    float *out = arena_array(arena, n, sizeof(float));
    if (!out) return NULL;
    weight_values(out, norm, 0, 0, n);
    for (size_t i = 0; i < n; i++)
        out[i] *= out[i];
    return out;
}

static bool mark(struct weight *w, struct model *m, const struct shrink_choice *choice,
                 const float *importance, ey_err *e)
{
    struct weight_recipe *recipe = arena_alloc(&m->arena, sizeof(*recipe));
    if (!recipe) return ey_fail_memory(e, "a recipe", sizeof(*recipe));
    *recipe = (struct weight_recipe){*w, importance};
    *w = (struct weight){.data = recipe->stored.data,
                         .dtype = choice->to,
                         .rows = w->rows,
                         .cols = w->cols,
                         .group = choice->to == DTYPE_INT4 ? choice->group : 0,
                         .recipe = recipe};
    return true;
}

static void unmark(struct weight *w)
{
    *w = w->recipe->stored;
}

static void name_kept(struct shrink_report *r, int layer, const char *name)
{
    size_t used = strlen(r->kept);
    snprintf(r->kept + used, sizeof(r->kept) - used, "%slayer %d %s", used ? ", " : "", layer,
             name);
}

/* The set's largest error; -1: a value is not finite. */
static double worst_error(const struct together *set, struct shrink_report *r, struct pool *pool)
{
    double worst = 0;
    for (int i = 0; i < set->n; i++) {
        struct quantize_error error;
        if (!quantize_sample(&error, set->w[i], pool)) return -1;
        double relative = quantize_relative(&error);
        r->mean += relative;
        worst = relative > worst ? relative : worst;
    }
    return worst;
}

/* Those of int4 sets that lose too much are left as they are. */
static bool weigh(const struct together *set, int layer, struct shrink_report *r, struct pool *pool,
                  ey_err *e)
{
    const double mean = r->mean, worst = worst_error(set, r, pool);
    if (worst < 0)
        return ey_fail(e, EY_BAD_MODEL,
                       "layer %d: a weight of %s is not finite and cannot be quantised", layer,
                       set->name[0]);
    if (worst <= SHRINK_MOST_ERROR) {
        r->worst = worst > r->worst ? worst : r->worst;
        return true;
    }
    r->mean = mean;
    r->n_made -= set->n;
    r->n_kept += set->n;
    for (int i = 0; i < set->n; i++) {
        unmark(set->w[i]);
        name_kept(r, layer, set->name[i]);
    }
    return true;
}

static bool takes_all(const struct together *set, const struct shrink_choice *choice)
{
    for (int i = 0; i < set->n; i++)
        if (!quantize_takes(set->w[i], choice->to, choice->group)) return false;
    return true;
}

static bool shrink_set(struct model *m, const struct together *set, int layer,
                       const struct shrink_choice *choice, struct shrink_report *r,
                       struct pool *pool, ey_err *e)
{
    const bool int4 = choice->to == DTYPE_INT4;
    const float *importance = NULL;
    if (!takes_all(set, choice)) return r->n_already += set->n, true;
    if (int4 && set->norm && !(importance = importance_of(set->norm, &m->arena)))
        return ey_fail_memory(e, "a norm", (size_t)set->norm->cols * sizeof(float));
    for (int i = 0; i < set->n; i++)
        if (!mark(set->w[i], m, choice, importance, e)) return false;
    r->n_made += set->n;
    return !int4 || weigh(set, layer, r, pool, e);
}

/* What the marks change in the model's bytes. */
static void count_bytes(struct model *m)
{
    for (int i = 0; i < m->text.n_layers; i++) {
        struct together sets[SETS];
        sets_of(sets, &m->layers[i]);
        for (int s = 0; s < SETS; s++)
            for (int j = 0; j < sets[s].n; j++) {
                const struct weight *w = sets[s].w[j];
                m->int4 = m->int4 || w->dtype == DTYPE_INT4;
                if (!w->recipe) continue;
                const size_t made = quantized_bytes(w);
                const struct weight *from = &w->recipe->stored;
                m->weight_bytes -= (uint64_t)from->rows * weight_row_bytes(from);
                m->made_bytes += made;
                if (made > m->largest_made) m->largest_made = made;
            }
    }
}

bool model_shrink(struct model *m, const struct shrink_choice *choice, struct shrink_report *r,
                  struct pool *pool, ey_err *e)
{
    *r = (struct shrink_report){0};
    if (choice->to == DTYPE_NONE) return true;
    for (int i = 0; i < m->text.n_layers; i++) {
        struct together sets[SETS];
        sets_of(sets, &m->layers[i]);
        for (int s = 0; s < SETS; s++)
            if (!shrink_set(m, &sets[s], i, choice, r, pool, e)) return false;
    }
    if (r->n_made) r->mean /= r->n_made;
    count_bytes(m);
    return r->n_made > 0 || r->n_kept > 0 || choice->to == DTYPE_F8_E4M3 ||
           ey_fail(e, EY_BAD_MODEL,
                   "none of this model's matrices can be quantised in groups of %d columns",
                   choice->group);
}
