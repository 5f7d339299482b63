/* SPDX-License-Identifier: Apache-2.0 */
/* Products of many rows, in blocks. A thread takes a group of weight rows: it decodes a panel of
 * them, as many columns as the second-level cache has room for, and multiplies it with all packed
 * rows before it goes on to the next columns; sums that are not complete wait in its scratch. What
 * the products are finished with is applied to a tile's outputs while these are near. */
#include <string.h>

#include "backend/cpu/cpu_multiply.h"

enum {
    SLABS = 2,          /* of a group, at most */
    TILES = 16,         /* of packed rows, that wait together */
    GROUPS_A_THREAD = 4 /* at least, where there are as many: threads end together */
};

struct slab {
    const struct cpu_product *p;
    int64_t row;
    int n;
    uint8_t *panel;
};

/* A group's slabs and the columns that they hold now. */
struct group {
    struct slab slab[SLABS];
    int n;
    float *sums; /* [TILES, SLABS] where sums wait, one else */
    size_t width, k0, k;
};

static size_t padded_width(const struct multiply_job *j)
{
    return cpu_padded((size_t)j->in->width);
}

static size_t panel_columns(const struct products *way, size_t width)
{
    return width <= way->whole ? width : way->part;
}

/* Weight rows of a slab, a part of CPU_SLAB, where a group has so many. */
static int slab_rows(const struct products *way, size_t width, int slabs)
{
    const size_t bytes = (size_t)slabs * panel_columns(way, width) * way->element;
    int rows = CPU_SLAB;
    while (rows > CPU_PANEL_STRIP && (size_t)rows * bytes > way->panels)
        rows /= 2;
    return rows;
}

static size_t panel_bytes(const struct products *way, size_t width, int slabs)
{
    return (size_t)slabs *
           ((size_t)slab_rows(way, width, slabs) * panel_columns(way, width) * way->element +
            way->panel_end);
}

static size_t sums_bytes(const struct products *way, size_t width)
{
    return way->block_sums(width) * sizeof(float) *
           (width > panel_columns(way, width) ? TILES * SLABS : 1);
}

/* Of any width up to this one: narrower inputs may take more than the widest. */
size_t cpu_blocks_scratch(const struct products *way, size_t width)
{
    const size_t row = SLABS * (width < way->whole ? width : way->whole) * way->element;
    const size_t most = CPU_SLAB * row < way->panels ? CPU_SLAB * row : way->panels,
                 least = CPU_PANEL_STRIP * row;
    return (most > least ? most : least) + SLABS * way->panel_end + sums_bytes(way, width);
}

/* ---- input ---- */

static int tile_rows(const struct multiply_job *j)
{
    return cpu_tile_rows(j, j->way->x_rows);
}

static int rows_of_tile(const struct multiply_job *j, int tile)
{
    int left = j->in->n - tile * tile_rows(j);
    return left < tile_rows(j) ? left : tile_rows(j);
}

static int n_tiles(const struct multiply_job *j)
{
    return (j->in->n + tile_rows(j) - 1) / tile_rows(j);
}

static uint8_t *packed_tile(const struct multiply_job *j, int tile)
{
    return (uint8_t *)j->c->packed +
           (size_t)tile * (size_t)j->way->x_rows * padded_width(j) * j->way->tile_element;
}

static void pack_tiles(void *context, size_t begin, size_t end, int thread)
{
    const struct multiply_job *j = context;
    (void)thread;
    for (size_t i = begin; i < end; i++) {
        const struct packing p = {.x = j->x + i * (size_t)tile_rows(j) * j->x_stride,
                                  .x_stride = j->x_stride,
                                  .width = (size_t)j->in->width,
                                  .padded = padded_width(j),
                                  .n = rows_of_tile(j, (int)i),
                                  .codes = j->codes,
                                  .split = j->split};
        j->way->pack_block(packed_tile(j, (int)i), &p);
    }
}

/* ---- products ---- */

static void decode_panels(const struct multiply_job *j, const struct group *g)
{
    for (int s = 0; s < g->n; s++)
        j->way->panel_block(g->slab[s].panel, g->slab[s].p->w, g->slab[s].row, g->slab[s].n, g->k0,
                            g->k);
}

static void put_sums(const struct multiply_job *j, const struct slab *s, const float *sums,
                     int tile)
{
    float out[CPU_X_MOST * CPU_SUMS_STRIDE];
    const int all = rows_of_tile(j, tile), most = cpu_tile_rows(j, CPU_X_MOST);
    for (int first = 0, n; first < all; first += n) {
        n = all - first < most ? all - first : most;
        j->way->put_block(out, CPU_SUMS_STRIDE, sums, s->n, first, j->split ? 2 * n : n);
        cpu_join_sums(j, s->p, out, CPU_SUMS_STRIDE, s->row, s->n, tile * tile_rows(j) + first, n);
    }
}

static void multiply_slab(const struct multiply_job *j, const struct group *g, int which, int tile,
                          float *sums)
{
    const struct slab *s = &g->slab[which];
    int n = rows_of_tile(j, tile), n_x = j->split ? 2 * n : n;
    const size_t skipped = g->k0 ? j->way->columns(g->k0, n_x) : 0;
    const float *scale = weight_row_scale(s->p->w, s->row);
    const struct block b = {
        s->panel, packed_tile(j, tile) + skipped,          g->k, !g->k0, s->n, n_x,
        s->p->w,  scale ? scale + g->k0 / FP8_BLOCK : NULL};
    j->way->multiply_block(sums, &b);
    if (g->k0 + g->k == g->width) put_sums(j, s, sums, tile);
}

static void finish_tile(const struct multiply_job *j, const struct group *g, int tile)
{
    const struct slab *first = g->slab,
                      *last = g->slab + (j->finish == CPU_SILU_MUL ? 0 : g->n - 1);
    if (j->finish > CPU_ADD)
        cpu_finish_columns(j, first->row, last->row + last->n, tile * tile_rows(j),
                           rows_of_tile(j, tile));
}

/* All columns of some tiles. */
static void multiply_tiles(const struct multiply_job *j, struct group *g, int begin, int end)
{
    const size_t most = panel_columns(j->way, g->width), room = j->way->block_sums(g->width);
    for (g->k0 = 0; g->k0 < g->width; g->k0 += g->k) {
        g->k = g->width - g->k0 < most ? g->width - g->k0 : most;
        if (g->k < g->width || !begin) decode_panels(j, g); /* whole ones are still there */
        for (int tile = begin; tile < end; tile++) {
            for (int s = 0; s < g->n; s++)
                multiply_slab(
                    j, g, s, tile,
                    g->sums + (g->k < g->width ? (size_t)((tile - begin) * SLABS + s) * room : 0));
            if (g->k0 + g->k == g->width) finish_tile(j, g, tile);
        }
    }
}

static void multiply_group(const struct multiply_job *j, struct group *g)
{
    for (int begin = 0, end; begin < n_tiles(j); begin = end) {
        end = begin + TILES < n_tiles(j) ? begin + TILES : n_tiles(j);
        multiply_tiles(j, g, begin, end);
    }
}

/* ---- groups ---- */

/* Where a second product belongs to the first, its rows are the second slab. */
static int group_slabs(const struct multiply_job *j)
{
    return j->finish == CPU_SILU_MUL ? 2 : j->way->slabs;
}

/* Rows of one product. */
static int group_rows(const struct multiply_job *j)
{
    return j->finish == CPU_SILU_MUL ? j->group : group_slabs(j) * j->group;
}

static int64_t groups_of(const struct multiply_job *j, const struct weight *w)
{
    return (w->rows + group_rows(j) - 1) / group_rows(j);
}

static int64_t all_groups(const struct multiply_job *j)
{
    int64_t groups = 0;
    for (int i = 0; i < (j->finish == CPU_SILU_MUL ? 1 : j->n_products); i++)
        groups += groups_of(j, j->products[i].w);
    return groups;
}

static void add_slab(const struct multiply_job *j, struct group *g, const struct cpu_product *p,
                     int64_t row)
{
    int64_t left = p->w->rows - row;
    if (left <= 0) return;
    size_t i = (size_t)g->n++;
    g->slab[i] = (struct slab){
        p, row, (int)(left < j->group ? left : j->group),
        g->slab[0].panel +
            i * ((size_t)j->group * panel_columns(j->way, g->width) * j->way->element +
                 j->way->panel_end)};
}

static struct group group_at(const struct multiply_job *j, int64_t at, int thread)
{
    int i = 0;
    while (j->finish != CPU_SILU_MUL && at >= groups_of(j, j->products[i].w))
        at -= groups_of(j, j->products[i++].w);
    const size_t width = padded_width(j);
    uint8_t *scratch = cpu_scratch(j->c, thread);
    struct group g = {
        .width = width,
        .sums = (float *)(void *)(scratch + panel_bytes(j->way, width, group_slabs(j)))};
    g.slab[0].panel = scratch;
    bool pair = j->finish == CPU_SILU_MUL;
    add_slab(j, &g, &j->products[i], at * group_rows(j));
    if (group_slabs(j) > 1)
        add_slab(j, &g, &j->products[pair ? 1 : i], at * group_rows(j) + (pair ? 0 : j->group));
    return g;
}

static void multiply_groups(void *context, size_t begin, size_t end, int thread)
{
    const struct multiply_job *j = context;
    for (size_t i = begin; i < end; i++) {
        struct group g = group_at(j, (int64_t)i, thread);
        multiply_group(j, &g);
    }
}

void cpu_multiply_blocks(struct multiply_job *j)
{
    j->group = slab_rows(j->way, padded_width(j), group_slabs(j));
    while (j->group > CPU_PANEL_STRIP &&
           all_groups(j) < GROUPS_A_THREAD * (int64_t)pool_threads(j->c->pool))
        j->group /= 2;
    pool_run(j->c->pool, (size_t)n_tiles(j), 2, pack_tiles, j);
    pool_run(j->c->pool, (size_t)all_groups(j), 1, multiply_groups, j);
}
