/* SPDX-License-Identifier: Apache-2.0 */
/* Sampling. Candidates are taken from a heap, best first, until the filters have enough, so a step
 * costs one pass over the vocabulary and a little more. */
#include "engine/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "engine/engine_internal.h"

#define COLDEST 1e-5f /* below this the draw is the best one, and dividing by it would overflow */
#define LEAST_SCORE -1e33f /* finite when divided by the coldest temperature too */

bool sampler_scratch_open(struct sampler_scratch *s, struct arena *arena, int vocabulary, ey_err *e)
{
    size_t n = (size_t)vocabulary;
    s->scores = arena_array(arena, n, sizeof(*s->scores));
    s->heap = arena_array(arena, n, sizeof(*s->heap));
    s->probability = arena_array(arena, n, sizeof(*s->probability));
    return (s->scores && s->heap && s->probability) || ey_fail_memory(e, "sampling", n * 20);
}

bool sampler_open(struct sampler *s, struct sampler_scratch *scratch, struct arena *arena,
                  int vocabulary, ey_err *e)
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
    if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
        seed = (uint32_t)(uintptr_t)&seed;
    return seed;
}

ey_sampling ey_sampling_greedy(void)
{
    return (ey_sampling){.top_p = 1, .repetition_penalty = 1};
}

static bool in_range(float value, const char *name, float lo, float hi, ey_err *e)
{
    if (value >= lo && value <= hi) return true;
    return ey_fail(e, EY_BAD_REQUEST, "%s is %g; it must be from %g to %g", name, (double)value,
                   (double)lo, (double)hi);
}

bool sampling_check(const ey_sampling *o, ey_err *e)
{
    if (o->top_p <= 0)
        return ey_fail(e, EY_BAD_REQUEST, "top_p is %g; it must be above 0 and at most 1",
                       (double)o->top_p);
    if (o->repetition_penalty <= 0)
        return ey_fail(e, EY_BAD_REQUEST, "repetition_penalty is %g; it must be above 0",
                       (double)o->repetition_penalty);
    if (o->top_k < 0)
        return ey_fail(e, EY_BAD_REQUEST, "top_k is %d; it must be at least 1, or 0 for all",
                       o->top_k);
    return in_range(o->temperature, "temperature", 0, 100, e) &&
           in_range(o->top_p, "top_p", 0, 1, e) && in_range(o->min_p, "min_p", 0, 1, e) &&
           in_range(o->repetition_penalty, "repetition_penalty", 0, 100, e) &&
           in_range(o->presence_penalty, "presence_penalty", -2, 2, e) &&
           in_range(o->frequency_penalty, "frequency_penalty", -2, 2, e);
}

/* ---- a request ---- */

void sampler_start(struct sampler *s, const ey_sampling *options, const int32_t *prompt,
                   size_t n_prompt)
{
    s->options = *options;
    s->bias = NULL;
    s->n_bias = 0;
    s->step = 0;
    memset(s->count, 0, (size_t)s->vocabulary * sizeof(*s->count));
    memset(s->in_prompt, 0, (size_t)s->vocabulary);
    for (size_t i = 0; i < n_prompt; i++)
        s->in_prompt[prompt[i]] = 1;
}

void sampler_recall(struct sampler *s, int32_t id)
{
    s->count[id]++;
    s->step++;
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

static void make_heap(struct candidate_token *heap, int n)
{
    for (int i = n / 2 - 1; i >= 0; i--)
        sift_down(heap, n, i);
}

static double total_weight(const struct sampler *s, int n, float best)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += exp((double)(s->scratch->heap[i].score - best));
    return sum;
}

/* Moves the best candidates to the array's end, best first from there down: the heap shrinks as
 * they leave it. Returns how many stay after top-k (ties of the k-th kept), top-p and min-p. */
static int keep_candidates(struct sampler *s, int n_heap)
{
    const ey_sampling *o = &s->options;
    struct candidate_token *heap = s->scratch->heap;
    double *probability = s->scratch->probability;
    float best = heap[0].score;
    int n = 0, top_k = o->top_k > 0 && o->top_k < s->vocabulary ? o->top_k : 0;
    double total = top_k ? 0 : total_weight(s, n_heap, best), before = 0;
    struct candidate_token last = {0};
    while (n_heap) {
        double weight = exp((double)(heap[0].score - best));
        if (n && weight == 0)
            break; /* never drawn, not even by a rounded sum: a forbidden id is such a one */
        if (top_k && n >= top_k && heap[0].score < last.score) break;
        if (!top_k && n && (before / total >= (double)o->top_p || weight < (double)o->min_p)) break;
        last = pop_best(heap, &n_heap);
        heap[n_heap] = last; /* the place that the heap just gave up */
        probability[n++] = weight;
        before += weight;
    }
    if (!top_k) return n;
    int kept = 0;
    for (total = before, before = 0; kept < n; before += probability[kept++])
        if (kept && (before / total >= (double)o->top_p || probability[kept] < (double)o->min_p))
            break;
    return kept;
}

/* Uniform in [0, 1) from seed and step (splitmix64), so that an answer does not depend on what runs
 * beside it. */
static double uniform(uint64_t seed, uint64_t step)
{
    uint64_t z = seed + (step + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

/* From the heap's n candidates, whose scores are divided by the temperature. */
static int32_t draw(struct sampler *s, int n_heap)
{
    make_heap(s->scratch->heap, n_heap);
    const double *probability = s->scratch->probability;
    int n = keep_candidates(s, n_heap), i = 0;
    double sum = 0, left;
    for (int k = 0; k < n; k++)
        sum += probability[k];
    left = uniform(s->options.seed, s->step) * sum;
    while (i + 1 < n && left >= probability[i])
        left -= probability[i++];
    return s->scratch->heap[n_heap - 1 - i].id;
}

static bool is_allowed(const struct allowed *allowed, int32_t id)
{
    for (int k = 0; k < allowed->n_end; k++)
        if (allowed->end[k] == id) return true;
    return allowed->mask[id / 32] >> id % 32 & 1;
}

/* Of an id that is allowed: above those of all that are not, whatever the model says of it, NaN
 * included. */
static float allowed_score(float score)
{
    return score > LEAST_SCORE ? score : LEAST_SCORE;
}

/* Most words of a mask are all ones or all zeros. */
static void forbid(float *scores, int n, const struct allowed *allowed)
{
    float end[EY_MAX_EOS];
    for (int i = 0; i < n; i++)
        scores[i] = allowed_score(scores[i]);
    for (int k = 0; k < allowed->n_end; k++)
        end[k] = scores[allowed->end[k]];
    for (int first = 0; first < n; first += 32) {
        uint32_t word = allowed->mask[first / 32];
        for (int i = 0; word != UINT32_MAX && i < 32 && first + i < n; i++)
            if (!(word >> i & 1)) scores[first + i] = -INFINITY;
    }
    for (int k = 0; k < allowed->n_end; k++)
        scores[allowed->end[k]] = end[k];
}

static bool has_penalties(const ey_sampling *o)
{
    return o->repetition_penalty != 1 || o->presence_penalty != 0 || o->frequency_penalty != 0;
}

static void fill_scores(struct sampler *s, const float *logits, const struct allowed *allowed)
{
    float *scores = s->scratch->scores;
    if (!has_penalties(&s->options))
        memcpy(scores, logits, (size_t)s->vocabulary * sizeof(*scores));
    else
        for (int32_t i = 0; i < s->vocabulary; i++)
            scores[i] = penalised(s, logits[i], i);
    for (size_t i = 0; i < s->n_bias; i++)
        scores[s->bias[i].id] += s->bias[i].bias;
    if (allowed) forbid(scores, s->vocabulary, allowed);
}

static int32_t draw_from_all(struct sampler *s)
{
    for (int32_t i = 0; i < s->vocabulary; i++)
        s->scratch->heap[i] = (struct candidate_token){
            s->scratch->scores[i] / s->options.temperature, i};
    return draw(s, s->vocabulary);
}

static int32_t pick_from_scores(struct sampler *s)
{
    int32_t id = s->options.temperature >= COLDEST
                     ? draw_from_all(s)
                     : logits_argmax(s->scratch->scores, s->vocabulary);
    sampler_recall(s, id);
    return id;
}

int32_t sampler_pick(struct sampler *s, const float *logits, const struct allowed *allowed)
{
    fill_scores(s, logits, allowed);
    return pick_from_scores(s);
}

/* ---- from the best alone ---- */

bool sampler_is_exact_from(const ey_sampling *o, int n)
{
    return o->temperature < COLDEST || (o->top_k > 0 && o->top_k <= n);
}

/* Nothing that a penalty or a bias may lift above its logit. */
static bool only_lowers(const struct sampler *s)
{
    const ey_sampling *o = &s->options;
    return s->n_bias == 0 && o->repetition_penalty >= 1 && o->presence_penalty >= 0 &&
           o->frequency_penalty >= 0;
}

/* The scores of the best in the heap's order of coming; 0: they do not decide. A token that is not
 * among them has a score of at most the last one's logit: what is above that is certain. Compared
 * as they are drawn: the temperature may round two scores to one, and then both are kept. */
static int decided(struct sampler *s, const struct best_logits *best, const struct allowed *allowed,
                   bool approximate)
{
    struct candidate_token *heap = s->scratch->heap;
    bool warm = s->options.temperature >= COLDEST;
    int n = 0, kept = 0, certain = 0, wanted = warm ? s->options.top_k : 1,
        most = approximate ? BEST_LOGITS / 2 : BEST_LOGITS;
    while (n < BEST_LOGITS && best->token[n].id >= 0)
        n++;
    if (!n || !only_lowers(s) || !sampler_is_exact_from(&s->options, most) ||
        isnan(best->token[0].logit))
        return 0;
    float least = n < s->vocabulary ? best->token[n - 1].logit : -INFINITY;
    if (warm) least /= s->options.temperature;
    for (int i = 0; i < n; i++) {
        float score = penalised(s, best->token[i].logit, best->token[i].id);
        if (allowed && !is_allowed(allowed, best->token[i].id)) continue;
        if (allowed) score = allowed_score(score);
        if (warm) score /= s->options.temperature;
        certain += score > least && (!allowed || i < most);
        heap[kept++] = (struct candidate_token){score, best->token[i].id};
    }
    return certain < wanted && n < s->vocabulary ? 0 : kept;
}

bool sampler_is_decided(struct sampler *s, const struct best_logits *best, bool approximate)
{
    return decided(s, best, NULL, approximate) > 0;
}

bool sampler_pick_best(struct sampler *s, const struct best_logits *best,
                       const struct allowed *allowed, bool approximate, int32_t *id)
{
    int n = decided(s, best, allowed, approximate);
    if (!n) return false;
    if (s->options.temperature >= COLDEST)
        *id = draw(s, n);
    else {
        make_heap(s->scratch->heap, n);
        *id = s->scratch->heap[0].id;
    }
    sampler_recall(s, *id);
    return true;
}

bool sampler_draws_from_best(const struct sampler *s, bool approximate)
{
    const ey_sampling *o = &s->options;
    return only_lowers(s) &&
           sampler_is_exact_from(o, approximate ? BEST_LOGITS / 2 : BEST_LOGITS) &&
           !has_penalties(o);
}

struct token_draw sampler_next_draw(const struct sampler *s)
{
    const ey_sampling *o = &s->options;
    return (struct token_draw){o->seed,  s->step,  o->temperature >= COLDEST ? o->temperature : 0,
                               o->top_p, o->min_p, o->top_k};
}

/* ---- the best again, from all ---- */

/* Ids come in ascending order, so that the lower one stays first among equals. */
static int put_among_best(const float *scores, int32_t *ids, int found, int most, int32_t id)
{
    int at = found < most ? found++ : most - 1;
    for (; at && scores[id] > scores[ids[at - 1]]; at--)
        ids[at] = ids[at - 1];
    ids[at] = id;
    return found;
}

int sampler_best_ids(struct sampler *s, const float *logits, const struct allowed *allowed,
                     int32_t *ids, int most)
{
    const float *scores = s->scratch->scores;
    float bound = -INFINITY; /* that a score has to be above */
    int found = 0;
    fill_scores(s, logits, allowed);
    for (int32_t i = 0; i < s->vocabulary; i++) {
        if (!(scores[i] > bound)) continue;
        found = put_among_best(scores, ids, found, most, i);
        if (found == most) bound = scores[ids[most - 1]];
    }
    return found;
}

static float score_again(const struct sampler *s, float logit, int32_t id)
{
    float score = penalised(s, logit, id);
    for (size_t i = 0; i < s->n_bias; i++)
        if (s->bias[i].id == id) score += s->bias[i].bias;
    return score;
}

/* Where so few decide, from them alone. */
int32_t sampler_pick_again(struct sampler *s, const float *logits, const int32_t *ids, int n)
{
    struct candidate_token *heap = s->scratch->heap;
    bool warm = s->options.temperature >= COLDEST;
    for (int i = 0; i < n; i++) {
        float score = s->scratch->scores[ids[i]] = allowed_score(
            score_again(s, logits[ids[i]], ids[i]));
        heap[i] = (struct candidate_token){warm ? score / s->options.temperature : score, ids[i]};
    }
    if (!n || !sampler_is_exact_from(&s->options, BEST_LOGITS / 2)) return pick_from_scores(s);
    make_heap(heap, n);
    int32_t id = warm ? draw(s, n) : heap[0].id;
    sampler_recall(s, id);
    return id;
}
