/* Sampling. Candidates are taken from a heap, best first, until the filters have enough, so a step costs one pass over
 * the vocabulary and a little more. */
#include "engine/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "engine/engine_internal.h"

#define COLDEST 1e-5f /* below this the draw is the best one, and dividing by it would overflow */

bool sampler_scratch_open(struct sampler_scratch *s, struct arena *arena, int vocabulary, ey_err *e)
{
    size_t n = (size_t)vocabulary;
    s->scores = arena_array(arena, n, sizeof(*s->scores));
    s->heap = arena_array(arena, n, sizeof(*s->heap));
    s->probability = arena_array(arena, n, sizeof(*s->probability));
    return (s->scores && s->heap && s->probability) || ey_fail_memory(e, "sampling", n * 20);
}

bool sampler_open(struct sampler *s, struct sampler_scratch *scratch, struct arena *arena, int vocabulary, ey_err *e)
{
    size_t n = (size_t)vocabulary;
    *s = (struct sampler){.scratch = scratch, .vocabulary = vocabulary};
    s->count = arena_array(arena, n, sizeof(*s->count));
    s->in_prompt = arena_alloc(arena, n);
    return (s->count && s->in_prompt) || ey_fail_memory(e, "sampling", n * 5);
}

/* ---- options ---- */

uint64_t ey_random_seed(void)
{
    uint32_t seed = 0; /* 32 bits: short enough to type again */
    if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed)) seed = (uint32_t)(uintptr_t)&seed;
    return seed;
}

ey_sampling ey_sampling_greedy(void)
{
    return (ey_sampling){.top_p = 1, .repetition_penalty = 1};
}

static bool in_range(float value, const char *name, float lo, float hi, ey_err *e)
{
    if (value >= lo && value <= hi) return true;
    return ey_fail(e, EY_BAD_REQUEST, "%s is %g; it must be from %g to %g", name, (double)value, (double)lo, (double)hi);
}

bool sampling_check(const ey_sampling *o, ey_err *e)
{
    if (o->top_p <= 0) return ey_fail(e, EY_BAD_REQUEST, "top_p is %g; it must be above 0 and at most 1", (double)o->top_p);
    if (o->repetition_penalty <= 0)
        return ey_fail(e, EY_BAD_REQUEST, "repetition_penalty is %g; it must be above 0", (double)o->repetition_penalty);
    if (o->top_k < 0) return ey_fail(e, EY_BAD_REQUEST, "top_k is %d; it must be at least 1, or 0 for all", o->top_k);
    return in_range(o->temperature, "temperature", 0, 100, e) && in_range(o->top_p, "top_p", 0, 1, e) &&
           in_range(o->min_p, "min_p", 0, 1, e) && in_range(o->repetition_penalty, "repetition_penalty", 0, 100, e) &&
           in_range(o->presence_penalty, "presence_penalty", -2, 2, e) &&
           in_range(o->frequency_penalty, "frequency_penalty", -2, 2, e);
}

/* ---- a request ---- */

void sampler_start(struct sampler *s, const ey_sampling *options, const int32_t *prompt, size_t n_prompt)
{
    s->options = *options;
    s->bias = NULL, s->n_bias = 0, s->step = 0;
    memset(s->count, 0, (size_t)s->vocabulary * sizeof(*s->count));
    memset(s->in_prompt, 0, (size_t)s->vocabulary);
    for (size_t i = 0; i < n_prompt; i++) s->in_prompt[prompt[i]] = 1;
}

void sampler_recall(struct sampler *s, int32_t id)
{
    s->count[id]++, s->step++;
}

static float penalised(const struct sampler *s, float logit, int32_t id)
{
    const ey_sampling *o = &s->options;
    int32_t count = s->count[id];
    if (o->repetition_penalty != 1 && (count || s->in_prompt[id]))
        logit = logit > 0 ? logit / o->repetition_penalty : logit * o->repetition_penalty;
    if (count) logit -= o->presence_penalty + o->frequency_penalty * (float)count;
    return logit;
}

static bool better(struct candidate_token a, struct candidate_token b)
{
    return a.score > b.score || (a.score == b.score && a.id < b.id);
}

static void sift_down(struct candidate_token *heap, int n, int at)
{
    struct candidate_token moved = heap[at];
    for (int child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && better(heap[child + 1], heap[child])) child++;
        if (!better(heap[child], moved)) break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

static struct candidate_token pop_best(struct candidate_token *heap, int *n)
{
    struct candidate_token best = heap[0];
    heap[0] = heap[--*n];
    if (*n) sift_down(heap, *n, 0);
    return best;
}

static void fill_heap(struct sampler *s)
{
    for (int32_t i = 0; i < s->vocabulary; i++)
        s->scratch->heap[i] = (struct candidate_token){s->scratch->scores[i] / s->options.temperature, i};
    for (int i = s->vocabulary / 2 - 1; i >= 0; i--) sift_down(s->scratch->heap, s->vocabulary, i);
}

static double total_weight(const struct sampler *s, float best)
{
    double sum = 0;
    for (int i = 0; i < s->vocabulary; i++) sum += exp((double)(s->scratch->heap[i].score - best));
    return sum;
}

/* Moves the best candidates to the array's end, best first from there down: the heap shrinks as they leave it.
 * Returns how many stay after top-k (ties of the k-th kept), top-p and min-p. */
static int keep_candidates(struct sampler *s)
{
    const ey_sampling *o = &s->options;
    struct candidate_token *heap = s->scratch->heap;
    double *probability = s->scratch->probability;
    float best = heap[0].score;
    int n_heap = s->vocabulary, n = 0, top_k = o->top_k > 0 && o->top_k < s->vocabulary ? o->top_k : 0;
    double total = top_k ? 0 : total_weight(s, best), before = 0;
    struct candidate_token last = {0};
    while (n_heap) {
        double weight = exp((double)(heap[0].score - best));
        if (top_k && n >= top_k && heap[0].score < last.score) break;
        if (!top_k && n && (before / total >= (double)o->top_p || weight < (double)o->min_p)) break;
        last = pop_best(heap, &n_heap);
        heap[n_heap] = last; /* the place that the heap just gave up */
        probability[n++] = weight, before += weight;
    }
    if (!top_k) return n;
    int kept = 0;
    for (total = before, before = 0; kept < n; before += probability[kept++])
        if (kept && (before / total >= (double)o->top_p || probability[kept] < (double)o->min_p)) break;
    return kept;
}

/* Uniform in [0, 1) from seed and step (splitmix64), so that an answer does not depend on what runs beside it. */
static double uniform(uint64_t seed, uint64_t step)
{
    uint64_t z = seed + (step + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

static int32_t draw(struct sampler *s)
{
    fill_heap(s);
    const double *probability = s->scratch->probability;
    int n = keep_candidates(s), i = 0;
    double sum = 0, left;
    for (int k = 0; k < n; k++) sum += probability[k];
    left = uniform(s->options.seed, s->step) * sum;
    while (i + 1 < n && left >= probability[i]) left -= probability[i++];
    return s->scratch->heap[s->vocabulary - 1 - i].id;
}

static void forbid(float *scores, int n, const struct allowed *allowed)
{
    float end[EY_MAX_EOS];
    for (int k = 0; k < allowed->n_end; k++) end[k] = scores[allowed->end[k]];
    for (int i = 0; i < n; i++)
        if (!(allowed->mask[i / 32] >> i % 32 & 1)) scores[i] = -INFINITY;
    for (int k = 0; k < allowed->n_end; k++) scores[allowed->end[k]] = end[k];
}

int32_t sampler_pick(struct sampler *s, const float *logits, const struct allowed *allowed)
{
    float *scores = s->scratch->scores;
    for (int32_t i = 0; i < s->vocabulary; i++) scores[i] = penalised(s, logits[i], i);
    for (size_t i = 0; i < s->n_bias; i++) scores[s->bias[i].id] += s->bias[i].bias;
    if (allowed) forbid(scores, s->vocabulary, allowed);
    int32_t id = s->options.temperature >= COLDEST ? draw(s) : logits_argmax(scores, s->vocabulary);
    sampler_recall(s, id);
    return id;
}
