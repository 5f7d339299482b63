/* SPDX-License-Identifier: Apache-2.0 */
/* Attention of the text model: projections into the KV cache, and attention over it. Several
 * sequences of different lengths share a step, and their blocks are scrambled. qkv() fills the
 * cache, whose layout is the backend's. */
#include <math.h>
#include <string.h>

#include "kernels/kernel_tests.h"

enum { N_SEQS = 6, LAYERS = 2, LAYER = 1, EXACT_HIDDEN = 64 };
static const int lengths[N_SEQS] = {66, 1,  201,
                                    63, 65, 64}; /* last positions: 65, 0, 200, 62, 64, 63 */

static int blocks_of(int length)
{
    return (length + KV_BLOCK - 1) / KV_BLOCK;
}

/* Assigns blocks with a stride of 7, so that no sequence has consecutive ones. */
static int make_block_table(struct problem *p, const int *length, int n_seqs)
{
    int total = 0, next = 0, widest = 0;
    for (int s = 0; s < n_seqs; s++) {
        total += blocks_of(length[s]);
        widest = blocks_of(length[s]) > widest ? blocks_of(length[s]) : widest;
    }
    int pool = total + 1, stride = pool % 7 ? 7 : 5;
    int32_t *table = memory_alloc(&p->memory, (size_t)(n_seqs * widest) * sizeof(*table), 0);
    for (int s = 0; s < n_seqs; s++)
        for (int b = 0; b < widest; b++)
            table[s * widest + b] = b < blocks_of(length[s]) ? (next++ * stride + 3) % pool : -1;
    p->fill.max_blocks = p->step.max_blocks = widest;
    p->sequence_table = table;
    return pool;
}

/* Consecutive rows of one sequence. */
struct piece {
    int seq, first, n;
};

static void set_pieces(struct problem *p, struct step *step, const struct piece *piece, int n)
{
    const size_t blocks = (size_t)step->max_blocks;
    struct step_seq *seq = memory_alloc(&p->memory, (size_t)n * sizeof(*seq), 0);
    int32_t *table = memory_alloc(&p->memory, (size_t)n * blocks * sizeof(*table), 0);
    step->n_rows = 0;
    for (int i = 0; i < n; i++) {
        seq[i] = (struct step_seq){step->n_rows, piece[i].n, piece[i].first, STAGE_DECODE};
        memcpy(table + (size_t)i * blocks, p->sequence_table + (size_t)piece[i].seq * blocks,
               blocks * sizeof(*table));
        step->n_rows += piece[i].n;
    }
    int32_t *row_seq = make_ints(p, step->n_rows, 1), *row_slot = make_ints(p, step->n_rows, 1);
    step_index_rows(seq, n, row_seq, row_slot);
    step->n_seqs = n;
    step->seq = seq;
    step->block_table = table;
    step->row_seq = row_seq;
    step->row_slot = row_slot;
    step->position = make_ints(p, 3 * step->n_rows, 300);
}

/* All rows of all sequences. */
static void fill_everything(struct problem *p, const int *length, int n_seqs)
{
    struct piece all[N_SEQS];
    for (int s = 0; s < n_seqs; s++)
        all[s] = (struct piece){s, 0, length[s]};
    set_pieces(p, &p->fill, all, n_seqs);
}

enum { SLICES = 16, SLICE_ROWS = 4096 };

/* Rows first to first + n - 1 of a step; valid until SLICES more calls. */
static struct step rows_of(const struct step *all, int first, int n)
{
    static struct slice {
        struct step_seq seq[N_SEQS];
        int32_t row_seq[SLICE_ROWS];
    } slices[SLICES];
    static int next;
    struct slice *slice = &slices[next++ % SLICES];
    struct step part = *all;
    const int skipped = all->row_seq[first];
    if (first == 0 && n == all->n_rows) return part;
    part.n_rows = n;
    part.n_seqs = 0;
    for (int i = 0; i < n; i++) {
        const int at = all->row_seq[first + i] - skipped;
        if (at == part.n_seqs)
            slice->seq[part.n_seqs++] = (struct step_seq){i, 0, all->row_slot[first + i],
                                                          STAGE_DECODE};
        slice->seq[at].n_rows++;
        slice->row_seq[i] = at;
    }
    part.seq = slice->seq;
    part.row_seq = slice->row_seq;
    part.row_slot += first;
    part.position += 3 * (size_t)first;
    part.block_table += (size_t)skipped * (size_t)all->max_blocks;
    return part;
}

static void set_shape(struct problem *p, int hidden, float eps)
{
    const struct test_case *c = p->c;
    p->text = (struct text_shape){.hidden = hidden,
                                  .n_layers = LAYERS,
                                  .n_heads = c->heads,
                                  .n_kv_heads = c->kv_heads,
                                  .head_dim = c->dim,
                                  .norm_eps = eps};
    int q = c->heads * c->dim, kv = 2 * c->kv_heads * c->dim;
    p->limits.max_width = hidden > q ? hidden : q;
    if (kv > p->limits.max_width) p->limits.max_width = kv;
    p->limits.max_keys = 1 << 12;
}

/* Has canaries like an output; ref_kv_bytes is a multiple of an element. */
static void begin_cache(struct run *r, int n_blocks)
{
    const struct test_case *c = r->p->c;
    r->kv.shape = (struct kv_shape){
        .n_layers = LAYERS, .n_kv_heads = c->kv_heads, .head_dim = c->dim, .n_blocks = n_blocks};
    r->kv.data = run_output(r, ELEMENT_RESIDUAL,
                            r->be->ops->memory->kv_bytes(r->be, &r->kv.shape) /
                                r->be->ops->memory->element_size[ELEMENT_RESIDUAL]);
}

static void call_qkv_rows(struct run *r, dev q, const struct step *step, dev rope, int first, int n)
{
    const struct problem *p = r->p;
    struct attention w = {.input_norm = r->v[0],
                          .q = r->w[0],
                          .k = r->w[1],
                          .v = r->w[2],
                          .q_norm = r->v[1],
                          .k_norm = r->v[2],
                          .q_bias = r->v[3],
                          .k_bias = r->v[4],
                          .v_bias = r->v[5]};
    struct step part = rows_of(step, first, n);
    r->be->ops->compute->qkv(r->be, run_at(r, q, ELEMENT_ACTIVATION, first, text_q_width(&p->text)),
                             &r->kv, LAYER,
                             run_at(r, r->in, ELEMENT_RESIDUAL, first, p->text.hidden), &w,
                             &p->text, run_at(r, rope, ELEMENT_ROPE, first, p->c->dim), &part);
}

static dev make_rope_table(struct run *r, const struct step *step)
{
    dev table = run_output(r, ELEMENT_ROPE, (size_t)step->n_rows * (size_t)r->p->c->dim);
    r->be->ops->compute->rope_table(r->be, table, &r->p->rope, step->position, step->n_rows);
    return table;
}

/* ---- qkv: n rows of three sequences into an empty cache; the result is q and what attention then
 * reads ---- */

static void prepare_qkv(struct problem *p)
{
    const struct test_case *c = p->c;
    int length[3] = {c->n - c->n / 2, c->n / 2 - c->n / 3, c->n / 3};
    make_matrix(p, 0, c->heads * c->dim, c->k, c->dtype, c->fill);
    make_matrix(p, 1, c->kv_heads * c->dim, c->k, c->dtype, c->fill);
    make_matrix(p, 2, c->kv_heads * c->dim, c->k, c->dtype, c->fill);
    float size = c->other ? 1 / sqrtf((float)c->k) : 1; /* without norms, scores must stay small */
    make_vector(p, 0, c->k, 0.5f * size, 1.5f * size, vector_dtype(c->dtype));
    if (!c->other) {
        make_vector(p, 1, c->dim, 0.5f, 1.5f, DTYPE_BF16);
        make_vector(p, 2, c->dim, 0.5f, 1.5f, DTYPE_BF16);
    }
    p->x = make_rows(p, c->n, c->k, c->fill);
    make_rope(p, c->dim / 2, 3);
    make_block_table(p, length, 3);
    fill_everything(p, length, 3);
    p->step = p->fill;
    set_shape(p, c->k, 1e-6f);
    p->out_width = 2 * c->heads * c->dim;
    p->slack = 8;
    p->needs_f32 = true;
    p->from_cache = (size_t)c->n * (size_t)(c->heads * c->dim);
}

static void begin_qkv(struct run *r)
{
    const struct problem *p = r->p;
    size_t q = (size_t)p->n * (size_t)text_q_width(&p->text);
    r->in = run_input(r, ELEMENT_RESIDUAL, p->x, (size_t)p->n * (size_t)p->c->k);
    r->out = run_output(r, ELEMENT_ACTIVATION, q);
    begin_cache(r, p->n / KV_BLOCK + 4);
    r->other = make_rope_table(r, &p->fill);
}

static void call_qkv(struct run *r, int first, int n)
{
    call_qkv_rows(r, r->out, &r->p->fill, r->other, first, n);
}

static void fetch_qkv(struct run *r, float *out)
{
    const struct problem *p = r->p;
    size_t q = (size_t)p->n * (size_t)text_q_width(&p->text);
    dev o = run_output(r, ELEMENT_ACTIVATION, q);
    r->be->ops->compute->attention(r->be, o, r->out, &r->kv, LAYER, &p->text, &p->step);
    r->be->ops->memory->read(r->be, out, r->out, ELEMENT_ACTIVATION, q);
    r->be->ops->memory->read(r->be, out + q, o, ELEMENT_ACTIVATION, q);
}

const struct op op_qkv = {"qkv", prepare_qkv, begin_qkv, call_qkv, fetch_qkv};

static void prepare_qkv_bias(struct problem *p)
{
    prepare_qkv(p);
    for (int i = 0; i < 3; i++)
        make_vector(p, 3 + i, (i ? p->c->kv_heads : p->c->heads) * p->c->dim, -1, 1,
                    vector_dtype(p->c->dtype));
}

const struct op op_qkv_bias = {"qkv with biases", prepare_qkv_bias, begin_qkv, call_qkv, fetch_qkv};

/* ---- attend ---- */

/* Row t of `fill` has one 8 among 64 elements, the others are 0. With eps 0, its RMSNorm is the row
 * itself, so its key and value are 8 times a column of a matrix, without rounding. The columns are
 * BF16, so the cache is exact. */
static void prepare_columns(struct problem *p)
{
    const struct test_case *c = p->c;
    int n = p->fill.n_rows;
    p->x = make_rows(p, n, EXACT_HIDDEN, FILL_ZERO);
    for (int i = 0; i < n; i++)
        p->x[i * EXACT_HIDDEN + (int)(random_bits(&p->random) % EXACT_HIDDEN)] = 8;
    enum fill fill = c->fill == FILL_HUGE_SCORES ? FILL_EXACT : FILL_RANDOM;
    make_matrix(p, 0, c->heads * c->dim, EXACT_HIDDEN, DTYPE_BF16, fill);
    make_matrix(p, 1, c->kv_heads * c->dim, EXACT_HIDDEN, DTYPE_BF16, fill);
    make_matrix(p, 2, c->kv_heads * c->dim, EXACT_HIDDEN, DTYPE_BF16, fill);
    float *one = memory_alloc(&p->memory, EXACT_HIDDEN * sizeof(float), 0);
    for (int i = 0; i < EXACT_HIDDEN; i++)
        one[i] = 1;
    p->v[0] = (struct tensor){.data = one, .dtype = DTYPE_F32, .rows = 1, .cols = EXACT_HIDDEN};
    make_rope(p, c->dim / 2, 1);
    memset((float *)p->rope.frequency, 0,
           (size_t)p->rope.n_pairs * sizeof(float)); /* no rotation */
}

/* Decode: the last row of each sequence, out of order. Prefill: pieces of four sequences. */
static void choose_rows(struct problem *p)
{
    static const struct piece pieces[] = {
        {4, 60, 5}, {2, 120, 17}, {0, 0, 4}, {2, 190, 11}, {3, 62, 1}};
    struct piece last[N_SEQS];
    for (int i = 0; i < N_SEQS; i++) {
        int seq = (i * 5 + 2) % N_SEQS;
        last[i] = (struct piece){seq, lengths[seq] - 1, 1};
    }
    if (p->c->other)
        set_pieces(p, &p->step, last, N_SEQS);
    else
        set_pieces(p, &p->step, pieces, (int)(sizeof(pieces) / sizeof(pieces[0])));
}

/* For the benchmark: the last n rows of a sequence with k keys. */
static void choose_last_rows(struct problem *p)
{
    const struct piece last = {0, p->c->k - p->c->n, p->c->n};
    set_pieces(p, &p->step, &last, 1);
}

static void scale_queries(struct problem *p)
{
    const struct test_case *c = p->c;
    float factor = c->fill == FILL_EQUAL_SCORES ? 0 : c->fill == FILL_HUGE_SCORES ? 1000 : 0.5f;
    size_t n = (size_t)p->step.n_rows * (size_t)(c->heads * c->dim);
    p->y = make_rows(p, p->step.n_rows, c->heads * c->dim, FILL_RANDOM);
    for (size_t i = 0; i < n; i++)
        p->y[i] *= factor;
}

static void prepare_attention_op(struct problem *p)
{
    const struct test_case *c = p->c;
    const int *length = c->k ? &c->k : lengths;
    int n_seqs = c->k ? 1 : N_SEQS;
    make_block_table(p, length, n_seqs);
    fill_everything(p, length, n_seqs);
    prepare_columns(p);
    if (c->k)
        choose_last_rows(p);
    else
        choose_rows(p);
    scale_queries(p);
    set_shape(p, EXACT_HIDDEN, 0);
    p->n = p->step.n_rows;
    p->limits.max_rows = p->fill.n_rows;
    p->out_width = c->heads * c->dim;
    p->slack = c->fill == FILL_HUGE_SCORES
                   ? 1e7
                   : 100; /* a score s has an error of s·eps, and so has its weight */
    double keys = 0;
    for (int i = 0; i < p->n; i++)
        keys += p->step.row_slot[i] + 1;
    p->flops = 4.0 * c->heads * c->dim * keys;
    p->bytes = 2.0 * 2 * c->kv_heads * c->dim * c->k;
}

static void begin_attention(struct run *r)
{
    const struct problem *p = r->p;
    size_t width = (size_t)p->out_width;
    int blocks = 1, length = p->c->k;
    for (int s = 0; !length && s < N_SEQS; s++)
        blocks += blocks_of(lengths[s]);
    r->in = run_input(r, ELEMENT_RESIDUAL, p->x, (size_t)p->fill.n_rows * EXACT_HIDDEN);
    dev q = run_output(r, ELEMENT_ACTIVATION, (size_t)p->fill.n_rows * width);
    begin_cache(r, blocks + blocks_of(length));
    call_qkv_rows(r, q, &p->fill, make_rope_table(r, &p->fill), 0, p->fill.n_rows);
    r->other = run_input(r, ELEMENT_ACTIVATION, p->y, (size_t)p->n * width);
    r->out = run_output(r, ELEMENT_ACTIVATION, (size_t)p->n * width);
}

static void call_attention(struct run *r, int first, int n)
{
    const struct problem *p = r->p;
    struct step part = rows_of(&p->step, first, n);
    r->be->ops->compute->attention(r->be,
                                   run_at(r, r->out, ELEMENT_ACTIVATION, first, p->out_width),
                                   run_at(r, r->other, ELEMENT_ACTIVATION, first, p->out_width),
                                   &r->kv, LAYER, &p->text, &part);
}

const struct op op_attention = {"attend", prepare_attention_op, begin_attention, call_attention,
                                run_fetch_activation};

/* A row sees its last 37 keys, in one block or two, or all keys. */
static void prepare_attention_window(struct problem *p)
{
    prepare_attention_op(p);
    p->text.window = 37;
}

const struct op op_attention_window = {"attend in a window", prepare_attention_window,
                                       begin_attention, call_attention, run_fetch_activation};
