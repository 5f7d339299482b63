/* Products of many rows, in blocks. A thread takes a group of weight rows: it decodes a panel of them, as many columns as the second-level cache
 * has room for, and multiplies it with all packed rows before it goes on to the next columns; sums that are not complete wait in its scratch. What the
 * products are finished with is applied to a tile's outputs while these are near. */
#include <string.h>

#include "backend/cpu/cpu_multiply.h"

enum {
    SLABS = 2,             /* of a group: each time packed rows are read they meet as many */
    WHOLE_COLUMNS = 2048,  /* of a panel, where no more are wanted */
    PART_COLUMNS = 1024,   /* else: sums take room, too */
    TILES = 16,            /* of packed rows, that wait together */
    LEAST_SLAB = 2 * CPU_W_STRIP,
    GROUPS_A_THREAD = 4,   /* at least, where there are as many: threads end together */
    SUMS = CPU_SLAB * CPU_X_MOST
};

struct slab {
    const struct cpu_product *p;
    int64_t row;
    int n;
    uint16_t *panel;
};

/* A group's slabs and the columns that they hold now. */
struct group {
    struct slab slab[SLABS];
    int n;
    float *sums; /* [TILES, SLABS, SUMS] */
    size_t width, k0, k;
};

static size_t padded_width(const struct multiply_job *j)
{
    return cpu_padded((size_t)j->in->width);
}

static size_t panel_columns(size_t width)
{
    return width <= WHOLE_COLUMNS ? width : PART_COLUMNS;
}

static size_t panel_bytes(size_t width)
{
    return SLABS * CPU_SLAB * panel_columns(width) * sizeof(uint16_t);
}

size_t cpu_blocks_scratch(size_t width)
{
    size_t most = width > WHOLE_COLUMNS ? WHOLE_COLUMNS : width; /* narrower inputs may take more than the widest */
    return SLABS * CPU_SLAB * most * sizeof(uint16_t) + TILES * SLABS * SUMS * sizeof(float);
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

static uint16_t *packed_tile(const struct multiply_job *j, int tile)
{
    return (uint16_t *)j->c->packed + (size_t)tile * (size_t)j->way->x_rows * padded_width(j);
}

static void pack_tiles(void *context, size_t begin, size_t end, int thread)
{
    const struct multiply_job *j = context;
    (void)thread;
    for (size_t i = begin; i < end; i++) {
        const struct packing p = {j->x + i * (size_t)tile_rows(j) * j->x_stride, j->x_stride, (size_t)j->in->width, padded_width(j), rows_of_tile(j, (int)i), NULL,
                                  j->codes, j->split};
        j->way->pack(packed_tile(j, (int)i), &p);
    }
}

/* ---- products ---- */

static void decode_panels(const struct multiply_job *j, const struct group *g)
{
    for (int s = 0; s < g->n; s++) j->way->panel_block(g->slab[s].panel, g->slab[s].p->w, g->slab[s].row, g->slab[s].n, g->k0, g->k);
}

static void put_sums(const struct multiply_job *j, const struct slab *s, const float *sums, int tile)
{
    float out[CPU_X_MOST * CPU_SUMS_STRIDE];
    int n = rows_of_tile(j, tile);
    j->way->put_block(out, CPU_SUMS_STRIDE, sums, s->n, j->split ? 2 * n : n);
    cpu_join_sums(j, s->p, out, s->row, s->n, tile * tile_rows(j), n);
}

static void multiply_slab(const struct multiply_job *j, const struct group *g, int which, int tile, float *sums)
{
    const struct slab *s = &g->slab[which];
    int n = rows_of_tile(j, tile), n_x = j->split ? 2 * n : n, room = n_x > CPU_W_STRIP ? 2 * CPU_W_STRIP : CPU_W_STRIP;
    const float *scale = cpu_row_scale(s->p->w, s->row);
    const struct block b = {s->panel, packed_tile(j, tile) + g->k0 * (size_t)room, g->k, s->n, n_x, scale ? scale + g->k0 / FP8_BLOCK : NULL};
    if (!g->k0) memset(sums, 0, SUMS * sizeof(*sums));
    j->way->multiply_block(sums, &b);
    if (g->k0 + g->k == g->width) put_sums(j, s, sums, tile);
}

static void finish_tile(const struct multiply_job *j, const struct group *g, int tile)
{
    const struct slab *first = g->slab, *last = g->slab + (j->finish == CPU_SILU_MUL ? 0 : g->n - 1);
    if (j->finish > CPU_ADD) cpu_finish_columns(j, first->row, last->row + last->n, tile * tile_rows(j), rows_of_tile(j, tile));
}

/* All columns of some tiles. */
static void multiply_tiles(const struct multiply_job *j, struct group *g, int begin, int end)
{
    size_t most = panel_columns(g->width);
    for (g->k0 = 0; g->k0 < g->width; g->k0 += g->k) {
        g->k = g->width - g->k0 < most ? g->width - g->k0 : most;
        if (g->k < g->width || !begin) decode_panels(j, g); /* whole ones are still there */
        for (int tile = begin; tile < end; tile++) {
            for (int s = 0; s < g->n; s++) multiply_slab(j, g, s, tile, g->sums + (size_t)(g->k < g->width ? (tile - begin) * SLABS + s : s) * SUMS);
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

/* Weight rows of a group: where a second product belongs to the first, its rows are the second slab. */
static int group_rows(const struct multiply_job *j)
{
    return j->finish == CPU_SILU_MUL ? j->group : SLABS * j->group;
}

static int64_t groups_of(const struct multiply_job *j, const struct weight *w)
{
    return (w->rows + group_rows(j) - 1) / group_rows(j);
}

static int64_t all_groups(const struct multiply_job *j)
{
    int64_t groups = 0;
    for (int i = 0; i < (j->finish == CPU_SILU_MUL ? 1 : j->n_products); i++) groups += groups_of(j, j->products[i].w);
    return groups;
}

static void add_slab(const struct multiply_job *j, struct group *g, const struct cpu_product *p, int64_t row)
{
    int64_t left = p->w->rows - row;
    if (left <= 0) return;
    size_t i = (size_t)g->n++;
    g->slab[i] = (struct slab){p, row, (int)(left < j->group ? left : j->group), g->slab[0].panel + i * CPU_SLAB * panel_columns(g->width)};
}

static struct group group_at(const struct multiply_job *j, int64_t at, int thread)
{
    int i = 0;
    while (j->finish != CPU_SILU_MUL && at >= groups_of(j, j->products[i].w)) at -= groups_of(j, j->products[i++].w);
    uint8_t *scratch = cpu_scratch(j->c, thread);
    struct group g = {.width = padded_width(j), .sums = (float *)(void *)(scratch + panel_bytes(padded_width(j)))};
    g.slab[0].panel = (uint16_t *)(void *)scratch;
    bool pair = j->finish == CPU_SILU_MUL;
    add_slab(j, &g, &j->products[i], at * group_rows(j));
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
    j->group = CPU_SLAB;
    while (j->group > LEAST_SLAB && all_groups(j) < GROUPS_A_THREAD * (int64_t)pool_threads(j->c->pool)) j->group /= 2;
    pool_run(j->c->pool, (size_t)n_tiles(j), 2, pack_tiles, j);
    pool_run(j->c->pool, (size_t)all_groups(j), 1, multiply_groups, j);
}
