/* SPDX-License-Identifier: Apache-2.0 */
/* GEMM: matmuls of many rows of x, in blocks. A thread takes an N-group of weight rows, packs a
 * panel of as many columns as fit into the L2 cache, and multiplies it with all packed rows before
 * it packs the next columns; partial sums stay in its scratch. The epilogue is applied to a tile's
 * outputs while they are in a cache. */
#include <string.h>

#include "backend/cpu/cpu_matmul.h"

enum {
    MAX_N_BLOCKS = 2,     /* most N-blocks of a group */
    M_TILES = 16,         /* tiles of packed rows whose partial sums are kept together */
    GROUPS_PER_THREAD = 4 /* at least, if there are enough rows, so that threads finish together */
};

struct n_block {
    const struct cpu_linear *p;
    int64_t row;
    int n;
    uint8_t *panel;
};

/* The N-blocks of a group, and the columns that their panels currently hold. */
struct n_group {
    struct n_block block[MAX_N_BLOCKS];
    int n;
    float *sums; /* partial sums of [M_TILES, MAX_N_BLOCKS] tiles, or of one */
    size_t width, k0, k;
};

static size_t gemm_padded_width(const struct cpu_matmul_job *j)
{
    return cpu_padded((size_t)j->in->width);
}

static size_t panel_kc(const struct matmul_kernels *kernels, size_t width)
{
    return width <= kernels->whole_k ? width : kernels->kc;
}

/* Returns the weight rows of an N-block, at most CPU_N_BLOCK, if a group has n_blocks of them. */
static int n_block_rows(const struct matmul_kernels *kernels, size_t width, int n_blocks)
{
    const size_t bytes = (size_t)n_blocks * panel_kc(kernels, width) * kernels->panel_element;
    int rows = CPU_N_BLOCK;
    while (rows > CPU_PANEL_NR && (size_t)rows * bytes > kernels->max_panel_bytes)
        rows /= 2;
    return rows;
}

static size_t group_panel_bytes(const struct matmul_kernels *kernels, size_t width, int n_blocks)
{
    return (size_t)n_blocks * ((size_t)n_block_rows(kernels, width, n_blocks) *
                                   panel_kc(kernels, width) * kernels->panel_element +
                               kernels->panel_tail);
}

static size_t partial_sums_bytes(const struct matmul_kernels *kernels, size_t width)
{
    return kernels->gemm_sums(width) * sizeof(float) *
           (width > panel_kc(kernels, width) ? M_TILES * MAX_N_BLOCKS : 1);
}

/* Returns the scratch bytes for any width up to this one: narrower inputs may need more than the
 * widest. */
size_t cpu_gemm_scratch_bytes(const struct matmul_kernels *kernels, size_t width)
{
    const size_t row = MAX_N_BLOCKS * (width < kernels->whole_k ? width : kernels->whole_k) *
                       kernels->panel_element;
    const size_t max = CPU_N_BLOCK * row < kernels->max_panel_bytes ? CPU_N_BLOCK * row
                                                                    : kernels->max_panel_bytes,
                 least = CPU_PANEL_NR * row;
    return (max > least ? max : least) + MAX_N_BLOCKS * kernels->panel_tail +
           partial_sums_bytes(kernels, width);
}

/* ---- input ---- */

static int gemm_tile_rows(const struct cpu_matmul_job *j)
{
    return cpu_tile_rows(j, j->kernels->gemm_rows);
}

static int rows_in_tile(const struct cpu_matmul_job *j, int tile)
{
    int left = j->in->n - tile * gemm_tile_rows(j);
    return left < gemm_tile_rows(j) ? left : gemm_tile_rows(j);
}

static int n_m_tiles(const struct cpu_matmul_job *j)
{
    return (j->in->n + gemm_tile_rows(j) - 1) / gemm_tile_rows(j);
}

static uint8_t *gemm_packed_tile(const struct cpu_matmul_job *j, int tile)
{
    return (uint8_t *)j->c->packed + (size_t)tile * (size_t)j->kernels->gemm_rows *
                                         gemm_padded_width(j) * j->kernels->x_element;
}

static void pack_tiles(void *context, size_t begin, size_t end, int thread)
{
    const struct cpu_matmul_job *j = context;
    (void)thread;
    for (size_t i = begin; i < end; i++) {
        const struct packing_args p = {.x = j->x + i * (size_t)gemm_tile_rows(j) * j->x_stride,
                                       .x_stride = j->x_stride,
                                       .width = (size_t)j->in->width,
                                       .padded = gemm_padded_width(j),
                                       .n = rows_in_tile(j, (int)i),
                                       .fp8_order = j->block_fp8,
                                       .two_pass = j->two_pass};
        j->kernels->pack_gemm(gemm_packed_tile(j, (int)i), &p);
    }
}

/* ---- matmul ---- */

static void pack_panels(const struct cpu_matmul_job *j, const struct n_group *g)
{
    for (int s = 0; s < g->n; s++)
        j->kernels->pack_panel(g->block[s].panel, &g->block[s].p->w->m, g->block[s].row,
                               g->block[s].n, g->k0, g->k);
}

static void gemm_store_tile(const struct cpu_matmul_job *j, const struct n_block *s,
                            const float *sums, int tile)
{
    float out[CPU_GEMV_MAX_ROWS * CPU_SUMS_STRIDE];
    const int all = rows_in_tile(j, tile), max = cpu_tile_rows(j, CPU_GEMV_MAX_ROWS);
    for (int first = 0, n; first < all; first += n) {
        n = all - first < max ? all - first : max;
        j->kernels->store_gemm(out, CPU_SUMS_STRIDE, sums, s->n, first, j->two_pass ? 2 * n : n);
        cpu_accumulate_sums(j, s->p, out, CPU_SUMS_STRIDE, s->row, s->n,
                            tile * gemm_tile_rows(j) + first, n);
    }
}

static void gemm_n_block(const struct cpu_matmul_job *j, const struct n_group *g, int which,
                         int tile, float *sums)
{
    const struct n_block *s = &g->block[which];
    int n = rows_in_tile(j, tile), n_x = j->two_pass ? 2 * n : n;
    const size_t skipped = g->k0 ? j->kernels->x_offset(g->k0, n_x) : 0;
    const float *scale = weight_row_scale(&s->p->w->m.tensor, s->row);
    const struct gemm_args b = {
        s->panel,    gemm_packed_tile(j, tile) + skipped,     g->k, !g->k0, s->n, n_x,
        &s->p->w->m, scale ? scale + g->k0 / FP8_BLOCK : NULL};
    j->kernels->gemm(sums, &b);
    if (g->k0 + g->k == g->width) gemm_store_tile(j, s, sums, tile);
}

static void gemm_tile_epilogue(const struct cpu_matmul_job *j, const struct n_group *g, int tile)
{
    const struct n_block *first = g->block,
                         *last = g->block + (j->epilogue == CPU_SILU_MUL ? 0 : g->n - 1);
    if (j->epilogue > CPU_ADD)
        cpu_apply_epilogue(j, first->row, last->row + last->n, tile * gemm_tile_rows(j),
                           rows_in_tile(j, tile));
}

/* Multiplies tiles begin .. end-1 over all columns. */
static void gemm_m_tiles(const struct cpu_matmul_job *j, struct n_group *g, int begin, int end)
{
    const size_t max = panel_kc(j->kernels, g->width), sums_size = j->kernels->gemm_sums(g->width);
    for (g->k0 = 0; g->k0 < g->width; g->k0 += g->k) {
        g->k = g->width - g->k0 < max ? g->width - g->k0 : max;
        if (g->k < g->width || !begin)
            pack_panels(j, g); /* panels of the full width are packed once, for the first tiles */
        for (int tile = begin; tile < end; tile++) {
            for (int s = 0; s < g->n; s++)
                gemm_n_block(j, g, s, tile,
                             g->sums +
                                 (g->k < g->width
                                      ? (size_t)((tile - begin) * MAX_N_BLOCKS + s) * sums_size
                                      : 0));
            if (g->k0 + g->k == g->width) gemm_tile_epilogue(j, g, tile);
        }
    }
}

static void gemm_n_group(const struct cpu_matmul_job *j, struct n_group *g)
{
    for (int begin = 0, end; begin < n_m_tiles(j); begin = end) {
        end = begin + M_TILES < n_m_tiles(j) ? begin + M_TILES : n_m_tiles(j);
        gemm_m_tiles(j, g, begin, end);
    }
}

/* ---- groups ---- */

/* Returns the number of N-blocks of a group: in SILU_MUL the rows of the second matrix are the
 * second block. */
static int n_group_blocks(const struct cpu_matmul_job *j)
{
    return j->epilogue == CPU_SILU_MUL ? 2 : j->kernels->n_blocks;
}

/* Returns the number of output columns of a group: in SILU_MUL, two weight rows give one. */
static int n_group_rows(const struct cpu_matmul_job *j)
{
    return j->epilogue == CPU_SILU_MUL ? j->block_rows : n_group_blocks(j) * j->block_rows;
}

static int64_t n_groups_of(const struct cpu_matmul_job *j, const struct tensor *w)
{
    return (w->rows + n_group_rows(j) - 1) / n_group_rows(j);
}

static int64_t n_groups_of_all(const struct cpu_matmul_job *j)
{
    int64_t groups = 0;
    for (int i = 0; i < (j->epilogue == CPU_SILU_MUL ? 1 : j->n_linears); i++)
        groups += n_groups_of(j, &j->linears[i].w->m.tensor);
    return groups;
}

static void add_n_block(const struct cpu_matmul_job *j, struct n_group *g,
                        const struct cpu_linear *p, int64_t row)
{
    int64_t left = p->w->m.tensor.rows - row;
    if (left <= 0) return;
    size_t i = (size_t)g->n++;
    g->block[i] = (struct n_block){p, row, (int)(left < j->block_rows ? left : j->block_rows),
                                   g->block[0].panel +
                                       i * ((size_t)j->block_rows * panel_kc(j->kernels, g->width) *
                                                j->kernels->panel_element +
                                            j->kernels->panel_tail)};
}

static struct n_group n_group_at(const struct cpu_matmul_job *j, int64_t at, int thread)
{
    int i = 0;
    while (j->epilogue != CPU_SILU_MUL && at >= n_groups_of(j, &j->linears[i].w->m.tensor))
        at -= n_groups_of(j, &j->linears[i++].w->m.tensor);
    const size_t width = gemm_padded_width(j);
    uint8_t *scratch = cpu_scratch(j->c, thread);
    struct n_group g = {.width = width,
                        .sums = (float *)(void *)(scratch + group_panel_bytes(j->kernels, width,
                                                                              n_group_blocks(j)))};
    g.block[0].panel = scratch;
    bool pair = j->epilogue == CPU_SILU_MUL;
    add_n_block(j, &g, &j->linears[i], at * n_group_rows(j));
    if (n_group_blocks(j) > 1)
        add_n_block(j, &g, &j->linears[pair ? 1 : i],
                    at * n_group_rows(j) + (pair ? 0 : j->block_rows));
    return g;
}

static void gemm_n_groups(void *context, size_t begin, size_t end, int thread)
{
    const struct cpu_matmul_job *j = context;
    for (size_t i = begin; i < end; i++) {
        struct n_group g = n_group_at(j, (int64_t)i, thread);
        gemm_n_group(j, &g);
    }
}

void cpu_gemm(struct cpu_matmul_job *j)
{
    j->block_rows = n_block_rows(j->kernels, gemm_padded_width(j), n_group_blocks(j));
    while (j->block_rows > CPU_PANEL_NR &&
           n_groups_of_all(j) < GROUPS_PER_THREAD * (int64_t)pool_threads(j->c->pool))
        j->block_rows /= 2;
    pool_run(j->c->pool, (size_t)n_m_tiles(j), 2, pack_tiles, j);
    pool_run(j->c->pool, (size_t)n_groups_of_all(j), 1, gemm_n_groups, j);
}
