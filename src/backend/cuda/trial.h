/* SPDX-License-Identifier: Apache-2.0 */
/* The trial of a card's kernels: what its parts share. Memory on the card and the host lives until
 * the part is over. */
#ifndef EY_CUDA_TRIAL_H
#define EY_CUDA_TRIAL_H

#include "backend/cuda/check.h"
#include "base/buf.h"

enum { TRIAL_BYTES = 24 << 20 };
#define TRIAL_EPS 1e-6f /* of norms */

struct trial {
    struct cuda *c;
    char *card; /* TRIAL_BYTES */
    size_t used;
    struct arena host;
    uint64_t random;
    struct kernel_report *report;
    bool out_of_memory; /* every function here takes the NULLs that come of it */
};

uint32_t trial_random_bits(struct trial *t);
float *trial_random_floats(struct trial *t, size_t n, float low, float high);

void *trial_host_room(struct trial *t, size_t bytes);
/* On the card, every byte 0xff: NaN to whoever reads it too early, and in a result that was not
 * written. */
void *trial_card_room(struct trial *t, size_t bytes);
void *trial_put(struct trial *t, const void *from, size_t bytes);
void *trial_get(struct trial *t, const void *from, size_t bytes);
/* `values` become what BF16 holds of them. */
bf16 *trial_put_bf16(struct trial *t, float *values, size_t n);
float *trial_get_bf16(struct trial *t, const bf16 *from, size_t n);

/* Whether the family is to be tried. */
bool trial_begins(const struct trial *t, int family);
/* Notes how far got[n] is from want[n]; a single element far off is a failure too. The worst of
 * several calls counts. */
void trial_judge(struct trial *t, int family, const float *got, const double *want, size_t n);
/* The family has been tried; what its launches did wrong goes to its account. False: the card does
 * nothing any more. */
bool trial_ends(struct trial *t, int family);

/* The parts; false: the card does nothing any more. trial_products.c, trial_attention.c */
bool trial_of_products(struct trial *t);
bool trial_of_text(struct trial *t, int dim, bool fp8);
bool trial_of_tower(struct trial *t);

#endif
