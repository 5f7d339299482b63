/* SPDX-License-Identifier: Apache-2.0 */
/* Matmuls of one input with one or several weights, together if these use the same kernels. The
 * input is normed row by row. Few rows are multiplied with weights as stored in the file
 * (cpu_gemv.c); many rows with panels of decoded weights that stay in a cache while the rows pass
 * (cpu_gemm.c). Both give the same bits. */
#include <string.h>

#include "backend/cpu/cpu_matmul.h"

/* ---- input ---- */

static void cpu_norm_rows(void *context, size_t begin, size_t end, int thread)
{
    const struct cpu_matmul_job *j = context;
    const struct cpu_input *in = j->in;
    const struct cpu_kernels *k = j->c->k;
    (void)thread;
    for (size_t i = begin; i < end; i++) {
        const float *x = in->x + i * in->x_stride;
        float *y = j->c->rows[0] + i * j->c->stride;
        if (in->norm == CPU_RMS_NORM)
            k->rows->rms_norm(y, x, in->w, (size_t)in->width, in->eps);
        else
            k->rows->layer_norm(y, x, in->w, in->b, (size_t)in->width, in->eps);
    }
}

static void cpu_norm_input(struct cpu_matmul_job *j)
{
    j->x = j->in->x;
    j->x_stride = j->in->x_stride;
    if (j->in->norm == CPU_NO_NORM) return;
    pool_run(j->c->pool, (size_t)j->in->n, 8, cpu_norm_rows, j);
    j->x = j->c->rows[0];
    j->x_stride = j->c->stride;
}

/* ---- matmul ---- */

struct place_job {
    const struct cpu_matmul_job *j;
    const int32_t *place;
};

static void place_columns(void *context, size_t begin, size_t end, int thread)
{
    const struct place_job *p = context;
    (void)thread;
    for (size_t i = begin; i < end; i++) {
        const float *x = p->j->x + i * p->j->x_stride;
        float *y = p->j->c->placed_rows + i * p->j->c->stride;
        for (int c = 0; c < p->j->in->width; c++)
            y[p->place[c]] = x[c];
    }
}

/* Reorders x to the stored column order of these weights. */
static void cpu_place_input(struct cpu_matmul_job *j, const int32_t *place)
{
    struct place_job p = {j, place};
    if (!place) return;
    pool_run(j->c->pool, (size_t)j->in->n, 8, place_columns, &p);
    j->x = j->c->placed_rows;
    j->x_stride = j->c->stride;
}

/* Multiplies sums by the scales of n weight rows. */
static void scale_rows(float *out, const float *sums, const float *remainders, const float *scale,
                       size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (remainders ? sums[i] + remainders[i] : sums[i]) * scale[i];
}

void cpu_accumulate_sums(const struct cpu_matmul_job *j, const struct cpu_linear *p,
                         const float *sums, size_t stride, int64_t row, int n_w, int first, int n)
{
    for (int b = 0; b < n; b++) {
        const float *from = sums + (size_t)b * stride,
                    *remainders = j->two_pass ? from + (size_t)n * stride : NULL;
        const float *of_rows = p->w->m.tensor.row_scale;
        float scaled[CPU_MAX_TILE_ROWS];
        if (of_rows) {
            scale_rows(scaled, from, remainders, of_rows + row, (size_t)n_w);
            from = scaled;
            remainders = NULL;
        }
        j->c->k->rows->accumulate(p->y + (size_t)(first + b) * p->y_stride + row, from, remainders,
                                  p->bias ? p->bias + row : NULL, (size_t)n_w,
                                  j->epilogue == CPU_ADD);
    }
}

void cpu_apply_epilogue(const struct cpu_matmul_job *j, int64_t begin, int64_t end, int first,
                        int n_rows)
{
    const struct cpu_kernels *k = j->c->k;
    size_t n = (size_t)(end - begin);
    for (int m = first; m < first + n_rows; m++) {
        float *y = j->linears[0].y + (size_t)m * j->linears[0].y_stride + begin;
        if (j->epilogue == CPU_GELU_TANH) k->rows->gelu_tanh(y, n);
        if (j->epilogue == CPU_GELU_ERF) k->rows->gelu_erf(y, n);
        if (j->epilogue == CPU_SILU_MUL)
            k->rows->silu_mul(y, j->linears[1].y + (size_t)m * j->linears[1].y_stride + begin, n);
    }
}

/* Returns which of the kernels for weights in groups takes a type, or CPU_BLOCK_TYPES for none. */
static enum cpu_block_type block_type_of(const struct cpu_kernels *k, enum dtype dtype)
{
    if (!k->blocks) return CPU_BLOCK_TYPES;
    switch (dtype) {
#define BLOCK_TYPE_OF(id) \
    case DTYPE_##id: return CPU_BLOCKS_##id;
        FOR_CPU_BLOCK_TYPES(BLOCK_TYPE_OF)
#undef BLOCK_TYPE_OF
    default: return CPU_BLOCK_TYPES;
    }
}

/* Selects the matmul kernels. FP8 weights always have scales here; int8 ones have values of at most
 * 127 and are used with few rows only. F16 and F32 weights would lose bits in BF16 matmuls. */
void cpu_choose_matmul(const struct cpu *c, struct cpu_weight *w)
{
    const struct cpu_kernels *k = c->k;
    const enum dtype dtype = w->m.tensor.dtype;
    const bool low_precision = k->low_precision &&
                               (dtype == DTYPE_BF16 || dtype == DTYPE_F8_E4M3 || dtype == DTYPE_I8),
               needs_f32 = w->role == ROLE_ATTENTION;
    w->matmul_int16 = dtype == DTYPE_F8_E4M3 ? k->fp8 : NULL;
    w->matmul = low_precision && (!needs_f32 || k->two_pass) ? k->low_precision : k->f32;
    const enum cpu_block_type blocks = block_type_of(k, dtype);
    if (blocks != CPU_BLOCK_TYPES) w->matmul = &k->blocks[blocks];
    if (dtype == DTYPE_INT4 && k->int4) w->matmul = k->int4;
    w->two_pass = needs_f32 && w->matmul->x == X_BF16;
    if (dtype == DTYPE_BF16 && w->role == ROLE_VISION && k->vision) w->matmul = k->vision;
}

/* The choice shared by linears that use the same packed rows. */
struct matmul_choice {
    const struct matmul_kernels *kernels;
    bool two_pass, scaled, weights_8bit, rare;
    const int32_t *place;
    size_t place_bytes;
};

/* Returns the choice made when the weight was placed, or int16 if the FP8 values allow it. */
static struct matmul_choice matmul_choice_of(const struct cpu *c, struct cpu_weight *w)
{
    const bool int16 = w->matmul_int16 && cpu_use_int16(c, &w->m);
    return (struct matmul_choice){int16 ? w->matmul_int16 : w->matmul,
                                  !int16 && w->two_pass,
                                  w->m.tensor.scale != NULL,
                                  dtype_size(w->m.tensor.dtype) == 1,
                                  dtype_is_rare(w->m.tensor.dtype),
                                  w->place,
                                  (size_t)w->m.tensor.cols * sizeof(*w->place)};
}

static bool is_same_order(const struct matmul_choice *a, const struct matmul_choice *b)
{
    return a->place == b->place ||
           (a->place && b->place && memcmp(a->place, b->place, a->place_bytes) == 0);
}

static bool is_same_choice(const struct matmul_choice *a, const struct matmul_choice *b)
{
    return a->kernels == b->kernels && a->two_pass == b->two_pass && a->scaled == b->scaled &&
           a->weights_8bit == b->weights_8bit && a->rare == b->rare && is_same_order(a, b);
}

/* Multiplies linears that share a choice of kernels: rows are packed once, in the form that these
 * kernels take. */
static void multiply_alike(const struct cpu_matmul_job *normed, const struct matmul_choice *choice,
                           const struct cpu_linear *linears, int n, enum cpu_epilogue epilogue)
{
    struct cpu_matmul_job job = *normed;
    job.linears = linears;
    job.n_linears = n;
    job.epilogue = epilogue;
    job.kernels = choice->kernels;
    job.two_pass = choice->two_pass;
    job.block_fp8 = choice->scaled;
    job.weights_8bit = choice->weights_8bit;
    job.rare = choice->rare;
    cpu_place_input(&job, choice->place);
    if (cpu_use_gemv(&job))
        cpu_gemv(&job);
    else
        cpu_gemm(&job);
}

enum { MAX_LINEARS = 3 };

/* Multiplies linears of different types: equal ones together, gate and up separately. */
static void multiply_groups(const struct cpu_matmul_job *normed,
                            const struct matmul_choice *choices, const struct cpu_linear *linears,
                            int n, enum cpu_epilogue epilogue)
{
    bool done[MAX_LINEARS] = {false};
    for (int i = 0; i < n; i++) {
        struct cpu_linear alike[MAX_LINEARS];
        int count = 0;
        for (int k = i; k < n; k++) {
            if (done[k] || !is_same_choice(&choices[i], &choices[k])) continue;
            alike[count++] = linears[k];
            done[k] = true;
        }
        if (count)
            multiply_alike(normed, &choices[i], alike, count,
                           epilogue == CPU_SILU_MUL ? CPU_STORE : epilogue);
    }
    if (epilogue != CPU_SILU_MUL) return;
    struct cpu_matmul_job both = *normed;
    both.linears = linears;
    both.epilogue = epilogue;
    cpu_apply_epilogue(&both, 0, linears[0].w->m.tensor.rows, 0, normed->in->n);
}

void cpu_matmul(struct cpu *c, const struct cpu_input *in, const struct cpu_linear *linears,
                int n_linears, enum cpu_epilogue epilogue)
{
    struct matmul_choice choices[MAX_LINEARS];
    struct cpu_matmul_job job = {.c = c, .in = in};
    bool same = true;
    for (int i = 0; i < n_linears; i++) {
        choices[i] = matmul_choice_of(c, linears[i].w);
        same = same && is_same_choice(&choices[0], &choices[i]);
    }
    cpu_norm_input(&job);
    if (same)
        multiply_alike(&job, &choices[0], linears, n_linears, epilogue);
    else
        multiply_groups(&job, choices, linears, n_linears, epilogue);
}
