/* SPDX-License-Identifier: Apache-2.0 */
/* Marks matrices for quantization and leaves out those that would lose too much. */
#include "models/on_load_quantization.h"

#include <stdio.h>
#include <string.h>

#include "tensor/dequantize.h"

enum { MAX_SET_MATRICES = 3, SETS = 4 };

/* Matrices of one fused matmul, which kernels need in the same format. */
struct matrix_set {
    struct tensor *w[MAX_SET_MATRICES];
    const char *name[MAX_SET_MATRICES];
    int n;
    const struct tensor *norm; /* the norm of their input; NULL if unknown */
};

static void layer_matrix_sets(struct matrix_set out[SETS], struct text_layer_tensors *w)
{
    out[0] = (struct matrix_set){{&w->attention.q, &w->attention.k, &w->attention.v},
                                 {"q", "k", "v"},
                                 3,
                                 &w->attention.input_norm};
    out[1] = (struct matrix_set){{&w->attention.o}, {"o"}, 1, NULL};
    out[2] = (struct matrix_set){{&w->mlp.gate, &w->mlp.up}, {"gate", "up"}, 2, &w->mlp.post_norm};
    out[3] = (struct matrix_set){{&w->mlp.down}, {"down"}, 1, NULL};
}

/* Returns the squares of the norm's weights as importance of the columns: normed inputs have about
 * the same magnitude in all columns before they are multiplied by these weights. */
static const float *norm_importance(const struct tensor *norm, struct arena *arena)
{
    const size_t n = (size_t)norm->cols;
    float *out = arena_array(arena, n, sizeof(float));
    if (!out) return NULL;
    dequantize_columns(out, norm, 0, 0, n);
    for (size_t i = 0; i < n; i++)
        out[i] *= out[i];
    return out;
}

static bool mark_for_quantization(struct tensor *w, struct model *m,
                                  const struct quantize_choice *choice, const float *importance,
                                  ey_err *e)
{
    struct weight_recipe *recipe = arena_alloc(&m->arena, sizeof(*recipe));
    if (!recipe) return ey_fail_memory(e, "a recipe", sizeof(*recipe));
    *recipe = (struct weight_recipe){.source = *w, .importance = importance};
    *w = (struct tensor){.data = recipe->source.data,
                         .dtype = choice->dtype,
                         .rows = w->rows,
                         .cols = w->cols,
                         .group_size = choice->dtype == DTYPE_INT4 ? choice->group_size : 0,
                         .recipe = recipe};
    return true;
}

static void unmark_for_quantization(struct tensor *w)
{
    *w = w->recipe->source;
}

static void add_unquantized_name(struct quantize_report *r, int layer, const char *name)
{
    size_t used = strlen(r->unquantized_names);
    snprintf(r->unquantized_names + used, sizeof(r->unquantized_names) - used, "%slayer %d %s",
             used ? ", " : "", layer, name);
}

/* Writes the set's largest error to *out. */
static bool max_set_error(double *out, const struct matrix_set *set, int layer,
                          struct quantize_report *r, struct pool *pool, ey_err *e)
{
    *out = 0;
    for (int i = 0; i < set->n; i++) {
        struct quantize_error error;
        if (!quantize_sample_error(&error, set->w[i], pool))
            return ey_fail(e, EY_BAD_MODEL,
                           "layer %d: a weight of %s is not finite and cannot be quantized", layer,
                           set->name[i]);
        double relative = quantize_relative_error(&error);
        r->mean_error += relative;
        *out = relative > *out ? relative : *out;
    }
    return true;
}

/* Leaves an int4 set unquantized if it would lose too much. */
static bool check_set_error(const struct matrix_set *set, int layer, struct quantize_report *r,
                            struct pool *pool, ey_err *e)
{
    const double mean = r->mean_error;
    double max_error;
    if (!max_set_error(&max_error, set, layer, r, pool, e)) return false;
    if (max_error <= QUANTIZE_MAX_ERROR) {
        r->max_error = max_error > r->max_error ? max_error : r->max_error;
        return true;
    }
    r->mean_error = mean;
    r->n_quantized -= set->n;
    r->n_unquantized += set->n;
    for (int i = 0; i < set->n; i++) {
        unmark_for_quantization(set->w[i]);
        add_unquantized_name(r, layer, set->name[i]);
    }
    return true;
}

static bool can_quantize_set(const struct matrix_set *set, const struct quantize_choice *choice)
{
    for (int i = 0; i < set->n; i++)
        if (!can_quantize(set->w[i], choice->dtype, choice->group_size)) return false;
    return true;
}

static bool quantize_set(struct model *m, const struct matrix_set *set, int layer,
                         const struct quantize_choice *choice, struct quantize_report *r,
                         struct pool *pool, ey_err *e)
{
    const bool int4 = choice->dtype == DTYPE_INT4;
    const float *importance = NULL;
    if (!can_quantize_set(set, choice)) {
        r->n_already += set->n;
        return true;
    }
    if (int4 && set->norm && !(importance = norm_importance(set->norm, &m->arena)))
        return ey_fail_memory(e, "a norm", (size_t)set->norm->cols * sizeof(float));
    for (int i = 0; i < set->n; i++)
        if (!mark_for_quantization(set->w[i], m, choice, importance, e)) return false;
    r->n_quantized += set->n;
    return !int4 || check_set_error(set, layer, r, pool, e);
}

/* Updates the model's byte counts for the marked matrices. */
static void update_model_bytes(struct model *m)
{
    for (int i = 0; i < m->text.n_layers; i++) {
        struct matrix_set sets[SETS];
        layer_matrix_sets(sets, &m->layers[i]);
        for (int s = 0; s < SETS; s++)
            for (int j = 0; j < sets[s].n; j++) {
                const struct tensor *w = sets[s].w[j];
                m->int4 = m->int4 || w->dtype == DTYPE_INT4;
                if (!w->recipe || w->recipe->stored) continue;
                const size_t bytes = quantized_bytes(w);
                m->weight_bytes -= weight_data_bytes(&w->recipe->source);
                m->quantized_bytes += bytes;
                if (bytes > m->max_quantized_bytes) m->max_quantized_bytes = bytes;
            }
    }
}

bool model_quantize_on_load(struct model *m, const struct quantize_choice *choice,
                            struct quantize_report *r, struct pool *pool, ey_err *e)
{
    *r = (struct quantize_report){0};
    if (choice->dtype == DTYPE_NONE) return true;
    for (int i = 0; i < m->text.n_layers; i++) {
        struct matrix_set sets[SETS];
        layer_matrix_sets(sets, &m->layers[i]);
        for (int s = 0; s < SETS; s++)
            if (!quantize_set(m, &sets[s], i, choice, r, pool, e)) return false;
    }
    if (r->n_quantized) r->mean_error /= r->n_quantized;
    update_model_bytes(m);
    return r->n_quantized > 0 || r->n_unquantized > 0 || choice->dtype == DTYPE_F8_E4M3 ||
           ey_fail(e, EY_BAD_MODEL,
                   "none of this model's matrices can be quantized in groups of %d columns",
                   choice->group_size);
}
