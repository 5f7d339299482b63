/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/repack.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/layout_parts.h"
#include "tensor/dequantize.h"

enum { ALIGNMENT = 64, TILE_ROWS = ZEROS_PER_WORD, GRAIN = 4 /* tiles a thread takes at a time */ };

/* ---- quantized values ---- */

static uint32_t word_at(const uint8_t *words, int64_t i)
{
    uint32_t word;
    memcpy(&word, words + (size_t)i * sizeof(word), sizeof(word));
    return word;
}

/* A bit stream of quantized values in words that are `step` words apart. */
struct code_stream {
    const uint8_t *words;
    int64_t step;
    int bits;
    bool padded;
    uint32_t added; /* added to each word */
};

static uint32_t code_at(const struct code_stream *s, int64_t i)
{
    const int64_t per = 32 / s->bits;
    const uint32_t mask = (1u << s->bits) - 1;
    if (s->padded || 32 % s->bits == 0)
        return (word_at(s->words, i / per * s->step) + s->added) >> (int)(i % per) * s->bits & mask;
    const int64_t bit = i * s->bits;
    const int shift = (int)(bit % 32);
    uint64_t window = word_at(s->words, bit / 32 * s->step);
    if (shift + s->bits > 32) window |= (uint64_t)word_at(s->words, (bit / 32 + 1) * s->step) << 32;
    return (uint32_t)(window >> shift) & mask;
}

/* Unpacks n values of 1, 2, 4 or 8 bits; n is a multiple of the values per word. */
static void spread_words(uint8_t *out, const struct code_stream *s, int64_t n)
{
    const int64_t per = 32 / s->bits;
    const uint32_t mask = (1u << s->bits) - 1;
    for (int64_t w = 0; w < n / per; w++) {
        const uint32_t word = word_at(s->words, w * s->step);
        for (int64_t i = 0; i < per; i++)
            *out++ = (uint8_t)(word >> (int)i * s->bits & mask);
    }
}

static void read_stream(uint8_t *out, const struct code_stream *s, int64_t n)
{
    const bool fills = 32 % s->bits == 0;
    const int64_t whole = fills ? n / (32 / s->bits) * (32 / s->bits) : 0;
    if (fills) spread_words(out, s, whole);
    for (int64_t i = whole; i < n; i++)
        out[i] = (uint8_t)code_at(s, i);
}

/* The bit offset of row r % 8 within an AutoAWQ word. */
static int awq_shift(int64_t row)
{
    static const uint8_t nibble[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    return nibble[row % 8] * 4;
}

static void read_row(uint8_t *out, const struct stored_weight *s, int64_t row)
{
    const uint8_t *data = s->codes->data;
    const int64_t last = s->codes->shape[s->codes->n_dims - 1];
    if (s->layout == CODES_SIGNED) {
        for (int64_t c = 0; c < s->cols; c++)
            out[c] = (uint8_t)(data[row * s->cols + c] ^ 0x80);
    } else if (s->layout == CODES_AWQ) {
        for (int64_t c = 0; c < s->cols; c++)
            out[c] = (uint8_t)(word_at(data, c * last + row / 8) >> awq_shift(row) & 15);
    } else {
        const bool down = s->layout == CODES_IN_COLUMNS;
        const struct code_stream stream = {data + (size_t)(down ? row : row * last) * 4,
                                           down ? last : 1, s->bits, s->padded, 0};
        read_stream(out, &stream, s->cols);
    }
}

/* Reads eight rows that share AutoAWQ's words. The words of consecutive columns lie in different
 * cache lines, so each word is read only once. */
static void unpack_awq_rows(uint8_t *out, const struct stored_weight *s, int64_t first)
{
    const int64_t last = s->codes->shape[s->codes->n_dims - 1];
    for (int64_t c = 0; c < s->cols; c++) {
        const uint32_t word = word_at(s->codes->data, c * last + first / 8);
        for (int64_t row = 0; row < 8; row++)
            out[row * s->cols + c] = (uint8_t)(word >> awq_shift(row) & 15);
    }
}

/* Reads n rows into out[n][cols]. */
static void read_rows(uint8_t *out, const struct stored_weight *s, int64_t first, int64_t n)
{
    if (s->layout == CODES_AWQ && first % 8 == 0 && n == 8) {
        unpack_awq_rows(out, s, first);
        return;
    }
    for (int64_t row = 0; row < n; row++)
        read_row(out + row * s->cols, s, first + row);
}

/* ---- zero points ---- */

/* Returns a word with a 1 in each field, or 0 for 3 bits, whose fields cross words. When it is
 * added to a word, a full field carries into the next one, as in the programs that write GPTQ. */
static uint32_t ones_of(int bits)
{
    return bits == 2 ? 0x55555555 : bits == 4 ? 0x11111111 : bits == 8 ? 0x01010101 : 0;
}

static int zero_of(const struct stored_weight *s, int64_t row, int64_t group)
{
    if (s->zero_layout == ZEROS_DEFAULT) return s->zero;
    const uint8_t *data = s->zeros->data;
    const int64_t last = s->zeros->n_dims ? s->zeros->shape[s->zeros->n_dims - 1] : 1;
    struct code_stream stream = {data, 1, s->bits, s->padded, 0};
    switch (s->zero_layout) {
    case ZEROS_SIGNED: return data[row * s->scale_row_step + group * s->scale_group_step] ^ 0x80;
    case ZEROS_AWQ: return (int)(word_at(data, group * last + row / 8) >> awq_shift(row) & 15);
    case ZEROS_OF_ROWS:
        stream.words = data + (size_t)(row * last) * 4;
        return (int)code_at(&stream, group);
    case ZEROS_DOWN_ROWS:
        stream.words = data + (size_t)group * 4;
        stream.step = last;
        return (int)code_at(&stream, row);
    default: break;
    }
    stream.words = data + (size_t)(group * last) * 4;
    if (!s->zeros_less_one) return (int)code_at(&stream, row);
    stream.added = ones_of(s->bits);
    const int zero = (int)code_at(&stream, row);
    return stream.added ? zero : (zero + 1) & ((1 << s->bits) - 1);
}

/* ---- the result ---- */

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* The largest int4 group size that divides a stored group; 0 if there is none. */
static int int4_group(int stored)
{
    return stored % 128 == 0 ? 128 : stored % 64 == 0 ? 64 : stored % 32 == 0 ? 32 : 0;
}

void describe_repacked(struct tensor *out, const struct weight_recipe *recipe)
{
    const struct stored_weight *s = recipe->stored;
    const int group = s->bits <= 4 && s->layout != CODES_SIGNED ? int4_group(s->group) : 0;
    *out = (struct tensor){.data = s->codes->data,
                           .dtype = group ? DTYPE_INT4 : DTYPE_UINT8,
                           .rows = s->rows,
                           .cols = s->cols,
                           .group_size = group ? group : s->group,
                           .scale_dtype = s->scale->dtype,
                           .signed_scales = true,
                           .recipe = recipe};
    out->place = s->order ? (const int32_t *)(const void *)s->order->data : NULL;
}

size_t repacked_bytes(const struct tensor *w)
{
    return aligned(weight_data_bytes(w)) + aligned(weight_group_scale_bytes(w)) +
           aligned(weight_group_zero_bytes(w)) +
           (w->place ? aligned((size_t)w->cols * sizeof(int32_t)) : 0);
}

struct repack_job {
    const struct stored_weight *s;
    const struct tensor *w; /* the result's dtype, shape and group; its pointers are not used */
    uint8_t *data, *scale, *zero;
    const int32_t *place;
    int64_t first_row;
    atomic_bool out_of_memory, not_finite;
};

/* Computes the destination of each column: a stable sort by group. */
static bool order_columns(int32_t *place, const struct stored_weight *s, ey_err *e)
{
    const int64_t groups = s->cols / s->group;
    int32_t *next = calloc((size_t)groups, sizeof(*next));
    bool ok = next != NULL;
    if (!ok) return ey_fail_memory(e, "groups of columns", (size_t)groups * sizeof(*next));
    for (int64_t c = 0; ok && c < s->cols; c++) {
        const uint32_t group = word_at(s->order->data, c);
        ok = group < (uint64_t)groups && next[group] < s->group;
        if (ok) place[c] = (int32_t)group * s->group + next[group]++;
    }
    free(next);
    return ok || ey_fail(e, EY_BAD_MODEL,
                         "%s: tensor %s does not put %d columns into each of %lld groups",
                         s->order->file, s->order->name, s->group, (long long)groups);
}

static void put_codes(const struct repack_job *j, int64_t row, const uint8_t *codes)
{
    const int64_t cols = j->w->cols;
    uint8_t *out = j->data + (size_t)row * weight_row_bytes(j->w);
    if (j->w->dtype == DTYPE_UINT8) {
        for (int64_t c = 0; c < cols; c++)
            out[j->place ? j->place[c] : c] = codes[c];
        return;
    }
    if (!j->place) {
        for (int64_t c = 0; c < cols; c += 2)
            out[c / 2] = (uint8_t)(codes[c] | codes[c + 1] << 4);
        return;
    }
    memset(out, 0, (size_t)cols / 2);
    for (int64_t c = 0; c < cols; c++)
        out[j->place[c] / 2] |= (uint8_t)(codes[c] << j->place[c] % 2 * 4);
}

/* Whether the scale is finite and so small that its product with any 8-bit value is finite too. */
static bool is_finite_scale(const uint8_t *p, enum dtype dtype)
{
    float value;
    elements_to_f32(&value, p, dtype, 1);
    return fabsf(value) <= LARGEST_SCALE;
}

/* Writes the scale and zero point of each group of a row. One stored group may become several. */
static bool put_groups(const struct repack_job *j, int64_t row)
{
    const struct stored_weight *s = j->s;
    const int64_t groups = weight_groups(j->w), stored_row = j->first_row + row;
    const size_t size = dtype_size(s->scale->dtype);
    bool finite = true;
    for (int64_t g = 0; g < groups; g++) {
        const int64_t from = g * j->w->group_size / s->group;
        const uint8_t *scale = s->scale->data + (size_t)(stored_row * s->scale_row_step +
                                                         from * s->scale_group_step) *
                                                    size;
        const int zero = zero_of(s, stored_row, from);
        memcpy(j->scale + (size_t)(row * groups + g) * size, scale, size);
        finite = finite && is_finite_scale(scale, s->scale->dtype);
        if (j->w->dtype == DTYPE_UINT8)
            j->zero[row * groups + g] = (uint8_t)zero;
        else
            ((uint32_t *)(void *)j->zero)[row / ZEROS_PER_WORD * groups + g] |=
                (uint32_t)zero << row % ZEROS_PER_WORD * 4;
    }
    return finite;
}

static void repack_tiles(void *context, size_t begin, size_t end, int thread)
{
    struct repack_job *j = context;
    const int64_t cols = j->w->cols;
    uint8_t *codes = malloc(TILE_ROWS * (size_t)cols);
    (void)thread;
    if (!codes) atomic_store(&j->out_of_memory, true);
    for (size_t tile = begin; codes && tile < end; tile++) {
        const int64_t first = (int64_t)tile * TILE_ROWS, left = j->w->rows - first,
                      n = left < TILE_ROWS ? left : TILE_ROWS;
        read_rows(codes, j->s, j->first_row + first, n);
        for (int64_t row = 0; row < n; row++) {
            put_codes(j, first + row, codes + row * cols);
            if (!put_groups(j, first + row)) atomic_store(&j->not_finite, true);
        }
    }
    free(codes);
}

bool repack_weight(struct tensor *out, void *memory, const struct tensor *w, struct pool *pool,
                   ey_err *e)
{
    const struct stored_weight *s = w->recipe->stored;
    struct repack_job j = {.s = s, .w = w, .data = memory, .first_row = w->recipe_row};
    j.scale = j.data + aligned(weight_data_bytes(w));
    j.zero = j.scale + aligned(weight_group_scale_bytes(w));
    int32_t *place = (int32_t *)(void *)(j.zero + aligned(weight_group_zero_bytes(w)));
    if (s->order && !order_columns(place, s, e)) return false;
    j.place = s->order ? place : NULL;
    memset(j.zero, 0, weight_group_zero_bytes(w));
    pool_run(pool, (size_t)((w->rows + TILE_ROWS - 1) / TILE_ROWS), GRAIN, repack_tiles, &j);
    *out = *w;
    out->data = j.data;
    out->group_scale = j.scale;
    out->group_zero = j.zero;
    out->place = j.place;
    if (atomic_load(&j.out_of_memory))
        return ey_fail_memory(e, "rows of a weight", TILE_ROWS * (size_t)w->cols);
    return !atomic_load(&j.not_finite) ||
           ey_fail(e, EY_BAD_MODEL,
                   "%s: tensor %s has a scale that is not a finite number of at most 2^119",
                   s->scale->file, s->scale->name);
}
