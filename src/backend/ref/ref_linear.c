/* y = x · Wᵀ in float32: weight rows are decoded once, four at a time, and each is multiplied with all rows of x.
 * Every product sum runs over k in the same order whatever else is in the call, so a row's result never depends
 * on the batch or on the number of threads. */
#include <string.h>

#include "backend/convert.h"
#include "backend/ref/ref.h"

enum { LANES = 16, X_ROWS = 4 };
typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));

/* One source, the widest registers the machine has; lanes and their order are the same in each, and without
 * contraction (-ffp-contract=off) so are the results. Sanitizers do not support resolvers. */
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(__has_feature)
#define WIDEST __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define WIDEST
#endif

void ref_weight_row(float *out, const struct weight *w, int64_t row)
{
    weight_values(out, w, row, 0, (size_t)w->cols);
}

static float lanes_sum(const lanes *v)
{
    float half[LANES];
    memcpy(half, v, sizeof(half));
    for (int width = LANES / 2; width; width /= 2)
        for (int i = 0; i < width; i++) half[i] += half[i + width];
    return half[0];
}

/* sums[a][b] = w_a · x_b. Weight rows are REF_WEIGHT_ROWS, x rows X_ROWS; both strides in floats. */
WIDEST static void dot_tile(float sums[REF_WEIGHT_ROWS][X_ROWS], const float *w, size_t w_stride, const float *x,
                            size_t x_stride, size_t n)
{
    lanes acc[REF_WEIGHT_ROWS][X_ROWS] = {{{0}}};
    size_t k = 0;
    for (; k + LANES <= n; k += LANES) {
        lanes wv[REF_WEIGHT_ROWS], xv;
        for (int a = 0; a < REF_WEIGHT_ROWS; a++) memcpy(&wv[a], w + (size_t)a * w_stride + k, sizeof(lanes));
        for (int b = 0; b < X_ROWS; b++) {
            memcpy(&xv, x + (size_t)b * x_stride + k, sizeof(lanes));
            for (int a = 0; a < REF_WEIGHT_ROWS; a++) acc[a][b] += wv[a] * xv;
        }
    }
    for (int a = 0; a < REF_WEIGHT_ROWS; a++) {
        for (int b = 0; b < X_ROWS; b++) {
            float tail = 0;
            for (size_t i = k; i < n; i++) tail += w[(size_t)a * w_stride + i] * x[(size_t)b * x_stride + i];
            sums[a][b] = lanes_sum(&acc[a][b]) + tail;
        }
    }
}

WIDEST float ref_dot(const float *a, const float *b, size_t n)
{
    lanes acc = {0}, av, bv;
    size_t k = 0;
    for (; k + LANES <= n; k += LANES) {
        memcpy(&av, a + k, sizeof(av));
        memcpy(&bv, b + k, sizeof(bv));
        acc += av * bv;
    }
    float tail = 0;
    for (; k < n; k++) tail += a[k] * b[k];
    return lanes_sum(&acc) + tail;
}

struct linear {
    struct ref *r;
    float *y;
    size_t stride;
    const float *x;
    const struct weight *w;
    const float *bias;
    int n;
};

/* Columns first .. first+count-1 of y, from decoded weight rows. Rows of x that do not fill a tile go through the same
 * tile with a stride of 0 rows repeated: their own sums are unchanged. */
static void fill_columns(const struct linear *l, const float *rows, int64_t first, int count)
{
    size_t k = (size_t)l->w->cols;
    for (int m = 0; m < l->n; m += X_ROWS) {
        float sums[REF_WEIGHT_ROWS][X_ROWS];
        int left = l->n - m < X_ROWS ? l->n - m : X_ROWS;
        const float *x = l->x + (size_t)m * k;
        for (int b = 0; b < (left == X_ROWS ? 1 : left); b++) {
            dot_tile(sums, rows, k, x + (size_t)b * k, left == X_ROWS ? k : 0, k);
            for (int a = 0; a < count; a++) {
                float add = l->bias ? l->bias[first + a] : 0;
                float *y = l->y + (size_t)(m + b) * l->stride + (size_t)(first + a);
                for (int i = 0; i < (left == X_ROWS ? X_ROWS : 1); i++) y[(size_t)i * l->stride] = sums[a][i] + add;
            }
        }
    }
}

static void linear_rows(void *context, size_t begin, size_t end, int thread)
{
    const struct linear *l = context;
    size_t k = (size_t)l->w->cols;
    float *rows = l->r->weights + (size_t)thread * REF_WEIGHT_ROWS * (size_t)l->r->limits.max_width;
    for (size_t row = begin; row < end; row += REF_WEIGHT_ROWS) {
        int count = end - row < REF_WEIGHT_ROWS ? (int)(end - row) : REF_WEIGHT_ROWS;
        for (int a = 0; a < REF_WEIGHT_ROWS; a++)
            ref_weight_row(rows + (size_t)a * k, l->w, (int64_t)row + (a < count ? a : 0));
        fill_columns(l, rows, (int64_t)row, count);
    }
}

void ref_linear(struct ref *r, float *y, size_t stride, const float *x, const struct weight *w,
                const struct weight *bias, int n)
{
    const float *values = bias && bias->data ? ref_vector(r, 1, bias) : NULL;
    struct linear l = {r, y, stride, x, w, values, n};
    pool_run(r->pool, (size_t)w->rows, 64, linear_rows, &l);
}

const float *ref_vector(struct ref *r, int slot, const struct weight *w)
{
    ref_weight_row(r->vectors[slot], w, 0);
    return r->vectors[slot];
}
