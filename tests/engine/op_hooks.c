/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/op_hooks.h"

#include <stdatomic.h>

#include "engine/swap_ops.h"

static struct compute_ops hooked_compute;
static struct backend_ops hooked;
static const struct backend_ops *real;
static atomic_int counts[N_OPS];
static hook_fn *called;
static void *called_with;
static int fails_at;

static void hit(enum op op)
{
    int n = atomic_fetch_add(&counts[op], 1) + 1;
    if (called) called(called_with, op, n);
}

static void patch_embed(struct backend *be, dev x, const float *pixels, const struct affine *w,
                        const struct placed *table, const struct vision_shape *shape, int rows,
                        int cols, int first, int n)
{
    if (first == 0) hit(OP_ENCODER);
    real->compute->patch_embed(be, x, pixels, w, table, shape, rows, cols, first, n);
}

static void vision_qkv(struct backend *be, dev qkv, dev x, const struct vision_block *w,
                       const struct vision_shape *shape, dev rope, int first, int n)
{
    hit(OP_TILE);
    real->compute->vision_qkv(be, qkv, x, w, shape, rope, first, n);
}

static void merge(struct backend *be, dev out, dev x, const struct merger *w,
                  const struct vision_shape *shape, int n)
{
    hit(OP_MERGE);
    real->compute->merge(be, out, x, w, shape, n);
}

static void embed(struct backend *be, dev x, const struct placed *table, dev features,
                  const struct step *step)
{
    hit(OP_STEP);
    real->compute->embed(be, x, table, features, step);
}

static void qkv(struct backend *be, dev q, struct kv_cache *kv, int layer, dev x,
                const struct attention *w, const struct text_shape *shape, dev rope,
                const struct step *step)
{
    hit(OP_LAYER);
    real->compute->qkv(be, q, kv, layer, x, w, shape, rope, step);
}

static void head(struct backend *be, float *logits, dev x, const int32_t *rows, int n,
                 const struct placed *norm, const struct placed *weight,
                 const struct text_shape *shape)
{
    hit(OP_LOGITS);
    real->compute->lm_head(be, logits, x, rows, n, norm, weight, shape);
}

static bool finish(struct backend *be, ey_err *e)
{
    hit(OP_FINISH);
    return hooks_count(OP_FINISH) == fails_at ? ey_fail(e, EY_INTERNAL, "the device is gone")
                                              : real->compute->finish(be, e);
}

void hooks_on(ey_engine *engine)
{
    real = engine->devices.be->ops;
    hooked_compute = *real->compute;
    hooked_compute.patch_embed = patch_embed;
    hooked_compute.vision_qkv = vision_qkv;
    hooked_compute.merge = merge;
    hooked_compute.embed = embed;
    hooked_compute.qkv = qkv;
    hooked_compute.lm_head = head;
    hooked_compute.finish = finish;
    hooked = *real;
    hooked.compute = &hooked_compute;
    hooks_reset(NULL, NULL);
    swap_ops(engine, &hooked);
}

void hooks_reset(hook_fn *fn, void *user)
{
    for (int op = 0; op < N_OPS; op++)
        atomic_store(&counts[op], 0);
    called = fn;
    called_with = user;
    fails_at = 0;
}

void hooks_fail(int at)
{
    fails_at = at;
}

int hooks_count(enum op op)
{
    return atomic_load(&counts[op]);
}

struct canceller {
    ey_generation *gen;
    enum op op;
    int at;
    bool done;
};

static void cancel_there(void *user, enum op op, int n)
{
    struct canceller *c = user;
    if (op == c->op && n == c->at) {
        ey_generation_cancel(c->gen);
        c->done = true;
    }
}

static void hear_out(ey_generation *gen, const ey_request *request)
{
    ey_event event;
    do {
        ey_generation_next(gen, 1000, &event);
        if (event.type == EY_EVENT_TEXT && request->on_event)
            request->on_event(request->event_user, &event);
    } while (event.type != EY_EVENT_DONE);
}

ey_answer ask_cancelled(ey_engine *engine, const struct question *q, enum op op, int at)
{
    struct canceller c = {.op = op, .at = at};
    ey_prompt *prompt;
    ey_answer answer;
    ey_err e;
    if (!ey_prompt_prepare(engine, &q->request, &prompt, &e)) fail_msg("%s", e.text);
    hooks_reset(cancel_there, &c);
    pthread_mutex_lock(&engine->devices.lock); /* until c.gen is set, which the hook reads */
    bool ok = ey_generation_start(engine, prompt, &q->request, &c.gen, &e);
    pthread_mutex_unlock(&engine->devices.lock);
    ey_prompt_free(&prompt);
    if (!ok) fail_msg("%s", e.text);
    hear_out(c.gen, &q->request);
    if (!ey_generation_collect(&c.gen, &answer, &e)) fail_msg("%s", e.text);
    if (!c.done) fail_msg("op %d was called less than %d times", (int)op, at);
    hooks_reset(NULL, NULL);
    return answer;
}
