/* SPDX-License-Identifier: Apache-2.0 */
/* Computes a prompt's vector or score from its last row in float32 on the host, where one row
 * of a few thousand numbers costs little. */
#include <math.h>

#include "engine/schedule/schedule_internal.h"

static float dot(const float *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return (float)sum;
}

/* Scales a vector to length 1; zeros stay zeros. */
static void normalize(float *vector, size_t n)
{
    const float length = sqrtf(dot(vector, vector, n));
    for (size_t i = 0; length > 0 && i < n; i++)
        vector[i] /= length;
}

void pool_row(ey_engine *engine, ey_generation *gen, dev x, int row)
{
    const size_t hidden = (size_t)engine->devices.model.text.hidden;
    struct pooled_answer *out = gen->pooled;
    read_normed_row(engine, out->vector, x, row);
    if (engine->devices.model.task == EY_TASK_RERANK) {
        const float logit = dot(out->vector, engine->buffers.host.score_weights, hidden);
        out->score = 1 / (1 + exp(-(double)logit));
    } else if (!out->raw) {
        normalize(out->vector, out->n);
    }
    out->done = true;
}
