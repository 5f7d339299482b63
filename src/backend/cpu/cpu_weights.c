/* SPDX-License-Identifier: Apache-2.0 */
/* Places weights on the CPU: they stay where the file is mapped. Only an LM head with
 * PLACE_EIGHT_BIT is quantized while loading, to int8 rows with a scale each, which halves its
 * bytes per token. Its logits are approximate; the engine rescores the best of them from the BF16
 * rows (backend/rescore.h). */
#include <string.h>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/cpu_hugepages.h"
#include "backend/cpu/cpu_matmul.h"
#include "tensor/bf12.h"
#include "tensor/dequantize.h"
#include "backend/host_ops.h"
#include "base/file.h"
#include "base/hugepages.h"

enum { ROWS_AT_ONCE = 64, INT8_LARGEST = 127 };

static size_t int8_bytes(const struct tensor *w)
{
    return (size_t)w->rows * (size_t)w->cols;
}

size_t cpu_weight_bytes(const struct backend *be, const struct tensor *w, enum placement placement)
{
    bool takes = placement == PLACE_EIGHT_BIT && w->dtype == DTYPE_BF16 &&
                 w->cols % CPU_K_STEP == 0;
    return takes ? int8_bytes(w) + (size_t)w->rows * sizeof(float)
                 : host_weight_bytes(be, w, placement);
}

struct int8_job {
    const struct tensor *in;
    int8_t *quantized;
    float *scale;
    bool interleaved; /* columns are permuted so that unpacking returns them in order */
};

/* Returns the largest magnitude of CPU_K_STEP numbers and `most`, as bits, which sort like the
 * magnitudes. Compilers vectorize this loop of integers. */
static int16_t largest_bf16_bits(int16_t most, const uint16_t *x)
{
    for (int i = 0; i < CPU_K_STEP; i++) {
        int16_t size = (int16_t)(x[i] & 0x7fff);
        most = size > most ? size : most;
    }
    return most;
}

/* Rounds x times factor, at most INT8_LARGEST, to integers: adding 1.5 * 2^23 leaves them in the
 * low bits. */
static void round_to_int8(int8_t *out, const uint16_t *x, float factor)
{
    for (int i = 0; i < CPU_K_STEP; i++) {
        float shifted = bf16_to_f32(x[i]) * factor + 12582912.0f;
        int32_t bits;
        memcpy(&bits, &shifted, sizeof(bits));
        out[i] = (int8_t)bits;
    }
}

static void quantize_int8_row(const struct int8_job *j, int64_t row)
{
    const size_t n = (size_t)j->in->cols;
    const char *in = (const char *)j->in->data + (size_t)row * weight_row_bytes(j->in);
    uint16_t x[CPU_K_STEP];
    int16_t bits = 0;
    for (size_t k = 0; k < n; k += CPU_K_STEP)
        bits = largest_bf16_bits(bits, memcpy(x, in + 2 * k, sizeof(x)));
    float most = bf16_to_f32((uint16_t)bits);
    j->scale[row] = most / INT8_LARGEST;
    for (size_t k = 0; k < n; k += CPU_K_STEP) {
        int8_t step[CPU_K_STEP], *out = j->quantized + (size_t)row * n + k;
        round_to_int8(step, memcpy(x, in + 2 * k, sizeof(x)), most > 0 ? INT8_LARGEST / most : 0);
        for (size_t at = 0; at < CPU_K_STEP; at += 8)
            memcpy(out + (j->interleaved ? bf12_column_at(at) : at), step + at, 8);
    }
}

static void quantize_int8_rows(void *context, size_t begin, size_t end, int thread)
{
    (void)thread;
    for (size_t row = begin; row < end; row++)
        quantize_int8_row(context, (int64_t)row);
}

/* Quantizes an LM head to int8 rows in separate memory. */
static bool cpu_place_int8_head(struct cpu *c, struct cpu_weight *out, const struct tensor *in,
                                size_t bytes, ey_err *e)
{
    if (!(c->int8_lm_head = c->base.ops->memory->alloc(&c->base, bytes, e)))
        return ey_fail_memory(e, "the 8-bit head", bytes);
    hugepages_advise(c->int8_lm_head, bytes);
    struct int8_job job = {in, c->int8_lm_head,
                           (float *)(void *)((char *)c->int8_lm_head + int8_bytes(in)),
                           c->k->low_precision && c->k->low_precision->int8_interleaved};
    pool_run(c->pool, (size_t)in->rows, ROWS_AT_ONCE, quantize_int8_rows, &job);
    file_map_release_pages(in->data, weight_data_bytes(in));
    out->m.tensor = (struct tensor){.data = job.quantized,
                                    .dtype = DTYPE_I8,
                                    .rows = in->rows,
                                    .cols = in->cols,
                                    .scale = job.scale};
    return true;
}

bool cpu_place(struct backend *be, struct placed **out, const struct tensor *in,
               enum weight_role role, enum placement placement, ey_err *e)
{
    struct cpu *c = cpu_of(be);
    const size_t bytes = cpu_weight_bytes(be, in, placement);
    struct cpu_weight *w = arena_alloc(&c->placed, sizeof(*w));
    if (!w) return ey_fail_memory(e, "a weight", sizeof(*w));
    *w = (struct cpu_weight){.m.tensor = *in, .role = role, .place = in->place};
    w->m.tensor.place = NULL; /* kernels use the stored column order */
    if (bytes && !cpu_place_int8_head(c, w, in, bytes, e)) return false;
    if (!bytes) cpu_remember_weight(c, w);
    cpu_choose_matmul(c, w);
    *out = (struct placed *)w;
    return true;
}
