/* SPDX-License-Identifier: Apache-2.0 */
/* Self-test of matmuls and the embedding: every GEMV and tile, each epilogue, packed matrices of
 * each dtype. */
#include <math.h>
#include <string.h>

#include "backend/cuda/cuda_backend.h"
#include "backend/fp8_activations.h"
#include "tensor/dequantize.h"
#include "kernels/cuda/loading/repack_weights_launch.h"
#include "kernels/cuda/matmul/gemm_w8a8_launch.h"
#include "kernels/cuda/matmul/gemv_m1_launch.h"
#include "kernels/cuda/matmul/gemv_launch.h"
#include "kernels/cuda/matmul/matmul_fallback_launch.h"
#include "kernels/cuda/rows/norm_rope_embed_launch.h"
#include "backend/cuda/selftest.h"

static float e4m3_float(uint8_t quantized)
{
    float f;
    elements_to_f32(&f, &quantized, DTYPE_F8_E4M3, 1);
    return f;
}

enum { ROWS = 272, COLS = 320, TOKENS = 160, FEW = 29, MATRICES = 2 };
enum { OF_FP8, OF_BF16, OF_INT8, OF_INT4, DTYPES };

struct matmul_selftest {
    struct dev_matrix packed[DTYPES][MATRICES], plain[OF_INT8];
    float *value[MATRICES]; /* of the dtype that is looked at now */
    double *exact[DTYPES][MATRICES],
        *normed[DTYPES][MATRICES];  /* x · wᵀ [TOKENS, ROWS]; of the normed rows [FEW, ROWS] */
    double *rounded[MATRICES];      /* FP8 only: the result of x rounded to e4m3 */
    float *x, *norm, *bias, *start; /* start: what sums are added to, [TOKENS, ROWS] */
    const bf16 *device_x;
    const uint8_t *device_x_fp8;     /* x as e4m3, */
    const float *device_x_fp8_scale; /* [blocks of columns, TOKENS] */
    const float *device_x32, *device_norm, *device_bias;
    int32_t gather[FEW];
    const int32_t *device_gather;
};

static const int kernel_dtypes[DTYPES] = {K_FP8, K_BF16, K_INT8, K_INT4};

static size_t selftest_packed_bytes(int64_t row_bytes)
{
    return (size_t)((ROWS + PACK_ROWS - 1) / PACK_ROWS * packed_chunks(row_bytes)) * PACK_CHUNK;
}

static void *selftest_pack(struct selftest *t, const void *row_major, int64_t row_bytes)
{
    struct repack_args a = {row_major, selftest_gpu_alloc(t, selftest_packed_bytes(row_bytes)),
                            0,         ROWS,
                            row_bytes, NULL,
                            0};
    struct launch l = repack_launch(&a);
    if (a.src && a.dst) cuda_launch(t->c, &l, &a);
    return a.dst;
}

static void selftest_make_fp8(struct selftest *t, struct matmul_selftest *p, int m)
{
    enum {
        ACROSS = (COLS + SCALE_BLOCK - 1) / SCALE_BLOCK,
        DOWN = (ROWS + SCALE_BLOCK - 1) / SCALE_BLOCK
    };
    uint8_t *quantized = selftest_host_alloc(t, ROWS * COLS);
    float *scale = selftest_random_floats(t, ACROSS * DOWN, 0.005f, 0.015f);
    p->value[m] = selftest_host_alloc(t, ROWS * COLS * sizeof(float));
    for (int i = 0; !t->out_of_memory && i < ROWS * COLS; i++) {
        quantized[i] = (uint8_t)selftest_random_bits(t);
        if ((quantized[i] & 0x7f) == 0x7f) quantized[i] ^= 1; /* no NaN */
        p->value[m][i] = e4m3_float(quantized[i]) *
                         scale[i / COLS / SCALE_BLOCK * ACROSS + i % COLS / SCALE_BLOCK];
    }
    if (t->out_of_memory) return;
    struct dev_matrix plain = {selftest_put(t, quantized, ROWS * COLS),
                               selftest_put(t, scale, ACROSS * DOWN * sizeof(float)),
                               ROWS,
                               COLS,
                               K_FP8,
                               0,
                               NULL,
                               0,
                               1};
    p->packed[OF_FP8][m] = plain;
    p->packed[OF_FP8][m].data = selftest_pack(t, plain.data, COLS);
    p->packed[OF_FP8][m].packed = 1;
    if (m == 0) p->plain[OF_FP8] = plain;
}

/* int8 rows are made of the same values, which they stand for nearly enough. */
static void selftest_make_bf16(struct selftest *t, struct matmul_selftest *p, int m)
{
    p->value[m] = selftest_random_floats(t, ROWS * COLS, -1, 1);
    if (t->out_of_memory) return;
    struct dev_matrix plain = {
        selftest_put_bf16(t, p->value[m], ROWS * COLS), NULL, ROWS, COLS, K_BF16, 0, NULL, 0, 1};
    p->packed[OF_BF16][m] = plain;
    p->packed[OF_BF16][m].data = selftest_pack(t, plain.data, COLS * 2);
    p->packed[OF_BF16][m].packed = 1;
    if (m == 0) p->plain[OF_BF16] = plain;
    float *scale = selftest_gpu_alloc(t, ROWS * sizeof(float));
    struct quantize_int8_args a = {
        plain.data, selftest_gpu_alloc(t, selftest_packed_bytes(COLS)), scale, 0, ROWS, COLS};
    struct launch l = quantize_int8_launch(&a);
    if (!t->out_of_memory) cuda_launch(t->c, &l, &a);
    p->packed[OF_INT8][m] = (struct dev_matrix){a.dst, scale, ROWS, COLS, K_INT8, 1, NULL, 0, 1};
}

enum { GROUP = 64, GROUPS = COLS / GROUP };

static void selftest_make_int4(struct selftest *t, struct matmul_selftest *p, int m)
{
    struct tensor w = {.dtype = DTYPE_INT4, .rows = ROWS, .cols = COLS, .group_size = GROUP};
    uint8_t *quantized = selftest_host_alloc(t, ROWS * COLS / 2);
    uint16_t *scale = selftest_host_alloc(t, ROWS * GROUPS * sizeof(*scale)),
             *group_scales = selftest_host_alloc(t, cuda_group_scale_bytes(&w));
    uint32_t *zero = selftest_host_alloc(t, ROWS / 8 * GROUPS * sizeof(*zero));
    const float *random = selftest_random_floats(t, ROWS * GROUPS, 0.05f, 0.15f);
    p->value[m] = selftest_host_alloc(t, ROWS * COLS * sizeof(float));
    if (t->out_of_memory) return;
    for (int i = 0; i < ROWS * COLS / 2; i++)
        quantized[i] = (uint8_t)selftest_random_bits(t);
    for (int i = 0; i < ROWS * GROUPS; i++)
        scale[i] = f32_to_bf16(random[i]);
    for (int i = 0; i < ROWS / 8 * GROUPS; i++)
        zero[i] = (uint32_t)selftest_random_bits(t);
    w.data = quantized;
    w.group_scale = scale;
    w.group_zero = zero;
    for (int row = 0; row < ROWS; row++)
        dequantize_columns(p->value[m] + row * COLS, &w, row, 0, COLS);
    const float global_scale = cuda_make_group_scales(group_scales, &w);
    p->packed[OF_INT4][m] = (struct dev_matrix){
        .data = selftest_pack(t, selftest_put(t, quantized, ROWS * COLS / 2), COLS / 2),
        .rows = ROWS,
        .cols = COLS,
        .dtype = K_INT4,
        .packed = 1,
        .group_scales = selftest_put(t, group_scales, cuda_group_scale_bytes(&w)),
        .groups_per_128 = 2 * PACK_BYTES / GROUP,
        .global_scale = global_scale};
}

static double *selftest_host_matmul(struct selftest *t, const float *x, const float *w, int n)
{
    double *out = selftest_host_alloc(t, (size_t)n * ROWS * sizeof(double));
    for (int i = 0; out && i < n; i++)
        for (int r = 0; r < ROWS; r++) {
            double sum = 0;
            for (int c = 0; c < COLS; c++)
                sum += (double)x[i * COLS + c] * (double)w[r * COLS + c];
            out[i * ROWS + r] = sum;
        }
    return out;
}

static float *selftest_norm_rows(struct selftest *t, const float *x, const float *norm, int n)
{
    float *out = selftest_host_alloc(t, (size_t)n * COLS * sizeof(float));
    for (int i = 0; out && i < n; i++) {
        double squares = 0;
        for (int c = 0; c < COLS; c++)
            squares += (double)x[i * COLS + c] * (double)x[i * COLS + c];
        for (int c = 0; c < COLS; c++)
            out[i * COLS + c] = (float)((double)x[i * COLS + c] * (double)norm[c] /
                                        sqrt(squares / COLS + (double)SELFTEST_EPS));
    }
    return out;
}

/* Of the FP8 matrices, whose values are at hand. */
static void selftest_make_rounded(struct selftest *t, struct matmul_selftest *p)
{
    float *x = selftest_host_alloc(t, TOKENS * COLS * sizeof(float));
    if (!x) return;
    memcpy(x, p->x, TOKENS * COLS * sizeof(float));
    for (int i = 0; i < TOKENS; i++)
        round_activations(x + i * COLS, COLS);
    for (int m = 0; m < MATRICES; m++)
        p->rounded[m] = selftest_host_matmul(t, x, p->value[m], TOKENS);
}

static void selftest_make_matmul(struct selftest *t, struct matmul_selftest *p)
{
    p->x = selftest_random_floats(t, TOKENS * COLS, -1, 1);
    p->norm = selftest_random_floats(t, COLS, 0.5f, 1.5f);
    p->bias = selftest_random_floats(t, ROWS, -1, 1);
    p->start = selftest_random_floats(t, TOKENS * ROWS, -1, 1);
    if (t->out_of_memory) return;
    p->device_x = selftest_put_bf16(t, p->x, TOKENS * COLS);
    p->device_x32 = selftest_put(t, p->x, TOKENS * COLS * sizeof(float));
    p->device_norm = selftest_put(t, p->norm, COLS * sizeof(float));
    p->device_bias = selftest_put(t, p->bias, ROWS * sizeof(float));
    for (int i = 0; i < FEW; i++)
        p->gather[i] = 7 * i % FEW;
    p->device_gather = selftest_put(t, p->gather, sizeof(p->gather));
    const float *normed = selftest_norm_rows(t, p->x, p->norm, FEW);
    static const int made[] = {OF_FP8, OF_INT4,
                               OF_BF16}; /* the last one's values are those of the embedding */
    for (int i = 0; i < 3; i++) {
        const int d = made[i];
        for (int m = 0; m < MATRICES; m++) {
            if (d == OF_FP8)
                selftest_make_fp8(t, p, m);
            else if (d == OF_INT4)
                selftest_make_int4(t, p, m);
            else
                selftest_make_bf16(t, p, m);
            if (t->out_of_memory) return;
            p->exact[d][m] = selftest_host_matmul(t, p->x, p->value[m], TOKENS);
            p->normed[d][m] = selftest_host_matmul(t, normed, p->value[m], FEW);
            if (d == OF_BF16) {
                p->exact[OF_INT8][m] = p->exact[d][m];
                p->normed[OF_INT8][m] = p->normed[d][m];
            }
        }
        if (d == OF_FP8 && selftest_begin(t, FAMILY_GEMM_W8A8)) selftest_make_rounded(t, p);
    }
    cuda_check_call(t->c, t->c->driver.stream_sync(t->c->stream),
                    "packing"); /* kernels read weights before those in front of them have ended */
}

/* One matmul: of packed matrices unless `plain`; of normed and gathered rows if `normed`. */
struct matmul_case {
    int dtype, epilogue, n;
    bool normed, plain;
    bool rounded; /* x is e4m3 */
};

/* Matrices whose results lie side by side. */
static int result_matrices(const struct matmul_case *q)
{
    return q->epilogue == EPI_F32 && !q->plain ? MATRICES : 1;
}

static struct matmul_args selftest_matmul_args(const struct matmul_selftest *p,
                                               const struct matmul_case *q, void *y)
{
    bool biased = q->epilogue == EPI_BF16 || q->epilogue == EPI_GELU_TANH ||
                  q->epilogue == EPI_GELU_ERF;
    struct matmul_args a = {.n_segments = q->epilogue == EPI_SILU ? MATRICES : result_matrices(q),
                            .n = q->n,
                            .k = COLS,
                            .x = p->device_x,
                            .ldx = COLS,
                            .eps = SELFTEST_EPS,
                            .epilogue = q->epilogue};
    for (int i = 0; i < a.n_segments; i++) {
        void *at = q->epilogue == EPI_F32 ? (void *)((float *)y + i * ROWS) : y;
        a.segment[i] = (struct matmul_segment){
            q->plain ? p->plain[q->dtype] : p->packed[q->dtype][i], biased ? p->device_bias : NULL,
            at, result_matrices(q) * ROWS};
    }
    if (q->rounded) a.x = p->device_x_fp8;
    if (q->normed) {
        a.x = p->device_x32;
        a.x_f32 = 1;
        a.norm = p->device_norm;
    }
    if (q->normed && q->epilogue == EPI_F32 && q->n > 1) a.gather = p->device_gather;
    return a;
}

static double selftest_gelu_tanh(double z)
{
    return 0.5 * z * (1 + tanh(0.7978845608028654 * (z + 0.044715 * z * z * z)));
}

static double selftest_want(const struct matmul_selftest *p, const struct matmul_case *q, int i,
                            int column)
{
    int row = column % ROWS, from = q->normed && q->epilogue == EPI_F32 ? p->gather[i] : i;
    double *const *product = q->rounded  ? p->rounded
                             : q->normed ? p->normed[q->dtype]
                                         : p->exact[q->dtype];
    double z = product[column / ROWS][from * ROWS + row], bias = (double)p->bias[row];
    switch (q->epilogue) {
    case EPI_BF16: return z + bias;
    case EPI_ADD: return z + (double)p->start[i * ROWS + row];
    case EPI_SILU: return z / (1 + exp(-z)) * product[1][from * ROWS + row];
    case EPI_GELU_TANH: return selftest_gelu_tanh(z + bias);
    case EPI_GELU_ERF: return 0.5 * (z + bias) * (1 + erf((z + bias) * 0.7071067811865476));
    default: return z;
    }
}

static bool epilogue_is_f32(int out)
{
    return out == EPI_F32 || out == EPI_ADD;
}

/* Most kernels take only the first of the arguments, the matmul. */
typedef struct launch launch_fn(struct selftest *t, struct w8a8_args *a, int kind);

/* Launches as `shape` says and judges; without a kernel (it does not take this case) nothing is
 * done. */
static void selftest_case(struct selftest *t, enum gpu_family family,
                          const struct matmul_selftest *p, const struct matmul_case *q,
                          launch_fn *shape, int kind)
{
    size_t mark = t->used, width = (size_t)(result_matrices(q) * ROWS), n = (size_t)q->n * width;
    void *y = q->epilogue == EPI_ADD ? selftest_put(t, p->start, n * sizeof(float))
                                     : selftest_gpu_alloc(t, n * sizeof(float));
    double *want = selftest_host_alloc(t, n * sizeof(double));
    if (t->out_of_memory) return;
    struct w8a8_args a = {selftest_matmul_args(p, q, y), p->device_x_fp8_scale, TOKENS};
    struct launch l = shape(t, &a, kind);
    if (l.kernel) {
        cuda_launch(t->c, &l, &a);
        for (size_t i = 0; i < n; i++)
            want[i] = selftest_want(p, q, (int)(i / width), (int)(i % width));
        selftest_judge(t, family,
                       epilogue_is_f32(q->epilogue) ? selftest_get(t, y, n * sizeof(float))
                                                    : selftest_get_bf16(t, y, n),
                       want, n);
    }
    t->used = mark;
}

static struct launch selftest_fallback_launch(struct selftest *t, struct w8a8_args *a, int kind)
{
    (void)t;
    (void)kind;
    return matmul_fallback_launch(&a->matmul);
}

static struct launch selftest_gemv_launch(struct selftest *t, struct w8a8_args *a, int kind)
{
    (void)kind;
    return gemv_launch(&a->matmul, t->c->sm_count, t->c->sm_shared);
}

static struct launch selftest_gemv_m1_launch(struct selftest *t, struct w8a8_args *a, int kind)
{
    (void)t;
    (void)kind;
    return gemv_m1_launch(&a->matmul);
}

static struct launch selftest_gemm_launch(struct selftest *t, struct w8a8_args *a, int kind)
{
    (void)t;
    return gemm_launch_tile(&a->matmul, (enum gemm_tile_kind)kind);
}

static struct launch selftest_w8a8_launch(struct selftest *t, struct w8a8_args *a, int kind)
{
    (void)t;
    (void)kind;
    return gemm_w8a8_launch(a);
}

static void selftest_matmul_fallback(struct selftest *t, const struct matmul_selftest *p)
{
    static const struct matmul_case cases[] = {
        {OF_FP8, EPI_F32, FEW, false, true, false},
        {OF_BF16, EPI_F32, 3, false, true, false},
        {OF_FP8, EPI_ADD, 3, false, false, false},
        {OF_BF16, EPI_BF16, 3, false, false, false},
        {OF_INT8, EPI_F32, 3, true, false, false},
        {OF_BF16, EPI_SILU, 3, true, false, false},
        {OF_BF16, EPI_GELU_TANH, 2, false, false, false},
        {OF_BF16, EPI_GELU_ERF, 2, false, false, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        selftest_case(t, FAMILY_MATMUL_FALLBACK, p, &cases[i], selftest_fallback_launch, 0);
}

/* The epilogues of GEMVs. */
static const struct {
    int out;
    bool normed;
} kinds[] = {{EPI_F32, true}, {EPI_SILU, true}, {EPI_ADD, false}};

static void selftest_gemv_m1(struct selftest *t, const struct matmul_selftest *p)
{
    static const int dtypes[] = {OF_FP8, OF_INT4};
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
        for (size_t d = 0; d < sizeof(dtypes) / sizeof(dtypes[0]); d++) {
            const struct matmul_case q = {dtypes[d],       kinds[k].out, 1,
                                          kinds[k].normed, false,        false};
            selftest_case(t, FAMILY_GEMV_M1, p, &q, selftest_gemv_m1_launch, 0);
        }
}

static void selftest_gemv(struct selftest *t, const struct matmul_selftest *p, int dtype)
{
    static const int counts[] = {1, 5, 13, FEW};
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
        for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
            const struct matmul_case q = {dtype,           kinds[k].out, counts[i],
                                          kinds[k].normed, false,        false};
            selftest_case(t, cuda_gemv_family(kernel_dtypes[dtype]), p, &q, selftest_gemv_launch,
                          0);
        }
}

static void selftest_gemm(struct selftest *t, const struct matmul_selftest *p, int dtype,
                          enum gemm_tile_kind kind)
{
    static const int outs[] = {EPI_BF16, EPI_F32, EPI_ADD, EPI_SILU, EPI_GELU_TANH, EPI_GELU_ERF};
    for (size_t i = 0; i < sizeof(outs) / sizeof(outs[0]); i++) {
        const struct matmul_case q = {dtype, outs[i], outs[i] == EPI_SILU ? TOKENS : 50, false,
                                      false, false}; /* results differ in a tile's end alone */
        selftest_case(t, cuda_gemm_family(kernel_dtypes[dtype], kind), p, &q, selftest_gemm_launch,
                      (int)kind);
    }
}

/* This also tests the kernel that makes x e4m3: its errors show in the results. */
static void selftest_w8a8(struct selftest *t, struct matmul_selftest *p)
{
    static const int outs[] = {EPI_BF16, EPI_F32, EPI_ADD, EPI_SILU};
    float *scale = selftest_gpu_alloc(t, (COLS + SCALE_BLOCK - 1) / SCALE_BLOCK * TOKENS *
                                             sizeof(float));
    struct quantize_rows_args a = {
        p->device_x, selftest_gpu_alloc(t, TOKENS * COLS), scale, TOKENS, COLS, TOKENS};
    struct launch l = quantize_rows_launch(&a);
    if (t->out_of_memory) return;
    cuda_launch(t->c, &l, &a);
    p->device_x_fp8 = a.y;
    p->device_x_fp8_scale = scale;
    for (size_t i = 0; i < sizeof(outs) / sizeof(outs[0]); i++) {
        const struct matmul_case q = {OF_FP8, outs[i], outs[i] == EPI_SILU ? TOKENS : 50,
                                      false,  false,   true};
        selftest_case(t, FAMILY_GEMM_W8A8, p, &q, selftest_w8a8_launch, 0);
    }
}

/* Rows 16 .. of the int4 matrix unpacked to BF16, through matmul_fallback, which reads packed
 * BF16. */
static void selftest_unpack_int4(struct selftest *t, const struct matmul_selftest *p)
{
    enum { FIRST = PACK_ROWS, LEFT = ROWS - FIRST, N = 3 };
    struct unpack_args u = {p->packed[OF_INT4][0],
                            selftest_gpu_alloc(t, selftest_packed_bytes(COLS * 2)), FIRST, LEFT};
    struct launch l = unpack_int4_launch(&u);
    float *y = selftest_gpu_alloc(t, N * LEFT * sizeof(float));
    double *want = selftest_host_alloc(t, N * LEFT * sizeof(double));
    if (t->out_of_memory) return;
    cuda_launch(t->c, &l, &u);
    cuda_check_call(t->c, t->c->driver.stream_sync(t->c->stream), "unpacking");
    struct matmul_args a = {
        .n_segments = 1, .n = N, .k = COLS, .x = p->device_x, .ldx = COLS, .epilogue = EPI_F32};
    a.segment[0] = (struct matmul_segment){
        {.data = u.dst, .rows = LEFT, .cols = COLS, .dtype = K_BF16, .packed = 1}, NULL, y, LEFT};
    l = matmul_fallback_launch(&a);
    cuda_launch(t->c, &l, &a);
    for (int i = 0; i < N * LEFT; i++)
        want[i] = p->exact[OF_INT4][0][i / LEFT * ROWS + FIRST + i % LEFT];
    selftest_judge(t, FAMILY_UNPACK_INT4, selftest_get(t, y, N * LEFT * sizeof(float)), want,
                   N * LEFT);
}

/* ---- the embedding ---- */

enum { EMBEDDED = 5 };

/* Of the packed BF16 matrix, whose values are those of the last one that was made, and of features:
 * x's rows. */
static void selftest_embed(struct selftest *t, const struct matmul_selftest *p)
{
    static const int32_t token[EMBEDDED] = {3, -1, ROWS - 1, 0, -1},
                         feature[EMBEDDED] = {-1, 2, -1, -1, 7};
    struct embed_args a = {selftest_gpu_alloc(t, EMBEDDED * COLS * sizeof(float)),
                           p->packed[OF_BF16][1],
                           NULL,
                           p->device_x,
                           selftest_put(t, token, sizeof(token)),
                           selftest_put(t, feature, sizeof(feature)),
                           EMBEDDED,
                           COLS};
    struct launch l = embed_launch(&a);
    double *want = selftest_host_alloc(t, EMBEDDED * COLS * sizeof(double));
    if (t->out_of_memory) return;
    cuda_launch(t->c, &l, &a);
    for (int i = 0; i < EMBEDDED * COLS; i++) {
        int row = i / COLS;
        want[i] = (double)(feature[row] >= 0 ? p->x[feature[row] * COLS + i % COLS]
                                             : p->value[1][token[row] * COLS + i % COLS]);
    }
    selftest_judge(t, FAMILY_EMBED, selftest_get(t, a.x, EMBEDDED * COLS * sizeof(float)), want,
                   EMBEDDED * COLS);
}

/* ---- all ---- */

bool selftest_matmul(struct selftest *t)
{
    struct matmul_selftest *p = selftest_host_alloc(t, sizeof(*p));
    if (p) selftest_make_matmul(t, p);
    if (!p || t->out_of_memory) return true;
    if (selftest_begin(t, FAMILY_MATMUL_FALLBACK) &&
        (selftest_matmul_fallback(t, p), !selftest_end(t, FAMILY_MATMUL_FALLBACK)))
        return false;
    if (selftest_begin(t, FAMILY_EMBED) && (selftest_embed(t, p), !selftest_end(t, FAMILY_EMBED)))
        return false;
    if (selftest_begin(t, FAMILY_UNPACK_INT4) &&
        (selftest_unpack_int4(t, p), !selftest_end(t, FAMILY_UNPACK_INT4)))
        return false;
    if (selftest_begin(t, FAMILY_GEMV_M1) &&
        (selftest_gemv_m1(t, p), !selftest_end(t, FAMILY_GEMV_M1)))
        return false;
    for (int d = 0; d < DTYPES; d++) {
        enum gpu_family family = cuda_gemv_family(kernel_dtypes[d]);
        if (selftest_begin(t, family) && (selftest_gemv(t, p, d), !selftest_end(t, family)))
            return false;
    }
    if (selftest_begin(t, FAMILY_GEMM_W8A8) &&
        (selftest_w8a8(t, p), !selftest_end(t, FAMILY_GEMM_W8A8)))
        return false;
    for (int i = 0; i < 2 * GEMM_TILES; i++) {
        const enum gpu_family family = (enum gpu_family)(FAMILY_GEMM_FP8_256x128 + i);
        if (selftest_begin(t, family) &&
            (selftest_gemm(t, p, i / GEMM_TILES, (enum gemm_tile_kind)(i % GEMM_TILES)),
             !selftest_end(t, family)))
            return false;
    }
    return true;
}
