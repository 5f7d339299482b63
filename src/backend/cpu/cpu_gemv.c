/* SPDX-License-Identifier: Apache-2.0 */
/* GEMV: matmuls of few rows of x, limited by reading the weights. Weights are read where they
 * are stored, once for all rows (later passes read them from a cache), in long runs of adjacent
 * rows: each thread reads a few streams. */
#include "tensor/bf12.h"
#include "backend/cpu/cpu_matmul.h"

enum {
    ROW_UNIT = 2 * CPU_N_ALIGN, /* weight rows */
    RUN_BYTES = 64 << 10,       /* least bytes of weights that a thread takes at a time */
    MAX_SUMS = CPU_GEMV_MAX_ROWS * CPU_SUMS_STRIDE,
    PACKED_AT_ONCE = 16 << 10 /* elements */
};

static int rows_at_once(const struct cpu_matmul_job *j)
{
    int max_rows = cpu_tile_rows(j, j->kernels->gemv_rows);
    return j->in->n < max_rows ? j->in->n : max_rows;
}

/* Returns the rows of a pass that begins with input row `first`. */
static int rows_from(const struct cpu_matmul_job *j, int first)
{
    int left = j->in->n - first, rows = rows_at_once(j);
    return left < rows ? left : rows;
}

bool cpu_use_gemv(const struct cpu_matmul_job *j)
{
    return !j->rare && j->in->n <= cpu_tile_rows(j, j->kernels->gemv_max_rows) &&
           j->in->width % CPU_K_STEP == 0;
}

/* ---- input ---- */

static struct packing_args packing_args_of(const struct cpu_matmul_job *j, int first, int n,
                                           const float *scale)
{
    size_t width = (size_t)j->in->width;
    return (struct packing_args){.x = j->x + (size_t)first * j->x_stride,
                                 .x_stride = j->x_stride,
                                 .width = width,
                                 .padded = width,
                                 .n = n,
                                 .scale = scale,
                                 .weights_8bit = j->weights_8bit,
                                 .fp8_order = j->block_fp8,
                                 .two_pass = j->two_pass};
}

static size_t packed_tile_bytes(const struct cpu_matmul_job *j)
{
    return (size_t)j->kernels->gemv_rows * (size_t)j->in->width * j->kernels->x_element;
}

/* Returns the packed tile that begins with input row `first`, a multiple of rows_at_once(). */
static void *gemv_packed_tile(const struct cpu_matmul_job *j, int first)
{
    return (uint8_t *)j->c->packed + (size_t)(first / rows_at_once(j)) * packed_tile_bytes(j);
}

/* Packs steps begin .. end-1 of all rows. */
static void pack_steps(void *context, size_t begin, size_t end, int thread)
{
    const struct cpu_matmul_job *j = context;
    const int rows = rows_at_once(j), n = j->in->n;
    (void)thread;
    for (int first = 0; first < n; first += rows) {
        const struct packing_args p = packing_args_of(j, first, rows_from(j, first), NULL);
        j->kernels->pack_gemv_columns(gemv_packed_tile(j, first), &p, begin * CPU_K_STEP,
                                      end * CPU_K_STEP);
    }
}

/* Whether rows are repacked for each block of weight rows. */
static bool repacks_per_block(const struct cpu_matmul_job *j)
{
    return j->block_fp8 && !j->kernels->scales_sums && !j->kernels->pack_gemv_columns;
}

static void pack_input(struct cpu_matmul_job *j)
{
    int rows = rows_at_once(j), n = j->in->n;
    if (j->kernels->pack_gemv_columns)
        pool_run(j->c->pool, (size_t)j->in->width / CPU_K_STEP,
                 PACKED_AT_ONCE / CPU_K_STEP / (size_t)n + 1, pack_steps, j);
    if (j->kernels->pack_gemv_columns || repacks_per_block(j)) return;
    for (int first = 0; first < n; first += rows) {
        const struct packing_args p = packing_args_of(j, first, rows_from(j, first), NULL);
        j->kernels->pack_gemv(gemv_packed_tile(j, first), &p);
    }
}

/* Returns input rows first .. first+n-1 packed for a tile of weight rows from `row` on. */
static const void *packed_rows(const struct cpu_matmul_job *j, const struct tensor *w, int64_t row,
                               int first, int n, int thread)
{
    if (!repacks_per_block(j)) return gemv_packed_tile(j, first);
    void *packed = cpu_scratch(j->c, thread);
    const struct packing_args p = packing_args_of(j, first, n, weight_row_scale(w, row));
    j->kernels->pack_gemv(packed, &p);
    return packed;
}

/* ---- matmul ---- */

static const uint8_t *row_at(const struct tensor *w, int64_t row)
{
    return (const uint8_t *)w->data + (size_t)row * weight_row_bytes(w);
}

/* Returns the address at which reading a row begins. */
static const uint8_t *read_start(const struct cpu_matrix *w, int64_t row)
{
    return w->bf12 ? bf12_steps(w->bf12, &w->tensor, row) : row_at(&w->tensor, row);
}

static size_t sums_stride(int64_t rows)
{
    return (size_t)rows + CPU_N_ALIGN;
}

/* Returns the number of weight rows of a tile: as many as a scale block has, or, for kernels that
 * read several blocks in few streams, enough to make the streams long. */
static int64_t weight_rows_per_tile(const struct cpu_matmul_job *j)
{
    const int columns = j->two_pass ? 2 * rows_at_once(j) : rows_at_once(j);
    int64_t rows = FP8_BLOCK;
    if (!j->weights_8bit) return rows;
    while (2 * rows <= CPU_MAX_TILE_ROWS &&
           (size_t)(2 * rows) * weight_row_bytes(&j->linears[0].w->m.tensor) <=
               j->kernels->gemv_tile_bytes &&
           (size_t)columns * sums_stride(2 * rows) <= MAX_SUMS)
        rows *= 2;
    return rows;
}

/* Multiplies weight rows begin .. end-1, a tile; `next` is probably read afterwards, so it is
 * prefetched. */
static void gemv_weight_tile(const struct cpu_matmul_job *j, const struct cpu_linear *p,
                             int64_t begin, int64_t end, const uint8_t *next, int thread)
{
    float sums[MAX_SUMS];
    const size_t stride = sums_stride(end - begin);
    const struct tensor *w = &p->w->m.tensor;
    int n_w = (int)(end - begin);
    for (int first = 0, n; first < j->in->n; first += n) {
        n = rows_from(j, first);
        struct gemv_args t = {.w = row_at(w, begin),
                              .w_stride = weight_row_bytes(w),
                              .dtype = w->dtype,
                              .weight = &p->w->m,
                              .row = begin,
                              .n_w = n_w,
                              .n_x = j->two_pass ? 2 * n : n,
                              .k = (size_t)j->in->width,
                              .x = packed_rows(j, w, begin, first, n, thread),
                              .next = next,
                              .scale = weight_row_scale(w, begin)};
        j->kernels->gemv(sums, stride, &t);
        cpu_accumulate_sums(j, p, sums, stride, begin, n_w, first, n);
    }
}

static int64_t tile_end(const struct cpu_matmul_job *j, int64_t row, int64_t end)
{
    const int64_t rows = weight_rows_per_tile(j), tile = (row / rows + 1) * rows;
    return tile < end ? tile : end;
}

/* Multiplies weight rows begin .. end-1 of matrix i, and of the second matrix if the two form one
 * product (SILU_MUL). */
static void gemv_run(const struct cpu_matmul_job *j, int i, int64_t begin, int64_t end, int thread)
{
    const struct cpu_linear *p = j->linears + i,
                            *other = j->epilogue == CPU_SILU_MUL ? p + 1 : NULL;
    for (int64_t row = begin, stop; row < end; row = stop) {
        stop = tile_end(j, row, end);
        const uint8_t *next = stop < p->w->m.tensor.rows ? read_start(&p->w->m, stop) : NULL;
        gemv_weight_tile(j, p, row, stop, other ? read_start(&other->w->m, row) : next, thread);
        if (other) gemv_weight_tile(j, other, row, stop, next, thread);
    }
    if (j->epilogue > CPU_ADD) cpu_apply_epilogue(j, begin, end, 0, j->in->n);
}

static int64_t row_units_of(const struct tensor *w)
{
    return (w->rows + ROW_UNIT - 1) / ROW_UNIT;
}

static int n_streams(const struct cpu_matmul_job *j)
{
    return j->epilogue == CPU_SILU_MUL ? 1 : j->n_linears;
}

static void gemv_units(void *context, size_t begin, size_t end, int thread)
{
    const struct cpu_matmul_job *j = context;
    int64_t from = (int64_t)begin, to = (int64_t)end;
    for (int i = 0; i < n_streams(j); i++) {
        const struct tensor *w = &j->linears[i].w->m.tensor;
        int64_t units = row_units_of(w), first = from > 0 ? from : 0,
                last = to < units ? to : units;
        if (first < last)
            gemv_run(j, i, first * ROW_UNIT, last * ROW_UNIT < w->rows ? last * ROW_UNIT : w->rows,
                     thread);
        from -= units;
        to -= units;
    }
}

void cpu_gemv(struct cpu_matmul_job *j)
{
    int64_t units = 0;
    for (int i = 0; i < n_streams(j); i++)
        units += row_units_of(&j->linears[i].w->m.tensor);
    size_t unit = ROW_UNIT * weight_row_bytes(&j->linears[0].w->m.tensor) *
                  (j->epilogue == CPU_SILU_MUL ? 2 : 1);
    pack_input(j);
    pool_run_ranges(j->c->pool, (size_t)units, (size_t)weight_rows_per_tile(j) / ROW_UNIT,
                    unit < RUN_BYTES ? RUN_BYTES / unit : 1, gemv_units, j);
}
