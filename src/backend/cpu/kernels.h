/* The hot loops of the cpu backend, as a table that is filled once for the machine (cpu_kernels_for). One body
 * (kernels_body.h) is compiled for each instruction set; the last also has BF16 dot products.
 *
 * Every function gives each row the same bits whatever else is in the call: sums run over k, or over keys, in an order
 * that depends on neither the number of rows nor the tile. */
#ifndef EY_BACKEND_CPU_KERNELS_H
#define EY_BACKEND_CPU_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/tensor.h"

enum {
    CPU_W_ROWS = 4,   /* weight rows of a dot tile */
    CPU_X_ROWS = 4,   /* activation rows of a dot tile */
    CPU_K_STEP = 64,  /* packed rows are zero-padded to a multiple of this many elements */
    CPU_KEYS = 64,    /* keys of an attention block; KV_BLOCK */
    CPU_Q_ROWS = 8,   /* query rows of an attention tile */
    CPU_HEAD_PAD = 16 /* rows of values are read in steps of this many elements */
};

/* Which instruction sets may be used; each implies those before it. */
enum cpu_level { CPU_GENERIC, CPU_AVX2, CPU_AVX512, CPU_AVX512BF16, CPU_LEVELS };

/* How the weight rows of a dot tile are stored. PANEL: decoded by decode(), as packed activations are. */
enum w_kind { W_F32, W_F16, W_BF16, W_FP8, W_PANEL };

struct dot_tile {
    const uint8_t *w[CPU_W_ROWS]; /* k elements each of `kind`; a PANEL row is padded like x */
    enum w_kind kind;
    const float *scale;           /* FP8 and panels of it: one a 128 columns, the same for all rows; NULL: none */
    const void *x;                /* packed rows, x_stride elements apart */
    size_t x_stride, k;
    size_t low;                   /* BF16: where in a row its remainders lie (x = high + low); 0: there are none */
    int n_x;                      /* 1..CPU_X_ROWS */
};

/* Query rows against one block of keys, with a running softmax. */
struct attend_tile {
    int n_rows, dim;
    const float *q[CPU_Q_ROWS];       /* [dim] times the softmax scale */
    int n_keys[CPU_Q_ROWS];           /* visible keys of this block; 0 leaves the row as it is */
    float max[CPU_Q_ROWS], sum[CPU_Q_ROWS];
    float *o;                         /* [CPU_Q_ROWS, o_stride] unnormalised; o_stride a multiple of CPU_HEAD_PAD */
    size_t o_stride;
};

struct cpu_kernels {
    enum cpu_level level;
    const char *name;
    bool bf16; /* packed activations and panels are BF16, for BF16 and FP8 weights; else float32 */

    /* n float32 → n packed, zero-padded to `padded` */
    void (*pack)(void *out, const float *in, size_t n, size_t padded, bool bf16);
    /* The same as BF16 twice: nearest values, and at out + low what they leave (16 bits of mantissa in all) */
    void (*pack_split)(uint16_t *out, const float *in, size_t n, size_t padded, size_t low);
    /* One weight row → a panel row; FP8 scales are in a float32 panel but not in a BF16 one. */
    void (*decode)(void *out, const struct weight *w, int64_t row, size_t padded, bool bf16);
    /* sums[CPU_W_ROWS][CPU_X_ROWS] */
    void (*dot)(float sums[CPU_W_ROWS][CPU_X_ROWS], const struct dot_tile *tile);
    void (*dot_bf16)(float sums[CPU_W_ROWS][CPU_X_ROWS], const struct dot_tile *tile);

    void (*rms_norm)(float *y, const float *x, const float *w, size_t n, float eps);
    void (*layer_norm)(float *y, const float *x, const float *w, const float *b, size_t n, float eps);
    void (*silu_mul)(float *gate, const float *up, size_t n); /* gate = silu(gate) * up */
    void (*gelu_tanh)(float *x, size_t n);
    void (*gelu_erf)(float *x, size_t n);

    /* keys [dim, CPU_KEYS] (transposed), values [CPU_KEYS, v_stride]; BF16 or float32 */
    void (*attend)(struct attend_tile *t, const void *keys, const void *values, size_t v_stride, bool bf16);
};

/* The best level of this machine that is at most `most`. */
enum cpu_level cpu_level_usable(enum cpu_level most);
const struct cpu_kernels *cpu_kernels_for(enum cpu_level level);
/* "generic", "avx2", "avx512", "avx512bf16"; false: no such name. */
bool cpu_level_by_name(const char *name, enum cpu_level *level);

extern const struct cpu_kernels cpu_kernels_generic;
#if defined(__x86_64__)
extern const struct cpu_kernels cpu_kernels_avx2, cpu_kernels_avx512, cpu_kernels_avx512bf16;
#endif

#endif
