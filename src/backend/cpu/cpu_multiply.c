/* SPDX-License-Identifier: Apache-2.0 */
/* Products of one input with one or several weights in one run of the thread team. The input is
 * normed row by row; a few rows of it are multiplied with weights as they lie in the file
 * (cpu_few.c), more with panels of decoded weights that stay in a cache while the rows go by
 * (cpu_blocks.c). Few and many give the same bits. */
#include "backend/cpu/cpu_multiply.h"

/* ---- input ---- */

static void norm_rows(void *context, size_t begin, size_t end, int thread)
{
    const struct multiply_job *j = context;
    const struct cpu_input *in = j->in;
    const struct cpu_kernels *k = j->c->k;
    (void)thread;
    for (size_t i = begin; i < end; i++) {
        const float *x = in->x + i * in->x_stride;
        float *y = j->c->rows[0] + i * j->c->stride;
        if (in->norm == CPU_RMS_NORM)
            k->rms_norm(y, x, in->w, (size_t)in->width, in->eps);
        else
            k->layer_norm(y, x, in->w, in->b, (size_t)in->width, in->eps);
    }
}

static void norm_input(struct multiply_job *j)
{
    j->x = j->in->x;
    j->x_stride = j->in->x_stride;
    if (j->in->norm == CPU_NO_NORM) return;
    pool_run(j->c->pool, (size_t)j->in->n, 8, norm_rows, j);
    j->x = j->c->rows[0];
    j->x_stride = j->c->stride;
}

/* ---- products ---- */

void cpu_join_sums(const struct multiply_job *j, const struct cpu_product *p, const float *sums,
                   size_t stride, int64_t row, int n_w, int first, int n)
{
    for (int b = 0; b < n; b++) {
        const float *from = sums + (size_t)b * stride,
                    *more = j->split ? from + (size_t)n * stride : NULL;
        j->c->k->join(p->y + (size_t)(first + b) * p->y_stride + row, from, more,
                      p->bias ? p->bias + row : NULL, (size_t)n_w, j->finish == CPU_ADD);
    }
}

void cpu_finish_columns(const struct multiply_job *j, int64_t begin, int64_t end, int first,
                        int n_rows)
{
    const struct cpu_kernels *k = j->c->k;
    size_t n = (size_t)(end - begin);
    for (int m = first; m < first + n_rows; m++) {
        float *y = j->products[0].y + (size_t)m * j->products[0].y_stride + begin;
        if (j->finish == CPU_GELU_TANH) k->gelu_tanh(y, n);
        if (j->finish == CPU_GELU_ERF) k->gelu_erf(y, n);
        if (j->finish == CPU_SILU_MUL)
            k->silu_mul(y, j->products[1].y + (size_t)m * j->products[1].y_stride + begin, n);
    }
}

/* How the input is multiplied with a weight, and whether its remainders are, too. F16 and F32
 * weights would lose bits in BF16 products. FP8 weights always have scales here; int8 ones have
 * codes of at most 127 and meet few rows only. */
static const struct products *way_of(const struct cpu *c, const struct cpu_input *in,
                                     const struct weight *w, bool *split)
{
    const struct products *narrow = c->k->narrow;
    const bool bytes = w->dtype == DTYPE_F8_E4M3 || w->dtype == DTYPE_I8;
    *split = false;
    if (w->dtype == DTYPE_F8_E4M3 && c->k->fp8 && cpu_takes_int16(c, w)) return c->k->fp8;
    if (w->dtype == DTYPE_BF16 && in->picture && c->k->vision) return c->k->vision;
    if (!narrow || !(w->dtype == DTYPE_BF16 || bytes || w->dtype == DTYPE_INT4)) return c->k->f32;
    if (!in->precise) return narrow;
    *split = c->k->split;
    return c->k->split ? narrow : c->k->f32;
}

static void multiply_alike(struct cpu *c, const struct cpu_input *in,
                           const struct cpu_product *products, int n_products,
                           enum cpu_finish finish)
{
    struct multiply_job job = {.c = c,
                               .in = in,
                               .products = products,
                               .n_products = n_products,
                               .finish = finish,
                               .codes = products[0].w->scale != NULL};
    job.way = way_of(c, in, products[0].w, &job.split);
    norm_input(&job);
    if (cpu_are_few(&job))
        cpu_multiply_few(&job);
    else
        cpu_multiply_blocks(&job);
}

void cpu_multiply(struct cpu *c, const struct cpu_input *in, const struct cpu_product *products,
                  int n_products, enum cpu_finish finish)
{
    bool split, same = true;
    const struct products *way = way_of(c, in, products[0].w, &split);
    for (int i = 1; i < n_products; i++)
        same = same && way_of(c, in, products[i].w, &split) == way &&
               !products[i].w->scale == !products[0].w->scale;
    if (same) {
        multiply_alike(c, in, products, n_products, finish);
        return;
    }
    /* a checkpoint that mixes dtypes within a layer: one by one */
    for (int i = 0; i < n_products; i++)
        multiply_alike(c, in, products + i, 1, finish == CPU_SILU_MUL ? CPU_STORE : finish);
    struct multiply_job both = {.c = c, .in = in, .products = products, .finish = finish};
    if (finish == CPU_SILU_MUL) cpu_finish_columns(&both, 0, products[0].w->rows, 0, in->n);
}
