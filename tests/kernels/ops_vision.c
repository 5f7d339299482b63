/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of the vision encoder. Rows come in merge blocks of four. */
#include "kernels/kernel_tests.h"

enum { MERGE = 2, GROUP = MERGE * MERGE, SIDE = 7 };

static void set_shape(struct problem *p, int hidden)
{
    const struct test_case *c = p->c;
    p->vision = (struct vision_shape){.hidden = hidden,
                                      .n_heads = c->heads,
                                      .head_dim = c->dim,
                                      .mlp = c->m,
                                      .out_hidden = c->m,
                                      .patch = 1,
                                      .temporal = 1,
                                      .merge = MERGE,
                                      .channels = c->k,
                                      .position_side = SIDE,
                                      .norm_eps = 1e-6f};
    p->unit = GROUP;
}

static struct layer_norm norm_of(const struct run *r)
{
    return (struct layer_norm){r->v[0], r->v[1]};
}

static void make_norm(struct problem *p, int64_t width)
{
    make_vector(p, 0, width, 0.5f, 1.5f, vector_dtype(p->c->dtype));
    make_vector(p, 1, width, -0.5f, 0.5f, vector_dtype(p->c->dtype));
}

static void begin_rows(struct run *r, enum element out)
{
    const struct problem *p = r->p;
    r->in = run_input(r, ELEMENT_RESIDUAL, p->x, (size_t)p->n * (size_t)p->c->k);
    r->out = run_output(r, out, (size_t)p->n * (size_t)p->c->m);
}

/* ---- patch_embed: patches of k values, so that any width can be tested; two rows of blocks ----
 */

static void prepare_patch_embed(struct problem *p)
{
    const struct test_case *c = p->c;
    make_matrix(p, 0, c->m, c->k, c->dtype, c->fill);
    make_vector(p, 0, c->m, -2, 2, vector_dtype(c->dtype));
    make_matrix(p, 1, SIDE * SIDE, c->m, vector_dtype(c->dtype), FILL_RANDOM);
    p->x = make_rows(p, c->n, c->k, c->fill);
    set_shape(p, c->m);
    p->grid_rows = c->n % 8 ? 2 : 4;
    p->grid_cols = c->n / p->grid_rows;
    p->slack = 2;
}

static void begin_patch_embed(struct run *r)
{
    r->out = run_output(r, ELEMENT_RESIDUAL, (size_t)r->p->n * (size_t)r->p->c->m);
}

static void call_patch_embed(struct run *r, int first, int n)
{
    const struct problem *p = r->p;
    struct affine w = {r->w[0], r->v[0]};
    r->be->ops->compute->patch_embed(r->be, run_at(r, r->out, ELEMENT_RESIDUAL, first, p->c->m),
                                     p->x + (size_t)first * (size_t)p->c->k, &w, r->w[1],
                                     &p->vision, p->grid_rows, p->grid_cols, first, n);
}

const struct op op_patch_embed = {"patch_embed", prepare_patch_embed, begin_patch_embed,
                                  call_patch_embed, run_fetch_residual};

/* ---- attention: n patches, k = heads · dim. The layout of qkv is the backend's, so both tests run
 * both operations; they differ in which one is cut (and timed) ---- */

static void prepare_vision_qkv_attention(struct problem *p)
{
    const struct test_case *c = p->c;
    make_matrix(p, 0, 3 * c->k, c->k, c->dtype,
                c->fill == FILL_EQUAL_SCORES ? FILL_EXACT : FILL_RANDOM);
    make_norm(p, c->k);
    make_vector(p, 2, 3 * c->k, -0.5f, 0.5f, vector_dtype(c->dtype));
    p->x = make_rows(p, c->n, c->k, c->fill == FILL_EQUAL_SCORES ? FILL_ZERO : c->fill);
    make_rope(p, c->dim / 2, 2);
    p->rows = make_ints(p, 3 * c->n, 40);
    for (int i = 0; c->fill == FILL_EQUAL_SCORES && i < 3 * c->n; i++)
        p->rows[i] = 5;
    set_shape(p, c->k);
    p->out_width = c->k;
    p->limits.max_width = 3 * c->k;
    p->limits.max_keys = c->n;
    p->limits.max_patches = (c->n + KV_BLOCK - 1) / KV_BLOCK * KV_BLOCK;
    p->segment[0] = (struct vision_segment){0, 1, c->n};
    p->n_segments = 1;
    p->attends_image = true;
    /* scores have a standard deviation of up to 50 and errors of as many eps, and so have their
     * weights */
    p->slack = 1000;
}

static void prepare_vision_attention(struct problem *p)
{
    prepare_vision_qkv_attention(p);
    p->flops = 4.0 * p->c->k * p->n * p->n;
    p->bytes = 2.0 * 4 * p->c->k * p->n;
}

static void begin_vision_qkv(struct run *r)
{
    const struct problem *p = r->p;
    size_t n = (size_t)p->n;
    r->in = run_input(r, ELEMENT_RESIDUAL, p->x, n * (size_t)p->c->k);
    r->kv.data = run_output(r, ELEMENT_ACTIVATION,
                            (size_t)p->limits.max_patches * 3 * (size_t)p->c->k);
    r->other = run_output(r, ELEMENT_ROPE, n * (size_t)p->c->dim);
    r->be->ops->compute->rope_table(r->be, r->other, &p->rope, p->rows, p->n);
    r->out = run_output(r, ELEMENT_ACTIVATION, n * (size_t)p->c->k);
}

static void call_vision_qkv(struct run *r, int first, int n)
{
    const struct problem *p = r->p;
    struct vision_block w = {.norm1 = norm_of(r), .qkv = {r->w[0], r->v[2]}};
    r->be->ops->compute->vision_qkv(
        r->be, r->kv.data, run_at(r, r->in, ELEMENT_RESIDUAL, first, p->c->k), &w, &p->vision,
        run_at(r, r->other, ELEMENT_ROPE, first, p->c->dim), first, n);
}

static void call_vision_attention(struct run *r, int first, int n)
{
    const struct problem *p = r->p;
    r->be->ops->compute->vision_attention(
        r->be, run_at(r, r->out, ELEMENT_ACTIVATION, first, p->c->k), r->kv.data, &p->vision,
        p->segment, p->n_segments, first, n);
}

static void fetch_attended(struct run *r, float *out)
{
    call_vision_attention(r, 0, r->p->n);
    run_fetch_activation(r, out);
}

static void begin_vision_attention(struct run *r)
{
    begin_vision_qkv(r);
    call_vision_qkv(r, 0, r->p->n);
}

const struct op op_vision_qkv = {"vision_qkv", prepare_vision_qkv_attention, begin_vision_qkv,
                                 call_vision_qkv, fetch_attended};
const struct op op_vision_attention = {"vision_attend", prepare_vision_attention,
                                       begin_vision_attention, call_vision_attention,
                                       run_fetch_activation};

/* The same with four images: one KV block, two, a few patches, and the rest. */
static void prepare_vision_attention_images(struct problem *p)
{
    prepare_vision_qkv_attention(p);
    p->segment[0] = (struct vision_segment){0, 8, 8};
    p->segment[1] = (struct vision_segment){64, 2, 64};
    p->segment[2] = (struct vision_segment){192, 8, 8};
    p->segment[3] = (struct vision_segment){256, 2, (p->c->n - 256) / 2};
    p->n_segments = 4;
}

const struct op op_vision_attention_images = {
    "vision_attend images", prepare_vision_attention_images, begin_vision_attention,
    call_vision_attention, run_fetch_activation};

/* ---- MLP ---- */

static void prepare_mlp(struct problem *p)
{
    const struct test_case *c = p->c;
    make_matrix(p, 0, c->m, c->k, c->dtype, c->fill);
    make_norm(p, c->k);
    make_vector(p, 2, c->m, -2, 2, vector_dtype(c->dtype));
    p->x = make_rows(p, c->n, c->k, c->fill);
    set_shape(p, c->k);
    p->slack = 4;
}

static void begin_mlp(struct run *r)
{
    begin_rows(r, ELEMENT_ACTIVATION);
}

static void call_mlp(struct run *r, int first, int n)
{
    const struct problem *p = r->p;
    struct vision_block w = {.norm2 = norm_of(r), .fc1 = {r->w[0], r->v[2]}};
    r->be->ops->compute->vision_mlp(r->be, run_at(r, r->out, ELEMENT_ACTIVATION, first, p->c->m),
                                    run_at(r, r->in, ELEMENT_RESIDUAL, first, p->c->k), &w,
                                    &p->vision, n);
}

const struct op op_vision_mlp = {"vision_mlp", prepare_mlp, begin_mlp, call_mlp,
                                 run_fetch_activation};

/* ---- merge: n tokens of four patches, k wide in total ---- */

static void prepare_merge(struct problem *p)
{
    const struct test_case *c = p->c;
    make_matrix(p, 0, c->k, c->k, c->dtype, c->fill);
    make_matrix(p, 1, c->m, c->k, c->dtype, c->fill);
    make_norm(p, c->other ? c->k : c->k / GROUP);
    make_vector(p, 2, c->k, -2, 2, vector_dtype(c->dtype));
    make_vector(p, 3, c->m, -2, 2, vector_dtype(c->dtype));
    p->x = make_rows(p, c->n, c->k, c->fill);
    set_shape(p, c->k / GROUP);
    p->unit = 1;
    p->limits.max_rows = GROUP * c->n;
    p->slack = 8; /* two consecutive matmuls */
}

static void begin_merge(struct run *r)
{
    begin_rows(r, ELEMENT_FEATURE);
}

static void call_merge(struct run *r, int first, int n)
{
    const struct problem *p = r->p;
    struct merger w = {norm_of(r), {r->w[0], r->v[2]}, {r->w[1], r->v[3]}, p->c->other};
    r->be->ops->compute->merge(r->be, run_at(r, r->out, ELEMENT_FEATURE, first, p->c->m),
                               run_at(r, r->in, ELEMENT_RESIDUAL, first, p->c->k), &w, &p->vision,
                               n);
}

const struct op op_merge = {"merge", prepare_merge, begin_merge, call_merge, run_fetch_feature};
