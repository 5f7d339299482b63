/* Products of one input with one or several weights in one run of the thread team. The input is normed row by row; then
 * threads take groups of weight rows. A few rows of input are multiplied with weights as they lie in the file (cpu_few.c);
 * more with panels of decoded weights that stay in the second-level cache while the rows go by: here, or in blocks
 * (cpu_blocks.c). Few and many give the same bits. */
#include <string.h>

#include "backend/cpu/cpu_multiply.h"

enum {
    GROUP = FP8_BLOCK,           /* weight rows that a thread takes at once, at most: they share their scales */
    LEAST_GROUP = CPU_W_STRIP,
    GROUPS_A_THREAD = 4          /* at least, where there are as many: threads end together */
};

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
        if (in->norm == CPU_RMS_NORM) k->rms_norm(y, x, in->w, (size_t)in->width, in->eps);
        else k->layer_norm(y, x, in->w, in->b, (size_t)in->width, in->eps);
    }
}

static void norm_input(struct multiply_job *j)
{
    j->x = j->in->x, j->x_stride = j->in->x_stride;
    if (j->in->norm == CPU_NO_NORM) return;
    pool_run(j->c->pool, (size_t)j->in->n, 8, norm_rows, j);
    j->x = j->c->rows[0], j->x_stride = j->c->stride;
}

static int rows_at(const struct multiply_job *j)
{
    int most = cpu_tile_rows(j, j->way->x_rows);
    return j->in->n < most ? j->in->n : most;
}

static size_t tile_bytes(const struct multiply_job *j)
{
    return (size_t)j->way->x_rows * cpu_padded((size_t)j->in->width) * j->way->element;
}

static void pack_tile(const struct multiply_job *j, void *out, int first, int n, const float *scale)
{
    size_t width = (size_t)j->in->width;
    const struct packing p = {j->x + (size_t)first * j->x_stride, j->x_stride, width, cpu_padded(width), n, scale, j->codes, j->split};
    j->way->pack(out, &p);
}

static void pack_tiles(void *context, size_t begin, size_t end, int thread)
{
    const struct multiply_job *j = context;
    int rows = rows_at(j);
    (void)thread;
    for (size_t i = begin; i < end; i++) {
        int first = (int)i * rows, n = j->in->n - first < rows ? j->in->n - first : rows;
        pack_tile(j, (uint8_t *)j->c->packed + i * tile_bytes(j), first, n, NULL);
    }
}

/* Tiles of all rows, once for all weights; those with scales are packed for each block of them instead. */
static void pack_input(struct multiply_job *j)
{
    int rows = rows_at(j);
    if (!j->codes) pool_run(j->c->pool, (size_t)((j->in->n + rows - 1) / rows), 2, pack_tiles, j);
}

/* ---- products ---- */

/* A group's rows of one product. */
struct piece {
    const struct cpu_product *p;
    int64_t row;
    int n;
    uint8_t *panel, *x; /* of the thread */
};

static struct piece piece_of(const struct multiply_job *j, const struct cpu_product *p, int64_t begin, int64_t end, int thread)
{
    uint8_t *scratch = cpu_scratch(j->c, thread);
    return (struct piece){p, begin, (int)(end - begin), scratch, scratch + cpu_panel_bytes(j->c->stride)};
}

void cpu_join_sums(const struct multiply_job *j, const struct cpu_product *p, const float *sums, int64_t row, int n_w, int first, int n)
{
    for (int b = 0; b < n; b++) {
        const float *from = sums + (size_t)b * CPU_SUMS_STRIDE, *more = j->split ? from + (size_t)n * CPU_SUMS_STRIDE : NULL;
        j->c->k->join(p->y + (size_t)(first + b) * p->y_stride + row, from, more, p->bias ? p->bias + row : NULL, (size_t)n_w,
                      j->finish == CPU_ADD);
    }
}

/* Rows first .. of the input for weight rows row .. of a group, which have the same scales. */
static void set_rows(const struct multiply_job *j, struct tile *t, const struct piece *g, int row, int first, int n)
{
    const float *scale = cpu_row_scale(g->p->w, g->row + row);
    int tile = first / rows_at(j);
    t->n_x = j->split ? 2 * n : n;
    if (!scale) {
        t->x = (const uint8_t *)j->c->packed + (size_t)tile * tile_bytes(j);
    } else {
        pack_tile(j, g->x, first, n, scale);
        t->x = g->x;
    }
}

/* Weights whose rows kernels read as they lie in the file. */
static bool in_place(const struct multiply_job *j, const struct weight *w)
{
    enum dtype own = j->way->element == 2 ? DTYPE_BF16 : DTYPE_F32;
    return j->way->plain && w->dtype == own && w->cols % CPU_K_STEP == 0;
}

/* Weight rows row .. row+n-1 of a group. */
static struct tile tile_of_weights(const struct multiply_job *j, const struct piece *g, int row, int n)
{
    const struct weight *w = g->p->w;
    size_t padded = cpu_padded((size_t)w->cols), stride = weight_row_bytes(w);
    struct tile t = {.dtype = w->dtype, .weight = w, .row = g->row + row, .n_w = n, .k = padded};
    if (in_place(j, w)) {
        t.w = (const uint8_t *)w->data + (size_t)(g->row + row) * stride, t.w_stride = stride;
    } else {
        j->way->panel(g->panel, w, g->row + row, n, padded);
        t.w = g->panel, t.w_stride = padded * j->way->element;
    }
    return t;
}

/* Weight rows that a panel takes. */
static int panel_rows(const struct multiply_job *j)
{
    size_t bytes = cpu_padded((size_t)j->in->width) * j->way->element;
    return cpu_panel_rows(bytes);
}

/* Weight rows row .. of a group, with the panel from `t` on, with rows first .. of the input. */
static void multiply_rows(const struct multiply_job *j, const struct piece *g, const struct tile *panel, int row, int first, int n)
{
    float sums[CPU_X_MOST * CPU_SUMS_STRIDE];
    for (int at = 0; at < panel->n_w; at += GROUP) { /* those that share their scales */
        struct tile t = *panel;
        t.w += (size_t)at * t.w_stride, t.n_w = panel->n_w - at < GROUP ? panel->n_w - at : GROUP;
        set_rows(j, &t, g, row + at, first, n);
        j->way->multiply(sums, CPU_SUMS_STRIDE, &t);
        cpu_join_sums(j, g->p, sums, g->row + row + at, t.n_w, first, n);
    }
}

static void multiply_piece(const struct multiply_job *j, const struct piece *g)
{
    int rows = rows_at(j), most = panel_rows(j);
    for (int row = 0, n_w; row < g->n; row += n_w) {
        n_w = g->n - row < most ? g->n - row : most;
        struct tile t = tile_of_weights(j, g, row, n_w);
        for (int first = 0, n; first < j->in->n; first += n) {
            n = j->in->n - first < rows ? j->in->n - first : rows;
            multiply_rows(j, g, &t, row, first, n);
        }
    }
}

void cpu_finish_columns(const struct multiply_job *j, int64_t begin, int64_t end, int first, int n_rows)
{
    const struct cpu_kernels *k = j->c->k;
    size_t n = (size_t)(end - begin);
    for (int m = first; m < first + n_rows; m++) {
        float *y = j->products[0].y + (size_t)m * j->products[0].y_stride + begin;
        if (j->finish == CPU_GELU_TANH) k->gelu_tanh(y, n);
        if (j->finish == CPU_GELU_ERF) k->gelu_erf(y, n);
        if (j->finish == CPU_SILU_MUL) k->silu_mul(y, j->products[1].y + (size_t)m * j->products[1].y_stride + begin, n);
    }
}

static int64_t groups_of(const struct multiply_job *j, const struct weight *w)
{
    return (w->rows + j->group - 1) / j->group;
}

static int64_t all_groups(const struct multiply_job *j)
{
    int64_t groups = 0;
    for (int i = 0; i < (j->finish == CPU_SILU_MUL ? 1 : j->n_products); i++) groups += groups_of(j, j->products[i].w);
    return groups;
}

/* One group of rows: of the product that it falls into, or of both where the second belongs to the first. */
static void multiply_group(const struct multiply_job *j, int64_t at, int thread)
{
    int i = 0;
    while (j->finish != CPU_SILU_MUL && at >= groups_of(j, j->products[i].w)) at -= groups_of(j, j->products[i++].w);
    int64_t begin = at * j->group, rows = j->products[i].w->rows, end = begin + j->group < rows ? begin + j->group : rows;
    for (int p = i; p < (j->finish == CPU_SILU_MUL ? 2 : i + 1); p++) {
        struct piece g = piece_of(j, &j->products[p], begin, end, thread);
        multiply_piece(j, &g);
    }
    if (j->finish > CPU_ADD) cpu_finish_columns(j, begin, end, 0, j->in->n);
}

static void multiply_groups(void *context, size_t begin, size_t end, int thread)
{
    const struct multiply_job *j = context;
    for (size_t g = begin; g < end; g++) multiply_group(j, (int64_t)g, thread);
}

/* Enough groups for all threads. */
static void choose_group(struct multiply_job *j)
{
    j->group = GROUP;
    while (j->group > LEAST_GROUP && all_groups(j) < GROUPS_A_THREAD * (int64_t)pool_threads(j->c->pool)) j->group /= 2;
}

static void multiply_with(struct cpu *c, const struct cpu_input *in, const struct cpu_product *products, int n_products,
                          enum cpu_finish finish, bool bf16)
{
    bool split = bf16 && in->precise;
    if (split && !c->k->split) bf16 = split = false;
    struct multiply_job job = {.c = c, .way = bf16 ? &c->k->bf16 : &c->k->f32, .in = in, .products = products,
                               .n_products = n_products, .finish = finish, .split = split, .codes = products[0].w->scale != NULL};
    norm_input(&job);
    if (cpu_are_few(&job)) {
        cpu_multiply_few(&job);
        return;
    }
    if (job.way->multiply_block) {
        cpu_multiply_blocks(&job);
        return;
    }
    choose_group(&job);
    pack_input(&job);
    pool_run(c->pool, (size_t)all_groups(&job), 1, multiply_groups, &job);
}

/* F16 and F32 weights would lose bits in BF16 products. */
static bool wants_bf16(const struct cpu *c, const struct weight *w)
{
    return c->k->bf16.x_rows && (w->dtype == DTYPE_BF16 || w->dtype == DTYPE_F8_E4M3 || w->dtype == DTYPE_INT4 || w->dtype == DTYPE_I8);
}

void cpu_multiply(struct cpu *c, const struct cpu_input *in, const struct cpu_product *products, int n_products,
                  enum cpu_finish finish)
{
    bool bf16 = wants_bf16(c, products[0].w), same = true;
    for (int i = 1; i < n_products; i++)
        same = same && wants_bf16(c, products[i].w) == bf16 && !products[i].w->scale == !products[0].w->scale;
    if (same) {
        multiply_with(c, in, products, n_products, finish, bf16);
        return;
    }
    /* a checkpoint that mixes dtypes within a layer: one by one */
    for (int i = 0; i < n_products; i++)
        multiply_with(c, in, products + i, 1, finish == CPU_SILU_MUL ? CPU_STORE : finish, wants_bf16(c, products[i].w));
    struct multiply_job both = {.c = c, .in = in, .products = products, .finish = finish};
    if (finish == CPU_SILU_MUL) cpu_finish_columns(&both, 0, products[0].w->rows, 0, in->n);
}
