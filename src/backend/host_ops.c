/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of backends in host memory, which need no copies and no waiting. */
#include "backend/host_ops.h"

#include <string.h>

size_t host_weight_bytes(const struct backend *be, const struct tensor *w, enum placement placement)
{
    (void)be;
    (void)w;
    (void)placement;
    return 0;
}

void host_read(struct backend *be, float *out, dev in, enum element kind, size_t n)
{
    (void)kind;
    host_read_logits(be, out, in, n);
}

void host_write(struct backend *be, dev out, const float *in, enum element kind, size_t n)
{
    (void)kind;
    host_read_logits(be, out, in, n);
}

void host_read_logits(struct backend *be, float *out, const float *in, size_t n)
{
    (void)be;
    memcpy(out, in, n * sizeof(float));
}

bool host_finish(struct backend *be, ey_err *e)
{
    (void)be;
    (void)e;
    return true;
}

dev host_at(struct backend *be, dev p, enum element kind, size_t n)
{
    (void)be;
    (void)kind;
    return (float *)p + n;
}

void host_add_features(struct backend *be, dev x, dev features, const struct step *step, int hidden)
{
    (void)be;
    for (int i = 0; i < step->n_rows; i++) {
        if (step->feature[i] < 0) continue;
        const float *add = (const float *)features + (size_t)step->feature[i] * (size_t)hidden;
        float *row = (float *)x + (size_t)i * (size_t)hidden;
        for (int d = 0; d < hidden; d++)
            row[d] += add[d];
    }
}

void host_aligned_corner(int i, int n, int side, int *low, int *high, float *fraction)
{
    float last = (float)(side - 1), step = n > 1 ? last / (float)(n - 1) : 0;
    float at = i < n / 2 ? step * (float)i : last - step * (float)(n - 1 - i);
    *low = (int)at;
    *high = *low + 1 < side ? *low + 1 : side - 1;
    *fraction = at - (float)*low;
}
