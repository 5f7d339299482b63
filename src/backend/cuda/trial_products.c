/* SPDX-License-Identifier: Apache-2.0 */
/* Products and the embedding on trial: every gemv and tile, each kind of result, packed matrices of
 * each dtype. */
#include <math.h>
#include <string.h>

#include "backend/activations.h"
#include "backend/convert.h"
#include "backend/cuda/gemm_e4m3_shape.h"
#include "backend/cuda/gemv1_shape.h"
#include "backend/cuda/gemv_shape.h"
#include "backend/cuda/plain_shape.h"
#include "backend/cuda/rows_shape.h"
#include "backend/cuda/trial.h"

static float e4m3_float(uint8_t code)
{
    float f;
    weight_floats(&f, &code, DTYPE_F8_E4M3, 1);
    return f;
}

enum { ROWS = 272, COLS = 320, TOKENS = 160, FEW = 29, MATRICES = 2 };
enum { OF_FP8, OF_BF16, OF_INT8, OF_INT4, DTYPES };

struct products {
    struct dev_matrix packed[DTYPES][MATRICES], plain[OF_INT8];
    float *value[MATRICES]; /* of the dtype that is looked at now */
    double *exact[DTYPES][MATRICES],
        *normed[DTYPES][MATRICES];  /* x · wᵀ [TOKENS, ROWS]; of the normed rows [FEW, ROWS] */
    double *rounded[MATRICES];      /* of FP8: the product of x's rows that are e4m3 */
    float *x, *norm, *bias, *start; /* start: what sums are added to, [TOKENS, ROWS] */
    const bf16 *card_x;
    const uint8_t *card_codes;    /* x as e4m3, */
    const float *card_code_scale; /* [blocks of columns, TOKENS] */
    const float *card_x32, *card_norm, *card_bias;
    int32_t gather[FEW];
    const int32_t *card_gather;
};

static const int kernel_dtypes[DTYPES] = {K_FP8, K_BF16, K_INT8, K_INT4};

static size_t packed_size(int64_t row_bytes)
{
    return (size_t)((ROWS + PACK_ROWS - 1) / PACK_ROWS * packed_chunks(row_bytes)) * PACK_CHUNK;
}

static void *packed_on_card(struct trial *t, const void *row_major, int64_t row_bytes)
{
    struct pack_args a = {
        row_major, trial_card_room(t, packed_size(row_bytes)), 0, ROWS, row_bytes, NULL, 0};
    struct launch l = {"pack", {64, 1, 1}, 256, 0};
    if (a.src && a.dst) cuda_launch(t->c, &l, &a);
    return a.dst;
}

static void make_fp8(struct trial *t, struct products *p, int m)
{
    enum {
        ACROSS = (COLS + SCALE_BLOCK - 1) / SCALE_BLOCK,
        DOWN = (ROWS + SCALE_BLOCK - 1) / SCALE_BLOCK
    };
    uint8_t *code = trial_host_room(t, ROWS * COLS);
    float *scale = trial_random_floats(t, ACROSS * DOWN, 0.005f, 0.015f);
    p->value[m] = trial_host_room(t, ROWS * COLS * sizeof(float));
    for (int i = 0; !t->out_of_memory && i < ROWS * COLS; i++) {
        code[i] = (uint8_t)trial_random_bits(t);
        if ((code[i] & 0x7f) == 0x7f) code[i] ^= 1; /* no NaN */
        p->value[m][i] = e4m3_float(code[i]) *
                         scale[i / COLS / SCALE_BLOCK * ACROSS + i % COLS / SCALE_BLOCK];
    }
    if (t->out_of_memory) return;
    struct dev_matrix plain = {trial_put(t, code, ROWS * COLS),
                               trial_put(t, scale, ACROSS * DOWN * sizeof(float)),
                               ROWS,
                               COLS,
                               K_FP8,
                               0,
                               NULL,
                               0,
                               1};
    p->packed[OF_FP8][m] = plain;
    p->packed[OF_FP8][m].data = packed_on_card(t, plain.data, COLS);
    p->packed[OF_FP8][m].packed = 1;
    if (m == 0) p->plain[OF_FP8] = plain;
}

/* int8 rows are made of the same values, which they stand for nearly enough. */
static void make_bf16(struct trial *t, struct products *p, int m)
{
    p->value[m] = trial_random_floats(t, ROWS * COLS, -1, 1);
    if (t->out_of_memory) return;
    struct dev_matrix plain = {
        trial_put_bf16(t, p->value[m], ROWS * COLS), NULL, ROWS, COLS, K_BF16, 0, NULL, 0, 1};
    p->packed[OF_BF16][m] = plain;
    p->packed[OF_BF16][m].data = packed_on_card(t, plain.data, COLS * 2);
    p->packed[OF_BF16][m].packed = 1;
    if (m == 0) p->plain[OF_BF16] = plain;
    float *scale = trial_card_room(t, ROWS * sizeof(float));
    struct quantize_args a = {plain.data, trial_card_room(t, packed_size(COLS)), scale, 0, ROWS,
                              COLS};
    struct launch l = {"quantize_int8", {64, 1, 1}, 256, 0};
    if (!t->out_of_memory) cuda_launch(t->c, &l, &a);
    p->packed[OF_INT8][m] = (struct dev_matrix){a.dst, scale, ROWS, COLS, K_INT8, 1, NULL, 0, 1};
}

enum { GROUP = 64, GROUPS = COLS / GROUP };

static void make_int4(struct trial *t, struct products *p, int m)
{
    struct weight w = {.dtype = DTYPE_INT4, .rows = ROWS, .cols = COLS, .group = GROUP};
    uint8_t *code = trial_host_room(t, ROWS * COLS / 2);
    uint16_t *scale = trial_host_room(t, ROWS * GROUPS * sizeof(*scale)),
             *words = trial_host_room(t, cuda_multiplier_bytes(&w));
    uint32_t *zero = trial_host_room(t, ROWS / 8 * GROUPS * sizeof(*zero));
    const float *random = trial_random_floats(t, ROWS * GROUPS, 0.05f, 0.15f);
    p->value[m] = trial_host_room(t, ROWS * COLS * sizeof(float));
    if (t->out_of_memory) return;
    for (int i = 0; i < ROWS * COLS / 2; i++)
        code[i] = (uint8_t)trial_random_bits(t);
    for (int i = 0; i < ROWS * GROUPS; i++)
        scale[i] = nearest_bf16(random[i]);
    for (int i = 0; i < ROWS / 8 * GROUPS; i++)
        zero[i] = (uint32_t)trial_random_bits(t);
    w.data = code;
    w.group_scale = scale;
    w.group_zero = zero;
    for (int row = 0; row < ROWS; row++)
        weight_values(p->value[m] + row * COLS, &w, row, 0, COLS);
    const float unit = cuda_make_multipliers(words, &w);
    p->packed[OF_INT4][m] = (struct dev_matrix){
        .data = packed_on_card(t, trial_put(t, code, ROWS * COLS / 2), COLS / 2),
        .rows = ROWS,
        .cols = COLS,
        .dtype = K_INT4,
        .packed = 1,
        .multipliers = trial_put(t, words, cuda_multiplier_bytes(&w)),
        .per = 2 * PACK_BYTES / GROUP,
        .unit = unit};
}

static double *multiplied(struct trial *t, const float *x, const float *w, int n)
{
    double *out = trial_host_room(t, (size_t)n * ROWS * sizeof(double));
    for (int i = 0; out && i < n; i++)
        for (int r = 0; r < ROWS; r++) {
            double sum = 0;
            for (int c = 0; c < COLS; c++)
                sum += (double)x[i * COLS + c] * (double)w[r * COLS + c];
            out[i * ROWS + r] = sum;
        }
    return out;
}

static float *normed_rows(struct trial *t, const float *x, const float *norm, int n)
{
    float *out = trial_host_room(t, (size_t)n * COLS * sizeof(float));
    for (int i = 0; out && i < n; i++) {
        double squares = 0;
        for (int c = 0; c < COLS; c++)
            squares += (double)x[i * COLS + c] * (double)x[i * COLS + c];
        for (int c = 0; c < COLS; c++)
            out[i * COLS + c] = (float)((double)x[i * COLS + c] * (double)norm[c] /
                                        sqrt(squares / COLS + (double)TRIAL_EPS));
    }
    return out;
}

/* Of the FP8 matrices, whose values are at hand. */
static void make_rounded(struct trial *t, struct products *p)
{
    float *x = trial_host_room(t, TOKENS * COLS * sizeof(float));
    if (!x) return;
    memcpy(x, p->x, TOKENS * COLS * sizeof(float));
    for (int i = 0; i < TOKENS; i++)
        round_activations(x + i * COLS, COLS);
    for (int m = 0; m < MATRICES; m++)
        p->rounded[m] = multiplied(t, x, p->value[m], TOKENS);
}

static void make_products(struct trial *t, struct products *p)
{
    p->x = trial_random_floats(t, TOKENS * COLS, -1, 1);
    p->norm = trial_random_floats(t, COLS, 0.5f, 1.5f);
    p->bias = trial_random_floats(t, ROWS, -1, 1);
    p->start = trial_random_floats(t, TOKENS * ROWS, -1, 1);
    if (t->out_of_memory) return;
    p->card_x = trial_put_bf16(t, p->x, TOKENS * COLS);
    p->card_x32 = trial_put(t, p->x, TOKENS * COLS * sizeof(float));
    p->card_norm = trial_put(t, p->norm, COLS * sizeof(float));
    p->card_bias = trial_put(t, p->bias, ROWS * sizeof(float));
    for (int i = 0; i < FEW; i++)
        p->gather[i] = 7 * i % FEW;
    p->card_gather = trial_put(t, p->gather, sizeof(p->gather));
    const float *normed = normed_rows(t, p->x, p->norm, FEW);
    static const int made[] = {OF_FP8, OF_INT4,
                               OF_BF16}; /* the last one's values are those of the embedding */
    for (int i = 0; i < 3; i++) {
        const int d = made[i];
        for (int m = 0; m < MATRICES; m++) {
            if (d == OF_FP8)
                make_fp8(t, p, m);
            else if (d == OF_INT4)
                make_int4(t, p, m);
            else
                make_bf16(t, p, m);
            if (t->out_of_memory) return;
            p->exact[d][m] = multiplied(t, p->x, p->value[m], TOKENS);
            p->normed[d][m] = multiplied(t, normed, p->value[m], FEW);
            if (d == OF_BF16) {
                p->exact[OF_INT8][m] = p->exact[d][m];
                p->normed[OF_INT8][m] = p->normed[d][m];
            }
        }
        if (d == OF_FP8 && trial_begins(t, FAMILY_E4M3)) make_rounded(t, p);
    }
    cuda_check(t->c, t->c->driver.stream_sync(t->c->stream),
               "packing"); /* kernels read weights before those in front of them have ended */
}

/* One product: of packed matrices unless `plain`; of normed rows, gathered, where `normed`. */
struct product_trial {
    int dtype, out, n;
    bool normed, plain;
    bool rounded; /* x is e4m3 */
};

/* Matrices whose results lie beside each other. */
static int results(const struct product_trial *q)
{
    return q->out == OUT_F32 && !q->plain ? MATRICES : 1;
}

static struct linear_args args_of(const struct products *p, const struct product_trial *q, void *y)
{
    bool biased = q->out == OUT_ACT || q->out == OUT_GELU_TANH || q->out == OUT_GELU_ERF;
    struct linear_args a = {.n_segments = q->out == OUT_SILU ? MATRICES : results(q),
                            .n = q->n,
                            .k = COLS,
                            .x = p->card_x,
                            .ldx = COLS,
                            .eps = TRIAL_EPS,
                            .out = q->out};
    for (int i = 0; i < a.n_segments; i++) {
        void *at = q->out == OUT_F32 ? (void *)((float *)y + i * ROWS) : y;
        a.segment[i] = (struct linear_segment){q->plain ? p->plain[q->dtype]
                                                        : p->packed[q->dtype][i],
                                               biased ? p->card_bias : NULL, at, results(q) * ROWS};
    }
    if (q->rounded) a.x = p->card_codes;
    if (q->normed) {
        a.x = p->card_x32;
        a.x_f32 = 1;
        a.norm = p->card_norm;
    }
    if (q->normed && q->out == OUT_F32 && q->n > 1) a.gather = p->card_gather;
    return a;
}

static double gelu_tanh(double z)
{
    return 0.5 * z * (1 + tanh(0.7978845608028654 * (z + 0.044715 * z * z * z)));
}

static double wanted_value(const struct products *p, const struct product_trial *q, int i,
                           int column)
{
    int row = column % ROWS, from = q->normed && q->out == OUT_F32 ? p->gather[i] : i;
    double *const *product = q->rounded  ? p->rounded
                             : q->normed ? p->normed[q->dtype]
                                         : p->exact[q->dtype];
    double z = product[column / ROWS][from * ROWS + row], bias = (double)p->bias[row];
    switch (q->out) {
    case OUT_ACT: return z + bias;
    case OUT_ADD: return z + (double)p->start[i * ROWS + row];
    case OUT_SILU: return z / (1 + exp(-z)) * product[1][from * ROWS + row];
    case OUT_GELU_TANH: return gelu_tanh(z + bias);
    case OUT_GELU_ERF: return 0.5 * (z + bias) * (1 + erf((z + bias) * 0.7071067811865476));
    default: return z;
    }
}

static bool is_f32(int out)
{
    return out == OUT_F32 || out == OUT_ADD;
}

/* Most kernels take but the first of the arguments, the product. */
typedef struct launch shape_fn(struct trial *t, struct e4m3_args *a, int kind);

/* Launches as `shape` says and judges; a shape without a kernel (the family does not take this) is
 * passed over. */
static void try_product(struct trial *t, int family, const struct products *p,
                        const struct product_trial *q, shape_fn *shape, int kind)
{
    size_t mark = t->used, width = (size_t)(results(q) * ROWS), n = (size_t)q->n * width;
    void *y = q->out == OUT_ADD ? trial_put(t, p->start, n * sizeof(float))
                                : trial_card_room(t, n * sizeof(float));
    double *want = trial_host_room(t, n * sizeof(double));
    if (t->out_of_memory) return;
    struct e4m3_args a = {args_of(p, q, y), p->card_code_scale, TOKENS};
    struct launch l = shape(t, &a, kind);
    if (l.kernel) {
        cuda_launch(t->c, &l, &a);
        for (size_t i = 0; i < n; i++)
            want[i] = wanted_value(p, q, (int)(i / width), (int)(i % width));
        trial_judge(t, family,
                    is_f32(q->out) ? trial_get(t, y, n * sizeof(float)) : trial_get_bf16(t, y, n),
                    want, n);
    }
    t->used = mark;
}

static struct launch plain_launch(struct trial *t, struct e4m3_args *a, int kind)
{
    (void)t;
    (void)kind;
    return plain_shape(&a->product);
}

static struct launch few_launch(struct trial *t, struct e4m3_args *a, int kind)
{
    (void)kind;
    return gemv_shape(&a->product, t->c->sm_count, t->c->sm_shared);
}

static struct launch one_launch(struct trial *t, struct e4m3_args *a, int kind)
{
    (void)t;
    (void)kind;
    return gemv1_launch(&a->product);
}

static struct launch tile_launch(struct trial *t, struct e4m3_args *a, int kind)
{
    (void)t;
    return gemm_launch_tile(&a->product, (enum gemm_tile_kind)kind);
}

static struct launch e4m3_launch(struct trial *t, struct e4m3_args *a, int kind)
{
    (void)t;
    (void)kind;
    return gemm_e4m3_launch(a);
}

static void try_plain_linear(struct trial *t, const struct products *p)
{
    static const struct product_trial trials[] = {
        {OF_FP8, OUT_F32, FEW, false, true, false},
        {OF_BF16, OUT_F32, 3, false, true, false},
        {OF_FP8, OUT_ADD, 3, false, false, false},
        {OF_BF16, OUT_ACT, 3, false, false, false},
        {OF_INT8, OUT_F32, 3, true, false, false},
        {OF_BF16, OUT_SILU, 3, true, false, false},
        {OF_BF16, OUT_GELU_TANH, 2, false, false, false},
        {OF_BF16, OUT_GELU_ERF, 2, false, false, false},
    };
    for (size_t i = 0; i < sizeof(trials) / sizeof(trials[0]); i++)
        try_product(t, FAMILY_PLAIN_LINEAR, p, &trials[i], plain_launch, 0);
}

/* What products of few rows are of. */
static const struct {
    int out;
    bool normed;
} kinds[] = {{OUT_F32, true}, {OUT_SILU, true}, {OUT_ADD, false}};

static void try_gemv1(struct trial *t, const struct products *p)
{
    static const int dtypes[] = {OF_FP8, OF_INT4};
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
        for (size_t d = 0; d < sizeof(dtypes) / sizeof(dtypes[0]); d++) {
            const struct product_trial q = {dtypes[d],       kinds[k].out, 1,
                                            kinds[k].normed, false,        false};
            try_product(t, FAMILY_GEMV1, p, &q, one_launch, 0);
        }
}

static void try_gemv(struct trial *t, const struct products *p, int dtype)
{
    static const int counts[] = {1, 5, 13, FEW};
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
        for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
            const struct product_trial q = {dtype,           kinds[k].out, counts[i],
                                            kinds[k].normed, false,        false};
            try_product(t, cuda_family_of_gemv(kernel_dtypes[dtype]), p, &q, few_launch, 0);
        }
}

static void try_gemm(struct trial *t, const struct products *p, int dtype, enum gemm_tile_kind kind)
{
    static const int outs[] = {OUT_ACT, OUT_F32, OUT_ADD, OUT_SILU, OUT_GELU_TANH, OUT_GELU_ERF};
    for (size_t i = 0; i < sizeof(outs) / sizeof(outs[0]); i++) {
        const struct product_trial q = {dtype, outs[i], outs[i] == OUT_SILU ? TOKENS : 50, false,
                                        false, false}; /* results differ in a tile's end alone */
        try_product(t, cuda_family_of_gemm(kernel_dtypes[dtype], kind), p, &q, tile_launch,
                    (int)kind);
    }
}

/* The kernel that makes x e4m3 is tried with it: what it does wrong shows in the products. */
static void try_e4m3(struct trial *t, struct products *p)
{
    static const int outs[] = {OUT_ACT, OUT_F32, OUT_ADD, OUT_SILU};
    float *scale = trial_card_room(t,
                                   (COLS + SCALE_BLOCK - 1) / SCALE_BLOCK * TOKENS * sizeof(float));
    struct quantize_rows_args a = {
        p->card_x, trial_card_room(t, TOKENS * COLS), scale, TOKENS, COLS, TOKENS};
    struct launch l = quantize_rows_launch(&a);
    if (t->out_of_memory) return;
    cuda_launch(t->c, &l, &a);
    p->card_codes = a.y;
    p->card_code_scale = scale;
    for (size_t i = 0; i < sizeof(outs) / sizeof(outs[0]); i++) {
        const struct product_trial q = {OF_FP8, outs[i], outs[i] == OUT_SILU ? TOKENS : 50,
                                        false,  false,   true};
        try_product(t, FAMILY_E4M3, p, &q, e4m3_launch, 0);
    }
}

/* Rows 16 .. of the four-bit matrix as BF16 beside x: through plain_linear, which reads packed
 * BF16. */
static void try_unpack(struct trial *t, const struct products *p)
{
    enum { FIRST = PACK_ROWS, LEFT = ROWS - FIRST, N = 3 };
    struct unpack_args u = {p->packed[OF_INT4][0], trial_card_room(t, packed_size(COLS * 2)), FIRST,
                            LEFT};
    struct launch l = {"unpack_int4", {16, 1, 1}, 256, 0};
    float *y = trial_card_room(t, N * LEFT * sizeof(float));
    double *want = trial_host_room(t, N * LEFT * sizeof(double));
    if (t->out_of_memory) return;
    cuda_launch(t->c, &l, &u);
    cuda_check(t->c, t->c->driver.stream_sync(t->c->stream), "unpacking");
    struct linear_args a = {
        .n_segments = 1, .n = N, .k = COLS, .x = p->card_x, .ldx = COLS, .out = OUT_F32};
    a.segment[0] = (struct linear_segment){
        {.data = u.dst, .rows = LEFT, .cols = COLS, .dtype = K_BF16, .packed = 1}, NULL, y, LEFT};
    l = plain_shape(&a);
    cuda_launch(t->c, &l, &a);
    for (int i = 0; i < N * LEFT; i++)
        want[i] = p->exact[OF_INT4][0][i / LEFT * ROWS + FIRST + i % LEFT];
    trial_judge(t, FAMILY_UNPACK, trial_get(t, y, N * LEFT * sizeof(float)), want, N * LEFT);
}

/* ---- the embedding ---- */

enum { EMBEDDED = 5 };

/* Of the packed BF16 matrix, whose values are those of the last one that was made, and of features:
 * x's rows. */
static void try_embed(struct trial *t, const struct products *p)
{
    static const int32_t token[EMBEDDED] = {3, -1, ROWS - 1, 0, -1},
                         feature[EMBEDDED] = {-1, 2, -1, -1, 7};
    struct embed_args a = {trial_card_room(t, EMBEDDED * COLS * sizeof(float)),
                           p->packed[OF_BF16][1],
                           NULL,
                           p->card_x,
                           trial_put(t, token, sizeof(token)),
                           trial_put(t, feature, sizeof(feature)),
                           EMBEDDED,
                           COLS};
    struct launch l = embed_launch(&a);
    double *want = trial_host_room(t, EMBEDDED * COLS * sizeof(double));
    if (t->out_of_memory) return;
    cuda_launch(t->c, &l, &a);
    for (int i = 0; i < EMBEDDED * COLS; i++) {
        int row = i / COLS;
        want[i] = (double)(feature[row] >= 0 ? p->x[feature[row] * COLS + i % COLS]
                                             : p->value[1][token[row] * COLS + i % COLS]);
    }
    trial_judge(t, FAMILY_EMBED, trial_get(t, a.x, EMBEDDED * COLS * sizeof(float)), want,
                EMBEDDED * COLS);
}

/* ---- all ---- */

bool trial_of_products(struct trial *t)
{
    struct products *p = trial_host_room(t, sizeof(*p));
    if (p) make_products(t, p);
    if (!p || t->out_of_memory) return true;
    if (trial_begins(t, FAMILY_PLAIN_LINEAR) &&
        (try_plain_linear(t, p), !trial_ends(t, FAMILY_PLAIN_LINEAR)))
        return false;
    if (trial_begins(t, FAMILY_EMBED) && (try_embed(t, p), !trial_ends(t, FAMILY_EMBED)))
        return false;
    if (trial_begins(t, FAMILY_UNPACK) && (try_unpack(t, p), !trial_ends(t, FAMILY_UNPACK)))
        return false;
    if (trial_begins(t, FAMILY_GEMV1) && (try_gemv1(t, p), !trial_ends(t, FAMILY_GEMV1)))
        return false;
    for (int d = 0; d < DTYPES; d++) {
        int family = cuda_family_of_gemv(kernel_dtypes[d]);
        if (trial_begins(t, family) && (try_gemv(t, p, d), !trial_ends(t, family))) return false;
    }
    if (trial_begins(t, FAMILY_E4M3) && (try_e4m3(t, p), !trial_ends(t, FAMILY_E4M3))) return false;
    for (int i = 0; i < 2 * GEMM_TILES; i++)
        if (trial_begins(t, FAMILY_GEMM + i) &&
            (try_gemm(t, p, i / GEMM_TILES, (enum gemm_tile_kind)(i % GEMM_TILES)),
             !trial_ends(t, FAMILY_GEMM + i)))
            return false;
    return true;
}
