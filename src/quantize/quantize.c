/* SPDX-License-Identifier: Apache-2.0 */
/* Whole matrices: blocks and rows shared out among threads. */
#include "quantize/quantize.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/limits.h"
#include "quantize/blocks.h"

enum { ALIGNED = 64 };

bool quantize_takes(const struct weight *w, enum dtype to, int group)
{
    const bool plain = w->dtype == DTYPE_F32 || w->dtype == DTYPE_BF16 || w->dtype == DTYPE_F16;
    if (w->rows < 2 || w->recipe) return false;
    if (to == DTYPE_F8_E4M3) return plain;
    return to == DTYPE_INT4 && (plain || w->dtype == DTYPE_F8_E4M3) && group >= INT4_LEAST_GROUP &&
           w->cols % group == 0;
}

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
}

static int64_t blocks(int64_t n)
{
    return (n + FP8_BLOCK - 1) / FP8_BLOCK;
}

static size_t code_bytes(const struct weight *w)
{
    return aligned((size_t)w->rows * weight_row_bytes(w));
}

static size_t scale_bytes(const struct weight *w)
{
    if (w->dtype == DTYPE_INT4) return aligned(weight_group_scale_bytes(w));
    return aligned((size_t)blocks(w->rows) * (size_t)blocks(w->cols) * sizeof(float));
}

static size_t zero_bytes(const struct weight *w)
{
    return w->dtype == DTYPE_INT4 ? aligned(weight_group_zero_bytes(w)) : 0;
}

size_t quantized_bytes(const struct weight *w)
{
    return code_bytes(w) + scale_bytes(w) + zero_bytes(w);
}

static struct making making_of(const struct weight *w)
{
    return (struct making){.stored = &w->recipe->stored,
                           .importance = w->recipe->importance,
                           .rows = w->rows,
                           .cols = w->cols,
                           .group = w->group};
}

struct job {
    struct making making;
    int64_t step;                 /* from one row to the next that is looked at */
    struct quantize_error *error; /* [rows that are looked at] */
    atomic_bool bad;
};

static void make_fp8(void *context, size_t begin, size_t end, int thread)
{
    struct job *job = context;
    const int64_t across = blocks(job->making.cols);
    (void)thread;
    for (int64_t i = (int64_t)begin; i < (int64_t)end; i++)
        if (!fp8_block(&job->making, i / across, i % across)) atomic_store(&job->bad, true);
}

/* Rows begin .. of one word's zeros. */
static bool make_int4_rows(const struct making *m, int64_t begin)
{
    struct int4_multiplier made[EY_MAX_WIDTH / INT4_LEAST_GROUP];
    struct quantize_error error = {0, 0};
    const int64_t groups = m->cols / m->group,
                  end = begin + ZEROS_PACKED < m->rows ? begin + ZEROS_PACKED : m->rows;
    uint32_t *zero = m->group_zero + begin / ZEROS_PACKED * groups;
    for (int64_t g = 0; g < groups; g++)
        zero[g] = 0;
    for (int64_t row = begin; row < end; row++) {
        if (!int4_row(m, row, m->codes + row * (m->cols / 2), made, &error)) return false;
        for (int64_t g = 0; g < groups; g++) {
            m->group_scale[row * groups + g] = made[g].scale;
            zero[g] |= (uint32_t)made[g].zero << (row % ZEROS_PACKED * 4);
        }
    }
    return true;
}

static void make_int4(void *context, size_t begin, size_t end, int thread)
{
    struct job *job = context;
    (void)thread;
    for (size_t i = begin; i < end; i++)
        if (!make_int4_rows(&job->making, (int64_t)i * ZEROS_PACKED)) atomic_store(&job->bad, true);
}

bool quantize_weight(struct weight *out, void *memory, const struct weight *w, struct pool *pool)
{
    struct job job = {.making = making_of(w)};
    void *scales = (char *)memory + code_bytes(w), *zeros = (char *)scales + scale_bytes(w);
    *out = (struct weight){
        .data = memory, .dtype = w->dtype, .rows = w->rows, .cols = w->cols, .group = w->group};
    job.making.codes = memory;
    if (w->dtype == DTYPE_INT4) {
        out->group_scale = job.making.group_scale = scales;
        out->group_zero = job.making.group_zero = zeros;
        pool_run(pool, (size_t)((w->rows + ZEROS_PACKED - 1) / ZEROS_PACKED), 1, make_int4, &job);
    } else {
        out->scale = job.making.scale = scales;
        pool_run(pool, (size_t)(blocks(w->rows) * blocks(w->cols)), 1, make_fp8, &job);
    }
    return !atomic_load(&job.bad);
}

/* ---- how well ---- */

static void sample_rows(void *context, size_t begin, size_t end, int thread)
{
    struct job *job = context;
    uint8_t codes[EY_MAX_WIDTH / 2];
    struct int4_multiplier made[EY_MAX_WIDTH / INT4_LEAST_GROUP];
    (void)thread;
    for (size_t i = begin; i < end; i++)
        if (!int4_row(&job->making, (int64_t)i * job->step, codes, made, &job->error[i]))
            atomic_store(&job->bad, true);
}

bool quantize_sample(struct quantize_error *out, const struct weight *w, struct pool *pool)
{
    struct quantize_error error[QUANTIZE_SAMPLE];
    struct job job = {.making = making_of(w), .error = error};
    const int64_t rows = w->rows < QUANTIZE_SAMPLE ? w->rows : QUANTIZE_SAMPLE;
    memset(error, 0, sizeof(error));
    job.step = w->rows / rows;
    pool_run(pool, (size_t)rows, 1, sample_rows, &job);
    *out = (struct quantize_error){0, 0};
    for (int64_t i = 0; i < rows; i++) {
        out->noise += error[i].noise;
        out->signal += error[i].signal;
    }
    return !atomic_load(&job.bad);
}

double quantize_relative(const struct quantize_error *error)
{
    return error->signal > 0 ? sqrt(error->noise / error->signal) : 0;
}
