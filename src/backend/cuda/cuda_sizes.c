/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the sizes of everything on the GPU. */
#include "backend/cuda/cuda_sizes.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/cuda/attention/attention_launch.h"
#include "kernels/cuda/matmul/matmul_small_sm90_launch.h"

static bool check_size(int value, const char *name, int most, ey_err *e)
{
    return value <= most ||
           ey_fail(e, EY_BAD_MODEL,
                   "this model's %s is %d; on a GPU at most %d is supported: use --device cpu",
                   name, value, most);
}

bool cuda_check_shapes(const struct text_shape *text, const struct vision_shape *vision, ey_err *e)
{
    return check_size(text->head_dim, "head_dim", CUDA_MAX_HEAD_DIM, e) &&
           check_size(text->vocab_size, "vocab_size", CUDA_MAX_VOCABULARY, e) &&
           check_size(text->hidden, "hidden_size", CUDA_MAX_HIDDEN, e) &&
           (!vision->depth ||
            check_size(vision->head_dim, "vision head size", CUDA_MAX_HEAD_DIM, e));
}

static int larger_int(int a, int b)
{
    return a > b ? a : b;
}

enum kernel_dtype cuda_gguf_dtype(enum dtype d)
{
    switch (d) {
#define GGUF_TYPE(id, ...) \
    case DTYPE_##id:       \
        return K_##id;
#include "kernels/cuda/common/gguf_types.def"
#undef GGUF_TYPE
    default: return K_F32;
    }
}

bool cuda_packs(const struct tensor *w)
{
    bool matrix = w->rows > 1;
    if (w->dtype == DTYPE_INT4) /* columns are a multiple of 32 */
        return !w->place && (weight_scales_are_bf16(w) || w->scale_dtype == DTYPE_F16);
    if (cuda_gguf_dtype(w->dtype) != K_F32) return matrix;
    return matrix && ((w->dtype == DTYPE_F8_E4M3 && w->cols % 16 == 0) ||
                      ((w->dtype == DTYPE_BF16 || w->dtype == DTYPE_F16) && w->cols % 8 == 0));
}

bool cuda_is_vector(const struct tensor *w)
{
    return w->rows == 1 && w->dtype != DTYPE_F8_E4M3 && !w->group_size;
}

static size_t packed_matrix_bytes(int64_t rows, int64_t row_bytes)
{
    return (size_t)((rows + PACK_ROWS - 1) / PACK_ROWS * packed_chunks(row_bytes)) * PACK_CHUNK;
}

static size_t gguf_bytes(const struct tensor *w)
{
    const int dtype = (int)cuda_gguf_dtype(w->dtype);
    if (!cuda_packs(w)) /* stored as float32 without loss */
        return (size_t)w->rows * (size_t)w->cols * sizeof(float);
    return (size_t)((w->rows + PACK_ROWS - 1) / PACK_ROWS) *
           (size_t)gguf_records(dtype, (int)w->cols) * (size_t)gguf_record_of(dtype).bytes;
}

size_t cuda_element_bytes(const struct tensor *w)
{
    if (dtype_is_gguf(w->dtype)) return cuda_aligned(gguf_bytes(w));
    if (!cuda_packs(w)) return cuda_aligned(weight_data_bytes(w));
    return cuda_aligned(packed_matrix_bytes(w->rows, (int64_t)weight_row_bytes(w)));
}

bool cuda_has_wide_scales(const struct tensor *w)
{
    return w->signed_scales || !weight_scales_are_bf16(w);
}

size_t cuda_group_scale_bytes(const struct tensor *w)
{
    if (w->dtype != DTYPE_INT4 || !cuda_packs(w)) return 0;
    return cuda_aligned(packed_matrix_bytes(w->rows, w->cols / 2) / PACK_CHUNK * PACK_ROWS *
                        (2 * PACK_BYTES / (size_t)w->group_size) *
                        (cuda_has_wide_scales(w) ? sizeof(uint32_t) : sizeof(uint16_t)));
}

size_t cuda_row_group_bytes(const struct tensor *w)
{
    if (!w->group_size || cuda_packs(w)) return 0;
    return cuda_aligned(weight_group_scale_bytes(w)) + cuda_aligned(weight_group_zero_bytes(w)) +
           (w->place ? cuda_aligned((size_t)w->cols * sizeof(int32_t)) : 0);
}

size_t cuda_weight_bytes(const struct backend *be, const struct tensor *w, enum placement placement)
{
    (void)be;
    size_t elements = (size_t)w->rows * (size_t)w->cols;
    if (cuda_is_vector(w)) return cuda_aligned(elements * sizeof(float));
    if (placement == PLACE_HOST) return 0;
    if (placement == PLACE_EIGHT_BIT)
        return cuda_aligned(packed_matrix_bytes(w->rows, w->cols)) +
               cuda_aligned((size_t)w->rows * sizeof(float));
    const size_t block_scales = weight_has_block_scales(w) ? weight_block_scale_bytes(w) : 0,
                 scales = cuda_aligned(block_scales) +
                          (w->row_scale ? cuda_aligned((size_t)w->rows * sizeof(float)) : 0);
    if (placement == PLACE_STREAMED) return scales; /* elements are in the group's buffer */
    return cuda_element_bytes(w) + scales + cuda_group_scale_bytes(w) + cuda_row_group_bytes(w);
}

size_t cuda_kv_bytes(const struct backend *be, const struct kv_shape *s)
{
    (void)be;
    return (s->fp8 ? 1 : sizeof(bf16)) * 2 * KV_BLOCK * (size_t)s->n_layers * (size_t)s->n_blocks *
           (size_t)s->n_kv_heads * (size_t)s->head_dim;
}

struct step_layout cuda_step_layout(int n_rows, const struct backend_limits *l)
{
    size_t rows = (size_t)n_rows, seqs = (size_t)larger_int(l->max_seqs, 1),
           logits = (size_t)larger_int(l->max_logits, 1),
           blocks = (size_t)larger_int(l->max_blocks, 1);
    struct step_layout b = {.feature = rows,
                            .seq = 2 * rows,
                            .index = 3 * rows,
                            .position = 4 * rows,
                            .logits_row = 7 * rows};
    b.tile = b.logits_row + logits;
    b.sample_params = (b.tile + 2 * (rows / ATTENTION_ROWS + seqs + 1) + 1) / 2 *
                      2; /* aligned for 64-bit members */
    b.block_table = b.sample_params + seqs * sizeof(struct sample_params) / sizeof(int32_t);
    b.total = b.block_table + seqs * blocks;
    return b;
}

/* Returns the bytes of one row of merge blocks of the widest image; SCRATCH_WIDE must hold one. */
static size_t image_row_bytes(const struct vision_shape *v, int max_patches)
{
    size_t blocks = (size_t)(max_patches / larger_int(vision_group(v), 1)),
           side = (size_t)(v->patch * v->merge);
    size_t across = (size_t)ceil(sqrt((double)blocks * MAX_IMAGE_ASPECT));
    return (across < blocks ? across : blocks) * side * side * 3;
}

struct step_output_layout cuda_step_output_layout(const struct backend_limits *l)
{
    size_t rows = (size_t)larger_int(l->max_logits, 1),
           best = rows * TOPK * sizeof(struct topk_logit);
    return (struct step_output_layout){best, best + rows * sizeof(float),
                                       best + rows * (sizeof(float) + sizeof(int32_t))};
}

int cuda_widest_text_input(const struct backend_limits *l)
{
    const struct text_shape *t = &l->text;
    return t->hidden ? larger_int(larger_int(t->hidden, text_q_width(t)), t->mlp) : l->max_width;
}

int cuda_few_rows(const struct backend_limits *l)
{
    enum { LEAST = 32 };
    const int rows = l->decode_rows ? l->decode_rows : SMALL_ROWS;
    return rows <= LEAST ? LEAST : rows <= SMALL_MOST_TOKENS ? SMALL_MOST_TOKENS : SMALL_ROWS;
}

/* Returns the tiles of a matmul of up to three matrices times the most splits of its columns. */
static int small_parts_of(int64_t rows, int k)
{
    const int64_t tiles = (rows + SMALL_TILE - 1) / SMALL_TILE + MAX_SEGMENTS,
                  blocks = (k + SCALE_BLOCK - 1) / SCALE_BLOCK,
                  parts = tiles * (blocks < SMALL_MOST_SPLITS ? blocks : SMALL_MOST_SPLITS);
    return parts < SMALL_MOST_PARTS ? (int)parts : SMALL_MOST_PARTS;
}

static int most_small_parts(const struct text_shape *t)
{
    const int q = text_q_width(t), parts[] = {small_parts_of(q + 2 * text_kv_width(t), t->hidden),
                                              small_parts_of(t->hidden, q),
                                              small_parts_of(2 * (int64_t)t->mlp, t->hidden),
                                              small_parts_of(t->hidden, t->mlp)};
    int most = t->hidden ? 0 : SMALL_MOST_PARTS; /* tests of single kernels set only max_width */
    for (int i = 0; i < 4; i++)
        most = larger_int(most, parts[i]);
    return most;
}

/* Returns the bytes of decode attention's parts: each block of threads may leave parts of two KV
 * heads; one sequence alone leaves no more (KV heads times splits). */
static size_t decode_parts_bytes(const struct text_shape *t)
{
    const int kv_heads = larger_int(t->n_kv_heads, 1), heads = larger_int(t->n_heads / kv_heads, 1),
              parts = larger_int(2 * MANY_BLOCKS, kv_heads);
    return (size_t)parts * (size_t)heads * (size_t)(t->head_dim + 2) * sizeof(float);
}

/* Returns the bytes for any number of rows up to `rows`: with more tokens, tiles are split less. */
static size_t parts_bytes(const struct text_shape *t, int rows)
{
    const int64_t all = (int64_t)most_small_parts(t) * rows;
    return (size_t)(all < PLANES_PARTS_X_TOKENS ? all : PLANES_PARTS_X_TOKENS) * SMALL_TILE *
           sizeof(float);
}

/* Returns the bytes of rows as matmul_small takes them (BF16) or as matmul_small_sm90 does: planes,
 * scales, and sums of squares. */
static size_t arranged_bytes(int width, int rows)
{
    const size_t blocks = (size_t)((width + SCALE_BLOCK - 1) / SCALE_BLOCK),
                 small = (size_t)(rows < SMALL_MOST_TOKENS ? rows : SMALL_MOST_TOKENS),
                 bf16_bytes = blocks * small * SCALE_BLOCK * sizeof(bf16),
                 planes = blocks * (size_t)rows * (PLANES_X_BYTES((size_t)1) + sizeof(float));
    return planes > bf16_bytes ? planes : bf16_bytes;
}

void cuda_scratch_sizes(size_t bytes[SCRATCH_BUFFERS], const struct backend_limits *l)
{
    const struct text_shape *t = &l->text;
    const struct vision_shape *v = &l->vision;
    bool known = t->hidden || v->hidden; /* tests of single kernels set only max_width */
    size_t rows = (size_t)l->max_rows, seqs = (size_t)larger_int(l->max_seqs, 1),
           logits = (size_t)larger_int(l->max_logits, 1), heads = (size_t)larger_int(t->n_heads, 1);
    size_t qkv = (size_t)(known ? text_q_width(t) + 2 * text_kv_width(t) : 3 * l->max_width);
    size_t input = (size_t)(known ? larger_int(larger_int(t->hidden, v->hidden),
                                               vision_patch_width(v))
                                  : l->max_width);
    size_t wide = (size_t)(known ? v->hidden : l->max_width);
    size_t pixels = (size_t)vision_patch_width(v) * sizeof(float) /
                    sizeof(bf16); /* being converted to BF16 */
    if (pixels > wide) wide = pixels;
    if ((size_t)t->hidden > wide) wide = (size_t)t->hidden;
    bytes[SCRATCH_NORMED] = rows * input * sizeof(bf16);
    bytes[SCRATCH_WIDE] = rows * wide * sizeof(bf16);
    size_t raw = (rows < RAW_ROWS ? rows : RAW_ROWS) * qkv * sizeof(float);
    if (raw > bytes[SCRATCH_WIDE]) bytes[SCRATCH_WIDE] = raw;
    size_t widest = image_row_bytes(v, l->max_patches);
    if (widest > bytes[SCRATCH_WIDE]) bytes[SCRATCH_WIDE] = widest;
    const int few = cuda_few_rows(l);
    bytes[SCRATCH_RAW] = (size_t)(l->decode_rows && l->decode_rows < SMALL_ROWS ? l->decode_rows
                                                                                : SMALL_ROWS) *
                         qkv * sizeof(float);
    bytes[SCRATCH_PARTIAL] = decode_parts_bytes(t);
    bytes[SCRATCH_ARRIVED] = seqs * heads * sizeof(uint32_t);
    bytes[SCRATCH_TOPK_PART] = logits * TOPK_PARTS * TOPK * sizeof(struct topk_logit);
    bytes[SCRATCH_TOPK_PART_SUM] = logits * TOPK_PARTS * 2 * sizeof(float);
    bytes[SCRATCH_STEP_OUTPUT] = cuda_step_output_layout(l).total;
    bytes[SCRATCH_SMALL] = cuda_step_layout(SMALL_ROWS, l).total * sizeof(int32_t);
    bytes[SCRATCH_LARGE] = cuda_step_layout(larger_int(l->max_rows, SMALL_ROWS), l).total *
                           sizeof(int32_t);
    bytes[SCRATCH_UNPACKED] = l->int4 ? UNPACK_BYTES : 0;
    size_t quantized = !l->fp8_prompts         ? 0
                       : rows < QUANTIZED_ROWS ? (rows + 3) / 4 * 4
                                               : QUANTIZED_ROWS;
    size_t quantized_width = (size_t)cuda_widest_text_input(l);
    bytes[SCRATCH_ARRANGED] = arranged_bytes((int)quantized_width, few);
    bytes[SCRATCH_X_SCALE] = SMALL_MOST_TOKENS * sizeof(float);
    bytes[SCRATCH_PARTS] = parts_bytes(t, few);
    bytes[SCRATCH_PARTS_ARRIVED] = SMALL_MOST_PARTS * sizeof(uint32_t);
    bytes[SCRATCH_X_FP8] = quantized * quantized_width;
    bytes[SCRATCH_X_FP8_SCALE] = quantized * ((quantized_width + SCALE_BLOCK - 1) / SCALE_BLOCK) *
                                 sizeof(float);
    bytes[SCRATCH_POSITIONS] = rows * 3 * sizeof(int32_t);
}

size_t cuda_buffer_bytes(const struct backend_limits *l)
{
    size_t bytes[SCRATCH_BUFFERS], sum = 0;
    cuda_scratch_sizes(bytes, l);
    for (int i = 0; i < SCRATCH_BUFFERS; i++)
        sum += cuda_aligned(bytes[i]);
    return sum;
}

size_t cuda_scratch_bytes(const struct backend *be, const struct backend_limits *l)
{
    (void)be;
    return cuda_buffer_bytes(l) + FLAG_BYTES;
}

static void simulated_destroy(struct backend *be)
{
    free(be);
}

static bool simulated_takes_fp8_prompts(const struct backend *be, bool *slow, ey_err *why)
{
    (void)be;
    (void)slow;
    (void)why;
    return true; /* a simulated GPU is assumed to work */
}

bool backend_cuda_create_simulated(struct backend **be, ey_err *e)
{
    static const struct compute_ops simulated_compute = {
        .check_shapes = cuda_check_shapes,
        .supports_fp8_prompts = simulated_takes_fp8_prompts,
    };

    static const struct memory_ops simulated_memory = {
        .element_size = {sizeof(float), sizeof(bf16), sizeof(float), sizeof(bf16)},
        .scratch_bytes = cuda_scratch_bytes,
        .kv_bytes = cuda_kv_bytes,
        .weight_bytes = cuda_weight_bytes,
    };

    static const struct backend_ops ops = {
        .name = "cuda",
        .destroy = simulated_destroy,
        .compute = &simulated_compute,
        .memory = &simulated_memory,
    };
    *be = calloc(1, sizeof(**be));
    if (!*be) return ey_fail_memory(e, "the plan of a GPU", sizeof(**be));
    (*be)->ops = &ops;
    return true;
}
