/* SPDX-License-Identifier: Apache-2.0 */
/* Launches the vision encoder's steps. */
#include <math.h>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/cuda_kernel_ids.h"
#include "backend/cuda/cuda_matmul.h"
#include "kernels/cuda/attention/attention_launch.h"
#include "kernels/cuda/rows/norm_rope_embed_launch.h"

/* Uploads n values of pixels and converts them to BF16 in SCRATCH_NORMED. */
static void send_pixels(struct cuda *c, const float *pixels, int64_t n)
{
    float *f32 = (float *)(void *)c->scratch[SCRATCH_WIDE];
    cuda_upload(c, f32, pixels, (size_t)n * sizeof(float));
    struct convert_bf16_args a = {(bf16 *)(void *)c->scratch[SCRATCH_NORMED], f32, n};
    struct launch l = convert_launch(&a);
    cuda_launch(c, &l, &a);
}

/* Uploads rows of merge blocks, as many at a time as fit into the scratch, and cuts patches from
 * them. */
static void send_rgb(struct cuda *c, const struct rgb_image *p, const struct vision_shape *s,
                     int first, int n)
{
    size_t stride = (size_t)(p->cols * s->patch) * 3,
           block_bytes = (size_t)(s->merge * s->patch) * stride;
    int a_block_row = p->cols * s->merge, most = (int)(cuda_wide_bytes(c) / block_bytes),
        end = first + n, width = vision_patch_width(s);
    if (most < 1) {
        if (c->error.code == EY_OK)
            ey_fail(&c->error, EY_BAD_IMAGE, "an image %d patches across is too wide", p->cols);
        return;
    }
    for (int at = first, count; at < end; at += count) {
        int top = at / a_block_row, bottom = (end - 1) / a_block_row;
        if (bottom - top >= most) bottom = top + most - 1;
        count = ((bottom + 1) * a_block_row < end ? (bottom + 1) * a_block_row : end) - at;
        cuda_upload(c, c->scratch[SCRATCH_WIDE], p->rgb + (size_t)top * block_bytes,
                    (size_t)(bottom - top + 1) * block_bytes);
        struct patchify_args a = {(bf16 *)(void *)c->scratch[SCRATCH_NORMED] +
                                      (size_t)(at - first) * (size_t)width,
                                  (const uint8_t *)c->scratch[SCRATCH_WIDE],
                                  at,
                                  count,
                                  p->cols,
                                  top * s->merge,
                                  s->patch,
                                  s->temporal,
                                  s->merge,
                                  {0},
                                  {0}};
        for (int i = 0; i < 3; i++) {
            a.offset[i] = p->mean[i] * 255.0f;
            a.scale[i] = p->std[i] * 255.0f;
        }
        struct launch l = patchify_launch(&a);
        cuda_launch(c, &l, &a);
    }
}

/* Multiplies the patches in SCRATCH_NORMED with the embedding and adds positions. */
static void embed_patches(struct cuda *c, dev x, const struct affine *w, const struct placed *table,
                          const struct vision_shape *s, int rows, int cols, int first, int n)
{
    struct position_args a = {x,
                              cuda_vector(w->b),
                              cuda_dev_matrix(c, table),
                              s->position_side,
                              rows,
                              cols,
                              s->merge,
                              first,
                              n,
                              s->hidden};
    struct launch l = position_embed_launch(&a);
    cuda_launch(c, &l, &a);
    struct cuda_matmul_desc p = {.w = {w->w},
                                 .y = {x},
                                 .n_segments = 1,
                                 .epilogue = EPI_ADD,
                                 .x = c->scratch[SCRATCH_NORMED],
                                 .n = n,
                                 .k = cuda_cols(w->w)};
    cuda_matmul(c, &p);
}

void cuda_patch_embed_rgb(struct backend *be, dev x, const struct rgb_image *image,
                          const struct affine *w, const struct placed *table,
                          const struct vision_shape *s, int first, int n)
{
    struct cuda *c = cuda_of(be);
    send_rgb(c, image, s, first, n);
    embed_patches(c, x, w, table, s, image->rows, image->cols, first, n);
}

void cuda_patch_embed(struct backend *be, dev x, const float *pixels, const struct affine *w,
                      const struct placed *table, const struct vision_shape *s, int rows, int cols,
                      int first, int n)
{
    struct cuda *c = cuda_of(be);
    send_pixels(c, pixels, (int64_t)n * cuda_cols(w->w));
    embed_patches(c, x, w, table, s, rows, cols, first, n);
}

void cuda_vision_qkv(struct backend *be, dev qkv, dev x, const struct vision_block *w,
                     const struct vision_shape *s, dev rope, int first, int n)
{
    struct cuda *c = cuda_of(be);
    bf16 *out = (bf16 *)qkv + (size_t)first * 3 * (size_t)s->hidden;
    cuda_layer_norm(c, c->scratch[SCRATCH_NORMED], x, &w->norm1, n, s->norm_eps);
    struct cuda_matmul_desc p = {.w = {w->qkv.w},
                                 .bias = {w->qkv.b},
                                 .y = {out},
                                 .n_segments = 1,
                                 .epilogue = EPI_BF16,
                                 .x = c->scratch[SCRATCH_NORMED],
                                 .n = n,
                                 .k = s->hidden};
    cuda_matmul(c, &p);
    struct vision_rope_args a = {qkv, rope, first, n, s->n_heads, s->head_dim};
    struct launch l = vision_rope_launch(&a);
    cuda_launch(c, &l, &a);
}

/* Attends from rows first .. first+n-1 of a segment. */
static void attend_segment(struct cuda *c, bf16 *o, const bf16 *qkv, const struct vision_shape *s,
                           int first, int n, int n_keys)
{
    struct attention_vision_args a = {
        o, qkv, first, n, n_keys, s->n_heads, s->head_dim, 1 / sqrtf((float)s->head_dim)};
    struct launch l = cuda_family_failed(c, cuda_attention_vision_family(s->head_dim))
                          ? attention_vision_fallback_launch(&a)
                          : attention_vision_launch(&a);
    cuda_launch(c, &l, &a);
}

static void launch_vision_sm90(struct cuda *c, struct attention_vision_sm90_args *a)
{
    if (!a->n_segments) return;
    const struct launch l = attention_vision_sm90_launch(a);
    cuda_launch(c, &l, a);
    a->n_segments = 0;
}

/* Attends all segments in one launch, on GPUs and head sizes that the sm90 kernel supports. */
static void attend_segments_sm90(struct cuda *c, dev o, dev qkv, const struct vision_shape *s,
                                 const struct vision_segment *segments, int n_segments, int first,
                                 int n)
{
    struct attention_vision_sm90_args a = {
        .o = o, .qkv = qkv, .heads = s->n_heads, .scale = 1 / sqrtf((float)s->head_dim)};
    for (int i = 0; i < n_segments; i++) {
        int from, rows = vision_segment_overlap(&segments[i], first, n, &from);
        if (!rows) continue;
        attention_vision_sm90_add(
            &a, (struct attention_vision_segment){.first_row = from,
                                                  .n = rows,
                                                  .first_key = segments[i].first,
                                                  .n_keys = segments[i].rows * segments[i].cols,
                                                  .first_out = from - first});
        if (a.n_segments == VISION_SM90_SEGMENTS) launch_vision_sm90(c, &a);
    }
    launch_vision_sm90(c, &a);
}

void cuda_vision_attention(struct backend *be, dev o, dev qkv, const struct vision_shape *s,
                           const struct vision_segment *segments, int n_segments, int first, int n)
{
    const struct cuda *c = cuda_of(be);
    const size_t hidden = (size_t)s->hidden;
    if (c->has_vision_sm90 && s->head_dim == 64 &&
        !cuda_family_failed(c, FAMILY_ATTENTION_VISION_SM90)) {
        attend_segments_sm90(cuda_of(be), o, qkv, s, segments, n_segments, first, n);
        return;
    }
    for (int i = 0; i < n_segments; i++) {
        const struct vision_segment *segment = &segments[i];
        int from, rows = vision_segment_overlap(segment, first, n, &from);
        if (rows)
            attend_segment(cuda_of(be), (bf16 *)o + (size_t)(from - first) * hidden,
                           (const bf16 *)qkv + (size_t)segment->first * 3 * hidden, s,
                           from - segment->first, rows, segment->rows * segment->cols);
    }
}

void cuda_vision_mlp(struct backend *be, dev h, dev x, const struct vision_block *w,
                     const struct vision_shape *s, int n)
{
    struct cuda *c = cuda_of(be);
    cuda_layer_norm(c, c->scratch[SCRATCH_NORMED], x, &w->norm2, n, s->norm_eps);
    struct cuda_matmul_desc p = {.w = {w->fc1.w},
                                 .bias = {w->fc1.b},
                                 .y = {h},
                                 .n_segments = 1,
                                 .epilogue = EPI_GELU_TANH,
                                 .x = c->scratch[SCRATCH_NORMED],
                                 .n = n,
                                 .k = s->hidden};
    cuda_matmul(c, &p);
}

void cuda_vision_project_add(struct backend *be, dev x, dev in, const struct affine *w, int n)
{
    struct cuda_matmul_desc p = {.w = {w->w},
                                 .bias = {w->b},
                                 .y = {x},
                                 .n_segments = 1,
                                 .epilogue = EPI_ADD,
                                 .x = in,
                                 .n = n,
                                 .k = cuda_cols(w->w)};
    cuda_matmul(cuda_of(be), &p);
}

void cuda_merge(struct backend *be, dev out, dev x, const struct merger *w,
                const struct vision_shape *s, int n)
{
    struct cuda *c = cuda_of(be);
    void *normed = c->scratch[SCRATCH_NORMED], *middle = c->scratch[SCRATCH_WIDE];
    int group = vision_group(s), width = group * s->hidden;
    struct merge_norm_args a = {normed,
                                x,
                                cuda_vector(w->norm.w),
                                cuda_vector(w->norm.b),
                                n,
                                s->hidden,
                                group,
                                w->norm_grouped,
                                s->norm_eps};
    struct launch l = merge_norm_launch(&a);
    cuda_launch(c, &l, &a);
    struct cuda_matmul_desc p = {.w = {w->fc1.w},
                                 .bias = {w->fc1.b},
                                 .y = {middle},
                                 .n_segments = 1,
                                 .epilogue = EPI_GELU_ERF,
                                 .x = normed,
                                 .n = n,
                                 .k = width};
    cuda_matmul(c, &p);
    p = (struct cuda_matmul_desc){.w = {w->fc2.w},
                                  .bias = {w->fc2.b},
                                  .y = {out},
                                  .n_segments = 1,
                                  .epilogue = EPI_BF16,
                                  .x = middle,
                                  .n = n,
                                  .k = width};
    cuda_matmul(c, &p);
}
