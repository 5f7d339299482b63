/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a model with all the memory that it will ever use, and closes it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "constrain/constrain.h"
#include "engine/schedule/refine_weights.h"
#include "engine/load/load.h"
#include "engine/schedule/scheduler.h"
#include "models/block_check.h"
#include "models/own_template.h"
#include "tensor/dequantize.h"

static size_t longest_token_bytes(const struct tokenizer *tok)
{
    size_t longest = 0, n;
    for (int32_t id = 0; id < tokenizer_size(tok); id++)
        if (tokenizer_bytes(tok, id, &n) && n > longest) longest = n;
    return longest;
}

/* Reads the tokenizer from the checkpoint's files or from the metadata of a GGUF file. */
static bool read_tokenizer(struct tokenizer **tok, const struct checkpoint *ckpt, ey_err *e)
{
    const char *path = checkpoint_directory(ckpt);
    if (!checkpoint_is_gguf(ckpt)) return tokenizer_open(tok, path, e);
    json_object *root = checkpoint_tokenizer(ckpt, e);
    const bool ok = root && tokenizer_open_json(tok, root, path, e);
    json_object_put(root);
    return ok;
}

static bool open_tokenizer(ey_engine *engine, ey_err *e)
{
    if (!read_tokenizer(&engine->devices.tok, engine->devices.ckpt, e) ||
        !model_check_tokenizer(&engine->devices.model, engine->devices.tok, e))
        return false;
    model_end_at_turn(&engine->devices.model, engine->devices.tok);
    if (engine->devices.model.task == EY_TASK_GENERATE) /* other tasks ignore the chat template */
        model_remark_on_template(&engine->devices.model, engine->devices.ckpt);
    engine->devices.model.thinks = engine->devices.model.thinks &&
                                   tokenizer_added_id(engine->devices.tok, "<think>") >= 0 &&
                                   tokenizer_added_id(engine->devices.tok, "</think>") >= 0;
    engine->limits.longest_token = longest_token_bytes(engine->devices.tok);
    return true;
}

static void report_remarks(const ey_engine *engine, const ey_engine_options *o)
{
    const struct remarks *r = &engine->devices.model.remarks;
    for (int i = 0; o->notice && i < r->n; i++)
        o->notice(o->notice_user, r->text[i]);
}

/* Captures one decode step (1 token x n sequences) for each n as a graph if graphs are faster.
 * Skipped if some layers run on the CPU, and for models that only read prompts. */
static bool capture_decode_graphs(ey_engine *engine, ey_err *e)
{
    struct backend *be = engine->devices.be;
    struct host_buffers *h = &engine->buffers.host;
    const bool captures = be->ops->graph && engine->buffers.ws.n_ranges == 1 &&
                          engine->devices.model.task == EY_TASK_GENERATE;
    for (int n = 1; captures && n <= engine->limits.max_num_seqs; n++) {
        h->seq[n - 1] = (struct step_seq){n - 1, 1, 0, STAGE_DECODE};
        h->feature[n - 1] = -1;
        h->logits_row[n - 1] = n - 1;
        const struct step step = host_step(h, n, n, engine->limits.max_blocks, n);
        if (!be->ops->graph->capture_begin(be, &(struct step_shape){n, 1}))
            return be->ops->compute->finish(be,
                                            e); /* finish() reports the cause if something failed */
        text_model_enqueue(&engine->devices.model, &engine->buffers.ws, &step,
                           engine->buffers.logits, NULL, NULL);
        if (!be->ops->graph->capture_end(be, e)) return false;
    }
    return true;
}

/* Keeps the BF16 head and final norm, from which the top logits of an 8-bit head are recomputed
 * (backend/rescore.h). Fails only if --head-rows pinned was given and pinning is impossible. */
static bool keep_bf16_head(ey_engine *engine, const ey_engine_options *o, ey_err *e)
{
    const struct tensor *norm = &engine->devices.model.final_norm;
    const struct backend_ops *op = engine->devices.be->ops;
    const char *why_not = "";
    char text[320];
    engine->buffers.bf16_head = engine->devices.model.head;
    elements_to_f32(engine->buffers.host.rescore_norm, norm->data, norm->dtype, (size_t)norm->cols);
    engine->buffers.rescores_on_host = !op->memory->reads_pinned_rows ||
                                       !op->memory->reads_pinned_rows(engine->devices.be, &why_not);
    if (!engine->buffers.rescores_on_host ||
        engine->buffers.plan.knobs.lm_head_rows != HEAD_ROWS_PINNED)
        return true;
    if (o->lm_head_rows && strcmp(o->lm_head_rows, "pinned") == 0)
        return ey_fail(e, EY_INTERNAL, "--head-rows pinned: %s; use host, or auto", why_not);
    snprintf(text, sizeof(text), "using --head-rows host: %s; each token costs a round trip",
             why_not);
    if (o->notice) o->notice(o->notice_user, text);
    return true;
}

static void choose_vision_backends(ey_engine *engine)
{
    const bool on_cpu = plan_vision_on_cpu(&engine->buffers.plan);
    engine->devices.vision_backends = (struct vision_backends){
        .be = on_cpu ? engine->devices.cpu : engine->devices.be,
        .ws = on_cpu ? &engine->buffers.cpu_vision_ws : &engine->buffers.ws,
        .text_ws = &engine->buffers.ws};
}

/* Takes the planned memory and uploads the weights. */
static bool place_model(ey_engine *engine, ey_err *e)
{
    const struct placements where = plan_placements(&engine->buffers.plan);
    const struct backend_ops *op = engine->devices.be->ops;
    choose_vision_backends(engine);
    return (!op->memory->open_arena ||
            op->memory->open_arena(engine->devices.be, engine->buffers.plan.arena_bytes, e)) &&
           model_place(&engine->devices.model, engine->devices.be,
                       engine->devices.vision_backends.be, engine->devices.cpu, &where,
                       engine->devices.pool, e);
}

/* Captures graphs while the GGUF blocks are still being checked, but runs no step before the check
 * has ended. */
static bool start_engine(ey_engine *engine, const ey_engine_options *o, struct block_check *check,
                         ey_err *e)
{
    if (!engine_buffers_open(engine, e) || !engine_open_pooling(engine, e) ||
        !capture_decode_graphs(engine, e))
        return false;
    if (!block_check_finish(check, e))
        return ey_fail_within(e, "%s", checkpoint_directory(engine->devices.ckpt));
    if (plan_placements(&engine->buffers.plan).lm_head == PLACE_EIGHT_BIT &&
        !keep_bf16_head(engine, o, e))
        return false;
    if (!o->no_huge_pages) refine_weights_start(engine, o->serving);
    return scheduler_start(engine, e);
}

/* A thread that reads the tokenizer while a GPU opens and weights are uploaded: 150,000 tokens take
 * 0.3 to 0.5 s. */
struct tokenizer_reading {
    ey_engine *engine;
    pthread_t thread;
    bool has_thread, ok;
    ey_err error;
};

static void *read_tokenizer_beside(void *argument)
{
    struct tokenizer_reading *t = argument;
    t->ok = open_tokenizer(t->engine, &t->error);
    return NULL;
}

static void start_reading_tokenizer(struct tokenizer_reading *t, ey_engine *engine)
{
    *t = (struct tokenizer_reading){.engine = engine};
    t->has_thread = pthread_create(&t->thread, NULL, read_tokenizer_beside, t) == 0;
    if (!t->has_thread) read_tokenizer_beside(t);
}

/* Waits for the thread. Returns whether the tokenizer is good; t->error says why not. */
static bool finish_tokenizer(struct tokenizer_reading *t)
{
    if (t->has_thread) pthread_join(t->thread, NULL);
    t->has_thread = false;
    return t->ok;
}

/* Without a GPU, waits for the tokenizer first: the plan counts free memory, and reading the
 * tokenizer takes some. */
static bool open_devices_and_place(ey_engine *engine, const ey_engine_options *o,
                                   struct tokenizer_reading *tokenizer, ey_err *e)
{
    if (!engine_open_backend(&engine->devices, o, e)) return false;
    const bool on_gpu = engine->devices.be->ops->device != NULL;
    return (on_gpu || finish_tokenizer(tokenizer)) &&
           engine_selftest_kernels(&engine->devices, o, e) && engine_plan(engine, o, e) &&
           engine_check_plan(engine, o, e) && place_model(engine, e);
}

/* Opens all but the headers while the blocks are checked. */
static bool open_beside_check(ey_engine *engine, const ey_engine_options *o,
                              struct block_check *check, ey_err *e)
{
    struct tokenizer_reading tokenizer;
    ey_err other;
    start_reading_tokenizer(&tokenizer, engine);
    const bool placed = open_devices_and_place(engine, o, &tokenizer, &other);
    if (!finish_tokenizer(&tokenizer)) return ey_fail_as(e, &tokenizer.error);
    report_remarks(engine, o);
    if (!placed) return ey_fail_as(e, &other);
    return start_engine(engine, o, check, e) && engine_probe_gpu(engine, o, e);
}

static bool engine_open_all(ey_engine *engine, const ey_engine_options *options, ey_err *e)
{
    struct engine_devices *devices = &engine->devices;
    struct block_check *check = NULL;
    const bool ok = engine_open_headers(devices, options, e) &&
                    engine_open_pool(devices, options, e) &&
                    block_check_start(&check, &devices->model, pool_threads(devices->pool) - 1,
                                      e) &&
                    open_beside_check(engine, options, check, e);
    block_check_close(&check);
    return ok;
}

bool ey_engine_open(ey_engine **out, const ey_engine_options *given, ey_err *e)
{
    double start = seconds_now();
    ey_engine_options own;
    const ey_engine_options *options = &own;
    *out = NULL;
    if (!engine_options_read(&own, given, e)) return false;
    ey_engine *engine = *out = engine_new(e);
    if (!engine) return false;
    if (options->progress) options->progress(options->progress_user, EY_PHASE_LOADING, 0, 1);
    bool ok = engine_open_all(engine, options, e);
    engine->devices.load_seconds = seconds_now() - start;
    if (ok && options->progress) options->progress(options->progress_user, EY_PHASE_LOADING, 1, 1);
    if (!ok) ey_engine_close(out);
    return ok;
}

static void free_token_texts(ey_engine *engine)
{
    for (int i = 0; engine->caches.token_text && i < engine->devices.model.text.vocab_size; i++)
        free(engine->caches.token_text[i]);
    free(engine->caches.token_text);
}

void ey_engine_close(ey_engine **out)
{
    ey_engine *engine = *out;
    if (!engine) return;
    scheduler_stop(&engine->scheduler);
    free_token_texts(engine);
    vocabulary_close(&engine->caches.vocabulary);
    if (engine->devices.be) {
        engine_buffers_close(engine);
        engine->devices.be->ops->destroy(engine->devices.be);
    }
    if (engine->devices.cpu) engine->devices.cpu->ops->destroy(engine->devices.cpu);
    pool_destroy(&engine->devices.pool);
    tokenizer_close(engine->devices.tok);
    model_close(&engine->devices.model);
    checkpoint_close(engine->devices.ckpt);
    pthread_cond_destroy(&engine->scheduler.work_ready);
    pthread_cond_destroy(&engine->devices.refinement.done);
    pthread_mutex_destroy(&engine->devices.lock);
    pthread_mutex_destroy(&engine->caches.token_lock);
    pthread_mutex_destroy(&engine->scheduler.lock);
    free(engine);
    *out = NULL;
}
