/* Histograms and counters, and the Prometheus text made of them. Names, labels and buckets are vLLM's, so that the
 * dashboards for it work; eyelet_* is what only we have. */
#include "server/metrics.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { MAX_BUCKETS = 24, MAX_STATUS = 600 };

/* Histograms: field, name, help, upper bounds. */
#define FIRST_TOKEN_BOUNDS 0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560
#define TOKEN_BOUNDS 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80
#define REQUEST_BOUNDS 0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680
#define COUNT_BOUNDS 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000
#define HISTOGRAMS(X)                                                                                                              \
    X(FIRST_TOKEN, "vllm:time_to_first_token_seconds", "Time from a request's arrival to its first token.", FIRST_TOKEN_BOUNDS)    \
    X(BETWEEN_TOKENS, "vllm:inter_token_latency_seconds", "Time from one token to the next.", TOKEN_BOUNDS)                        \
    X(PER_TOKEN, "vllm:request_time_per_output_token_seconds", "Mean time of a token after the first, of each request.",           \
      TOKEN_BOUNDS)                                                                                                                \
    X(WHOLE, "vllm:e2e_request_latency_seconds", "Time from a request's arrival to its end.", REQUEST_BOUNDS)                      \
    X(QUEUE, "vllm:request_queue_time_seconds", "Time in the queue.", REQUEST_BOUNDS)                                              \
    X(PREFILL, "vllm:request_prefill_time_seconds", "Time to compute the prompt.", REQUEST_BOUNDS)                                 \
    X(DECODE, "vllm:request_decode_time_seconds", "Time to compute the answer.", REQUEST_BOUNDS)                                   \
    X(PROMPT, "vllm:request_prompt_tokens", "Tokens of a prompt.", COUNT_BOUNDS)                                                   \
    X(ANSWER, "vllm:request_generation_tokens", "Tokens of an answer.", COUNT_BOUNDS)                                              \
    X(VISION, "eyelet_vision_encode_seconds", "Time in the vision tower, of requests with pictures that were not cached.", REQUEST_BOUNDS)

enum histogram_name {
#define HISTOGRAM_ENUM(id, name, help, ...) id,
    HISTOGRAMS(HISTOGRAM_ENUM)
#undef HISTOGRAM_ENUM
    N_HISTOGRAMS
};

static const struct {
    const char *name, *help;
    double bound[MAX_BUCKETS]; /* rising; 0 ends them */
} shapes[] = {
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
    struct histogram histogram[N_HISTOGRAMS];
    uint64_t replies[MAX_STATUS];
};

bool metrics_open(struct metrics **out, ey_err *e)
{
    struct metrics *m = *out = calloc(1, sizeof(*m));
    if (!m) return ey_fail_memory(e, "metrics", sizeof(*m));
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
static void observe(struct metrics *m, enum histogram_name name, double value, uint64_t times)
{
    struct histogram *h = &m->histogram[name];
    size_t i = 0;
    while (shapes[name].bound[i] > 0 && value > shapes[name].bound[i]) i++;
    h->bucket[i] += times, h->count += times, h->sum += value * (double)times;
}

struct metrics_watch metrics_watch_start(struct metrics *metrics, double started)
{
    return (struct metrics_watch){.metrics = metrics, .started = started};
}

void metrics_watch_tokens(struct metrics_watch *w, int n_tokens)
{
    double now = seconds_now();
    int more = n_tokens - w->tokens;
    if (more <= 0) return;
    pthread_mutex_lock(&w->metrics->lock);
    if (!w->tokens) observe(w->metrics, FIRST_TOKEN, now - w->started, 1), more--;
    else observe(w->metrics, BETWEEN_TOKENS, (now - w->last) / more, (uint64_t)more), more = 0;
    if (more) observe(w->metrics, BETWEEN_TOKENS, 0, (uint64_t)more); /* came with the first */
    pthread_mutex_unlock(&w->metrics->lock);
    w->tokens = n_tokens, w->last = now;
}

void metrics_watch_end(struct metrics_watch *w, const ey_answer *a, bool hung_up)
{
    if (!a || hung_up) return;
    double now = seconds_now();
    pthread_mutex_lock(&w->metrics->lock);
    observe(w->metrics, WHOLE, now - w->started, 1);
    observe(w->metrics, QUEUE, a->queue_seconds, 1);
    observe(w->metrics, PREFILL, a->prefill_seconds, 1);
    observe(w->metrics, DECODE, a->decode_seconds, 1);
    observe(w->metrics, PROMPT, a->prompt_tokens, 1);
    observe(w->metrics, ANSWER, a->completion_tokens, 1);
    if (a->completion_tokens > 1) observe(w->metrics, PER_TOKEN, a->decode_seconds / (a->completion_tokens - 1), 1);
    if (a->vision_seconds > 0) observe(w->metrics, VISION, a->vision_seconds, 1);
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

struct writer {
    struct buf *out;
    char labels[512]; /* of every line: model_name and engine */
};

static void set_labels(struct writer *w, const char *name)
{
    struct buf text = buf_with_max(sizeof(w->labels) - 1);
    buf_add_text(&text, "engine=\"0\",model_name=\"");
    for (const char *p = name; *p; p++) {
        if (*p == '"' || *p == '\\') buf_add_text(&text, "\\");
        buf_add(&text, *p == '\n' ? " " : p, 1);
    }
    buf_add_text(&text, "\"");
    snprintf(w->labels, sizeof(w->labels), "%s", text.failed ? "engine=\"0\",model_name=\"\"" : text.data);
    buf_free(&text);
}

static void head(struct writer *w, const char *name, const char *type, const char *help)
{
    buf_printf(w->out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void value(struct writer *w, const char *name, const char *label, double number)
{
    buf_printf(w->out, "%s{%s%s%s} %.15g\n", name, w->labels, label[0] ? "," : "", label, number);
}

static void gauge(struct writer *w, const char *name, double number, const char *help)
{
    head(w, name, "gauge", help);
    value(w, name, "", number);
}

static void counter(struct writer *w, const char *name, double number, const char *help)
{
    head(w, name, "counter", help);
    value(w, name, "", number);
}

static void write_histogram(struct writer *w, const char *name, enum histogram_name shape, const struct histogram *h)
{
    char label[64], part[128];
    uint64_t sum = 0;
    head(w, name, "histogram", shapes[shape].help);
    snprintf(part, sizeof(part), "%s_bucket", name);
    for (size_t i = 0; shapes[shape].bound[i] > 0; i++) {
        snprintf(label, sizeof(label), "le=\"%g\"", shapes[shape].bound[i]);
        value(w, part, label, (double)(sum += h->bucket[i]));
    }
    value(w, part, "le=\"+Inf\"", (double)h->count);
    snprintf(part, sizeof(part), "%s_sum", name);
    value(w, part, "", h->sum);
    snprintf(part, sizeof(part), "%s_count", name);
    value(w, part, "", (double)h->count);
}

static double share(uint64_t part, uint64_t whole)
{
    return whole ? (double)part / (double)whole : 0;
}

static void write_engine(struct writer *w, const ey_stats *s)
{
    gauge(w, "vllm:num_requests_running", s->running, "Requests that run.");
    gauge(w, "vllm:num_requests_waiting", s->waiting, "Requests that wait.");
    gauge(w, "vllm:kv_cache_usage_perc", share((uint64_t)s->kv_blocks_used, (uint64_t)s->kv_blocks), "Share of the KV cache in use; 1: all.");
    counter(w, "vllm:prompt_tokens_total", (double)s->prompt_tokens, "Tokens of prompts.");
    counter(w, "vllm:generation_tokens_total", (double)s->generated_tokens, "Tokens of answers.");
    counter(w, "vllm:prefix_cache_queries_total", (double)s->prompt_tokens, "Tokens that were looked up in the prefix cache.");
    counter(w, "vllm:prefix_cache_hits_total", (double)s->cached_tokens, "Tokens that were found there.");
    counter(w, "vllm:mm_cache_queries_total", (double)s->images, "Pictures that were looked up in the image cache.");
    counter(w, "vllm:mm_cache_hits_total", (double)s->images_cached, "Pictures that were found there.");
    counter(w, "vllm:num_preemptions_total", (double)s->preemptions, "Sequences that gave way and were computed again.");
    head(w, "vllm:request_success_total", "counter", "Answers by why they ended.");
    value(w, "vllm:request_success_total", "finished_reason=\"stop\"", (double)s->finished_stop);
    value(w, "vllm:request_success_total", "finished_reason=\"length\"", (double)s->finished_length);
    value(w, "vllm:request_success_total", "finished_reason=\"abort\"", (double)s->finished_cancelled);
    value(w, "vllm:request_success_total", "finished_reason=\"error\"", (double)s->failed);
}

static void write_ours(struct writer *w, const ey_stats *s)
{
    gauge(w, "eyelet_requests_paused", s->paused, "Requests that run, but whose client does not read.");
    gauge(w, "eyelet_kv_blocks", s->kv_blocks, "Blocks of the KV cache, of 64 tokens.");
    gauge(w, "eyelet_kv_blocks_used", s->kv_blocks_used, "Those that sequences hold.");
    gauge(w, "eyelet_kv_blocks_cached", s->kv_blocks_cached, "Those that are free but keep a prefix.");
    gauge(w, "eyelet_image_cache_bytes", (double)s->image_bytes, "Size of the image cache.");
    gauge(w, "eyelet_image_cache_tokens", s->image_rows, "Visual tokens that it holds at most.");
    gauge(w, "eyelet_image_cache_tokens_used", s->image_rows_used, "Visual tokens that it holds.");
    gauge(w, "eyelet_step_age_seconds", s->beat_age, "Time since the engine last made a step; 0 when it has nothing to do.");
    counter(w, "eyelet_steps_total", (double)s->steps, "Steps of the engine.");
    counter(w, "eyelet_steps_ahead_total", (double)s->steps_ahead, "Of them, enqueued before the tokens of the step before were known.");
    counter(w, "eyelet_step_seconds_total", s->step_seconds, "Time that steps took.");
    counter(w, "eyelet_vision_tower_runs_total", (double)s->tower_runs, "Pictures that went through the vision tower.");
    counter(w, "eyelet_vision_seconds_total", s->vision_seconds, "Time in the vision tower.");
}

static void write_plan(struct writer *w, const struct keeper_facts *f)
{
    head(w, "eyelet_plan_bytes", "gauge", "What the engine's memory is spent on.");
    for (size_t i = 0; i < f->n_items; i++) {
        char label[160];
        snprintf(label, sizeof(label), "item=\"%s\",device=\"%s\",life=\"%s\"", f->item[i].name, f->item[i].device, f->item[i].life);
        value(w, "eyelet_plan_bytes", label, (double)f->item[i].bytes);
    }
}

/* Of a card, and while the model is loaded; looked at after loading and once a minute while it is used. */
static void write_card(struct writer *w, const ey_memory *m)
{
    if (!m->known) return;
    gauge(w, "eyelet_gpu_memory_planned_bytes", (double)m->planned_bytes, "What the engine takes of the card, the driver's context counted in.");
    gauge(w, "eyelet_gpu_memory_budget_bytes", (double)m->budget_bytes, "What it may take.");
    gauge(w, "eyelet_gpu_memory_total_bytes", (double)m->total_bytes, "The card's memory.");
    gauge(w, "eyelet_gpu_memory_free_bytes", (double)m->free_bytes, "What of it nobody used when it was looked at last.");
    gauge(w, "eyelet_gpu_memory_spilled", m->spilled, "1: parts of what the engine holds are far slower to read than the card's own memory.");
    gauge(w, "eyelet_gpu_memory_spilled_bytes", (double)m->spilled_bytes, "Those parts.");
    gauge(w, "eyelet_gpu_memory_read_bytes_per_second", m->bytes_per_second, "How fast the usual part is read.");
}

static void write_server(struct writer *w, struct metrics *m, const struct metrics_facts *f)
{
    struct keeper_report k = keeper_state(f->keeper);
    write_plan(w, &k.facts);
    write_card(w, &k.memory);
    gauge(w, "vllm:engine_sleep_state", k.state == KEEPER_UNLOADED, "1 while the model is unloaded.");
    gauge(w, "eyelet_load_seconds", k.load_seconds, "Time that the last load of the model took.");
    counter(w, "eyelet_loads_total", k.loads, "Loads of the model.");
    counter(w, "eyelet_unloads_total", k.unloads, "How often it was unloaded because nobody asked.");
    gauge(w, "eyelet_host_budget_bytes", (double)ey_budget_total(f->budget), "Host memory for requests in flight.");
    gauge(w, "eyelet_host_budget_used_bytes", (double)ey_budget_used(f->budget), "What of it is taken.");
    gauge(w, "eyelet_connections", f->connections, "Open connections.");
    head(w, "eyelet_replies_total", "counter", "HTTP replies by status; 0: cut before there was one.");
    for (int i = 0; i < MAX_STATUS; i++) {
        char label[32];
        snprintf(label, sizeof(label), "status=\"%d\"", i);
        if (m->replies[i]) value(w, "eyelet_replies_total", label, (double)m->replies[i]);
    }
}

void metrics_write(struct metrics *m, const struct metrics_facts *facts, struct buf *out)
{
    struct writer w = {.out = out};
    ey_stats stats = keeper_stats(facts->keeper);
    set_labels(&w, facts->model_name);
    write_engine(&w, &stats);
    pthread_mutex_lock(&m->lock);
    for (int i = 0; i < N_HISTOGRAMS; i++) write_histogram(&w, shapes[i].name, i, &m->histogram[i]);
    /* the name that older dashboards know it by */
    write_histogram(&w, "vllm:time_per_output_token_seconds", BETWEEN_TOKENS, &m->histogram[BETWEEN_TOKENS]);
    write_server(&w, m, facts);
    pthread_mutex_unlock(&m->lock);
    write_ours(&w, &stats);
}
