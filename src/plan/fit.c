/* SPDX-License-Identifier: Apache-2.0 */
/* The choices: what the caller says, defaults for the rest; on a card by a budget that is shared
 * with a desktop. */
#include <stdarg.h>
#include <stdio.h>

#include "base/limits.h"
#include "plan/sizes.h"

enum {
    HOST_MODEL_LEN = 8192,
    CARD_MODEL_LEN = 16384, /* and the KV pool: more only when asked for */
    LEAST_AUTO_LEN = 1024,  /* half of it is a picture of half a megapixel; with less one would have
                               to ask for it */
    HOST_SEQS = 1,
    CARD_SEQS = 4,
    DEFAULT_IMAGES = 16,
    CARD_ROWS = 2048,
    LEAST_CARD_ROWS = 512,
    LEAST_ROWS = 64,
    MIB = 1 << 20,
};
#define DEFAULT_UTILIZATION 0.92 /* vLLM's */

/* ---- limits ---- */

static bool in_range(int value, const char *name, int least, int most, ey_err *e)
{
    return (value >= least && value <= most) ||
           ey_fail(e, EY_BAD_REQUEST, "%s is %d; it must be from %d to %d", name, value, least,
                   most);
}

static int longest_of(const struct model *m)
{
    return m->text.max_position < EY_MAX_CONTEXT ? m->text.max_position : EY_MAX_CONTEXT;
}

static int least_of(int a, int b)
{
    return a < b ? a : b;
}

/* The context that is wanted, and room for one request of it. */
static bool choose_context(struct plan *p, const struct plan_question *q, ey_err *e)
{
    const struct plan_limits *l = q->limits;
    int wanted = l->max_model_len, most = longest_of(q->model),
        usual = p->facts->card ? CARD_MODEL_LEN : HOST_MODEL_LEN;
    if (wanted < 0 || wanted > most)
        return ey_fail(e, EY_BAD_REQUEST,
                       "a context of %d tokens is not possible; this model has at most %d", wanted,
                       most);
    p->max_model_len = wanted ? wanted : least_of(most, usual);
    if (!wanted && l->kv_tokens) p->max_model_len = least_of(p->max_model_len, l->kv_tokens);
    p->kv_tokens = l->kv_tokens ? l->kv_tokens : p->max_model_len;
    if (!l->kv_tokens && l->shared && !p->facts->card && p->kv_tokens < HOST_MODEL_LEN)
        p->kv_tokens = HOST_MODEL_LEN;
    return p->kv_tokens >= p->max_model_len ||
           ey_fail(e, EY_BAD_REQUEST,
                   "a KV pool of %d tokens does not hold one request of --max-model-len %d",
                   p->kv_tokens, p->max_model_len);
}

static bool choose_limits(struct plan *p, const struct plan_question *q, ey_err *e)
{
    const struct plan_limits *l = q->limits;
    bool card = p->facts->card;
    p->max_num_seqs = l->max_num_seqs ? l->max_num_seqs : card ? CARD_SEQS : HOST_SEQS;
    p->max_images = l->max_images ? l->max_images : DEFAULT_IMAGES;
    p->max_rows = l->max_num_batched_tokens ? l->max_num_batched_tokens
                  : card                    ? CARD_ROWS
                                            : HOST_ROWS;
    return in_range(p->max_num_seqs, "max_num_seqs", 1, EY_MAX_SEQS, e) &&
           in_range(p->max_images, "max_images", 1, EY_MAX_IMAGES, e) &&
           in_range(l->kv_tokens, "kv_tokens", 0, EY_MAX_CONTEXT, e) &&
           in_range(p->max_rows, "max_num_batched_tokens", LEAST_ROWS, EY_MAX_BATCHED_TOKENS, e) &&
           choose_context(p, q, e);
}

/* The layers that take the pictures' features are the first, and the features are on one device:
 * where any layer is on the CPU, all of those are. */
static int least_first(const struct model *m)
{
    return m->vision.n_deepstack ? m->vision.n_deepstack : 1;
}

static bool check_card_limits(const struct plan_question *q, ey_err *e)
{
    const struct plan_limits *l = q->limits;
    if (l->utilization < 0 || l->utilization > 1)
        return ey_fail(e, EY_BAD_REQUEST,
                       "--gpu-memory-utilization is %g; it must be above 0 and at most 1",
                       l->utilization);
    if (l->levers.vision == VISION_HOST && !q->facts->cpu)
        return ey_fail(e, EY_BAD_REQUEST,
                       "--vision-weights host: there is no CPU backend for the tower");
    const int all = q->model->text.n_layers, most = all - least_first(q->model);
    if (l->gpu_layers && !q->facts->cpu)
        return ey_fail(e, EY_BAD_REQUEST, "--gpu-layers: there is no CPU backend for the others");
    if (l->gpu_layers > all)
        return ey_fail(e, EY_BAD_REQUEST, "--gpu-layers %d: this model has %d", l->gpu_layers, all);
    if (l->gpu_layers > most && l->gpu_layers != all)
        return ey_fail(e, EY_BAD_REQUEST,
                       "--gpu-layers %d: this model has %d, of which the first %d take the "
                       "pictures' features and stay together: use 1 to %d, or %d",
                       l->gpu_layers, all, least_first(q->model), most, all);
    if (l->levers.rows == ROWS_PINNED && q->facts->may_read == MAY_NOT_READ)
        return ey_fail(e, EY_BAD_REQUEST,
                       "--head-rows pinned: this system does not let the card read the model's "
                       "file; use host, or auto");
    return l->levers.head != HEAD_8BIT || q->weights.may_be_8bit ||
           ey_fail(e, EY_BAD_REQUEST,
                   "--head 8bit needs a head that is stored as BF16, and this model's is not");
}

/* ---- budget ---- */

/* What others may take before we do, and what cuMemGetInfo does not know: more under WSL2, where it
 * knows less. */
static uint64_t margin_of(const struct device_facts *f)
{
    uint64_t share = f->free / 100 * (f->wsl2 ? 6 : 4), least = (uint64_t)256 << 20;
    return share > least ? share : least;
}

static struct plan_budget budget_of(const struct device_facts *f, const struct plan_limits *l)
{
    struct plan_budget b = {.free = f->free, .bytes = f->free, .share = f->total};
    if (!f->card) return b;
    b.utilization = l->device_bytes ? 0 : l->utilization > 0 ? l->utilization : DEFAULT_UTILIZATION;
    b.share = l->device_bytes ? l->device_bytes : (uint64_t)(b.utilization * (double)f->total);
    b.margin = margin_of(f);
    b.bytes = f->free > b.margin ? f->free - b.margin : 0;
    if (b.share < b.bytes) {
        b.bytes = b.share;
        b.by = BUDGET_BY_SHARE;
    }
    return b;
}

static unsigned long long mib(uint64_t bytes)
{
    return (unsigned long long)(bytes / MIB);
}

void plan_budget_text(const struct plan_budget *b, char *out, size_t size)
{
    char share[64];
    bool by_share = b->by == BUDGET_BY_SHARE;
    if (!b->margin) {
        snprintf(out, size, "%llu MiB: what is available", mib(b->bytes));
        return;
    }
    if (b->utilization > 0)
        snprintf(share, sizeof(share), "%.4g of all memory (--gpu-memory-utilization)",
                 b->utilization);
    else
        snprintf(share, sizeof(share), "--gpu-memory");
    if (by_share)
        snprintf(out, size, "%llu MiB: %s; %llu free less a margin of %llu is more", mib(b->bytes),
                 share, mib(b->free), mib(b->margin));
    else
        snprintf(out, size, "%llu MiB: %llu free less a margin of %llu; %s is more", mib(b->bytes),
                 mib(b->free), mib(b->margin), share);
}

/* ---- levers ---- */

enum lever { LEVER_HEAD, LEVER_VISION, LEVER_KV, LEVERS };

static struct plan_levers first_levers(const struct plan_levers *given)
{
    return (struct plan_levers){given->kv ? given->kv : KV_BF16,
                                given->head ? given->head : HEAD_BF16,
                                given->vision ? given->vision : VISION_RESIDENT, given->rows};
}

/* In the order in which they cost: an 8-bit head answers as the stored one does, streaming costs a
 * picture some milliseconds, FP8 keys and values a little precision. False: it was given, or would
 * not help. */
static bool pull(struct plan_levers *now, enum lever lever, const struct plan_question *q)
{
    const struct plan_levers *given = &q->limits->levers;
    const struct weight_sizes *w = &q->weights;
    if (lever == LEVER_HEAD && !given->head && w->may_be_8bit && w->head_8bit < w->head)
        return now->head = HEAD_8BIT, true;
    if (lever == LEVER_VISION && !given->vision && w->vision_streamed < w->vision)
        return now->vision = VISION_STREAMED, true;
    if (lever == LEVER_KV && !given->kv) return now->kv = KV_FP8, true;
    return false;
}

/* The largest tile of rows that fits. It is shrunk before any lever is pulled: a chunk of 512 rows
 * still keeps the multiply-adds busy, and reading the weights four times as often costs a long
 * prompt some percent, nothing else. */
static bool fit_rows(struct plan *p, const struct plan_question *q)
{
    int given = q->limits->max_num_batched_tokens;
    for (int rows = given ? given : CARD_ROWS;; rows /= 2) {
        p->max_rows = rows;
        plan_size(p, q);
        if (p->fits || given || rows <= LEAST_CARD_ROWS) return p->fits;
    }
}

static bool fit_levers(struct plan *p, const struct plan_question *q)
{
    p->levers = first_levers(&q->limits->levers);
    bool fits = fit_rows(p, q);
    for (int lever = 0; !fits && lever < LEVERS; lever++)
        if (pull(&p->levers, lever, q)) fits = fit_rows(p, q);
    return fits;
}

/* With a context, or a pool, of so many blocks. */
static void size_blocks(struct plan *p, const struct plan_question *q, bool context, int blocks)
{
    if (context) p->max_model_len = blocks * KV_BLOCK;
    if (!context || !q->limits->kv_tokens) p->kv_tokens = blocks * KV_BLOCK;
    plan_size(p, q);
}

/* The most blocks from `least` to `most` with which the plan fits; `least` where it fits with none.
 */
static void grow(struct plan *p, const struct plan_question *q, bool context, int least, int most)
{
    int fits = least, too_many = most + 1;
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

/* The context that fits, where none was asked for. */
static void shorten_context(struct plan *p, const struct plan_question *q)
{
    int most = p->max_model_len / KV_BLOCK, least = LEAST_AUTO_LEN / KV_BLOCK;
    if (most > least) grow(p, q, true, least, most);
}

/* Room for several requests of the context that was asked for, as far as there is any: no lever is
 * pulled for it. */
static int wanted_pool(const struct plan *p)
{
    int64_t all = (int64_t)p->max_num_seqs * p->max_model_len;
    int most = all < CARD_MODEL_LEN ? (int)all : CARD_MODEL_LEN;
    return most > p->max_model_len ? most : p->max_model_len;
}

static void widen_pool(struct plan *p, const struct plan_question *q)
{
    int least = blocks_of(p->max_model_len, KV_BLOCK), most = blocks_of(wanted_pool(p), KV_BLOCK);
    if (most > least) grow(p, q, false, least, most);
}

/* ---- layers on the CPU ---- */

/* As many layers on the card as fit with a context that is of use; then what is left of the card is
 * for more context. */
static void fit_layers(struct plan *p, const struct plan_question *q)
{
    enum { USEFUL_LEN = 4096 };
    const int wanted = p->max_model_len, least = least_of(wanted, USEFUL_LEN),
              n_layers = q->model->text.n_layers;
    const bool free_length = !q->limits->max_model_len;
    for (p->first_layers = 0; p->first_layers < n_layers;
         p->first_layers += p->first_layers ? 1 : least_first(q->model)) {
        if (free_length) p->max_model_len = least;
        if (free_length && !q->limits->kv_tokens) p->kv_tokens = least;
        if (!fit_levers(p, q)) continue;
        if (free_length && wanted > least) grow(p, q, true, least / KV_BLOCK, wanted / KV_BLOCK);
        return;
    }
    p->first_layers = n_layers - 1;
    fit_levers(p, q);
}

/* ---- what was chosen ---- */

__attribute__((format(printf, 2, 3))) static void tell(struct plan *p, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(p->choice[p->n_choices++], PLAN_CHOICE_BYTES, fmt, args);
    va_end(args);
}

static void tell_layers(struct plan *p, const struct plan_question *q)
{
    const int all = q->model->text.n_layers;
    char speed[64] = "", least[64] = "";
    if (p->tokens_per_second > 0)
        snprintf(speed, sizeof(speed), "; %s %.3g tokens a second",
                 p->facts->reads > 0 ? "about" : "at most", p->tokens_per_second);
    if (q->model->vision.n_deepstack)
        snprintf(least, sizeof(least), " (at least %d, which take the pictures)",
                 least_first(q->model));
    tell(p, "--gpu-layers %d of %d: the first %d are on the CPU%s, with %llu MiB of its memory%s",
         all - p->first_layers, all, p->first_layers, least, mib(p->first_bytes), speed);
}

/* How the rows are read that candidates are scored again from: what an 8-bit head costs. */
static void tell_rows(struct plan *p)
{
    static const char round_trip[] = "the host scores candidates again: one round trip a token";
    const struct device_facts *f = p->facts;
    if (p->levers.rows == ROWS_PINNED)
        tell(
            p,
            "--head-rows pinned: the card reads them in %llu MiB of the file that stay in memory%s",
            mib(p->bytes[PLAN_PINNED]),
            f->may_read == MAY_READ
                ? ""
                : ", where the system lets it; else host, one round trip a token");
    else if (f->may_read == MAY_NOT_READ)
        tell(p, "--head-rows host: this system does not let the card read the model's file; %s",
             round_trip);
    else
        tell(p, "--head-rows host: pinned they would be over half of %llu MiB of free memory; %s",
             mib(f->host_free), round_trip);
}

static void tell_choices(struct plan *p, const struct plan_question *q, int wanted_len)
{
    const struct plan_limits *l = q->limits;
    const struct weight_sizes *w = &q->weights;
    if (p->first_layers) tell_layers(p, q);
    if (!l->max_num_batched_tokens && p->max_rows < CARD_ROWS)
        tell(p,
             "--max-num-batched-tokens %d: smaller workspaces, long prompts take a little longer",
             p->max_rows);
    if (!l->levers.head && p->levers.head == HEAD_8BIT)
        tell(p,
             "--head 8bit: %llu MiB instead of %llu; the best candidates are scored again exactly",
             mib(w->head_8bit), mib(w->head));
    if (!l->levers.rows && p->levers.rows) tell_rows(p);
    if (!l->levers.vision && p->levers.vision == VISION_STREAMED)
        tell(p,
             "--vision-weights streamed: %llu MiB instead of %llu; each picture waits until they "
             "have been copied",
             mib(w->vision_streamed), mib(w->vision));
    if (!l->levers.kv && p->levers.kv == KV_FP8)
        tell(p, "--kv-cache-dtype fp8: half the memory for a token, a little less exact");
    if (p->max_model_len < wanted_len)
        tell(p, "--max-model-len %d instead of %d: %s", p->max_model_len, wanted_len,
             p->fits ? "what fits" : "the least that is of use");
    if (!l->kv_tokens && l->max_model_len && p->kv_tokens < wanted_pool(p) / KV_BLOCK * KV_BLOCK)
        tell(p, "--kv-tokens %d: what fits; %d requests at once would want %d", p->kv_tokens,
             p->max_num_seqs, wanted_pool(p));
}

static void fit_card(struct plan *p, const struct plan_question *q)
{
    int wanted = p->max_model_len;
    const int layers = q->limits->gpu_layers;
    if (layers > 0) p->first_layers = q->model->text.n_layers - layers;
    bool fits = fit_levers(p, q);
    if (!fits && layers == PLAN_LAYERS_AUTO)
        fit_layers(p, q);
    else if (!fits && !q->limits->max_model_len)
        shorten_context(p, q);
    else if (fits && q->limits->max_model_len && !q->limits->kv_tokens)
        widen_pool(p, q);
    tell_choices(p, q, wanted);
}

static void fit_host(struct plan *p, const struct plan_question *q)
{
    const struct plan_limits *l = q->limits;
    const bool takes_head = q->weights.may_be_8bit && q->weights.head_8bit;
    if (takes_head) p->levers.head = l->levers.head;
    plan_size(p, q);
    if (l->levers.head == HEAD_8BIT && !takes_head)
        tell(p, "--head 8bit: not used here, the %s",
             q->weights.may_be_8bit ? "backend keeps heads as they are"
                                    : "head is not stored as BF16");
    if (l->gpu_layers || l->levers.kv || l->levers.vision || l->levers.rows || l->utilization > 0 ||
        l->device_bytes)
        tell(p, "--gpu-layers, --kv-cache-dtype, --head-rows, --vision-weights, "
                "--gpu-memory-utilization, --gpu-memory: of a card, not used here");
}

/* The device's kernels do not see a tower that is beside it. */
static bool check_shapes(const struct plan_question *q, ey_err *e)
{
    static const struct vision_shape no_tower;
    const bool beside = q->facts->card && q->limits->levers.vision == VISION_HOST;
    return !q->be->ops->check_shapes ||
           q->be->ops->check_shapes(&q->model->text, beside ? &no_tower : &q->model->vision, e);
}

bool plan_make(struct plan *p, const struct model *m, const struct backend *be,
               const struct device_facts *facts, const struct plan_limits *limits, ey_err *e)
{
    struct plan_question q = {.model = m, .be = be, .facts = facts, .limits = limits};
    *p = (struct plan){.facts = facts, .budget = budget_of(facts, limits)};
    if (!check_shapes(&q, e)) return false;
    q.weights = weight_sizes(m, be);
    if (!choose_limits(p, &q, e) || (facts->card && !check_card_limits(&q, e))) return false;
    if (facts->card)
        fit_card(p, &q);
    else
        fit_host(p, &q);
    return true;
}
