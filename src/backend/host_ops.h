/* SPDX-License-Identifier: Apache-2.0 */
/* Operations shared by backends whose activations are float32 in host memory and whose weights stay
 * in the file: ref and cpu. See backend.h for each. */
#ifndef EY_BACKEND_HOST_OPS_H
#define EY_BACKEND_HOST_OPS_H

#include "backend/backend.h"

size_t host_weight_bytes(const struct backend *be, const struct tensor *w,
                         enum placement placement);
void host_read(struct backend *be, float *out, dev in, enum element kind, size_t n);
void host_write(struct backend *be, dev out, const float *in, enum element kind, size_t n);
void host_read_logits(struct backend *be, float *out, const float *in, size_t n);
bool host_finish(struct backend *be, ey_err *e);
dev host_at(struct backend *be, dev p, enum element kind, size_t n);
void host_add_features(struct backend *be, dev x, dev features, const struct step *step,
                       int hidden);

/* Splits point i of torch.linspace(0, side - 1, n) in float32 into table row and fraction (spec
 * 4.3). */
void host_aligned_corner(int i, int n, int side, int *low, int *high, float *fraction);

#endif
