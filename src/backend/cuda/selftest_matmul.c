/* SPDX-License-Identifier: Apache-2.0 */
/* Self-test of matmuls through the operations that use them: every GEMV and tile, each kind of
 * result, packed matrices of each dtype. On the reference a row's result does not depend on the
 * others, so the reference computes each operation once, with the most rows. */
#include <string.h>

#include "backend/cuda/selftest.h"

enum matmul_op {
    OP_ADD,
    OP_SILU,
    OP_QKV,
    OP_HEAD,
    OP_VISION_QKV,
    OP_VISION_MLP,
    OP_MERGE,
    MATMUL_OPS
};

enum {
    DIM = 72,
    Q_WIDTH = SELFTEST_HEADS * DIM,
    VISION_WIDTH = SELFTEST_VISION_HEADS * DIM,
    MATMUL_FEW_TOKENS = 48 /* more tokens would change only the partial tile */
};

static const struct text_shape matmul_text = {.hidden = SELFTEST_COLS,
                                              .n_heads = SELFTEST_HEADS,
                                              .n_kv_heads = SELFTEST_KV_HEADS,
                                              .head_dim = DIM,
                                              .mlp = SELFTEST_ROWS,
                                              .vocab_size = SELFTEST_ROWS,
                                              .norm_eps = 1e-6f};
static const struct vision_shape matmul_vision = {.hidden = VISION_WIDTH,
                                                  .n_heads = SELFTEST_VISION_HEADS,
                                                  .head_dim = DIM,
                                                  .mlp = SELFTEST_ROWS,
                                                  .out_hidden = SELFTEST_ROWS,
                                                  .merge = 2,
                                                  .norm_eps = 1e-6f};

struct matmul_case {
    enum matmul_op op;
    enum selftest_dtype dtype;
    int n;
    bool prompt; /* rows are quantized with limits.fp8_prompts */
};

/* The reference's result of each operation; NULL if not computed yet. */
struct matmul_selftest {
    float *want[MATMUL_OPS][SELFTEST_DTYPES][2];
    float *rope; /* quarter turns, which are exact */
    int32_t row_seq[SELFTEST_TOKENS], row_slot[SELFTEST_TOKENS], gather[SELFTEST_FEW];
};

static const int32_t block_table[SELFTEST_BLOCKS] = {2, 0, 1};

static int rows_of_op(enum matmul_op op)
{
    switch (op) {
    case OP_SILU: return SELFTEST_TOKENS;
    case OP_HEAD: return SELFTEST_FEW;
    default: return MATMUL_FEW_TOKENS;
    }
}

static int result_width(enum matmul_op op)
{
    return op == OP_QKV ? 2 * Q_WIDTH : op == OP_VISION_QKV ? 3 * VISION_WIDTH : SELFTEST_ROWS;
}

static int result_rows(const struct matmul_case *q)
{
    return q->op == OP_MERGE ? q->n / 4 : q->n;
}

/* ---- one operation on one side ---- */

static void write_inputs(struct selftest *t, enum selftest_side side, const struct matmul_case *q,
                         const float *rope)
{
    struct backend *be = t->side[side];
    const struct memory_ops *memory = be->ops->memory;
    const struct selftest_buffers *b = &t->buffers[side];
    size_t n = (size_t)q->n;
    if (q->op == OP_ADD) {
        memory->write(be, b->in, t->in, ELEMENT_ACTIVATION, n * SELFTEST_COLS);
        memory->write(be, b->x, t->start, ELEMENT_RESIDUAL, n * SELFTEST_ROWS);
        return;
    }
    memory->write(be, b->x, t->x, ELEMENT_RESIDUAL,
                  (q->op == OP_HEAD ? SELFTEST_FEW : n) * SELFTEST_COLS);
    memory->write(be, b->rope, rope, ELEMENT_ROPE, n * DIM);
}

/* Computes each row's q, followed by its attention result, which depends on keys and values. */
static void run_qkv(struct selftest *t, enum selftest_side side, const struct matmul_selftest *m,
                    const struct matmul_case *q, float *out)
{
    struct backend *be = t->side[side];
    struct selftest_buffers *b = &t->buffers[side];
    size_t n = (size_t)q->n;
    const struct step_seq seq = {0, q->n, 0, q->prompt ? STAGE_PROMPT : STAGE_DECODE};
    const struct step step = {.n_rows = q->n,
                              .n_seqs = 1,
                              .max_blocks = SELFTEST_BLOCKS,
                              .seq = &seq,
                              .row_seq = m->row_seq,
                              .row_slot = m->row_slot,
                              .block_table = block_table};
    float *results = selftest_alloc(t, 2 * n * Q_WIDTH * sizeof(float));
    if (!results) return;
    b->kv.shape = (struct kv_shape){1, SELFTEST_KV_HEADS, DIM, SELFTEST_BLOCKS, false};
    if (side == ON_GPU) selftest_spoil(t, b->kv.data, cuda_kv_bytes(be, &b->kv.shape));
    be->ops->compute->qkv(be, b->q, &b->kv, 0, b->x, &t->model[side].text[q->dtype].attention,
                          &matmul_text, b->rope, &step);
    be->ops->compute->attention(be, b->out, b->q, &b->kv, 0, &matmul_text, &step);
    selftest_finish(t, side);
    be->ops->memory->read(be, results, b->q, ELEMENT_ACTIVATION, n * Q_WIDTH);
    be->ops->memory->read(be, results + n * Q_WIDTH, b->out, ELEMENT_ACTIVATION, n * Q_WIDTH);
    for (size_t i = 0; i < 2 * n; i++)
        memcpy(out + (i % n * 2 + i / n) * Q_WIDTH, results + i * Q_WIDTH, Q_WIDTH * sizeof(float));
}

static void run_head(struct selftest *t, enum selftest_side side, const struct matmul_selftest *m,
                     const struct placed *head, int n, float *out)
{
    struct backend *be = t->side[side];
    const struct selftest_buffers *b = &t->buffers[side];
    const struct placed *norm = t->model[side].text[OF_BF16].attention.input_norm;
    const int max_logits = t->c->limits.max_logits;
    t->c->limits.max_logits = 0; /* no top-k logits, which are tested separately */
    be->ops->compute->lm_head(be, b->logits, b->x, m->gather, n, norm, head, &matmul_text);
    t->c->limits.max_logits = max_logits;
    selftest_finish(t, side);
    be->ops->memory->read_logits(be, out, b->logits, (size_t)n * SELFTEST_ROWS);
}

static void run_vision_op(struct selftest *t, enum selftest_side side, const struct matmul_case *q)
{
    struct backend *be = t->side[side];
    const struct selftest_buffers *b = &t->buffers[side];
    const struct vision_block *block = &t->model[side].vision[q->dtype];
    if (q->op == OP_VISION_QKV)
        be->ops->compute->vision_qkv(be, b->out, b->x, block, &matmul_vision, b->rope, 0, q->n);
    else if (q->op == OP_VISION_MLP)
        be->ops->compute->vision_mlp(be, b->out, b->x, block, &matmul_vision, q->n);
    else
        be->ops->compute->merge(be, b->out, b->x, &t->model[side].merger[q->dtype], &matmul_vision,
                                q->n / 4);
}

static float *run_matmul(struct selftest *t, enum selftest_side side,
                         const struct matmul_selftest *m, const struct matmul_case *q)
{
    struct backend *be = t->side[side];
    const struct selftest_buffers *b = &t->buffers[side];
    const struct selftest_model *model = &t->model[side];
    size_t results = (size_t)result_rows(q) * (size_t)result_width(q->op);
    float *out = selftest_alloc(t, results * sizeof(float));
    if (!out) return NULL;
    write_inputs(t, side, q, m->rope);
    if (q->op == OP_QKV) {
        run_qkv(t, side, m, q, out);
    } else if (q->op == OP_HEAD) {
        run_head(t, side, m, model->head[q->dtype], q->n, out);
    } else if (q->op == OP_ADD) {
        be->ops->compute->project_add(be, b->x, b->in, model->text[q->dtype].mlp.down, q->n,
                                      q->prompt ? q->n : 0);
        selftest_finish(t, side);
        be->ops->memory->read(be, out, b->x, ELEMENT_RESIDUAL, results);
    } else {
        if (q->op == OP_SILU)
            be->ops->compute->gate_up(be, b->out, b->x, &model->text[q->dtype].mlp, &matmul_text,
                                      q->n, q->prompt ? q->n : 0);
        else
            run_vision_op(t, side, q);
        selftest_finish(t, side);
        be->ops->memory->read(be, out, b->out, ELEMENT_ACTIVATION, results);
    }
    return out;
}

/* ---- both sides ---- */

static const float *wanted_result(struct selftest *t, struct matmul_selftest *m,
                                  const struct matmul_case *q)
{
    float **want = &m->want[q->op][q->dtype][q->prompt];
    struct matmul_case most = *q;
    most.n = rows_of_op(q->op);
    if (!*want) *want = run_matmul(t, ON_REFERENCE, m, &most);
    return *want;
}

static void compare_matmul(struct selftest *t, enum gpu_family family, struct matmul_selftest *m,
                           const struct matmul_case *q)
{
    const float *want = wanted_result(t, m, q);
    selftest_spoil_scratch(t);
    const float *got = want ? run_matmul(t, ON_GPU, m, q) : NULL;
    selftest_judge(t, family, got, want, (size_t)result_rows(q) * (size_t)result_width(q->op));
}

/* ---- families ---- */

/* Tests x[n, ROWS] += in[n, cols] · wᵀ with a matrix of fewer columns than the model's. */
static void compare_plain(struct selftest *t, enum gpu_family family, const struct placed *gpu,
                          const struct placed *reference, int n)
{
    const struct placed *w[SELFTEST_SIDES] = {gpu, reference};
    float *result[SELFTEST_SIDES] = {NULL};
    const struct matmul_case inputs = {OP_ADD, OF_BF16, n, false};
    size_t results = (size_t)n * SELFTEST_ROWS;
    for (int side = 0; side < SELFTEST_SIDES; side++) {
        struct backend *be = t->side[side];
        const struct selftest_buffers *b = &t->buffers[side];
        if (!(result[side] = selftest_alloc(t, results * sizeof(float)))) return;
        write_inputs(t, (enum selftest_side)side, &inputs, NULL);
        be->ops->compute->project_add(be, b->x, b->in, w[side], n, 0);
        selftest_finish(t, (enum selftest_side)side);
        be->ops->memory->read(be, result[side], b->x, ELEMENT_RESIDUAL, results);
    }
    selftest_judge(t, family, result[ON_GPU], result[ON_REFERENCE], results);
}

/* Tests only operations that need no other kernel: matmul_fallback applies the norm itself. */
static void compare_fallback(struct selftest *t, struct matmul_selftest *m)
{
    static const struct matmul_case cases[] = {
        {OP_ADD, OF_FP8, 3, false},   {OP_ADD, OF_BF16, 3, false}, {OP_SILU, OF_F32, 3, false},
        {OP_HEAD, OF_INT8, 3, false}, {OP_HEAD, OF_FP8, 3, false}, {OP_HEAD, OF_BF16, 3, false}};
    const struct selftest_model *gpu = &t->model[ON_GPU], *reference = &t->model[ON_REFERENCE];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        compare_matmul(t, FAMILY_MATMUL_FALLBACK, m, &cases[i]);
    compare_plain(t, FAMILY_MATMUL_FALLBACK, gpu->plain_fp8, reference->plain_fp8, SELFTEST_FEW);
    compare_plain(t, FAMILY_MATMUL_FALLBACK, gpu->plain_bf16, reference->plain_bf16, 3);
}

/* Tests q alone: keys and values need attention, which is not tested yet. */
static void compare_append_alone(struct selftest *t, struct matmul_selftest *m)
{
    const struct matmul_case q = {OP_QKV, OF_BF16, 5, false};
    const float *want = wanted_result(t, m, &q);
    selftest_spoil_scratch(t);
    const float *got = want ? run_matmul(t, ON_GPU, m, &q) : NULL;
    for (int i = 0; got && i < q.n; i++)
        selftest_judge(t, FAMILY_KV_APPEND, got + 2 * i * Q_WIDTH, want + 2 * i * Q_WIDTH, Q_WIDTH);
}

static void compare_norm(struct selftest *t, struct matmul_selftest *m)
{
    static const struct matmul_case cases[] = {{OP_VISION_QKV, OF_BF16, 4, false},
                                               {OP_VISION_MLP, OF_BF16, 4, false},
                                               {OP_SILU, OF_BF16, 3, false}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        compare_matmul(t, FAMILY_NORM, m, &cases[i]);
}

static enum selftest_dtype dtype_of_gemv(enum gpu_family family)
{
    return family == FAMILY_GEMV_FP8    ? OF_FP8
           : family == FAMILY_GEMV_BF16 ? OF_BF16
           : family == FAMILY_GEMV_INT8 ? OF_INT8
                                        : OF_INT4;
}

static enum selftest_dtype dtype_of_small(enum gpu_family family)
{
    return family == FAMILY_MATMUL_SMALL_FP8    ? OF_FP8
           : family == FAMILY_MATMUL_SMALL_BF16 ? OF_BF16
           : family == FAMILY_MATMUL_SMALL_INT8 ? OF_INT8
                                                : OF_INT4;
}

/* Tests all operations of a GEMV of n rows; the only int8 matrix is the head. */
static void compare_gemvs(struct selftest *t, enum gpu_family family, struct matmul_selftest *m,
                          enum selftest_dtype dtype, int n)
{
    static const enum matmul_op ops[] = {OP_HEAD, OP_QKV, OP_SILU, OP_ADD};
    for (size_t i = 0; i < (dtype == OF_INT8 ? 1 : sizeof(ops) / sizeof(ops[0])); i++)
        compare_matmul(t, family, m, &(struct matmul_case){ops[i], dtype, n, false});
}

/* Tests the kernels of one row, which take no head, because a head gathers rows. */
static void compare_gemv_m1(struct selftest *t, struct matmul_selftest *m)
{
    static const enum matmul_op ops[] = {OP_QKV, OP_SILU, OP_ADD};
    static const enum selftest_dtype dtypes[] = {OF_FP8, OF_INT4};
    for (size_t i = 0; i < 6; i++)
        compare_matmul(t, FAMILY_GEMV_M1, m,
                       &(struct matmul_case){ops[i % 3], dtypes[i / 3], 1, false});
}

/* Tests each of the family's kernels; the only int8 matrix is the head. */
static void compare_small(struct selftest *t, enum gpu_family family, struct matmul_selftest *m,
                          enum selftest_dtype dtype)
{
    static const enum matmul_op ops[] = {OP_HEAD, OP_QKV, OP_SILU, OP_ADD};
    static const int counts[] = {13, SELFTEST_FEW, MATMUL_FEW_TOKENS};
    for (size_t n = 0; n < 3; n++)
        for (size_t i = 0; i < (dtype == OF_INT8 ? 1 : sizeof(ops) / sizeof(ops[0])); i++)
            if (counts[n] <= rows_of_op(ops[i]) && (ops[i] != OP_HEAD || dtype != OF_FP8))
                compare_matmul(t, family, m,
                               &(struct matmul_case){ops[i], dtype, counts[n], false});
}

/* The widest kernel gets enough rows in only one operation. */
static void compare_small_sm90(struct selftest *t, struct matmul_selftest *m)
{
    static const enum matmul_op ops[] = {OP_QKV, OP_SILU, OP_ADD};
    static const int counts[] = {5, 13, SELFTEST_FEW, MATMUL_FEW_TOKENS};
    for (size_t i = 0; i < 12; i++)
        compare_matmul(t, FAMILY_MATMUL_SMALL_SM90, m,
                       &(struct matmul_case){ops[i % 3], OF_FP8, counts[i / 3], false});
    compare_matmul(t, FAMILY_MATMUL_SMALL_SM90, m,
                   &(struct matmul_case){OP_SILU, OF_FP8, SMALL_ROWS - 1, false});
}

static void compare_tile(struct selftest *t, enum gpu_family family, struct matmul_selftest *m,
                         enum selftest_dtype dtype)
{
    static const enum matmul_op ops[] = {OP_VISION_QKV, OP_QKV,        OP_ADD,
                                         OP_SILU,       OP_VISION_MLP, OP_MERGE};
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
        compare_matmul(t, family, m,
                       &(struct matmul_case){ops[i], dtype, rows_of_op(ops[i]), false});
}

/* Tests quantized prompt rows; also detects errors of the kernel that quantizes them. */
static void compare_w8a8(struct selftest *t, struct matmul_selftest *m)
{
    static const enum matmul_op ops[] = {OP_QKV, OP_ADD, OP_SILU};
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
        compare_matmul(t, FAMILY_GEMM_W8A8, m,
                       &(struct matmul_case){ops[i], OF_FP8, rows_of_op(ops[i]), true});
}

/* Tests unpacking through matmul_fallback, which reads the unpacked matrix. */
static void compare_unpacked(struct selftest *t, struct matmul_selftest *m)
{
    static const enum matmul_op ops[] = {OP_ADD, OP_QKV, OP_SILU};
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
        compare_matmul(t, FAMILY_UNPACK_INT4, m, &(struct matmul_case){ops[i], OF_INT4, 3, false});
}

/* Tests each GGUF type, and the model's mix of types. `counts`: numbers of rows, ended by 0. */
static void compare_gguf(struct selftest *t, enum gpu_family family, struct matmul_selftest *m,
                         const int *counts)
{
    static const enum matmul_op ops[] = {OP_HEAD, OP_QKV, OP_SILU, OP_ADD};
    for (; *counts; counts++) {
        for (int i = 0; i < SELFTEST_GGUF_TYPES; i++)
            compare_plain(t, family, t->model[ON_GPU].gguf[i], t->model[ON_REFERENCE].gguf[i],
                          *counts);
        for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
            if (*counts <= rows_of_op(ops[i]) &&
                (ops[i] != OP_HEAD || family != FAMILY_UNPACK_GGUF))
                compare_matmul(t, family, m,
                               &(struct matmul_case){ops[i], OF_GGUF, *counts, false});
    }
}

/* Returns row counts, one for each of the family's kernels, ended by 0. */
static const int *gguf_counts(enum gpu_family family)
{
    static const int one[] = {1, 0}, some[] = {13, SELFTEST_FEW, MATMUL_FEW_TOKENS, 0},
                     few[] = {3, 0};
    return family == FAMILY_GEMV_GGUF ? one : family == FAMILY_MATMUL_SMALL_GGUF ? some : few;
}

static void compare_family(struct selftest *t, enum gpu_family family, struct matmul_selftest *m)
{
    static const int counts[] = {1, 5};
    if (family == FAMILY_MATMUL_FALLBACK)
        compare_fallback(t, m);
    else if (family == FAMILY_NORM)
        compare_norm(t, m);
    else if (family == FAMILY_KV_APPEND)
        compare_append_alone(t, m);
    else if (family == FAMILY_ATTENTION_FALLBACK)
        compare_matmul(t, family, m, &(struct matmul_case){OP_QKV, OF_BF16, 5, false});
    else if (family == FAMILY_MERGE_NORM)
        compare_matmul(t, family, m, &(struct matmul_case){OP_MERGE, OF_BF16, 12, false});
    else if (family == FAMILY_UNPACK_INT4)
        compare_unpacked(t, m);
    else if (family == FAMILY_GEMV_GGUF || family == FAMILY_MATMUL_SMALL_GGUF ||
             family == FAMILY_UNPACK_GGUF)
        compare_gguf(t, family, m, gguf_counts(family));
    else if (family == FAMILY_GEMV_M1)
        compare_gemv_m1(t, m);
    else if (family >= FAMILY_MATMUL_SMALL_FP8 && family <= FAMILY_MATMUL_SMALL_INT4)
        compare_small(t, family, m, dtype_of_small(family));
    else if (family == FAMILY_MATMUL_SMALL_SM90)
        compare_small_sm90(t, m);
    else if (family == FAMILY_GEMM_W8A8)
        compare_w8a8(t, m);
    else if (family >= FAMILY_GEMM_FP8_256x128)
        compare_tile(t, family, m, family < FAMILY_GEMM_BF16_256x128 ? OF_FP8 : OF_BF16);
    else
        for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
            compare_gemvs(t, family, m, dtype_of_gemv(family), counts[i]);
}

static struct matmul_selftest *make_matmul_selftest(struct selftest *t)
{
    static const float turn[4][2] = {{1, 0}, {0, 1}, {-1, 0}, {0, -1}};
    struct matmul_selftest *m = selftest_alloc(t, sizeof(*m));
    float *rope = selftest_alloc(t, SELFTEST_TOKENS * DIM * sizeof(float));
    if (!m || !rope) return NULL;
    for (int i = 0; i < SELFTEST_TOKENS * DIM; i++)
        rope[i] = turn[i / 2 % 7 % 4][i % 2];
    for (int i = 0; i < SELFTEST_TOKENS; i++)
        m->row_slot[i] = i;
    for (int i = 0; i < SELFTEST_FEW; i++)
        m->gather[i] = 7 * i % SELFTEST_FEW;
    m->rope = rope;
    return m;
}

/* Tests families in order: each depends only on earlier ones. */
static bool compare_families(struct selftest *t, const enum gpu_family *families, int n)
{
    struct matmul_selftest *m = make_matmul_selftest(t);
    for (int i = 0; m && i < n; i++) {
        if (!selftest_begin(t, families[i])) continue;
        compare_family(t, families[i], m);
        if (!selftest_end(t, families[i])) return false;
    }
    return true;
}

bool selftest_basic_matmuls(struct selftest *t)
{
    static const enum gpu_family families[] = {
        FAMILY_MATMUL_FALLBACK, FAMILY_NORM,        FAMILY_KV_APPEND,  FAMILY_ATTENTION_FALLBACK,
        FAMILY_MERGE_NORM,      FAMILY_UNPACK_INT4, FAMILY_UNPACK_GGUF};
    return compare_families(t, families, 7);
}

bool selftest_fast_matmuls(struct selftest *t)
{
    enum gpu_family families[GPU_FAMILIES] = {
        FAMILY_GEMV_M1,           FAMILY_GEMV_FP8,          FAMILY_GEMV_BF16,
        FAMILY_GEMV_INT8,         FAMILY_GEMV_INT4,         FAMILY_GEMM_W8A8,
        FAMILY_MATMUL_SMALL_FP8,  FAMILY_MATMUL_SMALL_BF16, FAMILY_MATMUL_SMALL_INT8,
        FAMILY_MATMUL_SMALL_INT4, FAMILY_MATMUL_SMALL_SM90, FAMILY_GEMV_GGUF,
        FAMILY_MATMUL_SMALL_GGUF};
    int n = 13;
    for (int family = FAMILY_GEMM_FP8_256x128; family < GPU_FAMILIES; family++)
        families[n++] = (enum gpu_family)family;
    return compare_families(t, families, n);
}
