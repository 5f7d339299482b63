/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of matrices of GGUF types on a GPU: C for the host, C++ for the kernels.
 *
 * A chunk is 16 rows by 128 columns, of which lane 4g + t has 32 (a unit) of rows g and g + 8, as
 * in packed int4 (abi.h). Its parts, one after the other:
 *
 * low: four bits of a code (or all eight), [half of the rows][lane][16 bytes]; codes of eight
 * bits take two of these, the second for the unit's last 16 columns.
 * high: the fifth bit, or the fifth and sixth, [lane][rows g, g + 8][4 or 8 bytes].
 * scales: [lane][rows g, g + 8], of the sizes that GGUF_..._BYTES give.
 *
 * If scales are integers times one or two float16 for 256 columns, a record is two chunks followed
 * by those float16, [g][rows g, g + 8]; otherwise a record is a chunk. Records of a block of 16
 * rows follow each other.
 *
 * Codes are unpacked to words of four bytes: word 2j has columns 8j, 8j + 2, 8j + 4, 8j + 6 of a
 * unit, word 2j + 1 columns 8j + 1, 8j + 3, 8j + 5, 8j + 7. The low bits of both are in one word:
 * as nibbles of the same byte or, for types with a table, in its lower and upper half. Codes of
 * eight bits are stored as such words. Byte b of word k has its fifth bit at bit 8b + k of `high`;
 * if it has a sixth, both begin at bit 8b + 2k % 8 of word k / 4 of `high`. */
#ifndef EY_CUDA_GGUF_LAYOUT_H
#define EY_CUDA_GGUF_LAYOUT_H

#include "kernels/cuda/common/abi.h"

enum gguf_code_kind { GGUF_NUMBERS, GGUF_IQ4, GGUF_E2M1 };

/* Scales of 32 columns of a row, or of their first and last 16 for the types with two scales. */
enum gguf_scale_kind {
    GGUF_HALF,            /* float16 */
    GGUF_HALF_MINIMUM,    /* float16, and a float16 that is added */
    GGUF_NIBBLES_MINIMUM, /* two 4-bit scales times d; minus 4-bit minima times dmin */
    GGUF_BYTE_MINIMUM,    /* a byte times d, minus a byte times dmin */
    GGUF_TWO_BYTES,       /* two signed bytes times d */
    GGUF_BYTE,            /* a signed byte times d */
    GGUF_E8M0,            /* half of a power of two */
    GGUF_TWO_E4M3         /* two e4m3 numbers, each halved */
};

/* Bytes of a unit of one row. */
#define GGUF_LOW_BYTES(bits) ((bits) == 8 ? 32 : 16)
#define GGUF_HIGH_BYTES(bits) ((bits) == 5 ? 4 : (bits) == 6 ? 8 : 0)
#define GGUF_SCALE_BYTES(scales) \
    ((scales) == GGUF_HALF_MINIMUM ? 4 : (scales) == GGUF_BYTE || (scales) == GGUF_E8M0 ? 1 : 2)
/* Bytes of a row for 256 columns: d, and dmin. */
#define GGUF_D_BYTES(scales)                                               \
    ((scales) == GGUF_NIBBLES_MINIMUM || (scales) == GGUF_BYTE_MINIMUM ? 4 \
     : (scales) == GGUF_TWO_BYTES || (scales) == GGUF_BYTE             ? 2 \
                                                                       : 0)

#define GGUF_HIGH_AT(bits) (64 * GGUF_LOW_BYTES(bits))
#define GGUF_SCALES_AT(bits) (64 * (GGUF_LOW_BYTES(bits) + GGUF_HIGH_BYTES(bits)))
#define GGUF_CHUNK_BYTES(bits, scales) (GGUF_SCALES_AT(bits) + 64 * GGUF_SCALE_BYTES(scales))
#define GGUF_RECORD_CHUNKS(scales) (GGUF_D_BYTES(scales) ? 2 : 1)
#define GGUF_RECORD_BYTES(bits, scales) \
    (GGUF_RECORD_CHUNKS(scales) * GGUF_CHUNK_BYTES(bits, scales) + PACK_ROWS * GGUF_D_BYTES(scales))

enum { GGUF_CHUNK_COLUMNS = 128 };

#ifdef __CUDACC__
#define EY_GGUF_BOTH __host__ __device__
#else
#define EY_GGUF_BOTH
#endif

EY_GGUF_BOTH static inline bool kernel_dtype_is_gguf(int dtype)
{
    return dtype > K_E8M0;
}

/* Bytes of a record and chunks in it. */
struct gguf_record {
    int32_t bytes, chunks;
};

EY_GGUF_BOTH static inline struct gguf_record gguf_record_of(int dtype)
{
    struct gguf_record r = {0, 1};
    switch (dtype) {
#define GGUF_TYPE(id, bits, zero, codes, scales)          \
    case K_##id:                                          \
        r.bytes = GGUF_RECORD_BYTES(bits, GGUF_##scales); \
        r.chunks = GGUF_RECORD_CHUNKS(GGUF_##scales);     \
        break;
#include "kernels/cuda/common/gguf_types.def"
#undef GGUF_TYPE
    default: break;
    }
    return r;
}

/* Returns the records of a block of 16 rows. */
EY_GGUF_BOTH static inline int gguf_records(int dtype, int cols)
{
    const int columns = GGUF_CHUNK_COLUMNS * gguf_record_of(dtype).chunks;
    return (cols + columns - 1) / columns;
}

#endif
