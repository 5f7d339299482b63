/* SPDX-License-Identifier: Apache-2.0 */
/* From a sampled token to the text that its reader gets. */
#include "constrain/constrain.h"
#include "engine/schedule/schedule_internal.h"

static bool is_stop_id(const ey_generation *gen, int32_t id)
{
    if ((!gen->ignore_eos || gen->matcher) && model_is_eos(&gen->engine->devices.model, id))
        return true;
    for (size_t i = 0; i < gen->n_stop_ids && gen->output.n > gen->min_tokens; i++)
        if (gen->stop_ids[i] == id) return true;
    return false;
}

/* Publishes what the token completed, except a possible start of a stop string. Under the lock. */
static void publish_text(ey_generation *gen)
{
    if (gen->output.n <= gen->min_tokens) { /* stop texts do not count yet, as in vLLM */
        buf_add(&gen->unread_text, gen->token_text.data ? gen->token_text.data : "",
                gen->token_text.size);
        gen->n_unstoppable += gen->token_text.size;
        return;
    }
    size_t n = stop_matcher_add(
        &gen->stop_matcher, gen->token_text.data ? gen->token_text.data : "", gen->token_text.size);
    buf_add(&gen->unread_text, gen->stop_matcher.held_back.data, n);
    stop_matcher_drop(&gen->stop_matcher, n);
}

/* The last token may have left an incomplete character, and text held back is no stop string after
 * all. */
static void publish_remaining_text(ey_generation *gen)
{
    buf_clear(&gen->token_text);
    if (gen->stop_matcher.stopped || !detok_finish(&gen->detok, &gen->token_text)) return;
    publish_text(gen);
    if (!gen->stop_matcher.stopped)
        buf_add(&gen->unread_text, gen->stop_matcher.held_back.data,
                gen->stop_matcher.held_back.size);
}

bool generation_emit_token(ey_generation *gen, const struct step_row *row)
{
    struct output_tokens *output = &gen->output;
    int32_t id = sample_row(gen->engine, gen, row);
    output->id[output->n++] = id;
    output->ends_with_stop_id = is_stop_id(gen, id);
    if (output->ends_with_stop_id) gen->answer.stop_id = id;
    if (gen->matcher && !output->ends_with_stop_id)
        gen->grammar_complete = !matcher_accept_token(gen->matcher, id) ||
                                matcher_must_end(gen->matcher);
    buf_clear(&gen->token_text);
    bool more = !output->ends_with_stop_id && detok_push(&gen->detok, id, &gen->token_text);
    pthread_mutex_lock(&gen->engine->scheduler.lock);
    if (more) publish_text(gen);
    bool over = output->ends_with_stop_id || gen->stop_matcher.stopped || gen->grammar_complete ||
                output->n == output->max_tokens;
    if (over) publish_remaining_text(gen);
    gen->n_tokens = output->n;
    gen->unread_tokens++;
    generation_progress(gen, EY_PHASE_DECODE, output->n, output->max_tokens);
    pthread_mutex_unlock(&gen->engine->scheduler.lock);
    return over;
}
