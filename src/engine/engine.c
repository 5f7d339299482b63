/* The engine: opens a model with all the memory it will ever use, and closes it. */
#include "engine/engine_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "constrain/constrain.h"
#include "engine/pictures.h"

ey_engine_options ey_engine_defaults(void)
{
    return (ey_engine_options){.device = "auto"};
}

ey_request ey_request_defaults(void)
{
    return (ey_request){.top_logprobs = -1, .sampling = ey_sampling_greedy()};
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

static bool open_headers(ey_engine *engine, const char *name, ey_err *e)
{
    char directory[EY_MAX_PATH];
    if (!name) return ey_fail(e, EY_BAD_REQUEST, "no model is named; use --model");
    return model_directory_find(directory, name, e) && checkpoint_open(&engine->ckpt, directory, e) && model_open(&engine->model, engine->ckpt, e);
}

static size_t longest_token(const struct tokenizer *tok)
{
    size_t longest = 0, n;
    for (int32_t id = 0; id < tokenizer_size(tok); id++)
        if (tokenizer_bytes(tok, id, &n) && n > longest) longest = n;
    return longest;
}

static bool open_tokenizer(ey_engine *engine, ey_err *e)
{
    if (!tokenizer_open(&engine->tok, checkpoint_directory(engine->ckpt), e) || !model_check_tokenizer(&engine->model, engine->tok, e)) return false;
    engine->longest_token = longest_token(engine->tok);
    return true;
}

static bool open_backend(ey_engine *engine, const ey_engine_options *options, ey_err *e)
{
    const char *device = options->device ? options->device : "auto";
    if (options->threads < 0 || options->threads > EY_MAX_THREADS)
        return ey_fail(e, EY_BAD_REQUEST, "%d threads; use 1 to %d, or 0 for all processors", options->threads, EY_MAX_THREADS);
    if (!pool_create(&engine->pool, options->threads, e)) return false;
    if (strcmp(device, "ref") == 0) return backend_ref_create(&engine->be, engine->pool, e);
    if (strcmp(device, "cpu") == 0 || strcmp(device, "auto") == 0)
        return backend_cpu_create(&engine->be, engine->pool, options->cpu_mask, e);
    return ey_fail(e, EY_BAD_REQUEST, "there is no device \"%s\" in this build; use auto, cpu or ref", device);
}

enum { DEFAULT_QUEUED = 64 };

static struct plan_limits limits_of(const ey_engine_options *o)
{
    return (struct plan_limits){o->max_model_len, o->kv_tokens, o->max_num_seqs, o->max_num_batched_tokens, o->max_images};
}

static bool choose_limits(ey_engine *engine, const ey_engine_options *o, ey_err *e)
{
    const struct plan_limits limits = limits_of(o);
    const struct plan *p = &engine->plan;
    if (!plan_make(&engine->plan, &engine->model, engine->be, &limits, e)) return false;
    for (int row = 0; row < PLAN_ROWS; row++) engine->plan_item[row] = plan_item(p, row);
    engine->max_num_queued = o->max_num_queued ? o->max_num_queued : DEFAULT_QUEUED;
    engine->max_model_len = p->max_model_len, engine->max_blocks = p->max_blocks;
    engine->max_num_seqs = p->max_num_seqs, engine->max_images = p->max_images;
    engine->max_unread = DEFAULT_UNREAD, engine->unread_seconds = UNREAD_SECONDS, engine->slice_seconds = SLICE_SECONDS;
    engine->budget = o->budget;
    engine->stats = (ey_stats){.kv_blocks = p->kv.n_blocks, .image_rows = p->feature_rows, .image_bytes = p->bytes[PLAN_IMAGES]};
    return (engine->max_num_queued > 0 && engine->max_num_queued <= EY_MAX_QUEUED) ||
           ey_fail(e, EY_BAD_REQUEST, "max_num_queued is %d; it must be from 1 to %d", engine->max_num_queued, EY_MAX_QUEUED);
}

/* Reserved memory takes no pages yet: what would not fit is refused now, not killed later. */
static bool check_memory(const ey_engine *engine, const ey_engine_options *o, ey_err *e)
{
    const struct plan *p = &engine->plan;
    const struct plan_limits limits = limits_of(o);
    uint64_t left = memory_available();
    if (p->allocated <= left) return true;
    int fits = plan_longest_context(&engine->model, engine->be, &limits, left);
    ey_fail(e, EY_NO_MEMORY, "a context of %d tokens and a KV pool of %d need %llu MiB of memory beside the model's file, and %llu MiB are available",
            p->max_model_len, p->kv_tokens, (unsigned long long)(p->allocated >> 20), (unsigned long long)(left >> 20));
    size_t n = strlen(e->text);
    if (fits) snprintf(e->text + n, sizeof(e->text) - n, "; use --max-model-len %d", fits);
    return false;
}

static bool open_all(ey_engine *engine, const ey_engine_options *options, ey_err *e)
{
    return open_headers(engine, options->model, e) && open_tokenizer(engine, e) && open_backend(engine, options, e) &&
           choose_limits(engine, options, e) && check_memory(engine, options, e) && model_place(&engine->model, engine->be, e) &&
           engine_buffers_open(engine, e) && scheduler_start(engine, e);
}

/* For waits until a time that nobody sets back. */
static void open_condition(pthread_cond_t *condition)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

static ey_engine *engine_new(ey_err *e)
{
    ey_engine *engine = calloc(1, sizeof(*engine));
    if (!engine) {
        ey_fail_memory(e, "the engine", sizeof(*engine));
        return NULL;
    }
    pthread_mutex_init(&engine->lock, NULL);
    pthread_mutex_init(&engine->device, NULL);
    pthread_mutex_init(&engine->token_lock, NULL);
    open_condition(&engine->work);
    return engine;
}

bool ey_engine_open(ey_engine **out, const ey_engine_options *options, ey_err *e)
{
    double start = seconds_now();
    ey_engine *engine = *out = engine_new(e);
    if (!engine) return false;
    if (options->progress) options->progress(options->progress_user, "loading", 0, 1);
    bool ok = open_all(engine, options, e);
    engine->load_seconds = seconds_now() - start;
    if (ok && options->progress) options->progress(options->progress_user, "loading", 1, 1);
    if (!ok) ey_engine_close(out);
    return ok;
}

static void free_token_texts(ey_engine *engine)
{
    for (int i = 0; engine->token_text && i < engine->model.text.vocabulary; i++) free(engine->token_text[i]);
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
    pool_destroy(&engine->pool);
    tokenizer_close(engine->tok);
    model_close(&engine->model);
    checkpoint_close(engine->ckpt);
    pthread_cond_destroy(&engine->work);
    pthread_mutex_destroy(&engine->device);
    pthread_mutex_destroy(&engine->token_lock);
    pthread_mutex_destroy(&engine->lock);
    free(engine);
    *out = NULL;
}

const ey_plan_item *ey_engine_plan(const ey_engine *engine, size_t *n)
{
    *n = PLAN_ROWS;
    return engine->plan_item;
}

ey_sampling ey_model_sampling(const ey_engine *engine)
{
    return engine->model.sampling;
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
        .vocabulary = engine->model.text.vocabulary,
        .weight_bytes = engine->model.weight_bytes,
        .kv_bytes = engine->plan.bytes[PLAN_KV],
        .workspace_bytes = engine->plan.allocated - engine->plan.bytes[PLAN_KV],
        .load_seconds = engine->load_seconds,
    };
}

bool ey_tokenize(const ey_engine *engine, const char *text, size_t n_text, bool parse_special, int **ids, size_t *n, ey_err *e)
{
    struct ids list = {0};
    *ids = NULL, *n = 0;
    bool ok = tokenizer_encode(engine->tok, text, n_text, parse_special, &list, e);
    int *copy = ok ? malloc((list.n + 1) * sizeof(*copy)) : NULL;
    if (ok && !copy) ok = ey_fail_memory(e, "token ids", list.n * sizeof(*copy));
    for (size_t i = 0; ok && i < list.n; i++) copy[i] = list.id[i];
    if (ok) *ids = copy, *n = list.n;
    ids_free(&list);
    return ok;
}

bool ey_detokenize(const ey_engine *engine, const int *ids, size_t n_ids, char **text, size_t *n, ey_err *e)
{
    *text = NULL, *n = 0;
    struct detok detok = detok_start(engine->tok);
    struct buf out = buf_with_max((size_t)EY_MAX_CONTEXT * 64);
    bool ok = buf_add(&out, "", 0);
    for (size_t i = 0; ok && i < n_ids; i++) {
        if (ids[i] < 0 || ids[i] >= engine->model.text.vocabulary) {
            buf_free(&out);
            return ey_fail(e, EY_BAD_REQUEST, "token id %d is not in the vocabulary of %d", ids[i], engine->model.text.vocabulary);
        }
        ok = detok_push(&detok, ids[i], &out);
    }
    ok = ok && detok_finish(&detok, &out);
    if (ok) *text = out.data, *n = out.size; /* the caller's from here */
    else buf_free(&out);
    return ok || ey_fail_memory(e, "the text of tokens", n_ids);
}

/* ---- the plan alone ---- */

static void add_change(ey_plan *out, const ey_engine *engine, const struct plan_limits *limits, const char *fmt, int value)
{
    struct plan changed;
    if (!plan_make(&changed, &engine->model, engine->be, limits, NULL)) return;
    snprintf(out->changes[out->n_changes].options, sizeof(out->changes[0].options), fmt, value);
    out->changes[out->n_changes].total_bytes = changed.allocated;
    out->changes[out->n_changes++].fits = changed.allocated <= out->budget_bytes;
}

static void suggest(ey_plan *out, const ey_engine *engine, const struct plan_limits *limits)
{
    struct plan_limits shorter = *limits, fewer = *limits, smaller = *limits;
    int context = plan_longest_context(&engine->model, engine->be, limits, out->budget_bytes);
    smaller.max_num_batched_tokens = 64;
    if (out->max_model_len > 2048) shorter.max_model_len = 2048, shorter.kv_tokens = 0, add_change(out, engine, &shorter, "--max-model-len %d", 2048);
    if (context && context != 2048) shorter.max_model_len = context, shorter.kv_tokens = 0, add_change(out, engine, &shorter, "--max-model-len %d", context);
    if (out->max_num_seqs > 1) fewer.max_num_seqs = 1, add_change(out, engine, &fewer, "--max-num-seqs %d", 1);
    add_change(out, engine, &smaller, "--max-num-batched-tokens %d", smaller.max_num_batched_tokens);
}

static void fill_plan(ey_plan *out, const ey_engine *engine)
{
    const struct plan *p = &engine->plan;
    const uint64_t side = (uint64_t)(engine->model.patch_spec.patch * engine->model.patch_spec.merge);
    snprintf(out->directory, sizeof(out->directory), "%s", checkpoint_directory(engine->ckpt));
    out->device = engine->be->ops->name;
    out->n_items = PLAN_ROWS;
    for (int row = 0; row < PLAN_ROWS; row++) out->items[row] = engine->plan_item[row];
    out->file_bytes = p->bytes[PLAN_WEIGHTS], out->total_bytes = p->allocated;
    out->budget_bytes = memory_available();
    out->fits = out->total_bytes <= out->budget_bytes;
    out->max_model_len = p->max_model_len, out->kv_tokens = p->kv.n_blocks * KV_BLOCK, out->max_num_seqs = p->max_num_seqs;
    out->max_pixels = picture_pixels(EY_DETAIL_AUTO);
    if (out->max_pixels > engine->model.patch_spec.max_pixels) out->max_pixels = engine->model.patch_spec.max_pixels;
    if (out->max_pixels > (uint64_t)p->max_visual * side * side) out->max_pixels = (uint64_t)p->max_visual * side * side;
}

bool ey_plan_make(const ey_engine_options *options, ey_plan *out, ey_err *e)
{
    const struct plan_limits limits = limits_of(options);
    *out = (ey_plan){0};
    ey_engine *engine = engine_new(e);
    bool ok = engine && open_headers(engine, options->model, e) && open_backend(engine, options, e) && choose_limits(engine, options, e);
    if (ok) fill_plan(out, engine);
    if (ok && !out->fits) suggest(out, engine, &limits);
    ey_engine_close(&engine);
    return ok;
}
