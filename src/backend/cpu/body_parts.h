/* SPDX-License-Identifier: Apache-2.0 */
/* How products of many rows are cut; a part of kernels_body.h, whose body_blocks.h says why. */

enum {
    DEPTH = LANES == 16  ? 4
            : LANES == 8 ? 3
                         : 2,
    STRIP = 2 * LANES, /* weight rows whose sums with those of a part stay in registers */
    PART_ROWS = LANES == 16  ? 12
                : LANES == 8 ? 6
                             : 4, /* of the input, at most */
    BLOCK_ROWS = CPU_TILE_MOST,   /* of a packed tile: they share what is read of a panel */
    TILE_SUMS = BLOCK_ROWS * CPU_SLAB
};

/* The pass that does what lane l of few() does, and the other way round: the bits of one are those
 * of the other reversed. */
INLINE size_t pass_of(size_t lane)
{
    size_t pass = 0;
    for (int i = 0; i < DEPTH; i++)
        pass |= (lane >> i & 1) << (DEPTH - 1 - i);
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
    return DEPTH * TILE_SUMS + BLOCK_ROWS * width / LANES;
}

/* What is asked for meanwhile, so many bytes two steps: of the part's next pass, and of the next
 * strip. */
struct ahead {
    const char *from[2];
    size_t step[2];
};

/* One instance of `call` for each number of rows that a part may have, so that its sums stay in
 * registers. */
#define PART_CASE(call, rows)                        \
    case rows:                                       \
        call((rows < PART_ROWS ? rows : PART_ROWS)); \
        break;
#define FOR_ROWS_OF_PART(n, call)                                                       \
    switch (n) {                                                                        \
        PART_CASE(call, 1)                                                              \
        PART_CASE(call, 2) PART_CASE(call, 3) PART_CASE(call, 4) PART_CASE(call, 5)     \
            PART_CASE(call, 6) PART_CASE(call, 7) PART_CASE(call, 8) PART_CASE(call, 9) \
                PART_CASE(call, 10) PART_CASE(call, 11) default : call(PART_ROWS);      \
    }

static void put_block(float *out, size_t out_stride, const float *sums, int n_w, int first, int n)
{
    for (size_t row = 0; row < (size_t)n_w; row += STRIP)
        for (size_t i = 0; i < (size_t)n; i++)
            memcpy(out + i * out_stride + row,
                   sums + (row / STRIP * BLOCK_ROWS + (size_t)first + i) * STRIP,
                   STRIP * sizeof(float));
}
