/* How products of many rows are cut; a part of kernels_body.h, whose body_blocks.h says why. */

#ifndef PASSES
#define PASSES LANES
#endif

enum {
    DEPTH = PASSES == 16 ? 4 : PASSES == 8 ? 3 : 2,
    PART_ROWS = LANES == 16 ? 12 : LANES == 8 ? 6 : 4, /* of the input, at most */
    BLOCK_ROWS = CPU_TILE_MOST,       /* of a packed tile: they share what is read of a panel */
    TILE_SUMS = BLOCK_ROWS * CPU_SLAB
};

/* The pass that does what lane l of few() does, and the other way round: the bits of one are those of the other reversed. */
INLINE size_t pass_of(size_t lane)
{
    size_t pass = 0;
    for (int i = 0; i < DEPTH; i++) pass |= (lane >> i & 1) << (DEPTH - 1 - i);
    return pass;
}

/* n rows in as many parts as are needed, of about the same size. */
INLINE int n_parts(int n)
{
    return (n + PART_ROWS - 1) / PART_ROWS;
}

INLINE int part_begin(int n, int part)
{
    return n * part / n_parts(n);
}

/* Sums of a tile on all levels, and a pass of its rows. */
static inline size_t block_sums(size_t width)
{
    return DEPTH * TILE_SUMS + BLOCK_ROWS * width / PASSES;
}
