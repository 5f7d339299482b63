/* SPDX-License-Identifier: Apache-2.0 */
/* The host side of a problem: memory that ends at a guard page, and values of every kind, all from
 * one seed. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/kernel_tests.h"

void *memory_alloc(struct memory *m, size_t bytes, size_t before_end)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE),
           size = (bytes + before_end + page - 1) / page * page;
    if (m->n == MAX_ALLOCATIONS) abort();
    char *map = mmap(NULL, size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED || mprotect(map + size, page, PROT_NONE) != 0) {
        perror("memory of a test");
        exit(2);
    }
    m->map[m->n] = map;
    m->size[m->n++] = size + page;
    return map + size - before_end - bytes;
}

void memory_free(struct memory *m)
{
    for (int i = 0; i < m->n; i++)
        munmap(m->map[i], m->size[i]);
    m->n = 0;
}

uint64_t random_bits(uint64_t *state) /* splitmix64 */
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

float random_float(uint64_t *state)
{
    return (float)(int64_t)(random_bits(state) >> 40) * 0x1p-23f - 1.0f;
}

/* ---- matrices ---- */

static uint32_t float_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof(bits));
    return bits;
}

/* The bits of an integer from -4 to 4. */
static uint32_t integer_bits(enum dtype dtype, int value)
{
    static const uint16_t f16[] = {0, 0x3c00, 0x4000, 0x4200, 0x4400};
    static const uint8_t f8[] = {0, 0x38, 0x40, 0x44, 0x48};
    int magnitude = value < 0 ? -value : value;
    switch (dtype) {
    case DTYPE_F8_E4M3: return f8[magnitude] | (value < 0 ? 0x80u : 0);
    case DTYPE_F16: return f16[magnitude] | (value < 0 ? 0x8000u : 0);
    case DTYPE_BF16: return float_bits((float)value) >> 16;
    default: return float_bits((float)value);
    }
}

static uint32_t random_bits_of(enum dtype dtype, uint64_t bits, float factor)
{
    float value = ((float)(int32_t)(bits >> 32) * 0x1p-31f) * factor;
    switch (dtype) {
    case DTYPE_F8_E4M3:
        return (bits & 0x7f) == 0x7f ? (uint32_t)bits & 0xfe : (uint32_t)bits & 0xff;
    case DTYPE_F16: return (uint32_t)(bits & 0x83ff) | (uint32_t)(9 + (bits >> 16) % 6) << 10;
    case DTYPE_BF16: return float_bits(value) >> 16;
    default: return float_bits(value);
    }
}

/* Narrow types: all values in turn; others: random bits. Only finite values if `finite`. */
static uint32_t any_bits(enum dtype dtype, uint64_t bits, uint64_t i, bool finite)
{
    uint32_t bits_of_value = (uint32_t)(bits >> 7);
    switch (dtype) {
    case DTYPE_F8_E4M3:
        bits_of_value = (uint32_t)i & 0xff;
        return finite && (bits_of_value & 0x7f) == 0x7f ? bits_of_value & 0x80 : bits_of_value;
    case DTYPE_F16:
        bits_of_value &= 0xffff;
        return finite && (bits_of_value & 0x7c00) == 0x7c00 ? bits_of_value & 0x83ff
                                                            : bits_of_value;
    case DTYPE_BF16:
        bits_of_value &= 0xffff;
        return finite && (bits_of_value & 0x7f80) == 0x7f80 ? bits_of_value & 0x807f
                                                            : bits_of_value;
    default:
        return finite && (bits_of_value & 0x7f800000) == 0x7f800000 ? bits_of_value & 0x807fffff
                                                                    : bits_of_value;
    }
}

static uint32_t matrix_bits(struct problem *p, const struct tensor *w, int64_t row, int64_t col,
                            enum fill fill)
{
    uint64_t bits = random_bits(&p->random);
    switch (fill) {
    case FILL_EXACT:
        return integer_bits(w->dtype, (int)(bits >> 8 & 3) * (col % 2 ? -1 : 1) + (int)(bits & 1));
    case FILL_ALL_VALUES: return any_bits(w->dtype, bits, (uint64_t)(row + col), row % 3 != 0);
    case FILL_LARGE: return random_bits_of(w->dtype, bits, 1e15f);
    case FILL_TINY: return random_bits_of(w->dtype, bits, 1e-16f);
    default: return random_bits_of(w->dtype, bits, 1.0f);
    }
}

static float scale_value(struct problem *p, enum fill fill)
{
    float random = 0.002f * (1.5f + random_float(&p->random));
    switch (fill) {
    case FILL_EXACT:
    case FILL_ALL_VALUES:
        return (float)(1 << (random_bits(&p->random) >> 20 & 1)) *
               0.5f; /* exact with any first factor */
    case FILL_LARGE: return random * 1e15f;
    case FILL_TINY: return random * 1e-16f;
    default: return random;
    }
}

static void make_scales(struct problem *p, struct tensor *w, enum fill fill)
{
    const size_t bytes = weight_block_scale_bytes(w);
    float *scale = memory_alloc(&p->memory, bytes, 0);
    for (size_t i = 0; i < bytes / sizeof(float); i++)
        scale[i] = scale_value(p, fill);
    w->scale = scale;
}

static uint16_t *int4_scales(struct problem *p, size_t n, enum fill fill)
{
    uint16_t *scale = memory_alloc(&p->memory, n * sizeof(*scale), 0);
    for (size_t i = 0; i < n; i++)
        scale[i] = (uint16_t)(float_bits(scale_value(p, fill)) >> 16);
    return scale;
}

/* Uses the widest groups that fit the columns. */
static void make_int4(struct problem *p, struct tensor *w, enum fill fill)
{
    w->group_size = w->cols % 128 == 0 ? 128 : w->cols % 64 == 0 ? 64 : 32;
    if (w->cols % w->group_size) abort();
    size_t groups = (size_t)weight_groups(w), bytes = weight_data_bytes(w),
           zero_bytes = (size_t)(w->rows + 7) / 8 * groups * sizeof(uint32_t);
    uint8_t *quantized = memory_alloc(&p->memory, bytes, 0),
            *zeros = memory_alloc(&p->memory, zero_bytes, 0);
    for (size_t i = 0; i < bytes; i++)
        quantized[i] = (uint8_t)(random_bits(&p->random) >> 20);
    for (size_t i = 0; i < zero_bytes; i++)
        zeros[i] = (uint8_t)(random_bits(&p->random) >> 20);
    w->data = quantized;
    w->group_zero = zeros;
    w->group_scale = int4_scales(p, (size_t)w->rows * groups, fill);
}

/* Any values but NaN; scales from 2^-9 to 2^-6. */
static void make_mxfp8(struct problem *p, struct tensor *w)
{
    w->group_size = 32;
    w->scale_dtype = DTYPE_F8_E8M0;
    const size_t bytes = weight_data_bytes(w), n = (size_t)w->rows * (size_t)weight_groups(w);
    uint8_t *data = memory_alloc(&p->memory, bytes, 0), *scale = memory_alloc(&p->memory, n, 0);
    for (size_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)random_bits_of(DTYPE_F8_E4M3, random_bits(&p->random), 1);
    for (size_t i = 0; i < n; i++)
        scale[i] = (uint8_t)(118 + (random_bits(&p->random) >> 20) % 4);
    w->data = data;
    w->group_scale = scale;
}

/* Any values; block scales as in real layers. */
static void make_gguf(struct problem *p, struct tensor *w)
{
    static const struct {
        enum dtype dtype;
        int half[2];
    } scales[] = {{DTYPE_Q4_0, {0, 0}},     {DTYPE_Q4_1, {0, 2}},   {DTYPE_Q5_0, {0, 0}},
                  {DTYPE_Q5_1, {0, 2}},     {DTYPE_Q8_0, {0, 0}},   {DTYPE_Q2_K, {80, 82}},
                  {DTYPE_Q3_K, {108, 108}}, {DTYPE_Q4_K, {0, 2}},   {DTYPE_Q5_K, {0, 2}},
                  {DTYPE_Q6_K, {208, 208}}, {DTYPE_IQ4_NL, {0, 0}}, {DTYPE_IQ4_XS, {0, 0}}};
    const size_t size = dtype_info(w->dtype)->bytes, bytes = weight_data_bytes(w);
    uint8_t *data = memory_alloc(&p->memory, bytes, 0);
    for (size_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)(random_bits(&p->random) >> 20);
    for (size_t block = 0; block < bytes; block += size) {
        for (size_t i = 0; i < sizeof(scales) / sizeof(scales[0]); i++)
            for (int k = 0; scales[i].dtype == w->dtype && k < 2; k++) /* 2^-8 to 2^-6 */
                data[block + (size_t)scales[i].half[k] + 1] =
                    (uint8_t)(0x1c + (random_bits(&p->random) >> 20) % 8) |
                    (random_bits(&p->random) >> 30 & 1 ? 0x80 : 0);
        if (w->dtype == DTYPE_GGUF_MXFP4) data[block] = (uint8_t)(118 + data[block] % 8);
        for (size_t i = 0; w->dtype == DTYPE_GGUF_NVFP4 && i < 4; i++)
            data[block + i] &= 0x3f;
        if (w->dtype == DTYPE_Q8_K) data[block + 3] = 0x3b;
    }
    w->data = data;
}

void make_matrix(struct problem *p, int slot, int64_t rows, int64_t cols, enum dtype dtype,
                 enum fill fill)
{
    static const enum dtype mixed[] = {DTYPE_F8_E4M3, DTYPE_BF16, DTYPE_F16, DTYPE_F32};
    struct tensor *w = &p->w[slot];
    *w = (struct tensor){
        .dtype = dtype == DTYPE_NONE ? mixed[slot] : dtype, .rows = rows, .cols = cols};
    size_t size = dtype_size(w->dtype);
    if (dtype_is_gguf(w->dtype)) {
        make_gguf(p, w);
        return;
    }
    if (dtype == DTYPE_INT4) {
        make_int4(p, w, fill);
        return;
    }
    if (dtype == DTYPE_MXFP8) {
        make_mxfp8(p, w);
        return;
    }
    uint8_t *data = memory_alloc(&p->memory, (size_t)(rows * cols) * size, 0);
    for (int64_t row = 0; row < rows; row++)
        for (int64_t col = 0; col < cols; col++) {
            uint32_t bits_of_value = matrix_bits(p, w, row, col, fill);
            memcpy(data + (size_t)(row * cols + col) * size, &bits_of_value, size);
        }
    w->data = data;
    if (w->dtype != DTYPE_F8_E4M3) return;
    make_scales(p, w, fill);
    p->int16[slot] = memset(memory_alloc(&p->memory, 1, 0),
                            fill == FILL_EXACT ? CPU_INT16_NO : CPU_INT16_UNKNOWN,
                            1); /* int16 would not be exact */
}

void move_matrices(struct problem *p)
{
    for (size_t i = 0; i < sizeof(p->w) / sizeof(p->w[0]); i++) {
        if (!p->w[i].data) continue;
        size_t bytes = weight_data_bytes(&p->w[i]);
        void *at = memory_alloc(&p->memory, bytes, bytes % 2 ? 2 : 1);
        p->w[i].data = memcpy(at, p->w[i].data, bytes);
    }
}

/* ---- vectors and rows ---- */

enum dtype vector_dtype(enum dtype matrix)
{
    return matrix == DTYPE_F16 || matrix == DTYPE_F32 ? matrix : DTYPE_BF16;
}

/* Exact problems get integers from low to high. */
void make_vector(struct problem *p, int slot, int64_t n, float low, float high, enum dtype dtype)
{
    struct tensor *v = &p->v[slot];
    size_t size = dtype_size(dtype);
    uint8_t *data = memory_alloc(&p->memory, (size_t)n * size, 0);
    *v = (struct tensor){.data = data, .dtype = dtype, .rows = 1, .cols = n};
    for (int64_t i = 0; i < n; i++) {
        float value = low + (high - low) * (0.5f + 0.5f * random_float(&p->random));
        uint32_t bits_of_value = p->c->fill == FILL_EXACT
                                     ? integer_bits(dtype, (int)value)
                                     : float_bits(value) >> (dtype == DTYPE_BF16 ? 16 : 0);
        if (dtype == DTYPE_F16 && p->c->fill != FILL_EXACT)
            bits_of_value = random_bits_of(dtype, random_bits(&p->random), 1) &
                            (low < 0 ? 0xffff : 0x7fff);
        memcpy(data + (size_t)i * size, &bits_of_value, size);
    }
}

static float row_value(struct problem *p, int row, int col, int width, enum fill fill)
{
    float random = random_float(&p->random), sign = random < 0 ? -1.0f : 1.0f;
    bool hot = col == (row * 37 + row / 2) % width;
    switch (fill) {
    case FILL_EXACT: return (float)(int)(random * 4.5f);
    case FILL_ALL_VALUES: return hot ? 1.0f : 0.0f;
    case FILL_LARGE: return row % 2 ? random * 1e18f : hot ? sign * 1e18f : 0.0f;
    case FILL_TINY: return random * (col % 2 ? 1e-20f : 1e-39f);
    case FILL_ZERO: return sign * 0.0f;
    default: return random;
    }
}

float *make_rows(struct problem *p, int n, int width, enum fill fill)
{
    float *x = memory_alloc(&p->memory, (size_t)n * (size_t)width * sizeof(float), 0);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < width; k++)
            x[(size_t)i * (size_t)width + (size_t)k] = row_value(p, i, k, width, fill);
    return x;
}

int32_t *make_ints(struct problem *p, int n, int below)
{
    int32_t *out = memory_alloc(&p->memory, (size_t)n * sizeof(*out), 0);
    for (int i = 0; i < n; i++)
        out[i] = (int32_t)(random_bits(&p->random) % (uint64_t)below);
    return out;
}

void make_rope(struct problem *p, int n_pairs, int axes)
{
    float *frequency = memory_alloc(&p->memory, (size_t)n_pairs * sizeof(*frequency), 0);
    uint8_t *axis = memory_alloc(&p->memory, (size_t)n_pairs, 0);
    for (int i = 0; i < n_pairs; i++) {
        frequency[i] = 1.0f / (1.0f + (float)(i * i));
        axis[i] = (uint8_t)(i % axes);
    }
    p->rope = (struct rope){frequency, axis, n_pairs};
}

void problem_open(struct problem *p, const struct test_case *c, uint64_t seed)
{
    memset(p, 0, sizeof(*p));
    p->c = c;
    p->random = seed;
    p->n = c->n;
    p->unit = 1;
    p->out_width = c->m;
    p->slack = 1;
    int width = c->k > c->m ? c->k : c->m;
    p->limits = (struct backend_limits){
        .max_rows = c->n, .max_keys = 64, .max_width = width, .max_patches = 64};
    p->limits.int4 = c->dtype == DTYPE_INT4 || c->dtype == DTYPE_MXFP8;
    c->op->prepare(p);
    for (size_t i = 0; i < sizeof(p->w) / sizeof(p->w[0]); i++) {
        if (!p->flops) p->bytes += (double)weight_data_bytes(&p->w[i]);
    }
    if (!p->flops)
        for (size_t i = 0; i < sizeof(p->w) / sizeof(p->w[0]); i++)
            p->flops += 2 * (double)p->w[i].rows * (double)p->w[i].cols * p->n;
}

void problem_close(struct problem *p)
{
    memory_free(&p->memory);
}
