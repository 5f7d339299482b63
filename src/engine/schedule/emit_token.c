/* SPDX-License-Identifier: Apache-2.0 */
/* Samples a request's next token and publishes the text or thought that it completes. */
#include "constrain/constrain.h"
#include "engine/schedule/schedule_internal.h"

/* Whether the model ends its answer within the thought, although the request has a grammar for the
 * text after it. Then only the thought ends, since an empty text does not match the grammar. */
static bool ends_only_thought(const ey_generation *gen, int32_t id)
{
    return gen->matcher && gen->thought.open && model_is_eos(&gen->engine->devices.model, id);
}

static bool is_stop_id(const ey_generation *gen, int32_t id)
{
    if ((!gen->ignore_eos || gen->matcher) && model_is_eos(&gen->engine->devices.model, id) &&
        !ends_only_thought(gen, id))
        return true;
    for (size_t i = 0; i < gen->n_stop_ids && gen->output.n > gen->min_tokens; i++)
        if (gen->stop_ids[i] == id) return true;
    return false;
}

/* Text completed by the last token. */
struct new_text {
    const char *text;
    size_t n;
};

/* Publishes thought text. Trailing line breaks are held back: they are dropped if the thought ends
 * there. */
static void publish_thought(ey_generation *gen)
{
    static const char breaks[MAX_HELD_BREAKS + 1] = {[0 ... MAX_HELD_BREAKS - 1] = '\n'};
    struct thought *t = &gen->thought;
    struct new_text new = {gen->token_text.data, gen->token_text.size};
    size_t before = gen->unread_text.size, last = new.n;
    while (last && new.text[last - 1] == '\n')
        last--;
    if (last) {
        size_t skipped = t->thought_begun ? 0 : count_line_breaks(new.text, new.n);
        buf_add(&gen->unread_text, breaks, (size_t)t->held_breaks);
        buf_add(&gen->unread_text, new.text + skipped, last - skipped);
        t->thought_begun = true;
        t->held_breaks = 0;
    }
    size_t held = t->thought_begun ? (size_t)t->held_breaks + new.n - last : 0;
    t->held_breaks = (int)(held < MAX_HELD_BREAKS ? held : MAX_HELD_BREAKS);
    gen->unread_thought += gen->unread_text.size - before;
}

/* Returns the new text without the line breaks between the thought and the text. */
static struct new_text text_behind_thought(ey_generation *gen)
{
    struct thought *t = &gen->thought;
    struct new_text new = {gen->token_text.data ? gen->token_text.data : "", gen->token_text.size};
    if (t->text_begun) return new;
    size_t skipped = count_line_breaks(new.text, new.n);
    t->text_begun = skipped < new.n;
    return (struct new_text){new.text + skipped, new.n - skipped};
}

/* Publishes the new text except a possible start of a stop string. Called under the lock. */
static void publish_text(ey_generation *gen)
{
    struct new_text new = text_behind_thought(gen);
    if (gen->output.n <= gen->min_tokens) { /* stop strings do not count yet, as in vLLM */
        buf_add(&gen->unread_text, new.text, new.n);
        gen->n_unstoppable += new.n;
        return;
    }
    size_t n = stop_matcher_add(&gen->stop_matcher, new.text, new.n);
    buf_add(&gen->unread_text, gen->stop_matcher.held_back.data, n);
    stop_matcher_drop(&gen->stop_matcher, n);
}

/* Publishes the rest at the answer's end: an incomplete character, and text that was held back as a
 * possible start of a stop string. */
static void publish_remaining_text(ey_generation *gen)
{
    buf_clear(&gen->token_text);
    if (gen->stop_matcher.stopped || !detok_finish(&gen->detok, &gen->token_text)) return;
    if (thought_is_on(&gen->thought)) {
        publish_thought(gen);
        return;
    }
    publish_text(gen);
    if (!gen->stop_matcher.stopped)
        buf_add(&gen->unread_text, gen->stop_matcher.held_back.data,
                gen->stop_matcher.held_back.size);
}

/* Publishes the thought's last bytes if they are an incomplete character, which was held back. */
static void end_thought(ey_generation *gen)
{
    buf_clear(&gen->token_text);
    if (detok_finish(&gen->detok, &gen->token_text)) publish_thought(gen);
    gen->detok = detok_start(gen->engine->devices.tok);
    loop_guard_begin(&gen->loop_guard, gen->output.n);
}

static int32_t next_token(ey_generation *gen, const struct step_row *row)
{
    struct output_tokens *output = &gen->output;
    if (!thought_is_forced(&gen->thought)) return sample_row(gen->engine, gen, row);
    int32_t id = thought_forced_token(&gen->thought);
    sampler_record_forced(&gen->slot->sampler, id);
    if (output->wants_logprobs) output->logprob[output->n] = (struct token_logprob){.id = id};
    return id;
}

/* If the tokens repeat in a loop, ends the thought, or the answer if no thought is open. */
static void look_for_loop(ey_generation *gen)
{
    struct output_tokens *output = &gen->output;
    ey_repetition found = loop_guard_add(&gen->loop_guard, output->id, output->n);
    if (!found.copies) return;
    if (gen->thought.open)
        thought_force_end(&gen->thought, output->n);
    else if (output->n >= gen->min_tokens)
        gen->answer.repetition = found;
}

/* Publishes a token as thought or text. Called under the lock. */
static void publish_token(ey_generation *gen, int32_t id, enum token_place place, bool was_thinking)
{
    const bool ends_thought = was_thinking && !thought_is_on(&gen->thought);
    if (ends_thought && place != TOKEN_OF_THOUGHT) end_thought(gen);
    buf_clear(&gen->token_text);
    if (place != TOKEN_HIDDEN && detok_push(&gen->detok, id, &gen->token_text)) {
        if (place == TOKEN_OF_THOUGHT)
            publish_thought(gen);
        else
            publish_text(gen);
    }
    if (ends_thought && place == TOKEN_OF_THOUGHT) end_thought(gen);
}

bool generation_emit_token(ey_generation *gen, const struct step_row *row)
{
    struct output_tokens *output = &gen->output;
    const bool forced = thought_is_forced(&gen->thought),
               was_thinking = thought_is_on(&gen->thought),
               constrained = generation_is_constrained(gen);
    int32_t id = next_token(gen, row);
    output->id[output->n++] = id;
    output->ends_with_stop_id = !forced && is_stop_id(gen, id);
    if (output->ends_with_stop_id) gen->answer.stop_id = id;
    if (constrained && !output->ends_with_stop_id)
        gen->grammar_complete = !matcher_accept_token(gen->matcher, id) ||
                                matcher_must_end(gen->matcher);
    pthread_mutex_lock(&gen->engine->scheduler.lock);
    if (!output->ends_with_stop_id) {
        enum token_place place = ends_only_thought(gen, id)
                                     ? thought_cut(&gen->thought, output->n - 1)
                                     : thought_take(&gen->thought, id, output->n - 1);
        if (place != TOKEN_HIDDEN && !forced) look_for_loop(gen);
        publish_token(gen, id, place, was_thinking);
    }
    bool over = output->ends_with_stop_id || gen->stop_matcher.stopped || gen->grammar_complete ||
                gen->answer.repetition.copies || output->n == output->max_tokens;
    if (over) publish_remaining_text(gen);
    gen->n_tokens = output->n;
    gen->unread_tokens++;
    generation_progress(gen, EY_PHASE_DECODE, output->n, output->max_tokens);
    pthread_mutex_unlock(&gen->engine->scheduler.lock);
    return over;
}
