/* SPDX-License-Identifier: Apache-2.0 */
/* Row operations of the text model: matmuls, embedding, RoPE table, image features. */
#include "kernels/kernel_tests.h"

/* How many of rows first to first + n - 1 belong to prompts. */
static int prompts_of(const struct problem *p, int first, int n)
{
    const int prompts = first + n - p->first_prompt;
    return prompts < 0 ? 0 : prompts < n ? prompts : n;
}

/* ---- project_add ---- */

static void prepare_project_add(struct problem *p)
{
    const struct test_case *c = p->c;
    make_matrix(p, 0, c->m, c->k, c->dtype, c->fill);
    if (c->other) make_vector(p, 0, c->m, -3, 3, vector_dtype(c->dtype));
    p->x = make_rows(p, c->n, c->k, c->fill);
    p->y = make_rows(p, c->n, c->m, c->fill == FILL_ALL_VALUES ? FILL_ZERO : c->fill);
    p->exact = c->fill == FILL_EXACT || c->fill == FILL_ALL_VALUES || c->fill == FILL_ZERO;
}

static void begin_project_add(struct run *r)
{
    const struct problem *p = r->p;
    r->in = run_input(r, ELEMENT_ACTIVATION, p->x, (size_t)p->n * (size_t)p->c->k);
    r->out = run_output(r, ELEMENT_RESIDUAL, (size_t)p->n * (size_t)p->c->m);
    r->be->ops->memory->write(r->be, r->out, p->y, ELEMENT_RESIDUAL,
                              (size_t)p->n * (size_t)p->c->m);
}

static void call_project_add(struct run *r, int first, int n)
{
    const struct test_case *c = r->p->c;
    const struct affine of_patches = {r->w[0], r->v[0]};
    const dev out = run_at(r, r->out, ELEMENT_RESIDUAL, first, c->m),
              in = run_at(r, r->in, ELEMENT_ACTIVATION, first, c->k);
    if (c->other)
        r->be->ops->compute->vision_project_add(r->be, out, in, &of_patches, n);
    else
        r->be->ops->compute->project_add(r->be, out, in, r->w[0], n, prompts_of(r->p, first, n));
}

const struct op op_project_add = {"project_add", prepare_project_add, begin_project_add,
                                  call_project_add, run_fetch_residual};

/* ---- gate_up ---- */

static void prepare_gate_up(struct problem *p)
{
    const struct test_case *c = p->c;
    make_matrix(p, 0, c->m, c->k, c->dtype, c->fill);
    make_matrix(p, 1, c->m, c->k, c->dtype, c->fill);
    make_vector(p, 0, c->k, 0.5f, 1.5f, vector_dtype(c->dtype));
    p->x = make_rows(p, c->n, c->k, c->fill);
    p->text = (struct text_shape){.hidden = c->k, .mlp = c->m, .norm_eps = 1e-6f};
    p->slack = 8; /* a product of two matmuls, through SiLU */
}

static void begin_gate_up(struct run *r)
{
    const struct problem *p = r->p;
    r->in = run_input(r, ELEMENT_RESIDUAL, p->x, (size_t)p->n * (size_t)p->c->k);
    r->out = run_output(r, ELEMENT_ACTIVATION, (size_t)p->n * (size_t)p->c->m);
}

static void call_gate_up(struct run *r, int first, int n)
{
    const struct problem *p = r->p;
    struct mlp w = {.gate = r->w[0], .up = r->w[1], .post_norm = r->v[0]};
    r->be->ops->compute->gate_up(r->be, run_at(r, r->out, ELEMENT_ACTIVATION, first, p->c->m),
                                 run_at(r, r->in, ELEMENT_RESIDUAL, first, p->c->k), &w, &p->text,
                                 n, prompts_of(p, first, n));
}

const struct op op_gate_up = {"gate_up", prepare_gate_up, begin_gate_up, call_gate_up,
                              run_fetch_activation};

/* ---- head ---- */

static void prepare_lm_head(struct problem *p)
{
    const struct test_case *c = p->c;
    make_matrix(p, 0, c->m, c->k, c->dtype, c->fill);
    make_vector(p, 0, c->k, 0.5f, 1.5f, vector_dtype(c->dtype));
    p->x = make_rows(p, c->n, c->k, c->fill);
    p->rows = make_ints(p, c->n, c->n);
    p->text = (struct text_shape){.hidden = c->k, .vocab_size = c->m, .norm_eps = 1e-6f};
    p->limits.max_width = c->k; /* logits are not an intermediate result */
    p->slack = 2;
}

/* logits are F32 on all devices, like the residual stream */
static void begin_lm_head(struct run *r)
{
    const struct problem *p = r->p;
    r->in = run_input(r, ELEMENT_RESIDUAL, p->x, (size_t)p->n * (size_t)p->c->k);
    r->out = run_output(r, ELEMENT_RESIDUAL, (size_t)p->n * (size_t)p->c->m);
}

static void call_lm_head(struct run *r, int first, int n)
{
    const struct problem *p = r->p;
    float *logits = (float *)r->out + (size_t)first * (size_t)p->c->m;
    r->be->ops->compute->lm_head(r->be, logits, r->in, p->rows + first, n, r->v[0], r->w[0],
                                 &p->text);
}

static void fetch_logits(struct run *r, float *out)
{
    r->be->ops->memory->read_logits(r->be, out, r->out, (size_t)r->p->n * (size_t)r->p->c->m);
}

const struct op op_lm_head = {"head", prepare_lm_head, begin_lm_head, call_lm_head, fetch_logits};

/* ---- embed, add_features: k rows of the table or of features, m wide ---- */

static void prepare_features(struct problem *p)
{
    const struct test_case *c = p->c;
    p->x = make_rows(p, c->k, c->m, FILL_RANDOM);
    p->y = make_rows(p, c->n, c->m, FILL_RANDOM);
    int32_t *token = make_ints(p, c->n, c->k), *feature = make_ints(p, c->n, c->k);
    for (int i = 0; i < c->n; i++) {
        bool visual = random_bits(&p->random) & 1;
        if (visual)
            token[i] = -1;
        else
            feature[i] = -1;
    }
    p->step = (struct step){.n_rows = c->n, .token = token, .feature = feature};
    p->exact = true;
}

static void prepare_embed(struct problem *p)
{
    make_matrix(p, 0, p->c->k, p->c->m, p->c->dtype, p->c->fill);
    prepare_features(p);
    p->flops = 1; /* actually none */
}

static void begin_embed(struct run *r)
{
    const struct problem *p = r->p;
    r->in = run_input(r, ELEMENT_FEATURE, p->x, (size_t)p->c->k * (size_t)p->c->m);
    r->out = run_output(r, ELEMENT_RESIDUAL, (size_t)p->n * (size_t)p->c->m);
}

static struct step token_rows_of(const struct step *all, int first, int n)
{
    struct step part = *all;
    part.n_rows = n;
    part.token += first;
    part.feature += first;
    return part;
}

static void call_embed(struct run *r, int first, int n)
{
    struct step part = token_rows_of(&r->p->step, first, n);
    r->be->ops->compute->embed(r->be, run_at(r, r->out, ELEMENT_RESIDUAL, first, r->p->c->m),
                               r->w[0], r->in, &part);
}

const struct op op_embed = {"embed", prepare_embed, begin_embed, call_embed, run_fetch_residual};

static void begin_add_features(struct run *r)
{
    begin_embed(r);
    r->be->ops->memory->write(r->be, r->out, r->p->y, ELEMENT_RESIDUAL,
                              (size_t)r->p->n * (size_t)r->p->c->m);
}

static void call_add_features(struct run *r, int first, int n)
{
    struct step part = token_rows_of(&r->p->step, first, n);
    r->be->ops->compute->add_features(r->be, run_at(r, r->out, ELEMENT_RESIDUAL, first, r->p->c->m),
                                      r->in, &part, r->p->c->m);
}

const struct op op_add_features = {"add_features", prepare_features, begin_add_features,
                                   call_add_features, run_fetch_residual};

/* ---- rope table: k pairs ---- */

static void prepare_rope(struct problem *p)
{
    make_rope(p, p->c->k, 3);
    p->rows = make_ints(p, 3 * p->c->n, 1 << 18);
    p->out_width = 2 * p->c->k;
    p->exact = true;
}

static void begin_rope(struct run *r)
{
    r->out = run_output(r, ELEMENT_ROPE, (size_t)r->p->n * (size_t)r->p->out_width);
}

static void call_rope(struct run *r, int first, int n)
{
    r->be->ops->compute->rope_table(r->be, run_at(r, r->out, ELEMENT_ROPE, first, r->p->out_width),
                                    &r->p->rope, r->p->rows + 3 * (size_t)first, n);
}

const struct op op_rope = {"rope_table", prepare_rope, begin_rope, call_rope, run_fetch_rope};
