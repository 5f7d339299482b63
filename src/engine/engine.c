/* SPDX-License-Identifier: Apache-2.0 */
/* The engine: opens a model with all the memory it will ever use, and closes it. */
#include "engine/engine_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "tensor/dequantize.h"
#include "base/memory.h"
#include "constrain/constrain.h"
#include "engine/request/prompt_images.h"

ey_engine_options ey_engine_defaults(void)
{
    return (ey_engine_options){.device = "auto"};
}

ey_request ey_request_defaults(void)
{
    return (ey_request){.top_logprobs = -1, .add_bos = true, .sampling = ey_sampling_greedy()};
}

ey_part ey_text_part(const char *text)
{
    return (ey_part){.type = EY_PART_TEXT, .bytes = text, .n_bytes = strlen(text)};
}

ey_part ey_image_part(const void *bytes, size_t n_bytes)
{
    return (ey_part){.type = EY_PART_IMAGE, .bytes = bytes, .n_bytes = n_bytes};
}

const char *ey_version(void)
{
    return EY_VERSION;
}

bool engine_open_headers(ey_engine *engine, const char *name, ey_err *e)
{
    char directory[EY_MAX_PATH];
    if (!name) return ey_fail(e, EY_BAD_REQUEST, "no model is named; use --model");
    return model_directory_find(directory, name, e) &&
           checkpoint_open(&engine->ckpt, directory, e) &&
           model_open(&engine->model, engine->ckpt, e);
}

static size_t longest_token_bytes(const struct tokenizer *tok)
{
    size_t longest = 0, n;
    for (int32_t id = 0; id < tokenizer_size(tok); id++)
        if (tokenizer_bytes(tok, id, &n) && n > longest) longest = n;
    return longest;
}

static bool open_tokenizer(ey_engine *engine, ey_err *e)
{
    if (!tokenizer_open(&engine->tok, checkpoint_directory(engine->ckpt), e) ||
        !model_check_tokenizer(&engine->model, engine->tok, e))
        return false;
    engine->longest_token = longest_token_bytes(engine->tok);
    return true;
}

/* Whether the system has an NVIDIA card, usable or not; under WSL2 Windows puts its driver there.
 */
static bool has_nvidia_gpu(void)
{
    return access("/dev/nvidiactl", F_OK) == 0 ||
           access("/usr/lib/wsl/lib/libcuda.so.1", F_OK) == 0;
}

/* The card where there is one that can be used; one that is too small is not passed over in
 * silence. */
static bool open_best_backend(ey_engine *engine, const ey_engine_options *options, ey_err *e)
{
    ey_err no_gpu = {0};
    if (backend_cuda_create(&engine->be, engine->pool, options->enforce_eager, &no_gpu))
        return true;
    if (no_gpu.code != EY_NO_DEVICE) return *e = no_gpu, false;
    if (options->notice && has_nvidia_gpu()) { /* there is one, so somebody will wonder */
        char text[sizeof(no_gpu.text) + 64];
        snprintf(text, sizeof(text), "the CPU is used, not the card: %s", no_gpu.text);
        options->notice(options->notice_user, text);
    }
    return backend_cpu_create(&engine->be, engine->pool, options->cpu_mask, e);
}

bool engine_open_pool(ey_engine *engine, const ey_engine_options *options, ey_err *e)
{
    if (options->threads < 0 || options->threads > EY_MAX_THREADS)
        return ey_fail(e, EY_BAD_REQUEST, "%d threads; use 1 to %d, or 0 for all processors",
                       options->threads, EY_MAX_THREADS);
    return engine->pool || pool_create(&engine->pool, options->threads, e);
}

static bool open_named_backend(ey_engine *engine, const ey_engine_options *options, ey_err *e)
{
    const char *device = options->device ? options->device : "auto";
    if (!engine_open_pool(engine, options, e)) return false;
    if (strcmp(device, "ref") == 0) return backend_ref_create(&engine->be, engine->pool, e);
    if (strcmp(device, "cpu") == 0)
        return backend_cpu_create(&engine->be, engine->pool, options->cpu_mask, e);
    if (strcmp(device, "cuda") == 0)
        return backend_cuda_create(&engine->be, engine->pool, options->enforce_eager, e);
    if (strcmp(device, "auto") == 0) return open_best_backend(engine, options, e);
    return ey_fail(e, EY_BAD_REQUEST, "there is no device \"%s\"; use auto, cuda, cpu or ref",
                   device);
}

bool engine_open_cpu(ey_engine *engine, const ey_engine_options *options, ey_err *e)
{
    return engine_open_pool(engine, options, e) &&
           backend_cpu_create(&engine->cpu, engine->pool, options->cpu_mask, e);
}

bool engine_open_backend(ey_engine *engine, const ey_engine_options *options, ey_err *e)
{
    double start = seconds_now();
    bool ok = open_named_backend(engine, options, e);
    engine->device_seconds = seconds_now() - start;
    return ok &&
           (strcmp(engine->be->ops->name, "cuda") != 0 || engine_open_cpu(engine, options, e));
}

/* Steps of one row of each of n requests are written down once, where that makes them faster: not
 * where layers on the CPU are part of them. */
static bool capture_decode_graphs(ey_engine *engine, ey_err *e)
{
    struct backend *be = engine->be;
    struct host_buffers *h = &engine->host;
    for (int n = 1;
         be->ops->capture_begin && !engine->cpu_layers.n_layers && n <= engine->max_num_seqs; n++) {
        const struct batch batch = {
            n,           n,      engine->max_blocks, h->token,       h->feature,
            h->position, h->seq, h->index,           h->block_table, 0};
        h->feature[n - 1] = -1;
        h->seq[n - 1] = n - 1;
        h->out_rows[n - 1] = n - 1;
        if (!be->ops->capture_begin(be, n))
            return be->ops->finish(be, e); /* which knows why, if something failed */
        text_model_step(&engine->model, be, &engine->ws, &engine->ws.step, &engine->kv, &batch,
                        h->out_rows, n, engine->logits, NULL);
        if (!be->ops->capture_end(be, e)) return false;
    }
    return true;
}

/* What scores the best of an 8-bit head again: the head as stored, and the norm before it. False:
 * the card was to read it and only that, and it cannot. */
static bool keep_bf16_head(ey_engine *engine, const struct weight *head, const struct weight *norm,
                           const ey_engine_options *o, ey_err *e)
{
    const struct backend_ops *op = engine->be->ops;
    const char *why_not = "";
    char text[320];
    engine->bf16_head = *head;
    elements_to_f32(engine->host.rescore_norm, norm->data, norm->dtype, (size_t)norm->cols);
    engine->rescores_on_host = !op->reads_pinned_rows ||
                               !op->reads_pinned_rows(engine->be, &why_not);
    if (!engine->rescores_on_host || engine->plan.knobs.lm_head_rows != HEAD_ROWS_PINNED)
        return true;
    if (o->lm_head_rows && strcmp(o->lm_head_rows, "pinned") == 0)
        return ey_fail(e, EY_INTERNAL, "--head-rows pinned: %s; use host, or auto", why_not);
    snprintf(text, sizeof(text), "--head-rows host after all: %s; one round trip a token", why_not);
    if (o->notice) o->notice(o->notice_user, text);
    return true;
}

static void choose_vision_backends(ey_engine *engine)
{
    const bool beside = plan_vision_on_cpu(&engine->plan);
    engine->vision_backends = (struct vision_backends){
        .be = beside ? engine->cpu : engine->be,
        .text_be = engine->plan.cpu_layers ? engine->cpu : engine->be,
        .ws = beside ? &engine->cpu_vision_ws : &engine->ws,
        .text_ws = &engine->ws,
        .features_on_host = engine->plan.cpu_layers > 0};
}

static bool engine_load(ey_engine *engine, const ey_engine_options *o, ey_err *e)
{
    const struct placements where = plan_placements(&engine->plan);
    const struct weight head = engine->model.head,
                        norm = engine->model.final_norm; /* in the file */
    const struct backend_ops *op = engine->be->ops;
    choose_vision_backends(engine);
    if ((op->open_arena && !op->open_arena(engine->be, engine->plan.arena_bytes, e)) ||
        !model_place(&engine->model, engine->be, engine->vision_backends.be, engine->cpu, &where,
                     engine->pool, e) ||
        !engine_buffers_open(engine, e) || !capture_decode_graphs(engine, e))
        return false;
    if (where.lm_head == PLACE_EIGHT_BIT && !keep_bf16_head(engine, &head, &norm, o, e))
        return false;
    if (!o->no_huge_pages) engine_hugepages_start(engine, o->serving);
    return scheduler_start(engine, e);
}

static bool engine_open_all(ey_engine *engine, const ey_engine_options *options, ey_err *e)
{
    return engine_open_headers(engine, options->model, e) && open_tokenizer(engine, e) &&
           engine_open_backend(engine, options, e) && engine_selftest_kernels(engine, options, e) &&
           engine_plan(engine, options, e) && engine_check_plan(engine, options, e) &&
           engine_load(engine, options, e) && engine_probe_gpu(engine, options, e);
}

/* For waits until a time that nobody sets back. */
static void cond_init_monotonic(pthread_cond_t *condition)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

ey_engine *engine_new(ey_err *e)
{
    ey_engine *engine = calloc(1, sizeof(*engine));
    if (!engine) {
        ey_fail_memory(e, "the engine", sizeof(*engine));
        return NULL;
    }
    pthread_mutex_init(&engine->lock, NULL);
    pthread_mutex_init(&engine->device_lock, NULL);
    pthread_mutex_init(&engine->token_lock, NULL);
    cond_init_monotonic(&engine->work_ready);
    return engine;
}

bool ey_engine_open(ey_engine **out, const ey_engine_options *options, ey_err *e)
{
    double start = seconds_now();
    ey_engine *engine = *out = engine_new(e);
    if (!engine) return false;
    if (options->progress) options->progress(options->progress_user, "loading", 0, 1);
    bool ok = engine_open_all(engine, options, e);
    engine->load_seconds = seconds_now() - start;
    if (ok && options->progress) options->progress(options->progress_user, "loading", 1, 1);
    if (!ok) ey_engine_close(out);
    return ok;
}

static void free_token_texts(ey_engine *engine)
{
    for (int i = 0; engine->token_text && i < engine->model.text.vocab_size; i++)
        free(engine->token_text[i]);
    free(engine->token_text);
}

void ey_engine_close(ey_engine **out)
{
    ey_engine *engine = *out;
    if (!engine) return;
    scheduler_stop(engine);
    free_token_texts(engine);
    vocabulary_close(&engine->vocabulary);
    if (engine->be) {
        engine_buffers_close(engine);
        engine->be->ops->destroy(engine->be);
    }
    if (engine->cpu) engine->cpu->ops->destroy(engine->cpu);
    pool_destroy(&engine->pool);
    engine_hugepages_end(engine);
    tokenizer_close(engine->tok);
    model_close(&engine->model);
    checkpoint_close(engine->ckpt);
    pthread_cond_destroy(&engine->work_ready);
    pthread_mutex_destroy(&engine->device_lock);
    pthread_mutex_destroy(&engine->token_lock);
    pthread_mutex_destroy(&engine->lock);
    free(engine);
    *out = NULL;
}

const ey_plan_item *ey_engine_plan(const ey_engine *engine, size_t *n)
{
    *n = (size_t)engine->n_plan_items;
    return engine->plan_item;
}

ey_sampling ey_model_sampling(const ey_engine *engine)
{
    return engine->model.sampling;
}

/* All that is neither weights nor KV cache. */
static uint64_t workspace_bytes(const struct plan *p)
{
    return p->bytes[PLAN_IMAGE_CACHE] + p->bytes[PLAN_SHARED_WORKSPACE] +
           p->bytes[PLAN_DECODE_WORKSPACE] + p->bytes[PLAN_LOGITS] + p->bytes[PLAN_SCRATCH] +
           p->bytes[PLAN_HOST_BUFFERS] + p->bytes[PLAN_CPU_VISION_WORKSPACE] +
           p->bytes[PLAN_CPU_SCRATCH] + p->bytes[PLAN_CPU_WORKSPACE];
}

ey_engine_info ey_engine_describe(const ey_engine *engine)
{
    return (ey_engine_info){
        .directory = checkpoint_directory(engine->ckpt),
        .architecture = engine->model.family->architecture,
        .device = engine->be->ops->name,
        .device_detail = engine->be->ops->detail(engine->be),
        .threads = pool_threads(engine->pool),
        .max_model_len = engine->max_model_len,
        .kv_tokens = engine->kv.shape.n_blocks * KV_BLOCK,
        .max_num_seqs = engine->max_num_seqs,
        .vocab_size = engine->model.text.vocab_size,
        .reads_images = engine->model.vision.depth > 0,
        .weight_bytes = engine->model.weight_bytes + engine->model.quantized_bytes,
        .kv_bytes = engine->plan.bytes[PLAN_KV] + engine->plan.bytes[PLAN_CPU_KV],
        .workspace_bytes = workspace_bytes(&engine->plan),
        .load_seconds = engine->load_seconds,
        .device_seconds = engine->device_seconds,
        .device_bytes = engine->device_info.is_gpu ? engine->plan.allocated : 0,
        .n_layers = engine->model.text.n_layers,
        .gpu_layers = engine->model.text.n_layers - engine->cpu_layers.n_layers,
        .lm_head_rows = !engine->bf16_head.data    ? NULL
                        : engine->rescores_on_host ? "host"
                                                   : "pinned",
        .tokens_per_second = engine->plan.tokens_per_second,
    };
}

bool ey_tokenize(const ey_engine *engine, const char *text, size_t n_text, bool parse_special,
                 int **ids, size_t *n, ey_err *e)
{
    struct ids list = {0};
    *ids = NULL;
    *n = 0;
    bool ok = tokenizer_encode(engine->tok, text, n_text, parse_special, &list, e);
    int *copy = ok ? malloc((list.n + 1) * sizeof(*copy)) : NULL;
    if (ok && !copy) ok = ey_fail_memory(e, "token ids", list.n * sizeof(*copy));
    for (size_t i = 0; ok && i < list.n; i++)
        copy[i] = list.id[i];
    if (ok) {
        *ids = copy;
        *n = list.n;
    }
    ids_free(&list);
    return ok;
}

bool ey_detokenize(const ey_engine *engine, const int *ids, size_t n_ids, char **text, size_t *n,
                   ey_err *e)
{
    *text = NULL;
    *n = 0;
    struct detok detok = detok_start(engine->tok);
    struct buf out = buf_with_max((size_t)EY_MAX_CONTEXT * 64);
    bool ok = buf_add(&out, "", 0);
    for (size_t i = 0; ok && i < n_ids; i++) {
        if (ids[i] < 0 || ids[i] >= engine->model.text.vocab_size) {
            buf_free(&out);
            return ey_fail(e, EY_BAD_REQUEST, "token id %d is not in the vocabulary of %d", ids[i],
                           engine->model.text.vocab_size);
        }
        ok = detok_push(&detok, ids[i], &out);
    }
    ok = ok && detok_finish(&detok, &out);
    if (ok) {
        *text = out.data;
        *n = out.size;
    } /* the caller's from here */
    else
        buf_free(&out);
    return ok || ey_fail_memory(e, "the text of tokens", n_ids);
}
