/* SPDX-License-Identifier: Apache-2.0 */
/* The head as int8 rows with a multiplier each, made while loading: half of what a token reads of
 * it. Its logits are approximate; the engine scores the best of them again from the stored rows
 * (backend/exact.h). */
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/convert.h"
#include "backend/host.h"
#include "base/file.h"
#include "base/huge.h"

enum { ROWS_AT_ONCE = 64, MOST = 127 };

static size_t code_bytes(const struct weight *w)
{
    return (size_t)w->rows * (size_t)w->cols;
}

size_t cpu_weight_bytes(const struct backend *be, const struct weight *w, enum placement placement)
{
    bool takes = placement == PLACE_EIGHT_BIT && w->dtype == DTYPE_BF16 &&
                 w->cols % CPU_K_STEP == 0;
    return takes ? code_bytes(w) + (size_t)w->rows * sizeof(float)
                 : host_weight_bytes(be, w, placement);
}

struct codes_job {
    const struct weight *in;
    int8_t *codes;
    float *scale;
    bool by_codes; /* columns lie so that unpacked codes are in order */
};

/* The largest magnitude of CPU_K_STEP numbers, and `most`, as bits: they are in the same order.
 * Loops of integers, which compilers make vectors of. */
static int16_t largest(int16_t most, const uint16_t *x)
{
    for (int i = 0; i < CPU_K_STEP; i++) {
        int16_t size = (int16_t)(x[i] & 0x7fff);
        most = size > most ? size : most;
    }
    return most;
}

/* Numbers of at most MOST as the nearest integers: the low bits of their sum with 1.5 * 2^23. */
static void round_step(int8_t *out, const uint16_t *x, float factor)
{
    for (int i = 0; i < CPU_K_STEP; i++) {
        float shifted = bf16_float(x[i]) * factor + 12582912.0f;
        int32_t bits;
        memcpy(&bits, &shifted, sizeof(bits));
        out[i] = (int8_t)bits;
    }
}

static void code_row(const struct codes_job *j, int64_t row)
{
    const size_t n = (size_t)j->in->cols;
    const char *in = (const char *)j->in->data + (size_t)row * weight_row_bytes(j->in);
    uint16_t x[CPU_K_STEP];
    int16_t bits = 0;
    for (size_t k = 0; k < n; k += CPU_K_STEP)
        bits = largest(bits, memcpy(x, in + 2 * k, sizeof(x)));
    float most = bf16_float((uint16_t)bits);
    j->scale[row] = most / MOST;
    for (size_t k = 0; k < n; k += CPU_K_STEP) {
        int8_t step[CPU_K_STEP], *out = j->codes + (size_t)row * n + k;
        round_step(step, memcpy(x, in + 2 * k, sizeof(x)), most > 0 ? MOST / most : 0);
        for (size_t at = 0; at < CPU_K_STEP; at += 8)
            memcpy(out + (j->by_codes ? cpu_column_at(at) : at), step + at, 8);
    }
}

static void code_rows(void *context, size_t begin, size_t end, int thread)
{
    (void)thread;
    for (size_t row = begin; row < end; row++)
        code_row(context, (int64_t)row);
}

bool cpu_place(struct backend *be, struct weight *out, const struct weight *in,
               enum placement placement, ey_err *e)
{
    struct cpu *c = cpu_of(be);
    const size_t bytes = cpu_weight_bytes(be, in, placement);
    if (!bytes) {
        if (!host_place(be, out, in, placement, e)) return false;
        if (out->dtype == DTYPE_F8_E4M3 && c->k->fp8 && !out->known)
            out->known = cpu_room_for_known(c);
        return true;
    }
    if (!(c->eight_bit = be->ops->alloc(be, bytes, e)))
        return ey_fail_memory(e, "the 8-bit head", bytes);
    huge_ask(c->eight_bit, bytes);
    struct codes_job job = {in, c->eight_bit,
                            (float *)(void *)((char *)c->eight_bit + code_bytes(in)),
                            c->k->narrow && c->k->narrow->ordered};
    pool_run(c->pool, (size_t)in->rows, ROWS_AT_ONCE, code_rows, &job);
    file_map_forget(in->data, (size_t)in->rows * weight_row_bytes(in));
    *out = (struct weight){.data = job.codes,
                           .dtype = DTYPE_I8,
                           .rows = in->rows,
                           .cols = in->cols,
                           .scale = job.scale,
                           .packed = job.by_codes};
    return true;
}
