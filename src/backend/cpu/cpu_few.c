/* SPDX-License-Identifier: Apache-2.0 */
/* Products of a few rows, which take as long as reading the weights does. Weights are multiplied as
 * they lie in the file and read once for all rows (from the cache again where a pass takes fewer),
 * in long runs of neighbouring rows: each thread reads a few streams. */
#include "backend/cpu/bf12.h"
#include "backend/cpu/cpu_multiply.h"

enum {
    UNIT = 2 * CPU_W_STRIP, /* weight rows */
    RUN_BYTES = 64 << 10,   /* of weights that a thread takes at once, at least */
    MOST_ROWS = 1024,       /* of weights in a tile */
    MOST_SUMS = CPU_X_MOST * CPU_SUMS_STRIDE,
    PACKED_AT_ONCE = 16 << 10 /* elements */
};

static int rows_at_once(const struct multiply_job *j)
{
    int most = cpu_tile_rows(j, j->way->most_few);
    return j->in->n < most ? j->in->n : most;
}

/* Those of a pass that begins with input row `first`. */
static int rows_from(const struct multiply_job *j, int first)
{
    int left = j->in->n - first, rows = rows_at_once(j);
    return left < rows ? left : rows;
}

bool cpu_are_few(const struct multiply_job *j)
{
    return j->in->n <= cpu_tile_rows(j, j->way->few_rows) && j->in->width % CPU_K_STEP == 0;
}

/* FP8 or int8. */
static bool weights_are_bytes(const struct multiply_job *j)
{
    const enum dtype dtype = j->products[0].w->dtype;
    return dtype == DTYPE_F8_E4M3 || dtype == DTYPE_I8;
}

/* ---- input ---- */

static struct packing packing_of(const struct multiply_job *j, int first, int n, const float *scale)
{
    size_t width = (size_t)j->in->width;
    return (struct packing){.x = j->x + (size_t)first * j->x_stride,
                            .x_stride = j->x_stride,
                            .width = width,
                            .padded = width,
                            .n = n,
                            .scale = scale,
                            .bytes = weights_are_bytes(j),
                            .codes = j->codes,
                            .split = j->split};
}

static size_t tile_bytes(const struct multiply_job *j)
{
    return (size_t)j->way->most_few * (size_t)j->in->width * j->way->tile_element;
}

/* Of input rows from `first` on, which a tile's rows divide. */
static void *packed_tile(const struct multiply_job *j, int first)
{
    return (uint8_t *)j->c->packed + (size_t)(first / rows_at_once(j)) * tile_bytes(j);
}

/* Steps begin .. end-1 of all rows. */
static void pack_steps(void *context, size_t begin, size_t end, int thread)
{
    const struct multiply_job *j = context;
    const int rows = rows_at_once(j), n = j->in->n;
    (void)thread;
    for (int first = 0; first < n; first += rows) {
        const struct packing p = packing_of(j, first, rows_from(j, first), NULL);
        j->way->pack_few(packed_tile(j, first), &p, begin * CPU_K_STEP, end * CPU_K_STEP);
    }
}

/* Whether rows are packed again for each block of weight rows. */
static bool packs_again(const struct multiply_job *j)
{
    return j->codes && !j->way->once && !j->way->pack_few;
}

static void prepare_input(struct multiply_job *j)
{
    int rows = rows_at_once(j), n = j->in->n;
    if (j->way->pack_few)
        pool_run(j->c->pool, (size_t)j->in->width / CPU_K_STEP,
                 PACKED_AT_ONCE / CPU_K_STEP / (size_t)n + 1, pack_steps, j);
    if (j->way->pack_few || packs_again(j)) return;
    for (int first = 0; first < n; first += rows) {
        const struct packing p = packing_of(j, first, rows_from(j, first), NULL);
        j->way->pack(packed_tile(j, first), &p);
    }
}

/* Input rows first .. first+n-1 for a tile of weight rows from `row` on. */
static const void *packed_rows(const struct multiply_job *j, const struct weight *w, int64_t row,
                               int first, int n, int thread)
{
    if (!packs_again(j)) return packed_tile(j, first);
    void *packed = cpu_scratch(j->c, thread);
    const struct packing p = packing_of(j, first, n, weight_row_scale(w, row));
    j->way->pack(packed, &p);
    return packed;
}

/* ---- products ---- */

static const uint8_t *row_at(const struct weight *w, int64_t row)
{
    return (const uint8_t *)w->data + (size_t)row * weight_row_bytes(w);
}

/* Where reading a row begins. */
static const uint8_t *read_at(const struct weight *w, int64_t row)
{
    return w->bf12 ? bf12_steps(w, row) : row_at(w, row);
}

static size_t sums_stride(int64_t rows)
{
    return (size_t)rows + CPU_W_STRIP;
}

/* Weight rows of a tile: those of a block of scales, or, where the kernel takes several blocks in
 * few places, as many as make these long. */
static int64_t tile_of_weights(const struct multiply_job *j)
{
    const int columns = j->split ? 2 * rows_at_once(j) : rows_at_once(j);
    int64_t rows = FP8_BLOCK;
    if (!weights_are_bytes(j)) return rows;
    while (2 * rows <= MOST_ROWS &&
           (size_t)(2 * rows) * weight_row_bytes(j->products[0].w) <= j->way->few_bytes &&
           (size_t)columns * sums_stride(2 * rows) <= MOST_SUMS)
        rows *= 2;
    return rows;
}

/* Weight rows begin .. end-1, a tile; `next` are probably read after them. */
static void multiply_block(const struct multiply_job *j, const struct cpu_product *p, int64_t begin,
                           int64_t end, const uint8_t *next, int thread)
{
    float sums[MOST_SUMS];
    const size_t stride = sums_stride(end - begin);
    const struct weight *w = p->w;
    int n_w = (int)(end - begin);
    for (int first = 0, n; first < j->in->n; first += n) {
        n = rows_from(j, first);
        struct tile t = {.w = row_at(w, begin),
                         .w_stride = weight_row_bytes(w),
                         .dtype = w->dtype,
                         .weight = w,
                         .row = begin,
                         .n_w = n_w,
                         .n_x = j->split ? 2 * n : n,
                         .k = (size_t)j->in->width,
                         .x = packed_rows(j, w, begin, first, n, thread),
                         .next = next,
                         .scale = weight_row_scale(w, begin)};
        j->way->few(sums, stride, &t);
        cpu_join_sums(j, p, sums, stride, begin, n_w, first, n);
    }
}

static int64_t tile_end(const struct multiply_job *j, int64_t row, int64_t end)
{
    const int64_t rows = tile_of_weights(j), tile = (row / rows + 1) * rows;
    return tile < end ? tile : end;
}

/* Weight rows begin .. end-1 of product i, beside those of the next where the two belong together.
 */
static void multiply_run(const struct multiply_job *j, int i, int64_t begin, int64_t end,
                         int thread)
{
    const struct cpu_product *p = j->products + i,
                             *other = j->finish == CPU_SILU_MUL ? p + 1 : NULL;
    for (int64_t row = begin, stop; row < end; row = stop) {
        stop = tile_end(j, row, end);
        const uint8_t *next = stop < p->w->rows ? read_at(p->w, stop) : NULL;
        multiply_block(j, p, row, stop, other ? read_at(other->w, row) : next, thread);
        if (other) multiply_block(j, other, row, stop, next, thread);
    }
    if (j->finish > CPU_ADD) cpu_finish_columns(j, begin, end, 0, j->in->n);
}

static int64_t units_of(const struct weight *w)
{
    return (w->rows + UNIT - 1) / UNIT;
}

static int n_streams(const struct multiply_job *j)
{
    return j->finish == CPU_SILU_MUL ? 1 : j->n_products;
}

static void multiply_units(void *context, size_t begin, size_t end, int thread)
{
    const struct multiply_job *j = context;
    int64_t from = (int64_t)begin, to = (int64_t)end;
    for (int i = 0; i < n_streams(j); i++) {
        const struct weight *w = j->products[i].w;
        int64_t units = units_of(w), first = from > 0 ? from : 0, last = to < units ? to : units;
        if (first < last)
            multiply_run(j, i, first * UNIT, last * UNIT < w->rows ? last * UNIT : w->rows, thread);
        from -= units;
        to -= units;
    }
}

void cpu_multiply_few(struct multiply_job *j)
{
    int64_t units = 0;
    for (int i = 0; i < n_streams(j); i++)
        units += units_of(j->products[i].w);
    size_t unit = UNIT * weight_row_bytes(j->products[0].w) * (j->finish == CPU_SILU_MUL ? 2 : 1);
    prepare_input(j);
    pool_run_shares(j->c->pool, (size_t)units, (size_t)tile_of_weights(j) / UNIT,
                    unit < RUN_BYTES ? RUN_BYTES / unit : 1, multiply_units, j);
}
