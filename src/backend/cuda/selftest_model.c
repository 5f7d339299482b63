/* SPDX-License-Identifier: Apache-2.0 */
/* The self-test's weights and buffers on both sides. Random numbers are chosen so that both sides
 * round inputs alike, and results differ only by the rounding of sums. */
#include <math.h>
#include <string.h>

#include "backend/cuda/selftest.h"
#include "tensor/dequantize.h"

/* ---- numbers ---- */

static uint32_t selftest_random_bits(struct selftest *t)
{
    t->random = t->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(t->random >> 33);
}

void *selftest_alloc(struct selftest *t, size_t bytes)
{
    void *p = arena_alloc(&t->host, bytes);
    t->out_of_memory |= !p;
    return p;
}

float *selftest_random_floats(struct selftest *t, size_t n, float low, float high)
{
    float *p = selftest_alloc(t, n * sizeof(float));
    for (size_t i = 0; p && i < n; i++)
        p[i] = low + (high - low) * ((float)selftest_random_bits(t) * 0x1p-31f);
    return p;
}

static float *random_bf16_values(struct selftest *t, size_t n)
{
    float *p = selftest_random_floats(t, n, -1, 1);
    for (size_t i = 0; p && i < n; i++)
        p[i] = bf16_to_f32(f32_to_bf16(p[i]));
    return p;
}

/* Makes rows whose RMSNorm has few bits, so that BF16 and e4m3 hold it exactly: the mean square of
 * each eight elements is 64. */
static float *make_norm_input(struct selftest *t, size_t n)
{
    static const float magnitude[8] = {0, 3, 4, 5, 7, 10, 12, 13};
    float *p = selftest_alloc(t, n * sizeof(float));
    for (size_t first = 0; p && first < n; first += 8) {
        uint32_t bits = selftest_random_bits(t);
        for (uint32_t i = 0; i < 8; i++) {
            uint32_t at = (i * (bits & 6) + i + (bits >> 3)) %
                          8; /* an odd step reaches all eight */
            p[first + i] = bits >> (8 + i) & 1 ? -magnitude[at] : magnitude[at];
        }
    }
    return p;
}

/* ---- tensors, as a file would have them ---- */

/* Makes an FP8 matrix whose results over COLS columns are about 1. */
static struct tensor fp8_tensor(struct selftest *t, int rows, int cols)
{
    size_t n = (size_t)rows * (size_t)cols,
           n_scales = (size_t)((rows + FP8_BLOCK - 1) / FP8_BLOCK *
                               ((cols + FP8_BLOCK - 1) / FP8_BLOCK));
    uint8_t *data = selftest_alloc(t, n);
    for (size_t i = 0; data && i < n; i++) {
        data[i] = (uint8_t)selftest_random_bits(t);
        if ((data[i] & 0x7f) == 0x7f) data[i] ^= 1; /* avoids NaN */
    }
    return (struct tensor){.data = data,
                           .dtype = DTYPE_F8_E4M3,
                           .rows = rows,
                           .cols = cols,
                           .scale = selftest_random_floats(t, n_scales, 3e-4f, 8e-4f)};
}

static struct tensor bf16_tensor(struct selftest *t, int rows, int cols)
{
    size_t n = (size_t)rows * (size_t)cols;
    float size = sqrtf(3 / (float)cols);
    const float *values = selftest_random_floats(t, n, -size, size);
    uint16_t *data = selftest_alloc(t, n * sizeof(*data));
    for (size_t i = 0; values && data && i < n; i++)
        data[i] = f32_to_bf16(values[i]);
    return (struct tensor){.data = data, .dtype = DTYPE_BF16, .rows = rows, .cols = cols};
}

static struct tensor f32_tensor(struct selftest *t, int rows, int cols)
{
    float size = sqrtf(3 / (float)cols);
    return (struct tensor){
        .data = selftest_random_floats(t, (size_t)rows * (size_t)cols, -size, size),
        .dtype = DTYPE_F32,
        .rows = rows,
        .cols = cols};
}

static struct tensor int4_tensor(struct selftest *t, int rows, int cols)
{
    enum { GROUP = 64 };
    struct tensor w = {.dtype = DTYPE_INT4, .rows = rows, .cols = cols, .group_size = GROUP};
    size_t bytes = (size_t)rows * (size_t)cols / 2, groups = (size_t)(rows * (cols / GROUP));
    uint8_t *data = selftest_alloc(t, bytes),
            *zero = selftest_alloc(t, weight_group_zero_bytes(&w));
    uint16_t *scale = selftest_alloc(t, groups * sizeof(*scale));
    const float *scales = selftest_random_floats(t, groups, 0.005f, 0.012f);
    for (size_t i = 0; data && i < bytes; i++)
        data[i] = (uint8_t)selftest_random_bits(t);
    for (size_t i = 0; zero && i < weight_group_zero_bytes(&w); i++)
        zero[i] = (uint8_t)selftest_random_bits(t);
    for (size_t i = 0; scales && scale && i < groups; i++)
        scale[i] = f32_to_bf16(scales[i]);
    w.data = data;
    w.group_scale = scale;
    w.group_zero = zero;
    return w;
}

/* Makes a GGUF matrix whose results over COLS columns are about 1: codes are random, and the
 * exponents of the scales are set. */
static struct tensor gguf_tensor(struct selftest *t, enum dtype dtype, int rows, int cols)
{
    static const struct {
        enum dtype dtype;
        uint8_t half[2]; /* offsets of the scales' upper bytes; 0 if there is none */
        uint8_t size;    /* exponent bits of these bytes */
    } halves[] = {
        {DTYPE_Q4_0, {1}, 0x20},    {DTYPE_Q4_1, {1, 3}, 0x20}, {DTYPE_Q5_0, {1}, 0x1c},
        {DTYPE_Q5_1, {1, 3}, 0x1c}, {DTYPE_Q8_0, {1}, 0x10},    {DTYPE_Q2_K, {81, 83}, 0x18},
        {DTYPE_Q3_K, {109}, 0x10},  {DTYPE_Q4_K, {1, 3}, 0x0c}, {DTYPE_Q5_K, {1, 3}, 0x08},
        {DTYPE_Q6_K, {209}, 0x04},  {DTYPE_IQ4_NL, {1}, 0x10},  {DTYPE_IQ4_XS, {1}, 0x04},
        {DTYPE_Q8_K, {3}, 0x38}};
    struct tensor w = {.dtype = dtype, .rows = rows, .cols = cols};
    const size_t size = dtype_info(dtype)->bytes, bytes = weight_data_bytes(&w);
    uint8_t *data = selftest_alloc(t, bytes);
    for (size_t i = 0; data && i < bytes; i++)
        data[i] = (uint8_t)selftest_random_bits(t);
    for (size_t block = 0; data && block < bytes; block += size) {
        for (size_t i = 0; i < sizeof(halves) / sizeof(halves[0]); i++)
            for (int k = 0; halves[i].dtype == dtype && k < 2 && halves[i].half[k]; k++) {
                uint8_t *upper = data + block + halves[i].half[k];
                *upper = (uint8_t)((*upper & 0x83) | halves[i].size);
            }
        if (dtype == DTYPE_GGUF_MXFP4) data[block] = (uint8_t)(122 + data[block] % 4);
        for (size_t i = 0; dtype == DTYPE_GGUF_NVFP4 && i < 4; i++)
            data[block + i] = (uint8_t)(8 + data[block + i] % 24);
    }
    w.data = data;
    return w;
}

/* Makes a matrix whose rows pick a column of x, or its negative: keys and values have as few bits
 * as x, so an e4m3 cache holds them exactly. */
static struct tensor picking_tensor(struct selftest *t, int rows, int cols)
{
    uint16_t *data = selftest_alloc(t, (size_t)rows * (size_t)cols * sizeof(*data));
    for (int i = 0; data && i < rows; i++)
        data[i * cols + (int)(selftest_random_bits(t) % (uint32_t)cols)] =
            selftest_random_bits(t) & 1 ? 0x3f80 : 0xbf80;
    return (struct tensor){.data = data, .dtype = DTYPE_BF16, .rows = rows, .cols = cols};
}

static struct tensor vector_tensor(struct selftest *t, int n, float low, float high)
{
    return (struct tensor){.data = selftest_random_floats(t, (size_t)n, low, high),
                           .dtype = DTYPE_F32,
                           .rows = 1,
                           .cols = n};
}

/* Makes norm weights that add no bits to products. */
static struct tensor norm_tensor(struct selftest *t, int n)
{
    float *p = selftest_alloc(t, (size_t)n * sizeof(float));
    for (int i = 0; p && i < n; i++)
        p[i] = selftest_random_bits(t) & 1 ? 1 : 0.5f;
    return (struct tensor){.data = p, .dtype = DTYPE_F32, .rows = 1, .cols = n};
}

static struct tensor matrix_tensor(struct selftest *t, enum selftest_dtype dtype, int rows,
                                   int cols)
{
    switch (dtype) {
    case OF_GGUF: return gguf_tensor(t, DTYPE_Q5_1, rows, cols);
    case OF_FP8: return fp8_tensor(t, rows, cols);
    case OF_BF16: return bf16_tensor(t, rows, cols);
    case OF_INT4: return int4_tensor(t, rows, cols);
    default: return f32_tensor(t, rows, cols);
    }
}

/* ---- placing ---- */

struct placing {
    struct selftest *t;
    ey_err *e;
    bool ok;
};

static void place_on_both(struct placing *p, struct placed **gpu, struct placed **reference,
                          struct tensor w, enum placement placement)
{
    struct placed **out[SELFTEST_SIDES] = {gpu, reference};
    for (int side = 0; side < SELFTEST_SIDES && p->ok && !p->t->out_of_memory; side++) {
        struct backend *be = p->t->side[side];
        p->ok = be->ops->memory->place(be, out[side], &w, ROLE_TEXT, placement, p->e);
    }
}

/* Places a member of both sides' models. */
#define PLACE_AS(member, tensor, placement)                                                  \
    place_on_both(p, &p->t->model[ON_GPU].member, &p->t->model[ON_REFERENCE].member, tensor, \
                  placement)
#define PLACE(member, tensor) PLACE_AS(member, tensor, PLACE_RESIDENT)

static void place_text(struct placing *p, enum selftest_dtype d)
{
    enum { Q = SELFTEST_HEADS * 72, KV = SELFTEST_KV_HEADS * 72 };
    struct selftest *t = p->t;
    PLACE(text[d].attention.input_norm, norm_tensor(t, SELFTEST_COLS));
    PLACE(text[d].mlp.post_norm, norm_tensor(t, SELFTEST_COLS));
    PLACE(text[d].mlp.gate, matrix_tensor(t, d, SELFTEST_ROWS, SELFTEST_COLS));
    PLACE(text[d].mlp.up, matrix_tensor(t, d, SELFTEST_ROWS, SELFTEST_COLS));
    PLACE(text[d].mlp.down, matrix_tensor(t, d, SELFTEST_ROWS, SELFTEST_COLS));
    if (d == OF_F32) return;
    PLACE(text[d].attention.q, matrix_tensor(t, d, Q, SELFTEST_COLS));
    PLACE(text[d].attention.k, d == OF_GGUF ? gguf_tensor(t, DTYPE_Q8_0, KV, SELFTEST_COLS)
                                            : matrix_tensor(t, d, KV, SELFTEST_COLS));
    PLACE(text[d].attention.v, d == OF_GGUF ? gguf_tensor(t, DTYPE_Q4_0, KV, SELFTEST_COLS)
                                            : matrix_tensor(t, d, KV, SELFTEST_COLS));
    PLACE(head[d], matrix_tensor(t, d, SELFTEST_ROWS, SELFTEST_COLS));
}

static void place_patch_merger(struct placing *p, enum selftest_dtype d)
{
    enum { HIDDEN = SELFTEST_VISION_HEADS * 72, WIDE = 4 * HIDDEN };
    struct selftest *t = p->t;
    PLACE(merger[d].norm.w, vector_tensor(t, HIDDEN, 0.5f, 1.5f));
    PLACE(merger[d].norm.b, vector_tensor(t, HIDDEN, -1, 1));
    PLACE(merger[d].fc1.w, matrix_tensor(t, d, WIDE, WIDE));
    PLACE(merger[d].fc1.b, vector_tensor(t, WIDE, -1, 1));
    PLACE(merger[d].fc2.w, matrix_tensor(t, d, SELFTEST_ROWS, WIDE));
    PLACE(merger[d].fc2.b, vector_tensor(t, SELFTEST_ROWS, -1, 1));
}

/* Places a merger with the norm over all patches of a token; its matrices are the other
 * merger's. */
static void place_deepstack(struct placing *p)
{
    enum { WIDE = 4 * SELFTEST_VISION_HEADS * 72 };
    for (int side = 0; side < SELFTEST_SIDES; side++) {
        struct selftest_model *m = &p->t->model[side];
        m->deepstack = m->merger[OF_BF16];
        m->deepstack.norm_grouped = true;
    }
    PLACE(deepstack.norm.w, vector_tensor(p->t, WIDE, 0.5f, 1.5f));
    PLACE(deepstack.norm.b, vector_tensor(p->t, WIDE, -1, 1));
}

static void place_vision(struct placing *p, enum selftest_dtype d)
{
    enum { HIDDEN = SELFTEST_VISION_HEADS * 72 };
    struct selftest *t = p->t;
    PLACE(vision[d].norm1.w, vector_tensor(t, HIDDEN, 0.5f, 1.5f));
    PLACE(vision[d].norm1.b, vector_tensor(t, HIDDEN, -1, 1));
    PLACE(vision[d].norm2.w, vector_tensor(t, HIDDEN, 0.5f, 1.5f));
    PLACE(vision[d].norm2.b, vector_tensor(t, HIDDEN, -1, 1));
    PLACE(vision[d].qkv.w, matrix_tensor(t, d, 3 * HIDDEN, HIDDEN));
    PLACE(vision[d].qkv.b, vector_tensor(t, 3 * HIDDEN, -1, 1));
    PLACE(vision[d].fc1.w, matrix_tensor(t, d, SELFTEST_ROWS, HIDDEN));
    PLACE(vision[d].fc1.b, vector_tensor(t, SELFTEST_ROWS, -1, 1));
    place_patch_merger(p, d);
}

static void place_narrow_vision(struct placing *p)
{
    enum { HIDDEN = SELFTEST_VISION_HEADS * 64 };
    struct selftest *t = p->t;
    PLACE(narrow_vision.norm1.w, vector_tensor(t, HIDDEN, 0.5f, 1.5f));
    PLACE(narrow_vision.norm1.b, vector_tensor(t, HIDDEN, -1, 1));
    PLACE(narrow_vision.qkv.w, bf16_tensor(t, 3 * HIDDEN, HIDDEN));
    PLACE(narrow_vision.qkv.b, vector_tensor(t, 3 * HIDDEN, -1, 1));
}

static void place_attention_layer(struct placing *p, int wide)
{
    const int dim = wide ? 128 : 64;
    struct selftest *t = p->t;
    PLACE(attention[wide].input_norm, norm_tensor(t, SELFTEST_NARROW));
    PLACE(attention[wide].q, bf16_tensor(t, SELFTEST_HEADS * dim, SELFTEST_NARROW));
    PLACE(attention[wide].k, picking_tensor(t, SELFTEST_KV_HEADS * dim, SELFTEST_NARROW));
    PLACE(attention[wide].v, picking_tensor(t, SELFTEST_KV_HEADS * dim, SELFTEST_NARROW));
    PLACE(attention[wide].q_norm, vector_tensor(t, dim, 0.5f, 1.5f));
    PLACE(attention[wide].k_norm, vector_tensor(t, dim, 0.5f, 1.5f));
}

/* Makes a matrix of repeated rows, so that many logits are equal. */
static struct tensor repeating_tensor(struct selftest *t)
{
    enum { DIFFERENT = 700 };
    struct tensor w = bf16_tensor(t, SELFTEST_VOCABULARY, SELFTEST_NARROW);
    size_t row = SELFTEST_NARROW * sizeof(uint16_t);
    char *data = (char *)(uintptr_t)w.data;
    for (size_t i = DIFFERENT; data && i < SELFTEST_VOCABULARY; i++)
        memcpy(data + i * row, data + i % DIFFERENT * row, row);
    return w;
}

static bool place_all(struct selftest *t, ey_err *e)
{
    struct placing placing = {t, e, true}, *p = &placing;
    place_text(p, OF_FP8);
    place_text(p, OF_BF16);
    place_text(p, OF_INT4);
    place_text(p, OF_F32);
    place_text(p, OF_GGUF);
    for (int i = 0; i < SELFTEST_GGUF_TYPES; i++)
        PLACE(gguf[i],
              gguf_tensor(t, (enum dtype)((int)DTYPE_Q4_0 + i), SELFTEST_ROWS, SELFTEST_GGUF_COLS));
    place_vision(p, OF_FP8);
    place_vision(p, OF_BF16);
    place_deepstack(p);
    place_narrow_vision(p);
    place_attention_layer(p, 0);
    place_attention_layer(p, 1);
    t->int8_head = bf16_tensor(t, SELFTEST_ROWS, SELFTEST_COLS);
    PLACE_AS(head[OF_INT8], t->int8_head, PLACE_EIGHT_BIT);
    PLACE(long_head, repeating_tensor(t));
    PLACE(plain_fp8, fp8_tensor(t, SELFTEST_ROWS, SELFTEST_PLAIN_FP8));
    PLACE(plain_bf16, bf16_tensor(t, SELFTEST_ROWS, SELFTEST_PLAIN_BF16));
    return p->ok;
}

/* ---- buffers ---- */

enum {
    SELFTEST_ARENA = LOAD_STAGING +
                     (24 << 20) /* after loading, SCRATCH_UNPACKED takes the staging's place */
};

static bool alloc_buffers(struct selftest *t, enum selftest_side side, ey_err *e)
{
    struct backend *be = t->side[side];
    const struct memory_ops *memory = be->ops->memory;
    struct selftest_buffers *b = &t->buffers[side];
    const struct kv_shape kv = {1, SELFTEST_KV_HEADS, 128, SELFTEST_SEQS * SELFTEST_BLOCKS, false};
    const struct {
        dev *out;
        enum element kind;
        size_t n;
    } all[] = {{&b->x, ELEMENT_RESIDUAL, SELFTEST_MOST_ROWS * SELFTEST_COLS},
               {&b->in, ELEMENT_ACTIVATION, SELFTEST_MOST_ROWS * SELFTEST_COLS},
               {&b->out, ELEMENT_ACTIVATION, SELFTEST_MOST_ROWS * SELFTEST_WIDTH},
               {&b->q, ELEMENT_ACTIVATION, SELFTEST_MOST_ROWS * SELFTEST_WIDTH},
               {&b->rope, ELEMENT_ROPE, SELFTEST_MOST_ROWS * 128},
               {&b->features, ELEMENT_FEATURE, 8 * SELFTEST_COLS}};
    bool ok = true;
    for (size_t i = 0; ok && i < sizeof(all) / sizeof(all[0]); i++)
        ok = (*all[i].out = memory->alloc(be, all[i].n * memory->element_size[all[i].kind], e));
    ok = ok && (b->logits = memory->alloc(be, 2 * SELFTEST_VOCABULARY * sizeof(float), e));
    return ok && (b->kv.data = memory->alloc(be, memory->kv_bytes(be, &kv), e));
}

static bool copy_int8_head_rows(struct selftest *t, ey_err *e)
{
    size_t bytes = SELFTEST_ROWS * SELFTEST_COLS * sizeof(bf16);
    t->int8_head_rows = cuda_alloc(t->c, bytes, "rows of a head", e);
    if (t->int8_head_rows) cuda_upload(t->c, t->int8_head_rows, t->int8_head.data, bytes);
    return t->int8_head_rows;
}

static bool reserve_side(struct selftest *t, enum selftest_side side, ey_err *e)
{
    struct backend *be = t->side[side];
    const struct backend_limits limits = {.max_rows = SELFTEST_MOST_ROWS,
                                          .max_seqs = SELFTEST_SEQS,
                                          .max_logits = SELFTEST_FEW,
                                          .max_blocks = SELFTEST_BLOCKS,
                                          .max_keys = SELFTEST_MOST_ROWS,
                                          .max_width = SELFTEST_WIDTH,
                                          .max_patches = 3 * KV_BLOCK,
                                          .int4 = true,
                                          .fp8_prompts = true,
                                          .text = {.hidden = SELFTEST_COLS,
                                                   .n_heads = SELFTEST_HEADS,
                                                   .n_kv_heads = SELFTEST_KV_HEADS,
                                                   .head_dim = 128,
                                                   .mlp = SELFTEST_ROWS,
                                                   .vocab_size = SELFTEST_VOCABULARY},
                                          .vision = {.hidden = SELFTEST_VISION_HEADS * 72,
                                                     .n_heads = SELFTEST_VISION_HEADS,
                                                     .head_dim = 72,
                                                     .mlp = SELFTEST_ROWS,
                                                     .merge = 2}};
    return be->ops->memory->reserve(be, &limits, e);
}

bool selftest_open_model(struct selftest *t, ey_err *e)
{
    struct backend *gpu = t->side[ON_GPU];
    if (!gpu->ops->memory->open_arena(gpu, SELFTEST_ARENA, e) || !place_all(t, e)) return false;
    for (int side = 0; side < SELFTEST_SIDES; side++)
        if (!alloc_buffers(t, (enum selftest_side)side, e)) return false;
    if (!copy_int8_head_rows(t, e)) return false;
    for (int side = 0; side < SELFTEST_SIDES; side++)
        if (!reserve_side(t, (enum selftest_side)side, e)) return false;
    t->x = make_norm_input(t, SELFTEST_MOST_ROWS * SELFTEST_COLS);
    t->in = random_bf16_values(t, SELFTEST_MOST_ROWS * SELFTEST_COLS);
    t->start = selftest_random_floats(t, SELFTEST_TOKENS * SELFTEST_ROWS, -1, 1);
    if (t->out_of_memory) return ey_fail_memory(e, "the self-test of the kernels", t->host.used);
    selftest_finish(t, ON_GPU);
    return t->c->error.code == EY_OK || ey_fail_as(e, &t->c->error);
}
