/* SPDX-License-Identifier: Apache-2.0 */
/* The sampler. Candidates are popped from a heap, best first, until the filters have enough, so a
 * step costs little more than one pass over the vocabulary. */
#include "engine/sample/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/limits.h"
#include "engine/sample/logprobs.h"

#define MIN_TEMPERATURE 1e-5f    /* below this, sample greedily: dividing by it would overflow */
#define MIN_ALLOWED_SCORE -1e33f /* stays finite when divided by MIN_TEMPERATURE */

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
    s->answer_count = arena_array(arena, n, sizeof(*s->answer_count));
    s->in_prompt = arena_alloc(arena, n);
    return (s->answer_count && s->in_prompt) || ey_fail_memory(e, "sampling", n * 5);
}

/* ---- options ---- */

uint64_t ey_random_seed(void)
{
    uint32_t seed = 0; /* only 32 bits, short enough for a user to type again */
    if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
        seed = (uint32_t)(uintptr_t)&seed;
    return seed;
}

static bool check_float_range(float value, const char *name, float lo, float hi, ey_err *e)
{
    if (value >= lo && value <= hi) return true;
    return ey_fail(e, EY_BAD_REQUEST, "%s is %g; it must be from %g to %g", name, (double)value,
                   (double)lo, (double)hi);
}

bool sampling_check(const ey_sampling *o, ey_err *e)
{
    if (o->repetition_penalty <= 0)
        return ey_fail(e, EY_BAD_REQUEST, "repetition_penalty is %g; it must be above 0",
                       (double)o->repetition_penalty);
    if (o->top_k < 0)
        return ey_fail(e, EY_BAD_REQUEST, "top_k is %d; it must be at least 1, or 0 for all",
                       o->top_k);
    return check_float_range(o->temperature, "temperature", 0, 100, e) &&
           check_float_range(o->top_p, "top_p", 0, 1, e) &&
           check_float_range(o->min_p, "min_p", 0, 1, e) &&
           check_float_range(o->repetition_penalty, "repetition_penalty", 0, 100, e) &&
           check_float_range(o->presence_penalty, "presence_penalty", -2, 2, e) &&
           check_float_range(o->frequency_penalty, "frequency_penalty", -2, 2, e);
}

/* ---- a request ---- */

void sampler_start(struct sampler *s, const ey_sampling *options, const int32_t *prompt,
                   size_t n_prompt)
{
    s->options = *options;
    s->bias = NULL;
    s->n_bias = 0;
    s->ends = NULL;
    s->n_ends = 0;
    s->min_tokens = 0;
    s->n_drawn = s->n_tokens = 0;
    memset(s->answer_count, 0, (size_t)s->vocabulary * sizeof(*s->answer_count));
    memset(s->in_prompt, 0, (size_t)s->vocabulary);
    for (size_t i = 0; i < n_prompt; i++)
        s->in_prompt[prompt[i]] = 1;
}

void sampler_record_forced(struct sampler *s, int32_t id)
{
    s->answer_count[id]++;
    s->n_tokens++;
}

void sampler_record(struct sampler *s, int32_t id)
{
    sampler_record_forced(s, id);
    s->n_drawn++;
}

/* Whether min_tokens still forbids an end token. */
static bool forbids_ends(const struct sampler *s)
{
    return s->n_ends && s->n_tokens < s->min_tokens;
}

static bool is_forbidden_end(const struct sampler *s, int32_t id)
{
    if (!forbids_ends(s)) return false;
    for (size_t i = 0; i < s->n_ends; i++)
        if (s->ends[i] == id) return true;
    return false;
}

static float apply_penalties(const struct sampler *s, float logit, int32_t id)
{
    const ey_sampling *o = &s->options;
    int32_t count = s->answer_count[id];
    if (o->repetition_penalty != 1 && (count || s->in_prompt[id]))
        logit = logit > 0 ? logit / o->repetition_penalty : logit * o->repetition_penalty;
    if (count) logit -= o->presence_penalty + o->frequency_penalty * (float)count;
    return logit;
}

static bool ranks_before(struct scored_candidate a, struct scored_candidate b)
{
    return a.score > b.score || (a.score == b.score && a.id < b.id);
}

static void sift_down(struct scored_candidate *heap, int n, int at)
{
    struct scored_candidate moved = heap[at];
    for (int child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && ranks_before(heap[child + 1], heap[child])) child++;
        if (!ranks_before(heap[child], moved)) break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

static struct scored_candidate pop_best(struct scored_candidate *heap, int *n)
{
    struct scored_candidate best = heap[0];
    heap[0] = heap[--*n];
    if (*n) sift_down(heap, *n, 0);
    return best;
}

static void make_heap(struct scored_candidate *heap, int n)
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

/* Pops candidates to the array's end: the best is the last element, the second-best the one before
 * it. Returns how many remain after top-k (ties with the k-th are kept), top-p and min-p. */
static int filter_candidates(struct sampler *s, int n_heap)
{
    const ey_sampling *o = &s->options;
    struct scored_candidate *heap = s->scratch->heap;
    double *probability = s->scratch->probability;
    float best = heap[0].score;
    int n = 0, top_k = o->top_k > 0 && o->top_k < s->vocabulary ? o->top_k : 0;
    double total = top_k ? 0 : total_weight(s, n_heap, best), before = 0;
    struct scored_candidate last = {0};
    while (n_heap) {
        double weight = exp((double)(heap[0].score - best));
        if (n && weight == 0) break; /* may be a forbidden id: rounded sums must not draw it */
        if (top_k && n >= top_k && heap[0].score < last.score) break;
        if (!top_k && n && (before / total >= (double)o->top_p || weight < (double)o->min_p)) break;
        last = pop_best(heap, &n_heap);
        heap[n_heap] = last; /* the slot that the heap just freed */
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

/* Returns a uniform number in [0, 1) from seed and step (splitmix64), so that an answer does not
 * depend on other requests. */
static double random_uniform(uint64_t seed, uint64_t step)
{
    uint64_t z = seed + (step + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

/* Draws from the heap's n candidates, whose scores are already divided by the temperature. */
static int32_t draw_candidate(struct sampler *s, int n_heap)
{
    make_heap(s->scratch->heap, n_heap);
    const double *probability = s->scratch->probability;
    int n = filter_candidates(s, n_heap), i = 0;
    double sum = 0, left;
    for (int k = 0; k < n; k++)
        sum += probability[k];
    left = random_uniform(s->options.seed, s->n_drawn) * sum;
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

/* Returns the score of an allowed id, raised above those of forbidden ids whatever its logit is,
 * NaN included. */
static float allowed_score(float score)
{
    return score > MIN_ALLOWED_SCORE ? score : MIN_ALLOWED_SCORE;
}

/* Works by words, because most words of a mask are all ones or all zeros. */
static void apply_mask(float *scores, int n, const struct allowed *allowed)
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
            scores[i] = apply_penalties(s, logits[i], i);
    for (size_t i = 0; i < s->n_bias; i++)
        scores[s->bias[i].id] += s->bias[i].bias;
    if (allowed) apply_mask(scores, s->vocabulary, allowed);
    for (size_t i = 0; i < s->n_ends && forbids_ends(s); i++)
        scores[s->ends[i]] = -INFINITY;
}

static int32_t draw_from_scores(struct sampler *s)
{
    for (int32_t i = 0; i < s->vocabulary; i++)
        s->scratch->heap[i] = (struct scored_candidate){
            s->scratch->scores[i] / s->options.temperature, i};
    return draw_candidate(s, s->vocabulary);
}

static int32_t sample_from_scores(struct sampler *s)
{
    int32_t id = s->options.temperature >= MIN_TEMPERATURE
                     ? draw_from_scores(s)
                     : logits_argmax(s->scratch->scores, s->vocabulary);
    sampler_record(s, id);
    return id;
}

int32_t sampler_sample(struct sampler *s, const float *logits, const struct allowed *allowed)
{
    fill_scores(s, logits, allowed);
    return sample_from_scores(s);
}

/* ---- sampling from the top-k alone ---- */

bool sampler_needs_only_topk(const ey_sampling *o, int n)
{
    return o->temperature < MIN_TEMPERATURE || (o->top_k > 0 && o->top_k <= n);
}

/* Whether no penalty or bias can raise a score above its logit. */
static bool penalties_only_lower(const struct sampler *s)
{
    const ey_sampling *o = &s->options;
    return s->n_bias == 0 && o->repetition_penalty >= 1 && o->presence_penalty >= 0 &&
           o->frequency_penalty >= 0;
}

/* Fills the heap with the scores of the top-k tokens and returns their number, or 0 if they do not
 * decide the draw. A token outside the top-k scores at most the last one's logit, so scores above
 * that are certain. Scores are compared after division by the temperature, which may round two to
 * the same value; both are kept then. */
static int topk_candidates(struct sampler *s, const struct topk_logits *best,
                           const struct allowed *allowed, bool approximate)
{
    struct scored_candidate *heap = s->scratch->heap;
    bool is_random = s->options.temperature >= MIN_TEMPERATURE;
    int n = 0, kept = 0, certain = 0, wanted = is_random ? s->options.top_k : 1,
        most = approximate ? TOPK_LOGITS / 2 : TOPK_LOGITS;
    while (n < TOPK_LOGITS && best->token[n].id >= 0)
        n++;
    if (!n || !penalties_only_lower(s) || !sampler_needs_only_topk(&s->options, most) ||
        isnan(best->token[0].logit))
        return 0;
    float least = n < s->vocabulary ? best->token[n - 1].logit : -INFINITY;
    if (is_random) least /= s->options.temperature;
    for (int i = 0; i < n; i++) {
        float score = apply_penalties(s, best->token[i].logit, best->token[i].id);
        if (allowed && !is_allowed(allowed, best->token[i].id)) continue;
        if (is_forbidden_end(s, best->token[i].id)) continue;
        if (allowed) score = allowed_score(score);
        if (is_random) score /= s->options.temperature;
        certain += score > least && (!allowed || i < most);
        heap[kept++] = (struct scored_candidate){score, best->token[i].id};
    }
    return certain < wanted && n < s->vocabulary ? 0 : kept;
}

bool sampler_topk_decides(struct sampler *s, const struct topk_logits *best, bool approximate)
{
    return topk_candidates(s, best, NULL, approximate) > 0;
}

bool sampler_sample_topk(struct sampler *s, const struct topk_logits *best,
                         const struct allowed *allowed, bool approximate, int32_t *id)
{
    int n = topk_candidates(s, best, allowed, approximate);
    if (!n) return false;
    if (s->options.temperature >= MIN_TEMPERATURE)
        *id = draw_candidate(s, n);
    else {
        make_heap(s->scratch->heap, n);
        *id = s->scratch->heap[0].id;
    }
    sampler_record(s, *id);
    return true;
}

bool sampler_gpu_can_sample(const struct sampler *s, bool approximate)
{
    const ey_sampling *o = &s->options;
    return penalties_only_lower(s) &&
           sampler_needs_only_topk(o, approximate ? TOPK_LOGITS / 2 : TOPK_LOGITS) &&
           !has_penalties(o) && !forbids_ends(s);
}

struct token_sampling sampler_gpu_params(const struct sampler *s)
{
    const ey_sampling *o = &s->options;
    return (struct token_sampling){
        o->seed,  s->n_drawn, o->temperature >= MIN_TEMPERATURE ? o->temperature : 0,
        o->top_p, o->min_p,   o->top_k};
}

/* ---- top-k of all logits, for rescoring ---- */

/* Ids come in ascending order, so the lower one stays first among equals. */
static int insert_topk_id(const float *scores, int32_t *ids, int found, int most, int32_t id)
{
    int at = found < most ? found++ : most - 1;
    for (; at && scores[id] > scores[ids[at - 1]]; at--)
        ids[at] = ids[at - 1];
    ids[at] = id;
    return found;
}

int sampler_topk_ids(struct sampler *s, const float *logits, const struct allowed *allowed,
                     int32_t *ids, int most)
{
    const float *scores = s->scratch->scores;
    float bound = -INFINITY; /* a score must exceed it */
    int found = 0;
    fill_scores(s, logits, allowed);
    for (int32_t i = 0; i < s->vocabulary; i++) {
        if (!(scores[i] > bound)) continue;
        found = insert_topk_id(scores, ids, found, most, i);
        if (found == most) bound = scores[ids[most - 1]];
    }
    return found;
}

static float rescored_value(const struct sampler *s, float logit, int32_t id)
{
    float score = apply_penalties(s, logit, id);
    for (size_t i = 0; i < s->n_bias; i++)
        if (s->bias[i].id == id) score += s->bias[i].bias;
    return score;
}

/* Draws from the rescored ids alone if top_k or temperature 0 makes them sufficient, and from all
 * scores otherwise. */
int32_t sampler_sample_rescored(struct sampler *s, const float *logits, const int32_t *ids, int n)
{
    struct scored_candidate *heap = s->scratch->heap;
    bool is_random = s->options.temperature >= MIN_TEMPERATURE;
    for (int i = 0; i < n; i++) {
        float score = s->scratch->scores[ids[i]] = allowed_score(
            rescored_value(s, logits[ids[i]], ids[i]));
        heap[i] = (struct scored_candidate){is_random ? score / s->options.temperature : score,
                                            ids[i]};
    }
    if (!n || !sampler_needs_only_topk(&s->options, TOPK_LOGITS / 2)) return sample_from_scores(s);
    make_heap(heap, n);
    int32_t id = is_random ? draw_candidate(s, n) : heap[0].id;
    sampler_record(s, id);
    return id;
}
