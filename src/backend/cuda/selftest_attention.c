/* SPDX-License-Identifier: Apache-2.0 */
/* Self-test of attention: the text model's over a paged cache filled by kv_append, and the vision
 * encoder's. */
#include <math.h>
#include <string.h>

#include "backend/cuda/selftest.h"

/* ---- of the text model ---- */

enum {
    BODY = 232,
    TEXT_ROWS = BODY + SELFTEST_SEQS
}; /* the last token of each sequence is decoded; the body before it goes through attention() */
static const int sequence_lengths[SELFTEST_SEQS] = {150, 65, 20};

struct text_selftest {
    struct text_shape shape;
    struct kv_shape kv;
    struct step_seq body[SELFTEST_SEQS], last[SELFTEST_SEQS];
    int32_t row_seq[TEXT_ROWS], row_slot[TEXT_ROWS], table[SELFTEST_SEQS * SELFTEST_BLOCKS];
    float *rope;
    struct attention layer[SELFTEST_SIDES];
};

static void lay_out_text_rows(struct text_selftest *x)
{
    int32_t first = 0;
    for (int i = 0; i < SELFTEST_SEQS; i++) {
        const int32_t n = sequence_lengths[i] - 1;
        x->body[i] = (struct step_seq){first, n, 0, STAGE_DECODE};
        x->last[i] = (struct step_seq){i, 1, n, STAGE_DECODE};
        first += n;
    }
    step_index_rows(x->body, SELFTEST_SEQS, x->row_seq, x->row_slot);
    step_index_rows(x->last, SELFTEST_SEQS, x->row_seq + BODY, x->row_slot + BODY);
    for (int i = 0; i < SELFTEST_SEQS * SELFTEST_BLOCKS; i++)
        x->table[i] = (5 * i + 1) % (SELFTEST_SEQS * SELFTEST_BLOCKS);
}

/* Makes rotary angles; `exact` makes them quarter turns. */
static float *make_rope(struct selftest *t, size_t pairs, bool exact)
{
    static const float turn[4][2] = {{1, 0}, {0, 1}, {-1, 0}, {0, -1}};
    const float *angle = selftest_random_floats(t, pairs, -3, 3);
    float *rope = selftest_alloc(t, 2 * pairs * sizeof(float));
    for (size_t i = 0; angle && rope && i < pairs; i++) {
        rope[2 * i] = exact ? turn[i % 7 % 4][0] : cosf(angle[i]);
        rope[2 * i + 1] = exact ? turn[i % 7 % 4][1] : sinf(angle[i]);
    }
    return rope;
}

/* For an FP8 cache, keys are rotated by quarter turns and not normed: e4m3 holds them exactly, as
 * does the reference's float32 cache. */
static struct text_selftest *make_text_selftest(struct selftest *t, int wide, bool fp8)
{
    struct text_selftest *x = selftest_alloc(t, sizeof(*x));
    const int dim = wide ? 128 : 64;
    if (!x) return NULL;
    x->shape = (struct text_shape){.hidden = SELFTEST_NARROW,
                                   .n_heads = SELFTEST_HEADS,
                                   .n_kv_heads = SELFTEST_KV_HEADS,
                                   .head_dim = dim,
                                   .norm_eps = 1e-6f};
    x->kv = (struct kv_shape){1, SELFTEST_KV_HEADS, dim, SELFTEST_SEQS * SELFTEST_BLOCKS, fp8};
    x->rope = make_rope(t, (size_t)(TEXT_ROWS * dim / 2), fp8);
    for (int side = 0; side < SELFTEST_SIDES; side++) {
        x->layer[side] = t->model[side].attention[wide];
        if (fp8) x->layer[side].q_norm = x->layer[side].k_norm = NULL;
    }
    lay_out_text_rows(x);
    return x->rope ? x : NULL;
}

/* Returns the step of the body, or of the last rows. */
static struct step text_step(const struct text_selftest *x, bool last)
{
    return (struct step){.n_rows = last ? SELFTEST_SEQS : BODY,
                         .n_seqs = SELFTEST_SEQS,
                         .max_blocks = SELFTEST_BLOCKS,
                         .seq = last ? x->last : x->body,
                         .row_seq = x->row_seq + (last ? BODY : 0),
                         .row_slot = x->row_slot + (last ? BODY : 0),
                         .block_table = x->table};
}

static float *read_heads(struct selftest *t, enum selftest_side side, const struct text_selftest *x,
                         dev from, int n)
{
    struct backend *be = t->side[side];
    size_t elements = (size_t)(n * text_q_width(&x->shape));
    float *out = selftest_alloc(t, elements * sizeof(float));
    selftest_finish(t, side);
    if (out) be->ops->memory->read(be, out, from, ELEMENT_ACTIVATION, elements);
    return out;
}

static void write_text_rows(struct selftest *t, enum selftest_side side,
                            const struct text_selftest *x, int first, int n)
{
    struct backend *be = t->side[side];
    const struct selftest_buffers *b = &t->buffers[side];
    be->ops->memory->write(be, b->x, t->x + first * SELFTEST_NARROW, ELEMENT_RESIDUAL,
                           (size_t)(n * SELFTEST_NARROW));
    be->ops->memory->write(be, b->rope, x->rope + first * x->shape.head_dim, ELEMENT_ROPE,
                           (size_t)(n * x->shape.head_dim));
}

/* Returns the body's q and puts its keys and values into the cache. */
static float *fill_cache(struct selftest *t, enum selftest_side side, const struct text_selftest *x)
{
    struct backend *be = t->side[side];
    struct selftest_buffers *b = &t->buffers[side];
    const struct step step = text_step(x, false);
    b->kv.shape = x->kv;
    if (side == ON_GPU) selftest_spoil(t, b->kv.data, cuda_kv_bytes(be, &x->kv));
    write_text_rows(t, side, x, 0, BODY);
    be->ops->compute->qkv(be, b->q, &b->kv, 0, b->x, &x->layer[side], &x->shape, b->rope, &step);
    return read_heads(t, side, x, b->q, BODY);
}

static float *attend(struct selftest *t, enum selftest_side side, const struct text_selftest *x)
{
    struct backend *be = t->side[side];
    const struct selftest_buffers *b = &t->buffers[side];
    const struct step step = text_step(x, false);
    be->ops->compute->attention(be, b->out, b->q, &b->kv, 0, &x->shape, &step);
    return read_heads(t, side, x, b->out, BODY);
}

/* Decodes the last rows of the first n sequences; call it after attend(), because q is
 * overwritten. */
static float *decode(struct selftest *t, enum selftest_side side, const struct text_selftest *x,
                     int n)
{
    struct backend *be = t->side[side];
    const struct compute_ops *compute = be->ops->compute;
    struct selftest_buffers *b = &t->buffers[side];
    struct step step = text_step(x, true);
    step.n_rows = step.n_seqs = n;
    write_text_rows(t, side, x, BODY, n);
    if (compute->qkv_attention) {
        compute->qkv_attention(be, b->out, b->q, &b->kv, 0, b->x, &x->layer[side], &x->shape,
                               b->rope, &step);
    } else {
        compute->qkv(be, b->q, &b->kv, 0, b->x, &x->layer[side], &x->shape, b->rope, &step);
        compute->attention(be, b->out, b->q, &b->kv, 0, &x->shape, &step);
    }
    return read_heads(t, side, x, b->out, n);
}

static void compare_attention(struct selftest *t, enum gpu_family family,
                              const struct text_selftest *x, const float *want)
{
    size_t n = (size_t)(BODY * text_q_width(&x->shape));
    selftest_spoil(t, t->buffers[ON_GPU].out, n * sizeof(bf16));
    selftest_judge(t, family, attend(t, ON_GPU, x), want, n);
}

/* Also tests one sequence alone, which has a separate kernel. */
static void compare_decode(struct selftest *t, enum gpu_family family,
                           const struct text_selftest *x, const float *want)
{
    for (int n = 1; n <= SELFTEST_SEQS; n += SELFTEST_SEQS - 1) {
        selftest_spoil_scratch(t);
        selftest_judge(t, family, decode(t, ON_GPU, x, n), want,
                       (size_t)(n * text_q_width(&x->shape)));
    }
}

/* kv_append fills the cache; its q is judged here, its keys and values by attention's results. */
static bool compare_append(struct selftest *t, const struct text_selftest *x, const float *want)
{
    bool judged = selftest_begin(t, FAMILY_KV_APPEND);
    selftest_spoil_scratch(t);
    const float *got = fill_cache(t, ON_GPU, x);
    if (!judged) return true;
    selftest_judge(t, FAMILY_KV_APPEND, got, want, (size_t)(BODY * text_q_width(&x->shape)));
    return selftest_end(t, FAMILY_KV_APPEND);
}

/* Tests one head size and kind of cache. */
static bool compare_text(struct selftest *t, int wide, bool fp8)
{
    const struct kv_layer kv = {NULL, SELFTEST_KV_HEADS, wide ? 128 : 64, fp8};
    const enum gpu_family prompts = cuda_attention_family(&kv),
                          last = cuda_attention_decode_family(&kv);
    const uint64_t all = UINT64_C(1) << FAMILY_KV_APPEND |
                         UINT64_C(1) << FAMILY_ATTENTION_FALLBACK | UINT64_C(1) << prompts |
                         UINT64_C(1) << last;
    const struct text_selftest *x = t->todo & all ? make_text_selftest(t, wide, fp8) : NULL;
    if (!x) return true;
    const float *want_q = fill_cache(t, ON_REFERENCE, x), *want = attend(t, ON_REFERENCE, x),
                *want_last = decode(t, ON_REFERENCE, x, SELFTEST_SEQS);
    if (!compare_append(t, x, want_q)) return false;
    if (selftest_begin(t, FAMILY_ATTENTION_FALLBACK) &&
        (compare_attention(t, FAMILY_ATTENTION_FALLBACK, x, want),
         !selftest_end(t, FAMILY_ATTENTION_FALLBACK)))
        return false;
    if (selftest_begin(t, prompts) &&
        (compare_attention(t, prompts, x, want), !selftest_end(t, prompts)))
        return false;
    return !selftest_begin(t, last) ||
           (compare_decode(t, last, x, want_last), selftest_end(t, last));
}

bool selftest_text_attention(struct selftest *t)
{
    return compare_text(t, 0, false) && compare_text(t, 1, false) && compare_text(t, 0, true) &&
           compare_text(t, 1, true);
}

/* ---- of the vision encoder ---- */

enum { VISION_FIRST = 10, VISION_N = 130, VISION_KEYS = 150 };
static const struct vision_segment vision_segment = {0, 10, VISION_KEYS / 10};

/* Computes q, k and v of all rows, then attention of some. */
static float *run_vision(struct selftest *t, enum selftest_side side,
                         const struct vision_shape *shape, const struct vision_block *block,
                         const float *rope)
{
    struct backend *be = t->side[side];
    const struct selftest_buffers *b = &t->buffers[side];
    size_t n = (size_t)(VISION_N * shape->hidden);
    float *out = selftest_alloc(t, n * sizeof(float));
    if (!out) return NULL;
    be->ops->memory->write(be, b->x, t->x, ELEMENT_RESIDUAL, (size_t)(VISION_KEYS * shape->hidden));
    be->ops->memory->write(be, b->rope, rope, ELEMENT_ROPE,
                           (size_t)(VISION_KEYS * shape->head_dim));
    be->ops->compute->vision_qkv(be, b->q, b->x, block, shape, b->rope, 0, VISION_KEYS);
    be->ops->compute->vision_attention(be, b->out, b->q, shape, &vision_segment, 1, VISION_FIRST,
                                       VISION_N);
    selftest_finish(t, side);
    be->ops->memory->read(be, out, b->out, ELEMENT_ACTIVATION, n);
    return out;
}

/* Tests heads of 64, or of 72, which the kernel for 80 takes. */
static bool compare_vision(struct selftest *t, const enum gpu_family *families, int n_families,
                           int dim)
{
    const struct vision_shape shape = {.hidden = SELFTEST_VISION_HEADS * dim,
                                       .n_heads = SELFTEST_VISION_HEADS,
                                       .head_dim = dim,
                                       .norm_eps = 1e-6f};
    const float *rope = make_rope(t, (size_t)(VISION_KEYS * dim / 2), false), *want = NULL;
    const struct vision_block *block[SELFTEST_SIDES];
    for (int side = 0; side < SELFTEST_SIDES; side++)
        block[side] = dim == 64 ? &t->model[side].narrow_vision : &t->model[side].vision[OF_BF16];
    for (int i = 0; rope && i < n_families; i++) {
        if (!selftest_begin(t, families[i])) continue;
        if (!want) want = run_vision(t, ON_REFERENCE, &shape, block[ON_REFERENCE], rope);
        selftest_spoil_scratch(t);
        selftest_judge(t, families[i], run_vision(t, ON_GPU, &shape, block[ON_GPU], rope), want,
                       (size_t)(VISION_N * shape.hidden));
        if (!selftest_end(t, families[i])) return false;
    }
    return true;
}

bool selftest_vision_attention(struct selftest *t)
{
    static const enum gpu_family wide[] = {FAMILY_ATTENTION_VISION_FALLBACK,
                                           FAMILY_ATTENTION_VISION_80},
                                 narrow[] = {FAMILY_ATTENTION_VISION_64,
                                             FAMILY_ATTENTION_VISION_SM90};
    return compare_vision(t, wide, 2, 72) &&
           compare_vision(t, narrow, t->c->has_vision_sm90 ? 2 : 1, 64);
}
