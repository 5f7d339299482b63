/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that prepare weights: packed order, padding, NaNs, int8 rows, F32 to BF16, and the
 * bandwidth measurement. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <string.h>

#include <cmocka.h>

#include "cuda/emulated.h"
#include "cuda/kernel_test_matrices.h"

static const unsigned grid[3] = {3, 1, 1}, block[3] = {256, 1, 1};

/* Offset of byte `b` of row r by abi.h: chunk, half, lane 4g + t, byte of its 16. */
static size_t place(int r, int b, int row_bytes)
{
    int chunks = (row_bytes + 63) / 64, lane = r % 8 * 4 + b % 64 / 16;
    return (size_t)((r / 16 * chunks + b / 64) * PACK_CHUNK + r % 16 / 8 * 512 + lane * 16 +
                    b % 16);
}

static size_t packed_bytes(int rows, int row_bytes)
{
    return (size_t)((rows + 15) / 16 * ((row_bytes + 63) / 64)) * PACK_CHUNK;
}

static uint8_t byte_at(int r, int b)
{
    return (uint8_t)(r * 31 + b * 7 + r * b % 5);
}

static void check_pack(int rows, int row_bytes, int first_part, int shift)
{
    size_t bytes = packed_bytes(rows, row_bytes), nonzero = 0;
    uint8_t *memory = aligned((size_t)(rows * row_bytes + shift)), *src = memory + shift,
            *dst = aligned(bytes);
    struct repack_args part[2] = {
        {.src = src, .dst = dst, .rows = first_part, .row_bytes = row_bytes},
        {.dst = dst, .row_bytes = row_bytes}};
    part[1].src = src + first_part * row_bytes;
    part[1].first_row = first_part;
    part[1].rows = rows - first_part;
    for (int i = 0; i < rows * row_bytes; i++)
        src[i] = byte_at(i / row_bytes, i % row_bytes);
    memset(dst, 0xee, bytes);
    for (int i = 0; i < 2; i++)
        if (part[i].rows) assert_true(emulator_launch("repack", &part[i], grid, block, 0));
    for (int i = 0; i < rows * row_bytes; i++) {
        uint8_t v = dst[place(i / row_bytes, i % row_bytes, row_bytes)];
        assert_int_equal(v, src[i]);
        nonzero += src[i] != 0;
    }
    for (size_t i = 0; i < bytes; i++)
        nonzero -= dst[i] != 0;
    assert_int_equal(nonzero, 0); /* all else is padding */
}

static void rows_are_packed(void **state)
{
    (void)state;
    check_pack(16, 64, 0, 0);
    check_pack(130, 320, 48, 0);
    check_pack(40, 144, 16, 0);
    check_pack(5, 80, 0, 8);
    check_pack(33, 72, 32, 1);
}

static void nan_codes_are_found(void **state)
{
    uint8_t *src = aligned(16 * 48), *dst = aligned(packed_bytes(16, 48));
    uint32_t found = 0;
    struct repack_args a = {
        .src = src, .dst = dst, .rows = 16, .row_bytes = 48, .found_nan = &found};
    (void)state;
    for (int i = 0; i < 16 * 48; i++) {
        src[i] = (uint8_t)i;
        if ((src[i] & 0x7f) == 0x7f) src[i] = 0x7e;
    }
    assert_true(emulator_launch("repack", &a, grid, block, 0));
    assert_int_equal(found, 0);
    src[15 * 48 + 47] = 0xff;
    assert_true(emulator_launch("repack", &a, grid, block, 0));
    assert_int_equal(found, 1);
    found = 0;
    src[15 * 48 + 47] = 0;
    src[2] = 0x7f;
    assert_true(emulator_launch("repack", &a, grid, block, 0));
    assert_int_equal(found, 1);
}

static void check_quantized(int rows, int cols, int first_row)
{
    bf16 *src = aligned((size_t)(rows * cols) * sizeof(bf16));
    int all_rows = first_row + rows;
    size_t bytes = packed_bytes(all_rows, cols);
    uint8_t *dst = aligned(bytes);
    float *scale = aligned((size_t)all_rows * sizeof(float));
    struct quantize_int8_args a = {
        .src = src, .dst = dst, .scale = scale, .first_row = first_row, .rows = rows, .cols = cols};
    for (int i = 0; i < rows * cols; i++)
        src[i] = (bf16)(0x3c00 + i * 37 % 0x280 + (i * 7 % 3 == 0 ? 0x8000 : 0));
    for (int c = 0; c < cols; c++)
        src[2 * cols + c] = 0; /* a zero row */
    memset(dst, 0x55, bytes);
    assert_true(emulator_launch("quantize_int8", &a, grid, block, 0));
    for (int r = 0; r < rows; r++) {
        float most = 0, s = scale[first_row + r];
        for (int c = 0; c < cols; c++)
            most = fmaxf(most, fabsf(bf16_float(src[r * cols + c])));
        assert_true(fabsf(s - most / 127.0f) <= 1e-6f * most);
        for (int c = 0; c < cols; c++) {
            float v = bf16_float(src[r * cols + c]),
                  q = (float)(int8_t)dst[place(first_row + r, c, cols)];
            assert_true(fabsf(q * s - v) <= 0.50001f * s);
        }
    }
    for (int r = first_row + rows; r < (all_rows + 15) / 16 * 16; r++)
        for (int c = 0; c < cols; c++)
            assert_int_equal(dst[place(r, c, cols)], 0);
    for (int c = cols; c < (cols + 63) / 64 * 64; c++)
        assert_int_equal(dst[place(first_row, c, cols)], 0);
}

static void rows_become_int8(void **state)
{
    (void)state;
    check_quantized(16, 64, 0);
    check_quantized(21, 80, 32);
    check_quantized(5, 2048, 16);
    check_quantized(5, 40, 0);
}

static void floats_become_bf16(void **state)
{
    static const float special[] = {0, -0.0f, 1.00390625f, 1.01171875f, 3e38f, -1e-40f};
    enum { N = 16 * 1024 + 5 };
    float *x = aligned(N * sizeof(float));
    bf16 *y = aligned((N + 1) * sizeof(bf16));
    struct convert_bf16_args a = {.y = y, .x = x, .n = N};
    (void)state;
    for (int i = 0; i < N; i++)
        x[i] = i < 6 ? special[i] : (float)(i * 7919 % 4001 - 2000) / 77.0f;
    y[N] = 0x1234;
    assert_true(emulator_launch("convert_bf16", &a, grid, block, 0));
    for (int i = 0; i < N; i++)
        assert_int_equal(y[i], float_bf16(x[i]));
    assert_int_equal(y[2], 0x3f80); /* ties to even */
    assert_int_equal(y[3], 0x3f82);
    assert_int_equal(y[N], 0x1234);
}

static void memory_is_read(void **state)
{
    enum { BYTES = (3 * 256 * 8 * 2 + 1000) * 16 };
    uint32_t *data = aligned(BYTES), out = 1;
    struct read_memory_args a = {.data = data, .out = &out, .bytes = BYTES, .times = 2};
    (void)state;
    memset(data, 0, BYTES);
    assert_true(emulator_launch("read_memory", &a, grid, block, 0));
    assert_int_equal(out, 0);
}

/* ---- any matrix as BF16 ---- */

static bf16 packed_bf16_at(const uint8_t *packed, int row, int col, int cols)
{
    const int chunks = (cols * 2 + PACK_BYTES - 1) / PACK_BYTES, byte = col * 2 % PACK_BYTES;
    const size_t chunk = (size_t)(row / PACK_ROWS * chunks + col * 2 / PACK_BYTES);
    bf16 v;
    memcpy(&v,
           packed + chunk * PACK_CHUNK + (size_t)(row % PACK_ROWS * 4 + byte / 16) * 16 + byte % 16,
           sizeof(v));
    return v;
}

static void check_unpacked(const struct dev_matrix *w, const double *value, int first_row)
{
    const int rows = w->rows - first_row, blocks = (rows + PACK_ROWS - 1) / PACK_ROWS,
              chunks = (w->cols * 2 + PACK_BYTES - 1) / PACK_BYTES;
    uint8_t *dst = aligned((size_t)blocks * (size_t)chunks * PACK_CHUNK);
    struct unpack_args a = {*w, dst, first_row, rows};
    assert_true(emulator_launch("unpack_int4", &a, grid, block, 0));
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < w->cols; c++)
            assert_int_equal(packed_bf16_at(dst, r, c, w->cols),
                             float_bf16((float)value[(first_row + r) * w->cols + c]));
}

static void packed_int4_unpacked(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        struct matrix m = random_matrix(K_INT4, 37, i % 2 ? 160 : 256, 1);
        check_unpacked(&m.dev, m.value, i % 3 * 16);
    }
}

/* Groups of 32 columns; int4 and uint8 have zero points and permuted columns. */
static void row_major_unpacked(void **state)
{
    (void)state;
    enum { ROWS = 19, COLS = 96, GROUP = 32, GROUPS = COLS / GROUP };
    static const double e2m1[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    static const int types[] = {K_INT4, K_UINT8, K_FP4, K_MXFP8};
    for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++) {
        const int type = types[t], half = type == K_INT4 || type == K_FP4;
        uint8_t *codes = aligned(ROWS * COLS), *zeros = aligned(ROWS * GROUPS * 4),
                *exponents = aligned(ROWS * GROUPS);
        uint16_t *scales = aligned(ROWS * GROUPS * 2);
        int32_t *places = aligned(COLS * sizeof(int32_t));
        double *value = aligned(sizeof(double) * ROWS * COLS);
        for (int i = 0; i < ROWS * COLS; i++) {
            codes[i] = (uint8_t)random_bits();
            if (type == K_MXFP8 && (codes[i] & 0x7f) == 0x7f) codes[i] = 0x38;
        }
        for (int i = 0; i < ROWS * GROUPS * 4; i++)
            zeros[i] = (uint8_t)random_bits();
        for (int i = 0; i < ROWS * GROUPS; i++) {
            exponents[i] = (uint8_t)(120 + random_bits() % 8);
            scales[i] = (uint16_t)((10 + random_bits() % 5) << 10 | (random_bits() & 0x83ff));
        }
        for (int c = 0; c < COLS; c++)
            places[c] = c * 7 % COLS;
        const int codes_with_zeros = type == K_INT4 || type == K_UINT8;
        for (int r = 0; r < ROWS; r++)
            for (int c = 0; c < COLS; c++) {
                const int at = codes_with_zeros ? places[c] : c, g = at / GROUP;
                const int code = half ? codes[(r * COLS + at) / 2] >> (at % 2 * 4) & 15
                                      : codes[r * COLS + at];
                uint32_t word;
                memcpy(&word, zeros + (size_t)(r / 8 * GROUPS + g) * 4, 4);
                const int zero = type == K_UINT8 ? zeros[r * GROUPS + g]
                                                 : (int)(word >> (r % 8 * 4) & 15);
                const double scale = codes_with_zeros ? f16_double(scales[r * GROUPS + g])
                                                      : ldexp(1, exponents[r * GROUPS + g] - 127);
                value[r * COLS + c] = scale * (codes_with_zeros ? code - zero
                                               : type == K_FP4
                                                   ? (code & 8 ? -e2m1[code & 7] : e2m1[code & 7])
                                                   : e4m3_double((uint8_t)code));
            }
        struct dev_matrix w = {.data = codes,
                               .rows = ROWS,
                               .cols = COLS,
                               .dtype = type,
                               .group_size = GROUP,
                               .row_group_scale = codes_with_zeros ? (void *)scales
                                                                   : (void *)exponents,
                               .scale_dtype = codes_with_zeros ? K_F16 : K_E8M0,
                               .row_group_zero = codes_with_zeros ? zeros : NULL,
                               .place = codes_with_zeros ? places : NULL};
        check_unpacked(&w, value, 0);
        check_unpacked(&w, value, 16);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(rows_are_packed, free_all),
        cmocka_unit_test_teardown(nan_codes_are_found, free_all),
        cmocka_unit_test_teardown(rows_become_int8, free_all),
        cmocka_unit_test_teardown(floats_become_bf16, free_all),
        cmocka_unit_test_teardown(memory_is_read, free_all),
        cmocka_unit_test_teardown(packed_int4_unpacked, free_all),
        cmocka_unit_test_teardown(row_major_unpacked, free_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
