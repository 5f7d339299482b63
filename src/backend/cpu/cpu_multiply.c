/* Products of one input with one or several weights in one run of the thread team: the input is normed and packed
 * row by row, then threads take groups of weight rows. A few rows of input are multiplied with weights as they lie in
 * the file; more are multiplied with panels that are decoded once a tile of four weight rows. Both give the same
 * bits. */
#include <string.h>

#include "backend/cpu/cpu.h"

enum { GROUP = 64 }; /* weight rows that a thread takes at once: a cache line of outputs and more */

/* ---- input ---- */

struct pack_job {
    struct cpu *c;
    const struct cpu_input *in;
    bool bf16;
};

/* Bytes between packed rows; BF16 rows with remainders take as much as float32 ones. */
static size_t row_bytes(const struct cpu *c, bool bf16, bool precise)
{
    return c->stride * (bf16 && !precise ? 2 : 4);
}

static void pack_rows(void *context, size_t begin, size_t end, int thread)
{
    const struct pack_job *j = context;
    const struct cpu_kernels *k = j->c->k;
    size_t width = (size_t)j->in->width, padded = (width + CPU_K_STEP - 1) / CPU_K_STEP * CPU_K_STEP;
    (void)thread;
    for (size_t i = begin; i < end; i++) {
        const float *x = j->in->x + i * j->in->x_stride;
        float *normed = j->c->rows[0] + i * j->c->stride;
        if (j->in->norm == CPU_RMS_NORM) k->rms_norm(normed, x, j->in->w, width, j->in->eps);
        if (j->in->norm == CPU_LAYER_NORM) k->layer_norm(normed, x, j->in->w, j->in->b, width, j->in->eps);
        if (j->in->norm != CPU_NO_NORM) x = normed;
        void *out = (uint8_t *)j->c->packed + i * row_bytes(j->c, j->bf16, j->in->precise);
        if (j->bf16 && j->in->precise) k->pack_split(out, x, width, padded, j->c->stride);
        else k->pack(out, x, width, padded, j->bf16);
    }
}

static void pack_input(struct cpu *c, const struct cpu_input *in, bool bf16)
{
    struct pack_job job = {c, in, bf16};
    pool_run(c->pool, (size_t)in->n, 8, pack_rows, &job);
}

/* F16 and F32 weights would lose bits in BF16 products. */
static bool wants_bf16(const struct cpu *c, const struct weight *w)
{
    return c->k->bf16 && (w->dtype == DTYPE_BF16 || w->dtype == DTYPE_F8_E4M3);
}

/* ---- products ---- */

struct multiply_job {
    struct cpu *c;
    const struct cpu_product *products;
    int n_products, n;
    enum cpu_finish finish;
    bool bf16, precise;
};

static enum w_kind kind_of(enum dtype d)
{
    return d == DTYPE_F8_E4M3 ? W_FP8 : d == DTYPE_BF16 ? W_BF16 : d == DTYPE_F16 ? W_F16 : W_F32;
}

static const float *scale_row(const struct weight *w, int64_t row)
{
    int64_t per_row = (w->cols + FP8_BLOCK - 1) / FP8_BLOCK;
    return w->scale ? w->scale + row / FP8_BLOCK * per_row : NULL;
}

/* Elements of a panel row. */
static size_t padded_width(const struct weight *w)
{
    return ((size_t)w->cols + CPU_K_STEP - 1) / CPU_K_STEP * CPU_K_STEP;
}

/* Points the tile at weight rows `row` .. +3 (the last one again where there are fewer), as they lie or decoded. */
static void set_weights(struct dot_tile *t, const struct multiply_job *j, const struct weight *w, int64_t row, void *panel)
{
    size_t size = dtype_size(w->dtype), padded = padded_width(w);
    bool decoded = j->n > CPU_X_ROWS && !(w->dtype == DTYPE_BF16 && j->bf16);
    t->kind = decoded ? W_PANEL : kind_of(w->dtype);
    t->scale = decoded && !j->bf16 ? NULL : scale_row(w, row);
    for (int a = 0; a < CPU_W_ROWS; a++) {
        int64_t at = row + a < w->rows ? row + a : w->rows - 1;
        if (!decoded) {
            t->w[a] = (const uint8_t *)w->data + (size_t)at * (size_t)w->cols * size;
        } else {
            uint8_t *out = (uint8_t *)panel + (size_t)a * padded * (j->bf16 ? 2 : 4);
            j->c->k->decode(out, w, at, padded, j->bf16);
            t->w[a] = out;
        }
    }
}

static void store_sums(float sums[CPU_W_ROWS][CPU_X_ROWS], const struct cpu_product *p, int64_t row, int m, int n_x, bool add)
{
    int count = p->w->rows - row < CPU_W_ROWS ? (int)(p->w->rows - row) : CPU_W_ROWS;
    for (int b = 0; b < n_x; b++) {
        float *y = p->y + (size_t)(m + b) * p->y_stride + row;
        for (int a = 0; a < count; a++) {
            float value = sums[a][b] + (p->bias ? p->bias[row + a] : 0);
            y[a] = add ? y[a] + value : value;
        }
    }
}

/* Tiles of weight rows whose panels stay in the second-level cache while the rows of the input go by. */
static int tiles_per_panel(const struct multiply_job *j, const struct weight *w)
{
    size_t tile = CPU_W_ROWS * padded_width(w) * (j->bf16 ? 2 : 4);
    return tile * CPU_PANEL_TILES <= CPU_PANEL_BYTES ? CPU_PANEL_TILES : tile >= CPU_PANEL_BYTES ? 1 : (int)(CPU_PANEL_BYTES / tile);
}

/* Weight rows begin .. end-1 of one product with all rows of the input: a few tiles of weights, then tile after tile of
 * the input, which stays in the first-level cache for all of them. */
static void multiply_rows(const struct multiply_job *j, const struct cpu_product *p, int64_t begin, int64_t end, uint8_t *panel)
{
    float sums[CPU_W_ROWS][CPU_X_ROWS];
    struct dot_tile tiles[CPU_PANEL_TILES];
    size_t bytes = row_bytes(j->c, j->bf16, j->precise), size = j->bf16 ? 2 : 4, padded = padded_width(p->w);
    const struct dot_tile empty = {.k = (size_t)p->w->cols, .x_stride = bytes / size, .low = j->bf16 && j->precise ? j->c->stride : 0};
    void (*dot)(float[CPU_W_ROWS][CPU_X_ROWS], const struct dot_tile *) = j->bf16 ? j->c->k->dot_bf16 : j->c->k->dot;
    int most = tiles_per_panel(j, p->w);
    for (int64_t row = begin, n; row < end; row += n * CPU_W_ROWS) {
        for (n = 0; n < most && row + n * CPU_W_ROWS < end; n++) {
            tiles[n] = empty;
            set_weights(&tiles[n], j, p->w, row + n * CPU_W_ROWS, panel + (size_t)n * CPU_W_ROWS * padded * size);
        }
        for (int m = 0; m < j->n; m += CPU_X_ROWS)
            for (int64_t i = 0; i < n; i++) {
                tiles[i].n_x = j->n - m < CPU_X_ROWS ? j->n - m : CPU_X_ROWS;
                tiles[i].x = (const uint8_t *)j->c->packed + (size_t)m * bytes;
                dot(sums, &tiles[i]);
                store_sums(sums, p, row + i * CPU_W_ROWS, m, tiles[i].n_x, j->finish == CPU_ADD);
            }
    }
}

static void finish_columns(const struct multiply_job *j, int64_t begin, int64_t end)
{
    const struct cpu_kernels *k = j->c->k;
    size_t n = (size_t)(end - begin);
    for (int m = 0; m < j->n; m++) {
        float *y = j->products[0].y + (size_t)m * j->products[0].y_stride + begin;
        if (j->finish == CPU_GELU_TANH) k->gelu_tanh(y, n);
        if (j->finish == CPU_GELU_ERF) k->gelu_erf(y, n);
        if (j->finish == CPU_SILU_MUL) k->silu_mul(y, j->products[1].y + (size_t)m * j->products[1].y_stride + begin, n);
    }
}

static int64_t groups_of(const struct weight *w)
{
    return (w->rows + GROUP - 1) / GROUP;
}

/* One group of rows: of the product that it falls into, or of both where the second belongs to the first. */
static void multiply_group(const struct multiply_job *j, int64_t group, void *panel)
{
    int i = 0;
    while (j->finish != CPU_SILU_MUL && group >= groups_of(j->products[i].w)) group -= groups_of(j->products[i++].w);
    int64_t begin = group * GROUP, rows = j->products[i].w->rows, end = begin + GROUP < rows ? begin + GROUP : rows;
    multiply_rows(j, &j->products[i], begin, end, panel);
    if (j->finish == CPU_SILU_MUL) multiply_rows(j, &j->products[1], begin, end, panel);
    if (j->finish > CPU_ADD) finish_columns(j, begin, end);
}

static void multiply_groups(void *context, size_t begin, size_t end, int thread)
{
    const struct multiply_job *j = context;
    for (size_t g = begin; g < end; g++) multiply_group(j, (int64_t)g, cpu_scratch(j->c, thread));
}

static void multiply_packed(struct cpu *c, const struct cpu_input *in, const struct cpu_product *products, int n_products,
                            enum cpu_finish finish, bool bf16)
{
    struct multiply_job job = {c, products, n_products, in->n, finish, bf16, in->precise};
    int64_t groups = 0;
    for (int i = 0; i < (finish == CPU_SILU_MUL ? 1 : n_products); i++) groups += groups_of(products[i].w);
    pack_input(c, in, bf16);
    pool_run(c->pool, (size_t)groups, 1, multiply_groups, &job);
}

void cpu_multiply(struct cpu *c, const struct cpu_input *in, const struct cpu_product *products, int n_products,
                  enum cpu_finish finish)
{
    bool bf16 = wants_bf16(c, products[0].w), same = true;
    for (int i = 1; i < n_products; i++) same = same && wants_bf16(c, products[i].w) == bf16;
    if (same) {
        multiply_packed(c, in, products, n_products, finish, bf16);
        return;
    }
    /* a checkpoint that mixes dtypes within a layer: one by one, in float32 where they belong together */
    if (finish == CPU_SILU_MUL) {
        multiply_packed(c, in, products, n_products, finish, false);
        return;
    }
    for (int i = 0; i < n_products; i++) multiply_packed(c, in, products + i, 1, finish, wants_bf16(c, products[i].w));
}
