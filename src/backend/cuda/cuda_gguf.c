/* SPDX-License-Identifier: Apache-2.0 */
/* Uploads matrices of GGUF types: the file's blocks go to staging memory, and kernels repack them
 * from there into the layout of gguf_layout.h. */
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "backend/cuda/cuda_backend.h"
#include "kernels/cuda/loading/repack_weights_launch.h"
#include "tensor/dequantize.h"

/* ---- the largest value ---- */

/* An upper bound of a type's values: `d` times the block's d, plus `other` times its second
 * float16. */
struct gguf_bound {
    uint8_t d_at, other_at; /* offsets in a block; equal if there is no second float16 */
    float d, other;
};

static struct gguf_bound bound_of(enum dtype dtype)
{
    switch (dtype) {
    case DTYPE_Q4_1: return (struct gguf_bound){0, 2, 15, 1};
    case DTYPE_Q5_0: return (struct gguf_bound){0, 0, 16, 0};
    case DTYPE_Q5_1: return (struct gguf_bound){0, 2, 31, 1};
    case DTYPE_Q8_0: return (struct gguf_bound){0, 0, 128, 0};
    case DTYPE_Q2_K: return (struct gguf_bound){80, 82, 15 * 3, 15};
    case DTYPE_Q3_K: return (struct gguf_bound){108, 108, 32 * 4, 0};
    case DTYPE_Q4_K: return (struct gguf_bound){0, 2, 63 * 15, 63};
    case DTYPE_Q5_K: return (struct gguf_bound){0, 2, 63 * 31, 63};
    case DTYPE_Q6_K: return (struct gguf_bound){208, 208, 128 * 32, 0};
    case DTYPE_IQ4_NL: return (struct gguf_bound){0, 0, 127, 0};
    case DTYPE_IQ4_XS: return (struct gguf_bound){0, 0, 32 * 127, 0};
    default: return (struct gguf_bound){0, 0, 8, 0}; /* Q4_0 */
    }
}

/* Returns the bits of a float16 without its sign; they sort like the magnitudes. */
static uint16_t half_at(const uint8_t *p)
{
    return (uint16_t)((p[0] | p[1] << 8) & 0x7fff);
}

/* Returns an upper bound of the magnitudes in the blocks. */
static float largest_of_halves(const uint8_t *block, const uint8_t *end, enum dtype dtype)
{
    const struct gguf_bound bound = bound_of(dtype);
    const size_t size = dtype_info(dtype)->bytes;
    uint16_t d = 0, other = 0;
    for (; block < end; block += size) {
        const uint16_t first = half_at(block + bound.d_at),
                       second = half_at(block + bound.other_at);
        d = first > d ? first : d;
        other = second > other ? second : other;
    }
    return f16_to_f32(d) * bound.d + f16_to_f32(other) * bound.other;
}

static float largest_value(const uint8_t *rows, size_t bytes, enum dtype dtype)
{
    uint8_t most = 0;
    if (dtype == DTYPE_GGUF_NVFP4) return 6 * 448;
    if (dtype != DTYPE_GGUF_MXFP4) return largest_of_halves(rows, rows + bytes, dtype);
    for (size_t at = 0; at < bytes; at += dtype_info(dtype)->bytes)
        most = rows[at] > most ? rows[at] : most;
    return ldexpf(6, most - 127);
}

/* A search by several threads for an upper bound of the magnitudes in a matrix. */
struct largest_search {
    const struct tensor *w;
    pthread_mutex_t lock; /* over `largest` */
    float largest;
};

static void search_blocks(void *context, const void *blocks, size_t bytes)
{
    struct largest_search *s = context;
    const float largest = largest_value(blocks, bytes, s->w->dtype);
    pthread_mutex_lock(&s->lock);
    s->largest = fmaxf(s->largest, largest);
    pthread_mutex_unlock(&s->lock);
}

static void search_rows(void *context, size_t begin, size_t end, int thread)
{
    const struct largest_search *s = context;
    const size_t row_bytes = weight_row_bytes(s->w);
    (void)thread;
    search_blocks(context, (const char *)s->w->data + begin * row_bytes, (end - begin) * row_bytes);
}

float cuda_largest_of_gguf(struct cuda *c, const struct tensor *w)
{
    enum { PIECE = 256 << 10 };
    struct largest_search s = {w, PTHREAD_MUTEX_INITIALIZER, 0};
    pool_run(c->pool, (size_t)w->rows, PIECE / weight_row_bytes(w) + 1, search_rows, &s);
    pthread_mutex_destroy(&s.lock);
    return s.largest;
}

/* Returns the power of two that scales `largest` to 2^14 .. 2^15. */
static float factor_for(float largest)
{
    enum { MOST = 100 };
    int exponent = 0;
    frexpf(largest, &exponent);
    exponent = 15 - exponent;
    return ldexpf(1, exponent > MOST ? MOST : exponent < -MOST ? -MOST : exponent);
}

void cuda_describe_gguf(struct dev_matrix *m, const struct tensor *in, float largest)
{
    m->packed = 1;
    m->dtype = (int32_t)cuda_gguf_dtype(in->dtype);
    m->global_scale = in->factor ? *in->factor : 1;
    m->f16_factor = factor_for(largest);
}

/* ---- blocks → records ---- */

void cuda_upload_gguf(struct cuda *c, void *to, const struct tensor *in, char *staging_memory,
                      float *largest)
{
    struct largest_search search = {in, PTHREAD_MUTEX_INITIALIZER, 0};
    const struct upload_viewer viewer = {dtype_info(in->dtype)->bytes, search_blocks, &search};
    const int64_t row_bytes = (int64_t)weight_row_bytes(in);
    int64_t most = UPLOAD_BYTES / row_bytes / PACK_ROWS * PACK_ROWS;
    int buffer = 0;
    for (int64_t first = 0, n; first < in->rows;
         first += n, buffer = (buffer + 1) % UPLOAD_BUFFERS) {
        n = in->rows - first < most ? in->rows - first : most;
        char *piece = staging_memory + (size_t)buffer * UPLOAD_BYTES;
        cuda_upload_viewed(c, piece, (const char *)in->data + first * row_bytes,
                           (size_t)(n * row_bytes), largest ? &viewer : NULL);
        struct repack_gguf_args a = {(const uint8_t *)piece,
                                     to,
                                     (int32_t)first,
                                     (int32_t)n,
                                     (int32_t)in->cols,
                                     (int32_t)cuda_gguf_dtype(in->dtype),
                                     row_bytes};
        struct launch l = repack_gguf_launch(&a);
        cuda_launch(c, &l, &a);
    }
    if (largest) *largest = search.largest;
    pthread_mutex_destroy(&search.lock);
}
