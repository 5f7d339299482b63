/* SPDX-License-Identifier: Apache-2.0 */
/* Quantizes whole matrices, with blocks and rows distributed among threads. */
#include "convert/quantize.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/limits.h"
#include "checkpoint/repack.h"
#include "convert/quantize_internal.h"

enum { ALIGNED = 64 };

bool can_quantize(const struct tensor *w, enum dtype to, int group)
{
    const bool plain = dtype_info(w->dtype)->use == PLAIN_WEIGHT;
    if (w->rows < 2 || w->recipe) return false;
    if (to == DTYPE_F8_E4M3) return plain;
    return to == DTYPE_INT4 && (plain || w->dtype == DTYPE_F8_E4M3) && group >= INT4_MIN_GROUP &&
           w->cols % group == 0;
}

static size_t align_bytes(size_t bytes)
{
    return (bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
}

static size_t quantized_values_bytes(const struct tensor *w)
{
    return align_bytes(weight_data_bytes(w));
}

static size_t quantized_scales_bytes(const struct tensor *w)
{
    if (w->dtype == DTYPE_INT4) return align_bytes(weight_group_scale_bytes(w));
    return align_bytes(weight_block_scale_bytes(w));
}

static size_t zero_points_bytes(const struct tensor *w)
{
    return w->dtype == DTYPE_INT4 ? align_bytes(weight_group_zero_bytes(w)) : 0;
}

size_t quantized_bytes(const struct tensor *w)
{
    if (w->recipe && w->recipe->stored) return repacked_bytes(w);
    return quantized_values_bytes(w) + quantized_scales_bytes(w) + zero_points_bytes(w);
}

static struct quantize_job quantize_job_of(const struct tensor *w)
{
    return (struct quantize_job){.source = &w->recipe->source,
                                 .importance = w->recipe->importance,
                                 .rows = w->rows,
                                 .cols = w->cols,
                                 .group_size = w->group_size};
}

struct quantize_pool_job {
    struct quantize_job matrix;
    int64_t row_step;             /* between sampled rows */
    struct quantize_error *error; /* [sampled rows] */
    atomic_bool failed;
};

static void quantize_fp8_blocks(void *context, size_t begin, size_t end, int thread)
{
    struct quantize_pool_job *job = context;
    const int64_t block_cols = fp8_blocks(job->matrix.cols);
    (void)thread;
    for (int64_t i = (int64_t)begin; i < (int64_t)end; i++)
        if (!quantize_fp8_block(&job->matrix, i / block_cols, i % block_cols))
            atomic_store(&job->failed, true);
}

/* Quantizes the rows whose zero points share one word, from row `begin` on. */
static bool quantize_int4_word_rows(const struct quantize_job *m, int64_t begin)
{
    struct int4_scale scales_out[EY_MAX_WIDTH / INT4_MIN_GROUP];
    struct quantize_error error = {0, 0};
    const int64_t groups = m->cols / m->group_size,
                  end = begin + ZEROS_PER_WORD < m->rows ? begin + ZEROS_PER_WORD : m->rows;
    uint32_t *zero = m->group_zero + begin / ZEROS_PER_WORD * groups;
    for (int64_t g = 0; g < groups; g++)
        zero[g] = 0;
    for (int64_t row = begin; row < end; row++) {
        if (!quantize_int4_row(m, row, m->quantized + row * (m->cols / 2), scales_out, &error))
            return false;
        for (int64_t g = 0; g < groups; g++) {
            m->group_scale[row * groups + g] = scales_out[g].scale;
            zero[g] |= (uint32_t)scales_out[g].zero << (row % ZEROS_PER_WORD * 4);
        }
    }
    return true;
}

static void quantize_int4_rows(void *context, size_t begin, size_t end, int thread)
{
    struct quantize_pool_job *job = context;
    (void)thread;
    for (size_t i = begin; i < end; i++)
        if (!quantize_int4_word_rows(&job->matrix, (int64_t)i * ZEROS_PER_WORD))
            atomic_store(&job->failed, true);
}

bool quantize_weight(struct tensor *out, void *memory, const struct tensor *w, struct pool *pool)
{
    struct quantize_pool_job job = {.matrix = quantize_job_of(w)};
    void *scales = (char *)memory + quantized_values_bytes(w),
         *zero_points = (char *)scales + quantized_scales_bytes(w);
    *out = (struct tensor){.data = memory,
                           .dtype = w->dtype,
                           .rows = w->rows,
                           .cols = w->cols,
                           .group_size = w->group_size};
    job.matrix.quantized = memory;
    if (w->dtype == DTYPE_INT4) {
        out->group_scale = job.matrix.group_scale = scales;
        out->group_zero = job.matrix.group_zero = zero_points;
        pool_run(pool, (size_t)((w->rows + ZEROS_PER_WORD - 1) / ZEROS_PER_WORD), 1,
                 quantize_int4_rows, &job);
    } else {
        out->scale = job.matrix.scale = scales;
        pool_run(pool, (size_t)(fp8_blocks(w->rows) * fp8_blocks(w->cols)), 1, quantize_fp8_blocks,
                 &job);
    }
    return !atomic_load(&job.failed);
}

/* ---- error ---- */

static void quantize_sampled_rows(void *context, size_t begin, size_t end, int thread)
{
    struct quantize_pool_job *job = context;
    uint8_t quantized[EY_MAX_WIDTH / 2];
    struct int4_scale scales_out[EY_MAX_WIDTH / INT4_MIN_GROUP];
    (void)thread;
    for (size_t i = begin; i < end; i++)
        if (!quantize_int4_row(&job->matrix, (int64_t)i * job->row_step, quantized, scales_out,
                               &job->error[i]))
            atomic_store(&job->failed, true);
}

bool quantize_sample_error(struct quantize_error *out, const struct tensor *w, struct pool *pool)
{
    struct quantize_error error[QUANTIZE_SAMPLE_ROWS];
    struct quantize_pool_job job = {.matrix = quantize_job_of(w), .error = error};
    const int64_t rows = w->rows < QUANTIZE_SAMPLE_ROWS ? w->rows : QUANTIZE_SAMPLE_ROWS;
    memset(error, 0, sizeof(error));
    job.row_step = w->rows / rows;
    pool_run(pool, (size_t)rows, 1, quantize_sampled_rows, &job);
    *out = (struct quantize_error){0, 0};
    for (int64_t i = 0; i < rows; i++) {
        out->noise += error[i].noise;
        out->signal += error[i].signal;
    }
    return !atomic_load(&job.failed);
}

double quantize_relative_error(const struct quantize_error *error)
{
    return error->signal > 0 ? sqrt(error->noise / error->signal) : 0;
}
