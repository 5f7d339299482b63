/* SPDX-License-Identifier: Apache-2.0 */
/* Uploads weights from the mapped file to the GPU in the kernels' order. A piece passes through the
 * pinned ring into staging memory on the GPU (during loading, the unused end of the arena) and is
 * packed from there; no second copy stays on the host. */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/cuda_backend.h"
#include "kernels/cuda/loading/repack_weights_launch.h"
#include "tensor/dequantize.h"

enum { MAX_VECTOR = 1 << 20 };

static enum kernel_dtype kernel_dtype_of(enum dtype d)
{
    return dtype_is_gguf(d)   ? cuda_gguf_dtype(d)
           : d == DTYPE_INT4  ? K_INT4
           : d == DTYPE_F32   ? K_F32
           : d == DTYPE_F16   ? K_F16
           : d == DTYPE_BF16  ? K_BF16
           : d == DTYPE_I8    ? K_INT8
           : d == DTYPE_UINT8 ? K_UINT8
           : d == DTYPE_FP4   ? K_FP4
           : d == DTYPE_MXFP8 ? K_MXFP8
                              : K_FP8;
}

static enum kernel_dtype scale_dtype_of(const struct tensor *w)
{
    return w->scale_dtype == DTYPE_F8_E8M0 ? K_E8M0
           : weight_scales_are_bf16(w)     ? K_BF16
                                           : kernel_dtype_of(w->scale_dtype);
}

/* Returns the staging memory for pieces before they are packed. While loading it is the arena's end
 * until a cuda_alloc() needs that space, so call this after allocating the packed matrix. */
static char *staging(struct cuda *c, ey_err *e)
{
    CUdeviceptr p = 0;
    if (c->loading) return c->arena + c->arena_size - LOAD_STAGING;
    if (!c->staging &&
        cuda_ok(&c->driver, c->driver.memory_alloc(&p, LOAD_STAGING), "memory for uploads", e)) {
        c->staging = (void *)(uintptr_t)p;
        c->staging_own = true;
    }
    return c->staging;
}

static bool grow_weight_list(void **list, int n, int *max, size_t size, ey_err *e)
{
    if (n < *max) return true;
    int larger = *max ? 2 * *max : 256;
    void *p = realloc(*list, (size_t)larger * size);
    if (!p) return ey_fail_memory(e, "the list of weights", (size_t)larger * size);
    *list = p;
    *max = larger;
    return true;
}

/* ---- matrices ---- */

/* Uploads row-major rows of the file and packs them at `to`, piece by piece. */
static void upload_packed(struct cuda *c, void *to, const struct tensor *in, uint32_t *found_nan,
                          char *staging_memory)
{
    int64_t row_bytes = (int64_t)weight_row_bytes(in),
            most = UPLOAD_BYTES / row_bytes / PACK_ROWS * PACK_ROWS;
    int buffer = 0;
    for (int64_t first = 0, n; first < in->rows;
         first += n, buffer = (buffer + 1) % UPLOAD_BUFFERS) {
        n = in->rows - first < most ? in->rows - first : most;
        char *piece = staging_memory + (size_t)buffer * UPLOAD_BYTES;
        cuda_upload(c, piece, (const char *)in->data + first * row_bytes, (size_t)(n * row_bytes));
        struct repack_args a = {
            (const uint8_t *)piece, to, (int32_t)first, (int32_t)n, row_bytes, found_nan,
            in->dtype == DTYPE_F16};
        struct launch l = repack_launch(&a);
        cuda_launch(c, &l, &a);
    }
}

static void upload_int8_head(struct cuda *c, void *to, float *scale, const struct tensor *in,
                             char *staging_memory)
{
    int64_t row_bytes = in->cols * (int64_t)sizeof(bf16),
            most = UPLOAD_BYTES / row_bytes / PACK_ROWS * PACK_ROWS;
    int buffer = 0;
    for (int64_t first = 0, n; first < in->rows;
         first += n, buffer = (buffer + 1) % UPLOAD_BUFFERS) {
        n = in->rows - first < most ? in->rows - first : most;
        char *piece = staging_memory + (size_t)buffer * UPLOAD_BYTES;
        cuda_upload(c, piece, (const char *)in->data + first * row_bytes, (size_t)(n * row_bytes));
        struct quantize_int8_args a = {
            (const bf16 *)(void *)piece, to, scale, (int32_t)first, (int32_t)n, (int32_t)in->cols};
        struct launch l = quantize_int8_launch(&a);
        cuda_launch(c, &l, &a);
    }
}

/* Returns a copy on the GPU, or NULL without room. */
static void *placed_copy(struct cuda *c, const void *from, size_t bytes, const char *what,
                         ey_err *e)
{
    void *to = cuda_alloc(c, bytes, what, e);
    if (to) cuda_upload(c, to, from, bytes);
    return to;
}

static bool place_scale(struct cuda *c, struct cuda_weight *out, const struct tensor *in, ey_err *e)
{
    if (!in->scale) return true;
    out->matrix.scale = placed_copy(c, in->scale, weight_block_scale_bytes(in), "weight scales", e);
    if (!out->matrix.scale || !in->row_scale) return out->matrix.scale != NULL;
    return (out->matrix.row_scale = placed_copy(c, in->row_scale, (size_t)in->rows * sizeof(float),
                                                "scales of rows", e)) != NULL;
}

/* Returns `value`, at most 2, as float16 with its last `cut` bits (0 or 3) zero. A BF16 number
 * would set these bits only below 2^-14; there it is rounded. */
static uint16_t short_f16(float value, int cut)
{
    const float size = fabsf(value);
    const uint16_t sign = value < 0 ? 0x8000 : 0;
    uint32_t bits;
    memcpy(&bits, &size, sizeof(bits));
    if (size >= 0x1p-14f) return (uint16_t)(sign | (bits - (112u << 23)) >> 13);
    const float step = cut ? 0x1p21f : 0x1p24f;
    return (uint16_t)(sign | (uint32_t)(size * step + 0.5f) << cut);
}

/* Returns the word of a group: 16 bits, or 32 if words are wide. */
static uint32_t scale_word(const struct tensor *w, int64_t row, int64_t g, float global_scale)
{
    const float scale = weight_group_scale(w, row, g) / global_scale;
    const uint32_t zero = (uint32_t)weight_group_zero(w, row, g);
    if (cuda_has_wide_scales(w)) return short_f16(scale, 0) | zero << 16;
    return (uint32_t)short_f16(scale, 3) << 1 | zero;
}

/* The scales of an int4 matrix on their way to the GPU's layout; several threads take rows. */
struct group_scales {
    const struct tensor *w;
    void *out;
    atomic_uint most; /* bits of the largest magnitude; they sort like the magnitudes */
    float unit;       /* the global scale */
};

static void find_largest_scale(void *context, size_t begin, size_t end, int thread)
{
    struct group_scales *s = context;
    uint32_t most = 0;
    (void)thread;
    for (int64_t row = (int64_t)begin; row < (int64_t)end; row++)
        for (int64_t g = 0; g < weight_groups(s->w); g++) {
            const float scale = fabsf(weight_group_scale(s->w, row, g));
            uint32_t bits;
            memcpy(&bits, &scale, sizeof(bits));
            most = bits > most ? bits : most;
        }
    unsigned seen = atomic_load(&s->most);
    while (most > seen && !atomic_compare_exchange_weak(&s->most, &seen, most))
        ;
}

static void write_scale_words(void *context, size_t begin, size_t end, int thread)
{
    const struct group_scales *s = context;
    const int per = 2 * PACK_BYTES / s->w->group_size;
    const int64_t n_chunks = packed_chunks(s->w->cols / 2);
    const bool wide = cuda_has_wide_scales(s->w);
    (void)thread;
    for (int64_t row = (int64_t)begin; row < (int64_t)end; row++)
        for (int64_t g = 0; g < weight_groups(s->w); g++) {
            const int64_t at = ((row / PACK_ROWS * n_chunks + g / per) * 8 + row % 8) * 2 * per +
                               g % per * 2 + row / 8 % 2;
            const uint32_t word = scale_word(s->w, row, g, s->unit);
            if (wide)
                ((uint32_t *)s->out)[at] = word;
            else
                ((uint16_t *)s->out)[at] = (uint16_t)word;
        }
}

float cuda_make_group_scales(struct pool *pool, void *out, const struct tensor *w)
{
    enum { GRAIN = 4 * PACK_ROWS };
    struct group_scales s = {.w = w, .out = out, .most = 0x00800000};
    pool_run(pool, (size_t)w->rows, GRAIN, find_largest_scale, &s);
    const uint32_t power = atomic_load(&s.most) & 0x7f800000; /* scales the largest to 1 .. 2 */
    memcpy(&s.unit, &power, sizeof(s.unit));
    memset(out, 0, cuda_group_scale_bytes(w));
    pool_run(pool, (size_t)w->rows, GRAIN, write_scale_words, &s);
    return s.unit;
}

static bool place_group_scales(struct cuda *c, struct cuda_weight *out, const struct tensor *in,
                               ey_err *e)
{
    const size_t bytes = cuda_group_scale_bytes(in);
    if (!bytes) return true;
    void *words = malloc(bytes);
    if (!words) return ey_fail_memory(e, "group scales", bytes);
    out->matrix.global_scale = cuda_make_group_scales(c->pool, words, in);
    void *to = cuda_alloc(c, bytes, "group scales", e);
    if (to) cuda_upload(c, to, words, bytes);
    out->matrix.group_scales = to;
    out->matrix.groups_per_128 = 2 * PACK_BYTES / in->group_size;
    out->matrix.wide_scales = cuda_has_wide_scales(in);
    free(words);
    return to != NULL;
}

static bool clear_flags(struct cuda *c, ey_err *e)
{
    return cuda_ok(
        &c->driver,
        c->driver.set_bytes((CUdeviceptr)(uintptr_t)c->nan_found, 0, FLAG_BYTES, c->stream),
        "flags", e);
}

/* Adds the matrix to those that are checked for NaN after loading. */
static bool watch_for_nan(struct cuda *c, struct cuda_weight *out, const struct tensor *in,
                          ey_err *e)
{
    if (!c->nan_found) {
        c->nan_found = cuda_alloc(c, FLAG_BYTES, "flags", e);
        if (!c->nan_found || !clear_flags(c, e)) return false;
    }
    if (c->n_packed >= MAX_FP8_MATRICES) return ey_fail(e, EY_BAD_MODEL, "too many FP8 matrices");
    if (!grow_weight_list((void **)&c->packed, c->n_packed, &c->max_packed, sizeof(*c->packed), e))
        return false;
    c->packed[c->n_packed++] = (struct packed_fp8){out, *in};
    return true;
}

/* Returns the dtype after packing. F16 becomes BF16, because activations are BF16 and the fast
 * matmuls take one dtype. */
static enum dtype packed_dtype(const struct tensor *w)
{
    return w->dtype == DTYPE_F16 ? DTYPE_BF16 : w->dtype;
}

static bool place_packed(struct cuda *c, struct cuda_weight *out, const struct tensor *in,
                         ey_err *e)
{
    void *to = cuda_alloc(c, cuda_element_bytes(in), "weights", e);
    uint32_t *found = NULL;
    float largest = 0;
    if (!to) return false;
    if (in->dtype == DTYPE_F8_E4M3 && !in->recipe) { /* recipes make no NaN */
        if (!watch_for_nan(c, out, in, e)) return false;
        found = c->nan_found + c->n_packed - 1;
    }
    char *staging_memory = staging(c, e);
    if (!staging_memory) return false;
    if (dtype_is_gguf(in->dtype))
        cuda_upload_gguf(c, to, in, staging_memory, &largest);
    else
        upload_packed(c, to, in, found, staging_memory);
    out->matrix.data = to;
    out->matrix.packed = 1;
    out->matrix.dtype = (int32_t)kernel_dtype_of(packed_dtype(in));
    if (dtype_is_gguf(in->dtype)) cuda_describe_gguf(&out->matrix, in, largest);
    return place_scale(c, out, in, e) && place_group_scales(c, out, in, e);
}

/* Uploads GGUF types without kernels as float32 rows, some at a time. */
static bool upload_gguf_as_f32(struct cuda *c, void *to, const struct tensor *in, ey_err *e)
{
    const size_t row_bytes = (size_t)in->cols * sizeof(float),
                 most = row_bytes < UPLOAD_BYTES ? UPLOAD_BYTES / row_bytes : 1;
    float *values = malloc(most * row_bytes);
    if (!values) return ey_fail_memory(e, "dequantized weights", most * row_bytes);
    for (int64_t first = 0, n; first < in->rows; first += n) {
        n = in->rows - first < (int64_t)most ? in->rows - first : (int64_t)most;
        for (int64_t i = 0; i < n; i++)
            dequantize_columns(values + i * in->cols, in, first + i, 0, (size_t)in->cols);
        cuda_upload(c, (char *)to + (size_t)first * row_bytes, values, (size_t)n * row_bytes);
    }
    free(values);
    return true;
}

/* Places scales, zeros and column order of a row-major matrix in groups. */
static bool place_row_groups(struct cuda *c, struct cuda_weight *out, const struct tensor *in,
                             ey_err *e)
{
    struct dev_matrix *m = &out->matrix;
    if (!in->group_size) return true;
    m->group_size = in->group_size;
    m->scale_dtype = (int32_t)scale_dtype_of(in);
    m->multiplier = in->multiplier;
    m->divisor = in->divisor;
    m->row_group_scale = placed_copy(c, in->group_scale, weight_group_scale_bytes(in),
                                     "group scales", e);
    if (!m->row_group_scale) return false;
    if (in->group_zero && !(m->row_group_zero = placed_copy(
                                c, in->group_zero, weight_group_zero_bytes(in), "group zeros", e)))
        return false;
    return !in->place || (m->place = placed_copy(c, in->place, (size_t)in->cols * sizeof(int32_t),
                                                 "the order of columns", e)) != NULL;
}

static bool place_row_major(struct cuda *c, struct cuda_weight *out, const struct tensor *in,
                            ey_err *e)
{
    size_t bytes = cuda_element_bytes(in);
    void *to = cuda_alloc(c, bytes, "weights", e);
    if (!to) return false;
    out->matrix.data = to;
    if (dtype_is_gguf(in->dtype)) return upload_gguf_as_f32(c, to, in, e);
    cuda_upload(c, to, in->data, weight_data_bytes(in));
    return place_scale(c, out, in, e) && place_row_groups(c, out, in, e);
}

static bool place_int8_head(struct cuda *c, struct cuda_weight *out, const struct tensor *in,
                            ey_err *e)
{
    if (in->dtype != DTYPE_BF16 || in->cols % 16)
        return ey_fail(e, EY_BAD_REQUEST,
                       "an 8-bit head needs a BF16 head whose width is a multiple of 16");
    size_t rows = (size_t)in->rows, packed = cuda_weight_bytes(&c->base, in, PLACE_EIGHT_BIT) -
                                             cuda_aligned(rows * sizeof(float));
    void *to = cuda_alloc(c, packed, "the 8-bit head", e);
    float *scale = to ? cuda_alloc(c, rows * sizeof(float), "scales of the 8-bit head", e) : NULL;
    char *staging_memory = scale ? staging(c, e) : NULL;
    if (!staging_memory) return false;
    upload_int8_head(c, to, scale, in, staging_memory);
    c->bf16_head = *in;
    out->matrix.data = to;
    out->matrix.scale = scale;
    out->matrix.dtype = K_INT8;
    out->matrix.packed = 1;
    return true;
}

/* Places a norm or bias as float32. */
static bool place_vector(struct cuda *c, struct cuda_weight *out, const struct tensor *in,
                         ey_err *e)
{
    size_t n = (size_t)in->cols;
    if (n > MAX_VECTOR) return ey_fail(e, EY_BAD_MODEL, "a vector of %zu elements is too long", n);
    float *values = malloc(n * sizeof(float));
    void *to = values ? cuda_alloc(c, n * sizeof(float), "a vector", e) : NULL;
    if (to) {
        elements_to_f32(values, in->data, in->dtype, n);
        cuda_upload(c, to, values, n * sizeof(float));
        out->matrix.data = to;
        out->matrix.dtype = K_F32;
    }
    free(values);
    return to != NULL || (values ? false : ey_fail_memory(e, "a vector", n * sizeof(float)));
}

/* ---- streamed ---- */

bool cuda_open_group(struct backend *be, size_t bytes, ey_err *e)
{
    struct cuda *c = cuda_of(be);
    if (!c->group_size) {
        for (int i = 0; i < 2; i++)
            if (!(c->group_buffer[i] = cuda_alloc(c, bytes, "a buffer for streamed weights", e)))
                return false;
        c->group_size = bytes;
        c->group_in_buffer[0] = c->group_in_buffer[1] = -1;
    }
    c->n_groups++;
    c->group_used = 0;
    return true;
}

/* Whether an FP8 matrix holds a NaN, which the kernels for packed matrices take for a number. */
static bool has_fp8_nan(const struct tensor *w)
{
    const uint8_t *codes = w->data;
    const size_t n = (size_t)w->rows * (size_t)w->cols;
    bool found = false;
    if (w->dtype != DTYPE_F8_E4M3 || w->recipe) return false; /* recipes make no NaN */
    for (size_t i = 0; i < n; i++)
        found |= (codes[i] & 0x7f) == 0x7f;
    return found;
}

/* Places a streamed matrix: assigns its address in the group's buffer; its bytes are uploaded when
 * needed. Scales and vectors stay on the GPU. */
static bool place_streamed(struct cuda *c, struct cuda_weight *out, const struct tensor *in,
                           ey_err *e)
{
    const int group = c->n_groups - 1;
    const size_t bytes = cuda_weight_bytes(
        &c->base, &(struct tensor){.rows = in->rows, .cols = in->cols, .dtype = in->dtype},
        PLACE_RESIDENT);
    if (group < 0 || bytes > c->group_size - c->group_used)
        return ey_fail(e, EY_INTERNAL, "there is no room for a streamed weight");
    if (!grow_weight_list((void **)&c->streamed, c->n_streamed, &c->max_streamed,
                          sizeof(*c->streamed), e) ||
        !place_scale(c, out, in, e))
        return false;
    out->matrix.data = c->group_buffer[group % 2] + c->group_used;
    out->matrix.packed = cuda_packs(in) && !has_fp8_nan(in);
    out->group = group + 1;
    if (out->matrix.packed) out->matrix.dtype = (int32_t)kernel_dtype_of(packed_dtype(in));
    if (out->matrix.packed && dtype_is_gguf(in->dtype))
        cuda_describe_gguf(&out->matrix, in, cuda_largest_of_gguf(c, in));
    c->group_used += bytes;
    c->streamed[c->n_streamed++] = (struct streamed_weight){*in, out};
    return true;
}

static void upload_group(struct cuda *c, int group)
{
    if (c->group_in_buffer[group % 2] == group) return;
    c->group_in_buffer[group % 2] = group;
    char *staging_memory = staging(c, &c->error);
    for (int i = 0; i < c->n_streamed && staging_memory; i++) {
        const struct streamed_weight *s = &c->streamed[i];
        void *to = (void *)(uintptr_t)s->to->matrix.data;
        if (s->to->group != group + 1) continue;
        if (s->to->matrix.packed && dtype_is_gguf(s->from.dtype))
            cuda_upload_gguf(c, to, &s->from, staging_memory, NULL);
        else if (s->to->matrix.packed)
            upload_packed(c, to, &s->from, NULL, staging_memory);
        else if (dtype_is_gguf(s->from.dtype))
            upload_gguf_as_f32(c, to, &s->from, &c->error);
        else
            cuda_upload(c, to, s->from.data, weight_data_bytes(&s->from));
    }
    c->weights_changed = true;
}

/* ---- all ---- */

/* Leaves the embedding in the file, where the host looks up rows or the GPU reads them. */
static bool place_host_embedding(struct cuda *c, struct cuda_weight *out, const struct tensor *in)
{
    c->host_embedding = *in;
    out->matrix.data = in->data;
    out->matrix.scale = in->scale;
    if (dtype_is_gguf(in->dtype)) out->matrix.dtype = K_F32;
    out->in_file = true;
    return true;
}

static bool place_by_kind(struct cuda *c, struct cuda_weight *out, const struct tensor *in,
                          enum placement placement, ey_err *e)
{
    if (placement == PLACE_HOST) return place_host_embedding(c, out, in);
    if (cuda_is_vector(in)) return place_vector(c, out, in, e);
    if (placement == PLACE_STREAMED) return place_streamed(c, out, in, e);
    if (placement == PLACE_EIGHT_BIT) return place_int8_head(c, out, in, e);
    return cuda_packs(in) ? place_packed(c, out, in, e) : place_row_major(c, out, in, e);
}

bool cuda_place(struct backend *be, struct placed **out, const struct tensor *in,
                enum weight_role role, enum placement placement, ey_err *e)
{
    struct cuda *c = cuda_of(be);
    struct cuda_weight *w = arena_alloc(&c->placed, sizeof(*w));
    (void)role;
    if (!w) return ey_fail_memory(e, "a weight", sizeof(*w));
    *w = (struct cuda_weight){.matrix = {.rows = (int32_t)in->rows,
                                         .cols = (int32_t)in->cols,
                                         .dtype = (int32_t)kernel_dtype_of(in->dtype)}};
    *out = (struct placed *)w;
    return place_by_kind(c, w, in, placement, e);
}

/* Uploads matrices with NaN again, row-major. They fit in place, because packing never makes a
 * matrix smaller. */
static void unpack_nan_matrices(struct cuda *c, const uint32_t *found)
{
    for (int i = 0; i < c->n_packed; i++) {
        const struct tensor *from = &c->packed[i].from;
        if (!found[i]) continue;
        cuda_upload(c, (void *)(uintptr_t)c->packed[i].out->matrix.data, from->data,
                    (size_t)from->rows * (size_t)from->cols);
        c->packed[i].out->matrix.packed = 0;
    }
}

bool cuda_finish_loading(struct cuda *c, ey_err *e)
{
    size_t bytes = (size_t)c->n_packed * sizeof(uint32_t);
    uint32_t *found = bytes ? malloc(bytes) : NULL;
    if (bytes && !found) return ey_fail_memory(e, "flags", bytes);
    if (bytes &&
        cuda_check_call(
            c, c->driver.to_host(found, (CUdeviceptr)(uintptr_t)c->nan_found, bytes, c->stream),
            "flags") &&
        cuda_check_call(c, c->driver.stream_sync(c->stream), "loading"))
        unpack_nan_matrices(c, found);
    bool ok = !bytes || clear_flags(c, e);
    free(found);
    c->n_packed = 0;
    /* streaming needs the staging permanently */
    if (c->loading && c->n_streamed) {
        c->staging = c->arena + c->arena_size - LOAD_STAGING;
        c->arena_size -= LOAD_STAGING;
    }
    c->loading = false;
    ok = cuda_finish(&c->base, e) && ok;
    if (c->staging_own && !c->n_streamed) { /* separate staging is not in the plan */
        c->driver.memory_free((CUdeviceptr)(uintptr_t)c->staging);
        c->staging = NULL;
        c->staging_own = false;
    }
    return ok;
}

struct dev_matrix cuda_dev_matrix(struct cuda *c, const struct placed *placed)
{
    const struct cuda_weight *w = cuda_weight_of(placed);
    if (w->group) upload_group(c, w->group - 1);
    return w->matrix;
}
