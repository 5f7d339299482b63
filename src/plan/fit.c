/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the limits that the caller left open: defaults, or on a GPU limits that fit a budget
 * shared with a desktop. */
#include <stdarg.h>
#include <stdio.h>

#include "base/limits.h"
#include "plan/plan_internal.h"

enum {
    CPU_MODEL_LEN = 8192,
    GPU_MODEL_LEN = 16384, /* also limits the KV pool; more must be requested */
    MIN_AUTO_LEN = 1024, /* half of it holds an image of half a megapixel; a shorter context must be
                            requested */
    CPU_SEQS = 1,
    CPU_SERVED_SEQS = 4,
    GPU_SEQS = 4,             /* fewest requests at a time by default */
    GPU_MAX_SEQS = 32,        /* most requests at a time by default */
    GPU_SEQ_TOKENS = 1024,    /* KV pool tokens per request */
    POOLED_SEQS = 16,         /* pooled inputs of a step; each costs only its keys and values */
    RERANK_MODEL_LEN = 10240, /* as in Qwen's code */
    DEFAULT_IMAGES = 16,
    GPU_MAX_ROWS = 2048,
    LARGE_GPU_ROWS = 4096, /* several images of a megapixel fit into one chunk */
    GPU_MIN_ROWS = 512,
    MIN_ROWS = 64,
    MIB = 1 << 20,
};
#define DEFAULT_UTILIZATION 0.92 /* vLLM's default */
#define LARGE_GPU_BYTES ((uint64_t)32 << 30)

/* ---- limits ---- */

static bool check_int_range(int value, const char *name, int min, int max, ey_err *e)
{
    return (value >= min && value <= max) ||
           ey_fail(e, EY_BAD_REQUEST, "%s is %d; it must be from %d to %d", name, value, min, max);
}

static int max_context_of(const struct model *m)
{
    return m->text.max_position < EY_MAX_CONTEXT ? m->text.max_position : EY_MAX_CONTEXT;
}

static int min_int(int a, int b)
{
    return a < b ? a : b;
}

static int usual_context(ey_task task, bool gpu)
{
    if (task == EY_TASK_RERANK) return RERANK_MODEL_LEN;
    return gpu && task == EY_TASK_GENERATE ? GPU_MODEL_LEN : CPU_MODEL_LEN;
}

/* Chooses the requested context or the default, and a KV pool for one request of that length. */
static bool choose_context(struct plan *p, const struct plan_question *q, ey_err *e)
{
    const struct plan_limits *l = q->limits;
    int wanted = l->max_model_len, max = max_context_of(q->model),
        usual = usual_context(q->model->task, p->device->is_gpu);
    if (wanted < 0 || wanted > max)
        return ey_fail(e, EY_BAD_REQUEST,
                       "a context of %d tokens is not possible; this model has at most %d", wanted,
                       max);
    p->max_model_len = wanted ? wanted : min_int(max, usual);
    if (!wanted && l->kv_tokens) p->max_model_len = min_int(p->max_model_len, l->kv_tokens);
    p->kv_tokens = l->kv_tokens ? l->kv_tokens : p->max_model_len;
    if (!l->kv_tokens && l->serving && !p->device->is_gpu && p->kv_tokens < CPU_MODEL_LEN)
        p->kv_tokens = CPU_MODEL_LEN;
    return p->kv_tokens >= p->max_model_len ||
           ey_fail(e, EY_BAD_REQUEST,
                   "a KV pool of %d tokens does not hold one request of --max-model-len %d",
                   p->kv_tokens, p->max_model_len);
}

static int default_seqs(const struct plan *p, const struct plan_limits *l)
{
    if (p->device->is_gpu) return GPU_SEQS; /* more: fit_seqs() */
    return l->serving ? CPU_SERVED_SEQS : CPU_SEQS;
}

/* Returns the most rows of a prefill chunk, before memory limits them. */
static int most_rows(const struct plan *p, const struct plan_limits *l)
{
    if (!p->device->is_gpu) return CPU_MAX_ROWS;
    return p->device->total >= LARGE_GPU_BYTES && l->max_num_seqs != 1 ? LARGE_GPU_ROWS
                                                                       : GPU_MAX_ROWS;
}

static bool choose_limits(struct plan *p, const struct plan_question *q, ey_err *e)
{
    const struct plan_limits *l = q->limits;
    const bool pools = q->model->task != EY_TASK_GENERATE;
    p->max_num_seqs = l->max_num_seqs ? l->max_num_seqs : pools ? POOLED_SEQS : default_seqs(p, l);
    p->max_logits = pools ? 1 : p->max_num_seqs; /* one row of each sequence */
    p->n_layers = q->model->text.n_layers;
    p->max_images = l->max_images < 0 ? 0 : l->max_images ? l->max_images : DEFAULT_IMAGES;
    p->max_rows = l->max_num_batched_tokens ? l->max_num_batched_tokens : most_rows(p, l);
    return check_int_range(p->max_num_seqs, "max_num_seqs", 1, EY_MAX_SEQS, e) &&
           check_int_range(l->max_images, "max_images", -1, EY_MAX_IMAGES, e) &&
           check_int_range(l->kv_tokens, "kv_tokens", 0, EY_MAX_CONTEXT, e) &&
           check_int_range(p->max_rows, "max_num_batched_tokens", MIN_ROWS, EY_MAX_BATCHED_TOKENS,
                           e) &&
           choose_context(p, q, e);
}

/* Returns the fewest layers that can move to the CPU. The first layers take the DeepStack features,
 * which are on one device, so these layers move together. */
static int min_cpu_layers(const struct model *m)
{
    return m->vision.n_deepstack ? text_deepstack_layer(m->vision.n_deepstack - 1) + 1 : 1;
}

/* Returns the most layers that the CPU can take next to a GPU; 0 if the layers cannot be divided.
 */
static int max_cpu_layers(const struct model *m)
{
    const int most = m->text.n_layers - 1;
    return most < min_cpu_layers(m) ? 0 : most;
}

static bool check_gpu_limits(const struct plan_question *q, ey_err *e)
{
    const struct plan_limits *l = q->limits;
    if (l->utilization < 0 || l->utilization > 1)
        return ey_fail(e, EY_BAD_REQUEST,
                       "--gpu-memory-utilization is %g; it must be above 0 and at most 1",
                       l->utilization);
    if (l->knobs.vision == VISION_HOST && !q->device->cpu)
        return ey_fail(e, EY_BAD_REQUEST,
                       "--vision-weights host: there is no CPU backend for the vision encoder");
    const int all = q->model->text.n_layers, max = all - min_cpu_layers(q->model);
    if (l->gpu_layers && !q->device->cpu)
        return ey_fail(e, EY_BAD_REQUEST,
                       "--gpu-layers: there is no CPU backend for the other layers");
    if (l->gpu_layers > all)
        return ey_fail(e, EY_BAD_REQUEST, "--gpu-layers %d: this model has %d layers",
                       l->gpu_layers, all);
    if (l->gpu_layers > 0 && l->gpu_layers != all && !max_cpu_layers(q->model))
        return ey_fail(e, EY_BAD_REQUEST,
                       "--gpu-layers %d: this model's %d layers cannot be divided between GPU and "
                       "CPU: use %d, or auto",
                       l->gpu_layers, all, all);
    if (l->gpu_layers > max && l->gpu_layers != all)
        return ey_fail(e, EY_BAD_REQUEST,
                       "--gpu-layers %d: this model has %d, of which the first %d take the "
                       "images' features and stay together: use 1 to %d, or %d",
                       l->gpu_layers, all, min_cpu_layers(q->model), max, all);
    if (l->knobs.lm_head_rows == HEAD_ROWS_PINNED && q->device->pinned_reads == PINNED_READS_DENIED)
        return ey_fail(e, EY_BAD_REQUEST,
                       "--head-rows pinned: this system does not let the GPU read the model's "
                       "file; use host, or auto");
    return l->knobs.lm_head != LM_HEAD_8BIT || q->weights.lm_head_may_be_8bit ||
           ey_fail(e, EY_BAD_REQUEST,
                   "--head 8bit needs a head that is stored as BF16, and this model's is not");
}

/* ---- budget ---- */

/* Returns the margin for other processes and for memory that cuMemGetInfo misses; larger under
 * WSL2. */
static uint64_t margin_of(const struct device_info *device)
{
    uint64_t share = device->free / 100 * (device->wsl2 ? 6 : 4), min = (uint64_t)256 << 20;
    return share > min ? share : min;
}

static struct plan_budget budget_of(const struct device_info *device, const struct plan_limits *l)
{
    struct plan_budget b = {.free = device->free, .bytes = device->free, .share = device->total};
    if (!device->is_gpu) return b;
    b.utilization = l->device_bytes ? 0 : l->utilization > 0 ? l->utilization : DEFAULT_UTILIZATION;
    b.share = l->device_bytes ? l->device_bytes : (uint64_t)(b.utilization * (double)device->total);
    b.margin = margin_of(device);
    b.bytes = device->free > b.margin ? device->free - b.margin : 0;
    if (b.share < b.bytes) {
        b.bytes = b.share;
        b.by = BUDGET_BY_SHARE;
    }
    return b;
}

static unsigned long long plan_mib(uint64_t bytes)
{
    return (unsigned long long)(bytes / MIB);
}

void plan_budget_text(const struct plan_budget *b, char *out, size_t size)
{
    char share[64];
    bool by_share = b->by == BUDGET_BY_SHARE;
    if (!b->margin) {
        snprintf(out, size, "%llu MiB: the available memory", plan_mib(b->bytes));
        return;
    }
    if (b->utilization > 0)
        snprintf(share, sizeof(share), "%.4g of all memory (--gpu-memory-utilization)",
                 b->utilization);
    else
        snprintf(share, sizeof(share), "--gpu-memory");
    if (by_share)
        snprintf(out, size, "%llu MiB: %s; %llu free less a margin of %llu is more",
                 plan_mib(b->bytes), share, plan_mib(b->free), plan_mib(b->margin));
    else
        snprintf(out, size, "%llu MiB: %llu free less a margin of %llu; %s is more",
                 plan_mib(b->bytes), plan_mib(b->free), plan_mib(b->margin), share);
}

/* ---- knobs ---- */

enum plan_knob { KNOB_LM_HEAD, KNOB_VISION, KNOB_KV, N_KNOBS };

static struct plan_knobs initial_knobs(const struct plan_knobs *given)
{
    return (struct plan_knobs){
        given->kv ? given->kv : PLAN_KV_BF16, given->lm_head ? given->lm_head : LM_HEAD_BF16,
        given->vision ? given->vision : VISION_RESIDENT, given->lm_head_rows};
}

/* Turns a knob. Knobs are ordered by cost: an 8-bit head does not change answers, streaming costs
 * each image some milliseconds, FP8 keys and values cost a little precision. Returns false if the
 * knob was given or would not help. */
static bool turn_knob(struct plan_knobs *now, enum plan_knob knob, const struct plan_question *q)
{
    const struct plan_knobs *given = &q->limits->knobs;
    const struct weight_sizes *w = &q->weights;
    if (knob == KNOB_LM_HEAD && !given->lm_head && w->lm_head_may_be_8bit &&
        w->lm_head_8bit < w->lm_head) {
        now->lm_head = LM_HEAD_8BIT;
        return true;
    }
    if (knob == KNOB_VISION && !given->vision && w->vision_streamed < w->vision) {
        now->vision = VISION_STREAMED;
        return true;
    }
    if (knob == KNOB_KV && !given->kv) {
        now->kv = PLAN_KV_FP8;
        return true;
    }
    return false;
}

/* Finds the largest row count that fits, down to 512, before another knob is turned: 512 rows still
 * keep the GPU busy, and reading the weights four times as often as with 2,048 rows costs a long
 * prompt only a few percent. */
static bool fit_rows(struct plan *p, const struct plan_question *q)
{
    int given = q->limits->max_num_batched_tokens;
    for (int rows = given ? given : most_rows(p, q->limits);; rows /= 2) {
        p->max_rows = rows;
        plan_size(p, q);
        if (p->fits || given || rows <= GPU_MIN_ROWS) return p->fits;
    }
}

static bool fit_knobs(struct plan *p, const struct plan_question *q)
{
    p->knobs = initial_knobs(&q->limits->knobs);
    bool fits = fit_rows(p, q);
    for (int knob = 0; !fits && knob < N_KNOBS; knob++)
        if (turn_knob(&p->knobs, (enum plan_knob)knob, q)) fits = fit_rows(p, q);
    return fits;
}

/* Sizes the plan with a context (or only a pool) of this many blocks. */
static void size_blocks(struct plan *p, const struct plan_question *q, bool context, int blocks)
{
    if (context) p->max_model_len = blocks * KV_BLOCK;
    if (!context || !q->limits->kv_tokens) p->kv_tokens = blocks * KV_BLOCK;
    plan_size(p, q);
}

/* Finds the largest number of blocks from `min` to `max` for which the plan fits; `min` if none. */
static void grow_blocks(struct plan *p, const struct plan_question *q, bool context, int min,
                        int max)
{
    int fits = min, too_many = max + 1;
    while (too_many - fits > 1) {
        int middle = fits + (too_many - fits) / 2;
        size_blocks(p, q, context, middle);
        if (p->fits)
            fits = middle;
        else
            too_many = middle;
    }
    size_blocks(p, q, context, fits);
}

/* Finds the context that fits if none was given. */
static void shorten_context(struct plan *p, const struct plan_question *q)
{
    int max = p->max_model_len / KV_BLOCK, min = MIN_AUTO_LEN / KV_BLOCK;
    if (max > min) grow_blocks(p, q, true, min, max);
}

/* Returns the KV pool to grow to if memory allows: several requests of the given context. No knob
 * is turned for it. */
static int wanted_pool(const struct plan *p)
{
    int64_t all = (int64_t)p->max_num_seqs * p->max_model_len;
    int max = all < GPU_MODEL_LEN ? (int)all : GPU_MODEL_LEN;
    return max > p->max_model_len ? max : p->max_model_len;
}

static void widen_pool(struct plan *p, const struct plan_question *q)
{
    int min = plan_ceil_div(p->max_model_len, KV_BLOCK),
        max = plan_ceil_div(wanted_pool(p), KV_BLOCK);
    if (max > min) grow_blocks(p, q, false, min, max);
}

/* ---- layers on the CPU ---- */

/* Puts as many layers on the GPU as fit with a useful context, then lengthens the context to fill
 * the remaining memory. If even one layer leaves no room for a useful context, shortens it. */
static void fit_cpu_layers(struct plan *p, const struct plan_question *q)
{
    enum { USEFUL_LEN = 4096 };
    const int wanted = p->max_model_len, min = min_int(wanted, USEFUL_LEN);
    const bool free_length = !q->limits->max_model_len;
    for (p->cpu_layers = 0; p->cpu_layers <= max_cpu_layers(q->model);
         p->cpu_layers += p->cpu_layers ? 1 : min_cpu_layers(q->model)) {
        if (free_length) p->max_model_len = min;
        if (free_length && !q->limits->kv_tokens) p->kv_tokens = min;
        if (!fit_knobs(p, q)) continue;
        if (free_length && wanted > min) grow_blocks(p, q, true, min / KV_BLOCK, wanted / KV_BLOCK);
        return;
    }
    p->cpu_layers = max_cpu_layers(q->model);
    if (!fit_knobs(p, q) && free_length) shorten_context(p, q);
}

/* ---- what was chosen ---- */

__attribute__((format(printf, 2, 3))) static void plan_add_choice(struct plan *p, const char *fmt,
                                                                  ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(p->choice[p->n_choices++], PLAN_CHOICE_BYTES, fmt, args);
    va_end(args);
}

static void explain_cpu_layers(struct plan *p, const struct plan_question *q)
{
    const int all = q->model->text.n_layers;
    char speed[64] = "", min[64] = "";
    if (p->tokens_per_second > 0)
        snprintf(speed, sizeof(speed), "; %s %.3g tokens a second",
                 p->device->bandwidth > 0 ? "about" : "at most", p->tokens_per_second);
    if (q->model->vision.n_deepstack)
        snprintf(min, sizeof(min), " (at least %d, which take the images)",
                 min_cpu_layers(q->model));
    plan_add_choice(
        p, "--gpu-layers %d of %d: the first %d are on the CPU%s, with %llu MiB of its memory%s",
        all - p->cpu_layers, all, p->cpu_layers, min, plan_mib(p->cpu_layers_bytes), speed);
}

/* Explains how the BF16 head rows are read for rescoring, which an 8-bit head requires. */
static void explain_head_rows(struct plan *p)
{
    static const char round_trip[] = "the host scores candidates again: one round trip a token";
    const struct device_info *device = p->device;
    if (p->knobs.lm_head_rows == HEAD_ROWS_PINNED)
        plan_add_choice(
            p, "--head-rows pinned: %llu MiB of the file stay in memory for the GPU to read%s",
            plan_mib(p->bytes[PLAN_PINNED_ROWS]),
            device->pinned_reads == PINNED_READS_ALLOWED
                ? ""
                : ", if the system allows it; else host, one round trip a token");
    else if (device->pinned_reads == PINNED_READS_DENIED)
        plan_add_choice(
            p, "--head-rows host: this system does not let the GPU read the model's file; %s",
            round_trip);
    else
        plan_add_choice(p,
                        "--head-rows host: pinned rows would take more than half of %llu MiB of "
                        "free memory; %s",
                        plan_mib(device->host_free), round_trip);
}

static void explain_choices(struct plan *p, const struct plan_question *q, int wanted_len)
{
    const struct plan_limits *l = q->limits;
    const struct weight_sizes *w = &q->weights;
    if (p->cpu_layers) explain_cpu_layers(p, q);
    if (!l->max_num_batched_tokens && p->max_rows < most_rows(p, l))
        plan_add_choice(
            p, "--max-num-batched-tokens %d: smaller workspaces, long prompts take a little longer",
            p->max_rows);
    if (!l->knobs.lm_head && p->knobs.lm_head == LM_HEAD_8BIT)
        plan_add_choice(
            p,
            "--head 8bit: %llu MiB instead of %llu; the best candidates are scored again exactly",
            plan_mib(w->lm_head_8bit), plan_mib(w->lm_head));
    if (!l->knobs.lm_head_rows && p->knobs.lm_head_rows) explain_head_rows(p);
    if (!l->knobs.vision && p->knobs.vision == VISION_STREAMED)
        plan_add_choice(p,
                        "--vision-weights streamed: %llu MiB instead of %llu; each image waits "
                        "until these weights have been copied",
                        plan_mib(w->vision_streamed), plan_mib(w->vision));
    if (!l->knobs.kv && p->knobs.kv == PLAN_KV_FP8)
        plan_add_choice(p,
                        "--kv-cache-dtype fp8: half the memory for a token, a little less exact");
    if (p->max_model_len < wanted_len)
        plan_add_choice(p, "--max-model-len %d instead of %d: %s", p->max_model_len, wanted_len,
                        p->fits ? "the longest that fits" : "the shortest useful one");
    if (!l->kv_tokens && l->max_model_len && p->kv_tokens < wanted_pool(p) / KV_BLOCK * KV_BLOCK)
        plan_add_choice(p, "--kv-tokens %d: the most that fit; %d requests at once could use %d",
                        p->kv_tokens, p->max_num_seqs, wanted_pool(p));
}

/* Allows as many requests at a time as the pool holds, if nothing else must change for them. */
static void fit_seqs(struct plan *p, const struct plan_question *q)
{
    const int pool = p->kv_tokens / GPU_SEQ_TOKENS,
              wanted = pool < GPU_SEQS ? (int)GPU_SEQS : min_int(pool, GPU_MAX_SEQS);
    int n = wanted;
    for (;; n--) {
        p->max_num_seqs = p->max_logits = n;
        plan_size(p, q);
        if (p->fits || n == GPU_SEQS) break; /* GPU_SEQS fitted before */
    }
    if (n < wanted)
        plan_add_choice(
            p, "--max-num-seqs %d: the most that fit; the KV pool of %d tokens has room for %d", n,
            p->kv_tokens, wanted);
}

static void fit_gpu(struct plan *p, const struct plan_question *q)
{
    int wanted = p->max_model_len;
    const int layers = q->limits->gpu_layers;
    if (layers > 0) p->cpu_layers = q->model->text.n_layers - layers;
    bool fits = fit_knobs(p, q);
    if (!fits && layers == PLAN_LAYERS_AUTO)
        fit_cpu_layers(p, q);
    else if (!fits && !q->limits->max_model_len)
        shorten_context(p, q);
    else if (fits && q->limits->max_model_len && !q->limits->kv_tokens)
        widen_pool(p, q);
    explain_choices(p, q, wanted);
    if (p->fits && !p->cpu_layers && !q->limits->max_num_seqs && q->model->task == EY_TASK_GENERATE)
        fit_seqs(p, q);
}

static void fit_host(struct plan *p, const struct plan_question *q)
{
    const struct plan_limits *l = q->limits;
    const bool takes_head = q->weights.lm_head_may_be_8bit && q->weights.lm_head_8bit;
    if (takes_head) p->knobs.lm_head = l->knobs.lm_head;
    plan_size(p, q);
    if (l->knobs.lm_head == LM_HEAD_8BIT && !takes_head)
        plan_add_choice(p, "--head 8bit: not used here, the %s",
                        q->weights.lm_head_may_be_8bit ? "backend keeps heads as they are"
                                                       : "head is not stored as BF16");
    if (l->gpu_layers || l->knobs.kv || l->knobs.vision || l->knobs.lm_head_rows ||
        l->utilization > 0 || l->device_bytes)
        plan_add_choice(p, "--gpu-layers, --kv-cache-dtype, --head-rows, --vision-weights, "
                           "--gpu-memory-utilization, --gpu-memory: only for a GPU, not used here");
}

/* Checks the shapes that the device's kernels get. Those of a vision encoder on the CPU next to a
 * GPU are left out. */
static bool check_shapes(const struct plan_question *q, ey_err *e)
{
    static const struct vision_shape no_vision;
    const bool on_cpu = q->device->is_gpu && q->limits->knobs.vision == VISION_HOST;
    return !q->be->ops->compute->check_shapes ||
           q->be->ops->compute->check_shapes(&q->model->text,
                                             on_cpu ? &no_vision : &q->model->vision, e);
}

bool plan_make(struct plan *p, const struct model *m, const struct backend *be,
               const struct device_info *device, const struct plan_limits *limits, ey_err *e)
{
    struct plan_question q = {.model = m, .be = be, .device = device, .limits = limits};
    *p = (struct plan){.device = device, .budget = budget_of(device, limits)};
    if (!check_shapes(&q, e)) return false;
    q.weights = weight_sizes(m, be);
    if (!choose_limits(p, &q, e) || (device->is_gpu && !check_gpu_limits(&q, e))) return false;
    if (device->is_gpu)
        fit_gpu(p, &q);
    else
        fit_host(p, &q);
    return true;
}
