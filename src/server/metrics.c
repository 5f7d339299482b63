/* SPDX-License-Identifier: Apache-2.0 */
/* Histograms and counters in Prometheus text. Names, labels and buckets are vLLM's, so that its
 * dashboards work; eyelet_* metrics are our own. */
#include "server/metrics.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { MAX_BUCKETS = 24, MAX_STATUS = 600 };

/* Histograms: field, name, help, upper bounds. */
#define FIRST_TOKEN_BOUNDS                                                                        \
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, \
        80, 160, 640, 2560
#define TOKEN_BOUNDS \
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80
#define REQUEST_BOUNDS \
    0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680
#define COUNT_BOUNDS \
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000
#define HISTOGRAMS(X)                                                                              \
    X(FIRST_TOKEN, "vllm:time_to_first_token_seconds",                                             \
      "Time from a request's arrival to its first token.", FIRST_TOKEN_BOUNDS)                     \
    X(BETWEEN_TOKENS, "vllm:inter_token_latency_seconds", "Time from one token to the next.",      \
      TOKEN_BOUNDS)                                                                                \
    X(PER_TOKEN, "vllm:request_time_per_output_token_seconds",                                     \
      "Mean time per token after the first, per request.", TOKEN_BOUNDS)                           \
    X(WHOLE, "vllm:e2e_request_latency_seconds", "Time from a request's arrival to its end.",      \
      REQUEST_BOUNDS)                                                                              \
    X(QUEUE, "vllm:request_queue_time_seconds", "Time in the queue.", REQUEST_BOUNDS)              \
    X(PREFILL, "vllm:request_prefill_time_seconds", "Time to compute the prompt.", REQUEST_BOUNDS) \
    X(DECODE, "vllm:request_decode_time_seconds", "Time to compute the answer.", REQUEST_BOUNDS)   \
    X(PROMPT, "vllm:request_prompt_tokens", "Tokens of a prompt.", COUNT_BOUNDS)                   \
    X(ANSWER, "vllm:request_generation_tokens", "Tokens of an answer.", COUNT_BOUNDS)              \
    X(VISION, "eyelet_vision_encode_seconds",                                                      \
      "Time in the vision encoder, of requests with images that were not cached.", REQUEST_BOUNDS)

enum histogram_name {
#define HISTOGRAM_ENUM(id, name, help, ...) id,
    HISTOGRAMS(HISTOGRAM_ENUM)
#undef HISTOGRAM_ENUM
        N_HISTOGRAMS
};

static const struct {
    const char *name, *help;
    double bound[MAX_BUCKETS]; /* ascending, 0-terminated */
} histogram_defs[] = {
#define HISTOGRAM_SHAPE(id, name, help, ...) {name, help, {__VA_ARGS__}},
    HISTOGRAMS(HISTOGRAM_SHAPE)
#undef HISTOGRAM_SHAPE
};

struct histogram {
    uint64_t bucket[MAX_BUCKETS + 1], count;
    double sum;
};

struct metrics {
    pthread_mutex_t lock;
    size_t n_models;
    struct histogram histogram[SERVER_MAX_MODELS][N_HISTOGRAMS];
    uint64_t replies[MAX_STATUS];
};

bool metrics_open(struct metrics **out, size_t n_models, ey_err *e)
{
    struct metrics *m = *out = calloc(1, sizeof(*m));
    if (!m) return ey_fail_memory(e, "metrics", sizeof(*m));
    m->n_models = n_models;
    pthread_mutex_init(&m->lock, NULL);
    return true;
}

void metrics_close(struct metrics **out)
{
    if (!*out) return;
    pthread_mutex_destroy(&(*out)->lock);
    free(*out);
    *out = NULL;
}

/* ---- observing ---- */

/* The lock is held. */
static void observe(const struct metrics_watch *w, enum histogram_name name, double value,
                    uint64_t times)
{
    struct histogram *h = &w->metrics->histogram[w->model][name];
    size_t i = 0;
    while (histogram_defs[name].bound[i] > 0 && value > histogram_defs[name].bound[i])
        i++;
    h->bucket[i] += times;
    h->count += times;
    h->sum += value * (double)times;
}

struct metrics_watch metrics_watch_start(struct metrics *metrics, size_t model, double started)
{
    return (struct metrics_watch){.metrics = metrics, .model = model, .started = started};
}

void metrics_watch_tokens(struct metrics_watch *w, int n_tokens)
{
    double now = seconds_now();
    int more = n_tokens - w->tokens;
    if (more <= 0) return;
    pthread_mutex_lock(&w->metrics->lock);
    if (!w->tokens) {
        observe(w, FIRST_TOKEN, now - w->started, 1);
        more--;
    } else {
        observe(w, BETWEEN_TOKENS, (now - w->last) / more, (uint64_t)more);
        more = 0;
    }
    if (more) observe(w, BETWEEN_TOKENS, 0, (uint64_t)more); /* tokens that came together */
    pthread_mutex_unlock(&w->metrics->lock);
    w->tokens = n_tokens;
    w->last = now;
}

void metrics_watch_end(struct metrics_watch *w, const ey_answer *a, bool hung_up)
{
    if (!a || hung_up) return;
    double now = seconds_now();
    pthread_mutex_lock(&w->metrics->lock);
    observe(w, WHOLE, now - w->started, 1);
    observe(w, QUEUE, a->queue_seconds, 1);
    observe(w, PREFILL, a->prefill_seconds, 1);
    observe(w, DECODE, a->decode_seconds, 1);
    observe(w, PROMPT, a->prompt_tokens, 1);
    observe(w, ANSWER, a->completion_tokens, 1);
    if (a->completion_tokens > 1)
        observe(w, PER_TOKEN, a->decode_seconds / (a->completion_tokens - 1), 1);
    if (a->vision_seconds > 0) observe(w, VISION, a->vision_seconds, 1);
    pthread_mutex_unlock(&w->metrics->lock);
}

void metrics_count_reply(struct metrics *m, int status)
{
    if (status < 0 || status >= MAX_STATUS) return;
    pthread_mutex_lock(&m->lock);
    m->replies[status]++;
    pthread_mutex_unlock(&m->lock);
}

/* ---- writing ---- */

enum { LABEL_BYTES = 512 };

struct metrics_writer {
    struct buf *out;
    const struct metrics *metrics;
    size_t n;                                    /* models */
    char labels[SERVER_MAX_MODELS][LABEL_BYTES]; /* engine and model_name labels of every line */
    ey_stats stats[SERVER_MAX_MODELS];
    struct model_status report[SERVER_MAX_MODELS];
};

static void set_labels(char out[LABEL_BYTES], const char *name)
{
    struct buf text = buf_with_max(LABEL_BYTES - 1);
    buf_add_text(&text, "engine=\"0\",model_name=\"");
    for (const char *p = name; *p; p++) {
        if (*p == '"' || *p == '\\') buf_add_text(&text, "\\");
        buf_add(&text, *p == '\n' ? " " : p, 1);
    }
    buf_add_text(&text, "\"");
    snprintf(out, LABEL_BYTES, "%s", text.failed ? "engine=\"0\",model_name=\"\"" : text.data);
    buf_free(&text);
}

static void write_metric_head(struct metrics_writer *w, const char *name, const char *type,
                              const char *help)
{
    buf_printf(w->out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void write_sample(struct metrics_writer *w, size_t model, const char *name,
                         const char *label, double number)
{
    buf_printf(w->out, "%s{%s%s%s} %.15g\n", name, w->labels[model], label[0] ? "," : "", label,
               number);
}

/* ---- of each model ---- */

typedef double metric_fn(const struct metrics_writer *w, size_t model);

struct metric_def {
    const char *name, *type, *help;
    metric_fn *get;
};

static double metric_ratio(uint64_t part, uint64_t whole)
{
    return whole ? (double)part / (double)whole : 0;
}

/* C name, Prometheus name, type, help, value; `s` has the model's counters, `r` the model manager's
 * record */
#define MODEL_METRICS(X)                                                                          \
    X(running, "vllm:num_requests_running", "gauge", "Running requests.", s->running)             \
    X(waiting, "vllm:num_requests_waiting", "gauge",                                              \
      "Waiting requests, including those that wait for the model to be loaded.",                  \
      s->waiting + r->waiting)                                                                    \
    X(kv_usage, "vllm:kv_cache_usage_perc", "gauge", "Share of the KV cache in use; 1: all.",     \
      metric_ratio((uint64_t)s->kv_blocks_used, (uint64_t)s->kv_blocks))                          \
    X(prompt_tokens, "vllm:prompt_tokens_total", "counter", "Tokens of prompts.",                 \
      (double)s->prompt_tokens)                                                                   \
    X(generated_tokens, "vllm:generation_tokens_total", "counter", "Tokens of answers.",          \
      (double)s->generated_tokens)                                                                \
    X(prefix_queries, "vllm:prefix_cache_queries_total", "counter",                               \
      "Tokens that were looked up in the prefix cache.", (double)s->prompt_tokens)                \
    X(prefix_hits, "vllm:prefix_cache_hits_total", "counter",                                     \
      "Tokens that were found in the prefix cache.", (double)s->cached_tokens)                    \
    X(image_queries, "vllm:mm_cache_queries_total", "counter",                                    \
      "Images that were looked up in the image cache.", (double)s->images)                        \
    X(image_hits, "vllm:mm_cache_hits_total", "counter",                                          \
      "Images that were found in the image cache.", (double)s->images_cached)                     \
    X(preemptions, "vllm:num_preemptions_total", "counter",                                       \
      "Sequences that were preempted and recomputed.", (double)s->preemptions)                    \
    X(asleep, "vllm:engine_sleep_state", "gauge", "1 while the model is unloaded.",               \
      r->state == MODEL_UNLOADED)                                                                 \
    X(load_seconds, "eyelet_load_seconds", "gauge", "Time that the last load of the model took.", \
      r->load_seconds)                                                                            \
    X(loads, "eyelet_loads_total", "counter", "Loads of the model.", r->loads)                    \
    X(unloads, "eyelet_unloads_total", "counter",                                                 \
      "Unloads of the model: it was idle, or another needed its memory.", r->unloads)             \
    X(paused, "eyelet_requests_paused", "gauge", "Running requests whose client does not read.",  \
      s->paused)                                                                                  \
    X(blocks, "eyelet_kv_blocks", "gauge", "Blocks of the KV cache, of 64 tokens.", s->kv_blocks) \
    X(blocks_used, "eyelet_kv_blocks_used", "gauge", "Blocks that sequences hold.",               \
      s->kv_blocks_used)                                                                          \
    X(blocks_cached, "eyelet_kv_blocks_cached", "gauge", "Free blocks that still keep a prefix.", \
      s->kv_blocks_cached)                                                                        \
    X(image_cache_bytes, "eyelet_image_cache_bytes", "gauge", "Size of the image cache.",         \
      (double)s->image_cache_bytes)                                                               \
    X(image_rows, "eyelet_image_cache_tokens", "gauge",                                           \
      "Visual tokens that fit into the image cache.", s->image_cache_tokens)                      \
    X(image_rows_used, "eyelet_image_cache_tokens_used", "gauge",                                 \
      "Visual tokens in the image cache.", s->image_cache_tokens_used)                            \
    X(step_age, "eyelet_step_age_seconds", "gauge",                                               \
      "Time since the engine's last step; 0 if it has nothing to do.", s->heartbeat_age)          \
    X(steps, "eyelet_steps_total", "counter", "Steps of the engine.", (double)s->steps)           \
    X(async_steps, "eyelet_async_steps_total", "counter",                                         \
      "Steps that were enqueued before the tokens of the previous step were known.",              \
      (double)s->async_steps)                                                                     \
    X(step_seconds, "eyelet_step_seconds_total", "counter", "Time that steps took.",              \
      s->step_seconds)                                                                            \
    X(encoder_runs, "eyelet_vision_encoder_runs_total", "counter",                                \
      "Images that went through the vision encoder.", (double)s->encoder_runs)                    \
    X(vision_seconds, "eyelet_vision_seconds_total", "counter", "Time in the vision encoder.",    \
      s->vision_seconds)

/* GPU memory while the model is loaded, as last checked (model_slot_seconds_to_check()). */
#define GPU_METRICS(X)                                                                           \
    X(planned, "eyelet_gpu_memory_planned_bytes", "gauge",                                       \
      "GPU memory that the engine takes, including the driver's context.",                       \
      (double)r->memory.planned_bytes)                                                           \
    X(budget, "eyelet_gpu_memory_budget_bytes", "gauge", "GPU memory that the engine may take.", \
      (double)r->memory.budget_bytes)                                                            \
    X(total, "eyelet_gpu_memory_total_bytes", "gauge", "The GPU's memory.",                      \
      (double)r->memory.total_bytes)                                                             \
    X(free, "eyelet_gpu_memory_free_bytes", "gauge",                                             \
      "GPU memory that was free at the last check.", (double)r->memory.free_bytes)               \
    X(spilled, "eyelet_gpu_memory_spilled", "gauge",                                             \
      "1: parts of the engine's memory are far slower to read than the GPU's own memory.",       \
      r->memory.spilled)                                                                         \
    X(spilled_bytes, "eyelet_gpu_memory_spilled_bytes", "gauge", "Bytes of these slower parts.", \
      (double)r->memory.spilled_bytes)                                                           \
    X(read_rate, "eyelet_gpu_memory_read_bytes_per_second", "gauge",                             \
      "Read rate of the GPU's own memory.", r->memory.bytes_per_second)

#define METRIC_GET(id, name, type, help, what)                           \
    static double get_##id(const struct metrics_writer *w, size_t model) \
    {                                                                    \
        const ey_stats *s = &w->stats[model];                            \
        const struct model_status *r = &w->report[model];                \
        (void)s, (void)r;                                                \
        return (what);                                                   \
    }
MODEL_METRICS(METRIC_GET)
GPU_METRICS(METRIC_GET)
#undef METRIC_GET

static const struct metric_def model_metric_defs[] = {
#define METRIC_ROW(id, name, type, help, what) {name, type, help, get_##id},
    MODEL_METRICS(METRIC_ROW)};
static const struct metric_def gpu_metric_defs[] = {GPU_METRICS(METRIC_ROW)
#undef METRIC_ROW
};

static void write_model_metrics(struct metrics_writer *w, const struct metric_def *metric, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        write_metric_head(w, metric[i].name, metric[i].type, metric[i].help);
        for (size_t m = 0; m < w->n; m++)
            write_sample(w, m, metric[i].name, "", metric[i].get(w, m));
    }
}

/* Leaves out models that are currently not on a GPU. */
static void write_gpu_metrics(struct metrics_writer *w)
{
    for (size_t i = 0; i < sizeof(gpu_metric_defs) / sizeof(gpu_metric_defs[0]); i++) {
        const struct metric_def *f = &gpu_metric_defs[i];
        bool said = false;
        for (size_t m = 0; m < w->n; m++) {
            if (!w->report[m].memory.known) continue;
            if (!said) write_metric_head(w, f->name, f->type, f->help);
            said = true;
            write_sample(w, m, f->name, "", f->get(w, m));
        }
    }
}

static void write_finish_reasons(struct metrics_writer *w)
{
    static const char name[] = "vllm:request_success_total";
    write_metric_head(w, name, "counter", "Answers by finish reason.");
    for (size_t m = 0; m < w->n; m++) {
        const ey_stats *s = &w->stats[m];
        write_sample(w, m, name, "finished_reason=\"stop\"", (double)s->finished_stop);
        write_sample(w, m, name, "finished_reason=\"length\"", (double)s->finished_length);
        write_sample(w, m, name, "finished_reason=\"abort\"", (double)s->finished_cancelled);
        write_sample(w, m, name, "finished_reason=\"error\"", (double)s->failed);
    }
}

static void write_histogram_of(struct metrics_writer *w, size_t model, const char *name,
                               enum histogram_name shape)
{
    const struct histogram *h = &w->metrics->histogram[model][shape];
    char label[64], part[128];
    uint64_t sum = 0;
    snprintf(part, sizeof(part), "%s_bucket", name);
    for (size_t i = 0; histogram_defs[shape].bound[i] > 0; i++) {
        snprintf(label, sizeof(label), "le=\"%g\"", histogram_defs[shape].bound[i]);
        write_sample(w, model, part, label, (double)(sum += h->bucket[i]));
    }
    write_sample(w, model, part, "le=\"+Inf\"", (double)h->count);
    snprintf(part, sizeof(part), "%s_sum", name);
    write_sample(w, model, part, "", h->sum);
    snprintf(part, sizeof(part), "%s_count", name);
    write_sample(w, model, part, "", (double)h->count);
}

static void write_histogram(struct metrics_writer *w, const char *name, enum histogram_name shape)
{
    write_metric_head(w, name, "histogram", histogram_defs[shape].help);
    for (size_t m = 0; m < w->n; m++)
        write_histogram_of(w, m, name, shape);
}

static void write_plan(struct metrics_writer *w)
{
    write_metric_head(w, "eyelet_plan_bytes", "gauge", "Memory of the engine by purpose.");
    for (size_t m = 0; m < w->n; m++)
        for (size_t i = 0; i < w->report[m].info.n_items; i++) {
            const ey_plan_item *item = &w->report[m].info.item[i];
            char label[160];
            snprintf(label, sizeof(label), "item=\"%s\",device=\"%s\",life=\"%s\"", item->name,
                     item->device, item->lifetime);
            write_sample(w, m, "eyelet_plan_bytes", label, (double)item->bytes);
        }
}

/* ---- of the server ---- */

static void write_gauge(struct metrics_writer *w, const char *name, double number, const char *help)
{
    write_metric_head(w, name, "gauge", help);
    write_sample(w, 0, name, "", number);
}

static void write_server(struct metrics_writer *w, const struct metrics_sources *f)
{
    write_gauge(w, "eyelet_host_budget_bytes", (double)ey_budget_total(f->budget),
                "Host memory for requests in flight.");
    write_gauge(w, "eyelet_host_budget_used_bytes", (double)ey_budget_used(f->budget),
                "Host memory that requests in flight hold.");
    write_gauge(w, "eyelet_connections", f->connections, "Open connections.");
    write_metric_head(w, "eyelet_replies_total", "counter",
                      "HTTP replies by status; 0: the connection was cut before a reply.");
    for (int i = 0; i < MAX_STATUS; i++) {
        char label[32];
        snprintf(label, sizeof(label), "status=\"%d\"", i);
        if (w->metrics->replies[i])
            write_sample(w, 0, "eyelet_replies_total", label, (double)w->metrics->replies[i]);
    }
}

bool metrics_write(struct metrics *m, const struct metrics_sources *sources, struct buf *out)
{
    struct metrics_writer *w = calloc(1, sizeof(*w));
    if (!w) return false;
    w->out = out;
    w->metrics = m;
    w->n = m->n_models;
    for (size_t i = 0; i < w->n; i++) {
        set_labels(w->labels[i], sources->model_name[i]);
        w->stats[i] = model_manager_stats(sources->model_manager, i);
        w->report[i] = model_manager_status(sources->model_manager, i);
    }
    write_model_metrics(w, model_metric_defs,
                        sizeof(model_metric_defs) / sizeof(model_metric_defs[0]));
    write_gpu_metrics(w);
    write_finish_reasons(w);
    write_plan(w);
    pthread_mutex_lock(&m->lock);
    for (int i = 0; i < N_HISTOGRAMS; i++)
        write_histogram(w, histogram_defs[i].name, (enum histogram_name)i);
    /* the name in older dashboards */
    write_histogram(w, "vllm:time_per_output_token_seconds", BETWEEN_TOKENS);
    write_server(w, sources);
    pthread_mutex_unlock(&m->lock);
    free(w);
    return true;
}
