/* SPDX-License-Identifier: Apache-2.0 */
/* Owns an answer's memory and turns token ids into its text and log-probabilities. */
#include "engine/request/answer.h"

#include <stdlib.h>
#include <string.h>

#include "engine/request/pooled.h"
#include "engine/request/stop_strings.h"

/* The target of ey_answer.owner. */
struct answer_memory {
    struct arena arena;
    struct pooled_answer pooled;
};

struct arena *answer_arena(ey_answer *answer)
{
    struct answer_memory *memory = answer->owner;
    if (!memory) answer->owner = memory = calloc(1, sizeof(*memory));
    return memory ? &memory->arena : NULL;
}

struct pooled_answer *answer_pooled(ey_answer *answer)
{
    return &((struct answer_memory *)answer->owner)->pooled;
}

void ey_answer_free(ey_answer *answer)
{
    if (answer->owner) {
        arena_free(answer_arena(answer));
        free(answer->owner);
    }
    *answer = (ey_answer){0};
}

bool output_tokens_open(struct output_tokens *output, struct arena *arena, int max_tokens,
                        int top_logprobs, ey_err *e)
{
    size_t n = (size_t)max_tokens + 1, n_top = top_logprobs > 0 ? (size_t)top_logprobs : 0;
    *output = (struct output_tokens){
        .max_tokens = max_tokens, .n_top = (int)n_top, .wants_logprobs = top_logprobs >= 0};
    output->id = arena_array(arena, n, sizeof(*output->id));
    output->logprob = output->wants_logprobs ? arena_array(arena, n, sizeof(*output->logprob))
                                             : NULL;
    output->top_logprobs = n_top ? arena_array(arena, n * n_top, sizeof(*output->top_logprobs))
                                 : NULL;
    if (output->id && (!output->wants_logprobs || output->logprob) &&
        (!n_top || output->top_logprobs))
        return true;
    return ey_fail_memory(e, "the answer",
                          n * (sizeof(*output->id) + (1 + n_top) * sizeof(*output->top_logprobs)));
}

/* Returns the text of tokens[n] in the arena, without leading line breaks if `trim`. Returns NULL
 * if memory runs out. */
static char *text_of_tokens(const int *tokens, int n, struct arena *arena,
                            const struct tokenizer *tok, bool trim, size_t *length)
{
    struct buf text = buf_with_max((size_t)EY_MAX_CONTEXT * 64);
    struct detok detok = detok_start(tok);
    bool ok = true;
    for (int i = 0; ok && i < n; i++)
        ok = detok_push(&detok, tokens[i], &text);
    ok = ok && detok_finish(&detok, &text);
    size_t skipped = trim ? count_line_breaks(text.data, text.size) : 0;
    *length = text.size - skipped;
    char *copy = ok ? arena_copy_text(arena, text.data ? text.data + skipped : "", *length) : NULL;
    buf_free(&text);
    return copy;
}

static bool fill_answer_thought(ey_answer *answer, struct arena *arena,
                                const struct engine_devices *devices, const struct thought *t,
                                ey_err *e)
{
    int end = t->open || t->end > answer->n_tokens ? answer->n_tokens : t->end;
    answer->thought = text_of_tokens(answer->tokens + t->first, end > t->first ? end - t->first : 0,
                                     arena, devices->tok, true, &answer->n_thought);
    if (!answer->thought) return ey_fail_memory(e, "the answer's thought", answer->n_thought);
    while (answer->n_thought && answer->thought[answer->n_thought - 1] == '\n')
        answer->thought[--answer->n_thought] = 0;
    answer->thought_tokens = t->text_first < answer->n_tokens ? t->text_first : answer->n_tokens;
    return true;
}

static bool fill_answer_text(ey_answer *answer, struct arena *arena,
                             const struct engine_devices *devices, ey_err *e)
{
    int first = answer->thought_tokens;
    answer->text = text_of_tokens(answer->tokens + first, answer->n_tokens - first, arena,
                                  devices->tok, first > 0, &answer->n_text);
    return answer->text || ey_fail_memory(e, "the answer's text", answer->n_text);
}

ey_logprob logprob_of(const ey_engine *engine, struct token_logprob s)
{
    ey_logprob out = {.id = s.id, .token = ey_token_text(engine, s.id), .logprob = s.logprob};
    out.bytes = tokenizer_bytes(engine->devices.tok, s.id, &out.n_bytes);
    return out;
}

static bool fill_answer_logprobs(ey_answer *answer, struct arena *arena, const ey_engine *engine,
                                 const struct output_tokens *output, ey_err *e)
{
    size_t first = (size_t)answer->thought_tokens, n = (size_t)output->n - first,
           n_top = (size_t)output->n_top;
    answer->logprobs = arena_array(arena, n + 1, sizeof(*answer->logprobs));
    ey_logprob *top = arena_array(arena, n * n_top + 1, sizeof(*top));
    if (!answer->logprobs || !top)
        return ey_fail_memory(e, "log-probabilities", n * n_top * sizeof(*top));
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < n_top; k++)
            top[i * n_top + k] = logprob_of(engine, output->top_logprobs[(first + i) * n_top + k]);
        answer->logprobs[i] = (ey_token_logprobs){logprob_of(engine, output->logprob[first + i]),
                                                  top + i * n_top, n_top};
    }
    answer->n_logprobs = n;
    return true;
}

bool answer_fill(ey_answer *answer, const ey_engine *engine, const struct output_tokens *output,
                 const struct thought *thought, ey_err *e)
{
    struct arena *arena = answer_arena(answer);
    answer->n_tokens = output->n - (output->ends_with_stop_id ? 1 : 0);
    answer->completion_tokens = output->n;
    answer->tokens = arena_array(arena, (size_t)answer->n_tokens + 1, sizeof(int));
    if (!answer->tokens)
        return ey_fail_memory(e, "the answer's tokens", (size_t)output->n * sizeof(int));
    for (int i = 0; i < answer->n_tokens; i++)
        answer->tokens[i] = output->id[i];
    return fill_answer_thought(answer, arena, &engine->devices, thought, e) &&
           fill_answer_text(answer, arena, &engine->devices, e) &&
           (!output->wants_logprobs || fill_answer_logprobs(answer, arena, engine, output, e));
}

void answer_cut_at_stop_string(ey_answer *answer, size_t from, const char *const *stop,
                               size_t n_stop)
{
    if (from > answer->n_text) from = answer->n_text;
    size_t n = from + stop_string_find(stop, n_stop, answer->text + from, answer->n_text - from);
    for (size_t i = 0; i < n_stop && n < answer->n_text && !answer->stop_text; i++)
        if (strncmp(answer->text + n, stop[i], strlen(stop[i])) == 0) answer->stop_text = stop[i];
    answer->n_text = n;
    answer->text[n] = 0;
}
