/* SPDX-License-Identifier: Apache-2.0 */
/* y = x · Wᵀ in float32: weight rows are decoded once, four at a time, and each is multiplied with
 * all rows of x. Every dot product sums over k in the same order, so a row's result does not depend
 * on the batch or on the number of threads. */
#include "tensor/dequantize.h"
#include "backend/ref/ref_backend.h"

void ref_weight_row(float *out, const struct placed *w, int64_t row)
{
    dequantize_columns(out, ref_tensor(w), row, 0, (size_t)ref_tensor(w)->cols);
}

struct ref_linear_job {
    struct ref *r;
    float *y;
    size_t stride;
    const float *x;
    const struct placed *w;
    const float *bias;
    int n;
};

/* Computes columns first .. first+count-1 of y from decoded weight rows. If fewer
 * than REF_X_ROWS rows of x are left, each is computed in a tile of its own, which repeats it with
 * stride 0. */
static void fill_columns(const struct ref_linear_job *l, const float *rows, int64_t first,
                         int count)
{
    size_t k = (size_t)ref_tensor(l->w)->cols;
    for (int m = 0; m < l->n; m += REF_X_ROWS) {
        float sums[REF_WEIGHT_ROWS][REF_X_ROWS];
        int left = l->n - m < REF_X_ROWS ? l->n - m : REF_X_ROWS;
        const float *x = l->x + (size_t)m * k;
        for (int b = 0; b < (left == REF_X_ROWS ? 1 : left); b++) {
            ref_dot_tile(sums, rows, k, x + (size_t)b * k, left == REF_X_ROWS ? k : 0, k);
            for (int a = 0; a < count; a++) {
                float add = l->bias ? l->bias[first + a] : 0;
                float *y = l->y + (size_t)(m + b) * l->stride + (size_t)(first + a);
                for (int i = 0; i < (left == REF_X_ROWS ? REF_X_ROWS : 1); i++)
                    y[(size_t)i * l->stride] = sums[a][i] + add;
            }
        }
    }
}

static void linear_rows(void *context, size_t begin, size_t end, int thread)
{
    const struct ref_linear_job *l = context;
    size_t k = (size_t)ref_tensor(l->w)->cols;
    float *rows = l->r->weights + (size_t)thread * REF_WEIGHT_ROWS * (size_t)l->r->limits.max_width;
    for (size_t row = begin; row < end; row += REF_WEIGHT_ROWS) {
        int count = end - row < REF_WEIGHT_ROWS ? (int)(end - row) : REF_WEIGHT_ROWS;
        for (int a = 0; a < REF_WEIGHT_ROWS; a++)
            ref_weight_row(rows + (size_t)a * k, l->w, (int64_t)row + (a < count ? a : 0));
        fill_columns(l, rows, (int64_t)row, count);
    }
}

void ref_linear(struct ref *r, float *y, size_t stride, const float *x, const struct placed *w,
                const struct placed *bias, int n)
{
    const float *values = bias ? ref_vector(r, 1, bias) : NULL;
    struct ref_linear_job l = {r, y, stride, x, w, values, n};
    pool_run(r->pool, (size_t)ref_tensor(w)->rows, 64, linear_rows, &l);
}

const float *ref_vector(struct ref *r, int slot, const struct placed *w)
{
    ref_weight_row(r->vectors[slot], w, 0);
    return r->vectors[slot];
}
