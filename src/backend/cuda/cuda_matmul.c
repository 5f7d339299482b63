/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the kernel of a matmul:
 *
 *   rows      kernel
 *   1         gemv_m1 for FP8 and int4, gemv_m1_gguf for GGUF types; they norm the input
 *   up to 8   GEMV; it norms the input
 *   2 to 128  matmul_small_sm90 for FP8 on compute capability 9.0
 *   up to 64  matmul_small, matmul_small_gguf
 *   more      GEMM after a norm kernel; int4 is unpacked to BF16, some rows at a time
 *   prompts   gemm_w8a8 for FP8, if prompt rows are quantized
 *   others    matmul_fallback */
#include "backend/cuda/cuda_matmul.h"

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/cuda_kernel_ids.h"
#include "kernels/cuda/loading/repack_weights_launch.h"
#include "kernels/cuda/matmul/gemm_w8a8_launch.h"
#include "kernels/cuda/matmul/gemv_launch.h"
#include "kernels/cuda/matmul/gemv_m1_launch.h"
#include "kernels/cuda/matmul/matmul_fallback_launch.h"
#include "kernels/cuda/matmul/matmul_small_gguf_launch.h"
#include "kernels/cuda/matmul/matmul_small_sm90_launch.h"
#include "kernels/cuda/rows/norm_rope_embed_launch.h"

static struct matmul_args matmul_args_of(struct cuda *c, const struct cuda_matmul_desc *p)
{
    struct matmul_args a = {.n_segments = p->n_segments,
                            .n = p->n,
                            .k = p->k,
                            .x = p->x,
                            .ldx = p->k,
                            .gather = p->gather,
                            .epilogue = (int32_t)p->epilogue,
                            .x_f32 = p->norm != NULL,
                            .norm = cuda_vector(p->norm),
                            .eps = p->eps};
    for (int i = 0; i < p->n_segments; i++) {
        a.segment[i] = (struct matmul_segment){cuda_dev_matrix(c, p->w[i]), cuda_vector(p->bias[i]),
                                               p->y[i], p->ldy ? p->ldy : cuda_rows(p->w[i])};
    }
    return a;
}

/* Whether GEMMs take the matrix only after it is unpacked to BF16. */
static bool needs_unpacking(const struct dev_matrix *w)
{
    return w->dtype == K_INT4 || w->dtype == K_UINT8 || w->dtype == K_FP4 || w->dtype == K_MXFP8 ||
           w->row_scale || (w->packed && kernel_dtype_is_gguf(w->dtype));
}

/* Whether the fast kernels apply: packed matrices of one dtype, and rows aligned to 16 bytes. */
static bool is_fast(const struct matmul_args *a)
{
    for (int i = 0; i < a->n_segments; i++)
        if (!a->segment[i].w.packed || a->segment[i].w.dtype != a->segment[0].w.dtype ||
            a->segment[i].w.groups_per_128 != a->segment[0].w.groups_per_128)
            return false;
    return a->k % 8 == 0;
}

/* Whether FP8 rows have scales of their own, which only GEMV and matmul_small support. */
static bool has_row_scales(const struct matmul_args *a)
{
    for (int i = 0; i < a->n_segments; i++)
        if (a->segment[i].w.row_scale) return true;
    return false;
}

static void launch_norm(struct cuda *c, const struct norm_args *a)
{
    const struct launch l = norm_launch(a);
    cuda_launch(c, &l, a);
}

void cuda_layer_norm(struct cuda *c, void *y, const void *x, const struct layer_norm *norm, int n,
                     float eps)
{
    const struct norm_args a = {.y = y,
                                .x = x,
                                .w = cuda_vector(norm->w),
                                .b = cuda_vector(norm->b),
                                .n = n,
                                .width = cuda_cols(norm->w),
                                .layer = true,
                                .eps = eps};
    launch_norm(c, &a);
}

static bool gemm_takes(const struct matmul_args *a)
{
    return (!a->gather || a->norm) &&
           (a->segment[0].w.dtype == K_FP8 || a->segment[0].w.dtype == K_BF16);
}

/* Whether the matrices are within 4 GiB each, because gemm_wgmma_sm90.cu has offsets of 32 bits. */
static bool gemm_sm90_reaches(const struct matmul_args *a)
{
    for (int i = 0; i < a->n_segments; i++)
        if ((int64_t)a->segment[i].w.rows * a->k * (a->segment[i].w.dtype == K_FP8 ? 1 : 2) >
            (int64_t)UINT32_MAX)
            return false;
    return true;
}

static struct launch working_gemm(const struct cuda *c, const struct matmul_args *a)
{
    struct launch none = {.kernel = GPU_NO_KERNEL};
    bool sm90 = c->has_gemm_sm90 && gemm_sm90_reaches(a);
    enum gemm_tile_kind kind = cuda_working_tile(c, a->segment[0].w.dtype,
                                                 gemm_choose(a, c->sm_count, sm90));
    return kind == GEMM_TILES ? none : gemm_launch_tile(a, kind);
}

static void launch_gemm(struct cuda *c, struct matmul_args *a)
{
    struct launch l = {.kernel = GPU_NO_KERNEL};
    if (is_fast(a) && gemm_takes(a)) l = working_gemm(c, a);
    if (!l.kernel) l = matmul_fallback_launch(a);
    cuda_launch(c, &l, a);
}

/* Unpacks rows first .. first+rows-1 of a segment to BF16 at offset `at` of the scratch. */
static void unpack_segment(struct cuda *c, struct matmul_segment *s, char *at, int first, int rows,
                           bool bf16_out)
{
    struct unpack_args u = {s->w, (uint8_t *)at, first, rows};
    struct launch l = kernel_dtype_is_gguf(s->w.dtype) ? unpack_gguf_launch(&u)
                                                       : unpack_int4_launch(&u);
    cuda_launch(c, &l, &u);
    s->w = (struct dev_matrix){
        .data = at, .rows = rows, .cols = u.w.cols, .dtype = K_BF16, .packed = 1};
    s->y = (char *)s->y + (size_t)first * (bf16_out ? sizeof(bf16) : sizeof(float));
    if (s->bias) s->bias += first;
}

/* Unpacks `tiles` adjacent segments from `segment` on, and multiplies x with them. */
static void matmul_unpacked(struct cuda *c, const struct matmul_args *a, int segment, int tiles)
{
    const bool bf16_out = a->epilogue != EPI_F32 && a->epilogue != EPI_ADD;
    const int64_t row_bytes = packed_chunks((int64_t)a->k * (int64_t)sizeof(bf16)) * PACK_BYTES,
                  room = UNPACK_BYTES / tiles;
    const int most = (int)(room / row_bytes / PACK_ROWS * PACK_ROWS),
              all = a->segment[segment].w.rows;
    for (int first = 0; first < all; first += most) {
        struct matmul_args slice = *a;
        slice.n_segments = tiles;
        for (int i = 0; i < tiles; i++) {
            slice.segment[i] = a->segment[segment + i];
            unpack_segment(c, &slice.segment[i], c->scratch[SCRATCH_UNPACKED] + i * room, first,
                           all - first < most ? all - first : most, bf16_out);
        }
        c->weights_changed = true;
        launch_gemm(c, &slice);
    }
}

static void norm_matmul_input(struct cuda *c, struct matmul_args *a)
{
    if (!a->norm) return;
    const struct norm_args norm = {.y = (bf16 *)(void *)c->scratch[SCRATCH_NORMED],
                                   .x = a->x,
                                   .w = a->norm,
                                   .gather = a->gather,
                                   .n = a->n,
                                   .width = a->k,
                                   .eps = a->eps};
    launch_norm(c, &norm);
    a->x = norm.y;
    a->x_f32 = 0;
    a->norm = NULL;
    a->gather = NULL;
}

/* Few rows with a row-major matrix are faster element by element, because unpacking to BF16 moves
 * more bytes. */
static bool is_faster_unpacked(const struct matmul_args *a)
{
    enum { FEW_ROWS = 2 };
    for (int i = 0; i < a->n_segments; i++)
        if (a->segment[i].w.packed && needs_unpacking(&a->segment[i].w)) return true;
    return a->n > FEW_ROWS;
}

/* Returns whether it did the matmul. */
static bool matmul_int4(struct cuda *c, struct matmul_args *a)
{
    const int together = a->epilogue == EPI_SILU ? a->n_segments : 1;
    bool found = false;
    for (int i = 0; i < a->n_segments; i++)
        found = found || needs_unpacking(&a->segment[i].w);
    if (!found || !is_faster_unpacked(a)) return false;
    norm_matmul_input(c, a);
    for (int i = 0; i < a->n_segments; i += together) {
        if (together > 1 || needs_unpacking(&a->segment[i].w)) {
            matmul_unpacked(c, a, i, together);
            continue;
        }
        struct matmul_args one = *a;
        one.n_segments = 1;
        one.segment[0] = a->segment[i];
        launch_gemm(c, &one);
    }
    return true;
}

/* Whether segments have different dtypes, as q, k and v of a checkpoint may. Such segments are
 * multiplied one by one, except gate and up, which use matmul_fallback. */
static bool is_mixed(const struct matmul_args *a)
{
    for (int i = 1; i < a->n_segments; i++)
        if (a->segment[i].w.dtype != a->segment[0].w.dtype) return a->epilogue != EPI_SILU;
    return false;
}

/* ---- some rows ---- */

static bool uses_small(const struct cuda *c, const struct matmul_args *a)
{
    const int dtype = a->segment[0].w.dtype;
    if (cuda_family_failed(c, cuda_small_family(dtype)) ||
        !(small_takes(a) || small_gguf_takes(a)) || a->n > cuda_few_rows(&c->limits) ||
        a->k > cuda_widest_text_input(&c->limits))
        return false;
    if (kernel_dtype_is_gguf(dtype)) return true; /* no GEMV for these types takes several rows */
    return small_is_faster(a, c->sm_count) || cuda_family_failed(c, cuda_gemv_family(dtype));
}

/* Limits the number of parts to the room for them: the plan counts only the text model's
 * matrices. */
static void limit_parts(const struct cuda *c, struct launch *l, int tokens)
{
    const size_t part = (size_t)l->grid[0] * (size_t)tokens * SMALL_TILE * sizeof(float);
    while (l->grid[1] > 1 && l->grid[1] * part > c->parts_bytes)
        l->grid[1]--;
}

static void matmul_small(struct cuda *c, const struct matmul_args *a)
{
    const bool gguf = kernel_dtype_is_gguf(a->segment[0].w.dtype);
    const int dtype = gguf ? K_INT4 : a->segment[0].w.dtype; /* x has the layout for int4 */
    float *scale = (float *)(void *)c->scratch[SCRATCH_X_SCALE];
    struct arrange_args x = {.y = (bf16 *)(void *)c->scratch[SCRATCH_ARRANGED],
                             .scale = dtype == K_INT8 || dtype == K_INT4 ? scale : NULL,
                             .x = a->x,
                             .norm = a->norm,
                             .gather = a->gather,
                             .eps = a->eps,
                             .n = a->n,
                             .k = a->k,
                             .ldx = a->ldx,
                             .tokens = small_tokens(a->n),
                             .dtype = dtype};
    struct small_matmul_args s = {.matmul = *a,
                                  .x_scale = scale,
                                  .partial = (float *)(void *)c->scratch[SCRATCH_PARTS],
                                  .arrived = (uint32_t *)(void *)c->scratch[SCRATCH_PARTS_ARRIVED]};
    s.matmul.x = x.y;
    struct launch arrange = arrange_launch(&x),
                  matmul = gguf ? small_gguf_launch(&s, c->sm_count, c->sm_shared)
                                : small_launch(&s, c->sm_count, c->sm_shared);
    limit_parts(c, &matmul, x.tokens);
    cuda_launch(c, &arrange, &x);
    cuda_launch(c, &matmul, &s);
}

/* ---- the same on GPUs of compute capability 9.0 ---- */

static bool uses_planes(const struct cuda *c, const struct matmul_args *a)
{
    return c->has_small_sm90 && !cuda_family_failed(c, FAMILY_MATMUL_SMALL_SM90) &&
           planes_take(a) && a->n <= cuda_few_rows(&c->limits) &&
           a->k <= cuda_widest_text_input(&c->limits);
}

/* Returns the arguments with which make_planes converts the matmul's x and adds the sums pending
 * for it. */
static struct planes_args planes_of(struct cuda *c, const struct matmul_args *a)
{
    struct planes_args x = {0};
    if (c->pending.x == a->x && c->pending.n == a->n && c->pending.width == a->k &&
        a->ldx == a->k && !a->gather)
        x = cuda_take_pending(c);
    const int tokens = planes_tile(a->n)->tokens, blocks = (a->k + SCALE_BLOCK - 1) / SCALE_BLOCK;
    x.y = (uint8_t *)c->scratch[SCRATCH_ARRANGED];
    x.squares = (float *)(void *)(c->scratch[SCRATCH_ARRANGED] +
                                  (size_t)blocks * PLANES_X_BYTES((size_t)tokens));
    x.x = (void *)(uintptr_t)a->x;
    x.norm = a->norm;
    x.gather = a->gather;
    x.x_f32 = a->x_f32;
    x.n = a->n;
    x.k = a->k;
    x.ldx = a->ldx;
    x.tokens = tokens;
    return x;
}

/* Whether the sums may stay pending for the kernel that reads x next. */
static bool keeps_parts(const struct matmul_args *a, const struct launch *l)
{
    const struct matmul_segment *s = &a->segment[0];
    return a->epilogue == EPI_ADD && a->n_segments == 1 && !s->bias && s->ldy == s->w.rows &&
           s->w.rows % 4 == 0 && l->grid[1] > 1;
}

static void matmul_planes(struct cuda *c, const struct matmul_args *a)
{
    const struct planes_args x = planes_of(c, a);
    struct planes_matmul_args p = {
        .small = {.matmul = *a,
                  .partial = (float *)(void *)c->scratch[SCRATCH_PARTS],
                  .arrived = (uint32_t *)(void *)c->scratch[SCRATCH_PARTS_ARRIVED]},
        .squares = a->norm ? x.squares : NULL};
    const struct launch make = make_planes_launch(&x);
    struct launch matmul = planes_launch(&p, c->sm_count);
    limit_parts(c, &matmul, x.tokens);
    p.small.matmul.x = x.y;
    p.small.keeps_parts = keeps_parts(a, &matmul);
    cuda_launch(c, &make, &x);
    cuda_launch(c, &matmul, &p);
    if (p.small.keeps_parts)
        c->pending = (struct pending_parts){(float *)a->segment[0].y, a->n, a->segment[0].w.rows,
                                            (int)matmul.grid[1], x.tokens};
}

/* Whether a BF16 head of several rows uses a GEMM, on GPUs of compute capability 9.0. */
static bool is_head_for_gemm(const struct cuda *c, const struct matmul_args *a)
{
    return c->has_gemm_sm90 && a->gather && a->n > SMALL_LEAST_ROWS && is_fast(a) &&
           gemm_takes(a) && a->segment[0].w.dtype == K_BF16 &&
           cuda_working_tile(c, K_BF16, GEMM_SM90_128x64) != GEMM_TILES;
}

static void launch_matmul(struct cuda *c, struct matmul_args *a)
{
    const bool fast = is_fast(a);
    if (!has_row_scales(a) && uses_planes(c, a)) {
        matmul_planes(c, a);
        return;
    }
    if (!is_head_for_gemm(c, a) && uses_small(c, a)) {
        matmul_small(c, a);
        return;
    }
    struct launch l = {.kernel = GPU_NO_KERNEL};
    if (fast && !kernel_dtype_is_gguf(a->segment[0].w.dtype) &&
        !cuda_family_failed(c, cuda_gemv_family(a->segment[0].w.dtype))) {
        if (!cuda_family_failed(c, FAMILY_GEMV_M1)) l = gemv_m1_launch(a);
        if (!l.kernel) l = gemv_launch(a, c->sm_count, c->sm_shared);
    }
    if (!l.kernel && matmul_int4(c, a)) return;
    /* gathered rows are normed only for a GEMM */
    if (!l.kernel && fast && gemm_takes(a) && (!a->gather || working_gemm(c, a).kernel)) {
        norm_matmul_input(c, a);
        l = working_gemm(c, a);
    }
    if (!l.kernel) l = matmul_fallback_launch(a);
    cuda_launch(c, &l, a);
}

/* Returns the arguments for rows first .. first+n-1 of a matmul. */
static struct matmul_args matmul_rows(const struct matmul_args *a, int first, int n)
{
    const size_t y_size = a->epilogue == EPI_F32 || a->epilogue == EPI_ADD ? sizeof(float)
                                                                           : sizeof(bf16),
                 x_size = a->x_f32 ? sizeof(float) : sizeof(bf16);
    struct matmul_args some = *a;
    some.n = n;
    if (a->gather)
        some.gather += first;
    else
        some.x = (const char *)a->x + (size_t)first * (size_t)a->ldx * x_size;
    for (int i = 0; i < a->n_segments; i++)
        some.segment[i].y = (char *)a->segment[i].y +
                            (size_t)first * (size_t)a->segment[i].ldy * y_size;
    return some;
}

/* Returns the rows of one matmul_small call for matrices that a GEMM would have to unpack: int4,
 * int8, GGUF, FP8 with row scales. For more rows, the matrix is read again. */
static int small_rows_at_once(const struct cuda *c, const struct matmul_args *a)
{
    const int dtype = a->segment[0].w.dtype;
    const bool halves = a->n <= cuda_few_rows(&c->limits) &&
                        (dtype == K_INT4 || dtype == K_INT8 || kernel_dtype_is_gguf(dtype) ||
                         has_row_scales(a)) &&
                        !cuda_family_failed(c, cuda_small_family(dtype));
    return halves && a->n > SMALL_MOST_TOKENS ? SMALL_MOST_TOKENS : a->n;
}

/* Multiplies one row with matrices of GGUF types, which may differ. Returns whether it did. */
static bool matmul_gguf_row(struct cuda *c, const struct matmul_args *a)
{
    const struct launch l = gemv_m1_gguf_launch(a);
    if (!l.kernel || cuda_family_failed(c, FAMILY_GEMV_GGUF)) return false;
    cuda_launch(c, &l, a);
    return true;
}

static void launch_segments(struct cuda *c, const struct matmul_args *a)
{
    if (matmul_gguf_row(c, a)) return;
    const int each = is_mixed(a) ? 1 : a->n_segments;
    for (int i = 0; i < a->n_segments; i += each) {
        struct matmul_args some = *a;
        some.n_segments = each;
        for (int k = 0; k < each; k++)
            some.segment[k] = a->segment[i + k];
        const int most = small_rows_at_once(c, &some);
        for (int first = 0; first < some.n; first += most) {
            struct matmul_args rows = matmul_rows(&some, first,
                                                  some.n - first < most ? some.n - first : most);
            launch_matmul(c, &rows);
        }
    }
}

/* ---- rows of prompts, quantized ---- */

static bool uses_w8a8(const struct cuda *c, const struct matmul_args *a)
{
    return c->limits.fp8_prompts && c->has_gemm_w8a8 && !cuda_family_failed(c, FAMILY_GEMM_W8A8) &&
           is_fast(a) && !has_row_scales(a) && a->segment[0].w.dtype == K_FP8 && !a->gather;
}

/* Multiplies at most QUANTIZED_ROWS quantized prompt rows. */
static void matmul_w8a8(struct cuda *c, struct matmul_args *a)
{
    float *scale = (float *)(void *)c->scratch[SCRATCH_X_FP8_SCALE];
    norm_matmul_input(c, a);
    struct quantize_rows_args q = {
        a->x, (uint8_t *)c->scratch[SCRATCH_X_FP8], scale, a->n, a->k, (a->n + 3) / 4 * 4};
    struct w8a8_args e = {.matmul = *a, .x_scale = scale, .scale_rows = q.scale_rows};
    e.matmul.x = q.y;
    struct launch quantize = quantize_rows_launch(&q), matmul = gemm_w8a8_launch(&e);
    cuda_launch(c, &quantize, &q);
    cuda_launch(c, &matmul, &e);
}

void cuda_matmul(struct cuda *c, const struct cuda_matmul_desc *p)
{
    const struct matmul_args a = matmul_args_of(c, p);
    const int exact = uses_w8a8(c, &a) ? p->n - p->n_prompt : p->n;
    if (exact > 0) {
        struct matmul_args rows = matmul_rows(&a, 0, exact);
        launch_segments(c, &rows);
    }
    for (int first = exact; first < p->n; first += QUANTIZED_ROWS) {
        struct matmul_args rows = matmul_rows(
            &a, first, p->n - first < QUANTIZED_ROWS ? p->n - first : QUANTIZED_ROWS);
        matmul_w8a8(c, &rows);
    }
}
