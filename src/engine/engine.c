/* The engine: opens a model with all the memory it will ever use, and closes it. */
#include "engine/engine_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

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

static bool open_files(ey_engine *engine, const char *name, ey_err *e)
{
    char directory[EY_MAX_PATH];
    if (!name) return ey_fail(e, EY_BAD_REQUEST, "no model is named; use --model");
    return model_directory_find(directory, name, e) && checkpoint_open(&engine->ckpt, directory, e) &&
           model_open(&engine->model, engine->ckpt, e) && tokenizer_open(&engine->tok, directory, e) &&
           model_check_tokenizer(&engine->model, engine->tok, e);
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

enum { DEFAULT_MODEL_LEN = 8192 };

static bool choose_context(ey_engine *engine, int wanted, ey_err *e)
{
    int most = engine->model.text.max_position < EY_MAX_CONTEXT ? engine->model.text.max_position : EY_MAX_CONTEXT;
    if (wanted < 0 || wanted > most)
        return ey_fail(e, EY_BAD_REQUEST, "a context of %d tokens is not possible; this model has at most %d", wanted, most);
    engine->max_model_len = wanted ? wanted : most < DEFAULT_MODEL_LEN ? most : DEFAULT_MODEL_LEN;
    return true;
}

static bool open_all(ey_engine *engine, const ey_engine_options *options, ey_err *e)
{
    return open_files(engine, options->model, e) && open_backend(engine, options, e) &&
           model_place(&engine->model, engine->be, e) && choose_context(engine, options->max_model_len, e) &&
           engine_buffers_open(engine, e);
}

bool ey_engine_open(ey_engine **out, const ey_engine_options *options, ey_err *e)
{
    double start = seconds_now();
    *out = NULL;
    ey_engine *engine = calloc(1, sizeof(*engine));
    if (!engine) return ey_fail_memory(e, "the engine", sizeof(*engine));
    pthread_mutex_init(&engine->lock, NULL);
    pthread_mutex_init(&engine->token_lock, NULL);
    if (options->progress) options->progress(options->progress_user, "loading", 0, 1);
    bool ok = open_all(engine, options, e);
    engine->load_seconds = seconds_now() - start;
    if (ok && options->progress) options->progress(options->progress_user, "loading", 1, 1);
    *out = engine;
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
    free_token_texts(engine);
    if (engine->be) {
        engine_buffers_close(engine);
        engine->be->ops->destroy(engine->be);
    }
    pool_destroy(&engine->pool);
    tokenizer_close(engine->tok);
    model_close(&engine->model);
    checkpoint_close(engine->ckpt);
    pthread_mutex_destroy(&engine->token_lock);
    pthread_mutex_destroy(&engine->lock);
    free(engine);
    *out = NULL;
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
        .weight_bytes = engine->model.weight_bytes,
        .kv_bytes = engine->kv_bytes,
        .workspace_bytes = engine->workspace_bytes,
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
