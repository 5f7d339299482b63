/* SPDX-License-Identifier: Apache-2.0 */
/* Which FP8 matrices are multiplied in int16, whose steps are the same for all of a matrix: those
 * that come close to FP8's largest number in all of their blocks of scales, when as many powers of
 * four as all have room for are multiplied in. Quantising each block by its largest weight makes
 * them so. A matrix is looked at when it is multiplied for the first time, as reading all of them
 * would make a start late. */
#include <stdlib.h>

#include "backend/cpu/cpu_multiply.h"

enum {
    LARGEST_CODE = 126, /* 448 */
    NAN_CODE = 127,
    CODES_A_POWER = 16, /* four times as much */
    LEAST_OF_BLOCK = 96 /* 32: with steps of 1/16 what rounding loses of normal weights, of which
                           few are small, is less than what BF16 loses of activations */
};

struct look_job {
    const struct weight *w;
    uint8_t largest[EY_MAX_THREADS],
        least[EY_MAX_THREADS]; /* of blocks' largest codes, but for those of nothing but zeros */
};

static uint8_t largest_of(const uint8_t *codes, size_t stride, size_t rows, size_t n)
{
    uint8_t most[FP8_BLOCK] = {0}, all = 0;
    for (size_t row = 0; row < rows; row++, codes += stride)
        for (size_t i = 0; i < n; i++) {
            const uint8_t code = codes[i] & 0x7f;
            most[i] = code > most[i] ? code : most[i];
        }
    for (size_t i = 0; i < n; i++)
        all = most[i] > all ? most[i] : all;
    return all;
}

/* Blocks of rows begin .. end-1. */
static void look_at_rows(void *context, size_t begin, size_t end, int thread)
{
    struct look_job *j = context;
    const size_t rows = (size_t)j->w->rows, cols = (size_t)j->w->cols;
    for (size_t row = begin * FP8_BLOCK; row < end * FP8_BLOCK && row < rows; row += FP8_BLOCK)
        for (size_t k = 0; k < cols; k += FP8_BLOCK) {
            const size_t n = cols - k < FP8_BLOCK ? cols - k : FP8_BLOCK;
            const uint8_t most = largest_of((const uint8_t *)j->w->data + row * cols + k, cols,
                                            rows - row < FP8_BLOCK ? rows - row : FP8_BLOCK, n);
            if (most > j->largest[thread]) j->largest[thread] = most;
            if (most && most < j->least[thread]) j->least[thread] = most;
        }
}

static uint8_t look_at(struct pool *pool, const struct weight *w)
{
    struct look_job j = {.w = w};
    uint8_t largest = 0, least = LARGEST_CODE;
    for (int i = 0; i < EY_MAX_THREADS; i++)
        j.least[i] = LARGEST_CODE;
    pool_run(pool, ((size_t)w->rows + FP8_BLOCK - 1) / FP8_BLOCK, 1, look_at_rows, &j);
    for (int i = 0; i < EY_MAX_THREADS; i++) {
        if (j.largest[i] > largest) largest = j.largest[i];
        if (j.least[i] < least) least = j.least[i];
    }
    if (largest == NAN_CODE) return CPU_NO_INT16;
    const int powers = (LARGEST_CODE - largest) / CODES_A_POWER;
    return least + CODES_A_POWER * powers < LEAST_OF_BLOCK ? CPU_NO_INT16 : (uint8_t)(1 + powers);
}

bool cpu_takes_int16(const struct cpu *c, const struct weight *w)
{
    if (!w->known) return false;
    if (*w->known == CPU_NOT_SEEN) *w->known = look_at(c->pool, w);
    return *w->known != CPU_NO_INT16;
}

/* ---- where it is kept ---- */

enum { KNOWN_TOGETHER = 2040 };
struct known {
    struct known *next;
    int n;
    uint8_t matrix[KNOWN_TOGETHER];
};

uint8_t *cpu_room_for_known(struct cpu *c)
{
    if (!c->known || c->known->n == KNOWN_TOGETHER) {
        struct known *more = calloc(1, sizeof(*more));
        if (!more) return NULL; /* others are used */
        more->next = c->known;
        c->known = more;
    }
    return &c->known->matrix[c->known->n++];
}

void cpu_forget_known(struct cpu *c)
{
    for (struct known *next; c->known; c->known = next) {
        next = c->known->next;
        free(c->known);
    }
}
