/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/request/thought.h"

#include <limits.h>
#include <string.h>

#define END_MARK "</think>"
#define DEFAULT_END "\n" END_MARK "\n\n"

size_t count_line_breaks(const char *text, size_t n)
{
    size_t at = 0;
    while (at < n && text[at] == '\n')
        at++;
    return at;
}

/* Appends the tokens of the text before or after "</think>" to the forced tokens. */
static bool add_forced_text(struct thought *t, const struct tokenizer *tok, const char *text,
                            size_t n, ey_err *e)
{
    struct ids ids = {0};
    bool ok = tokenizer_encode(tok, text, n, false, &ids, e);
    /* Normalization may make the text longer than its limit. One token is reserved for </think>. */
    if (ok && ids.n + (size_t)t->n_forced >= MAX_FORCED_TOKENS)
        ok = ey_fail(e, EY_BAD_REQUEST,
                     "the text that ends a thought has more than %d tokens; shorten it",
                     MAX_FORCED_TOKENS - 1);
    for (size_t i = 0; ok && i < ids.n; i++)
        t->forced[t->n_forced++] = ids.id[i];
    ids_free(&ids);
    return ok;
}

static bool make_forced_end(struct thought *t, const struct tokenizer *tok, const char *text,
                            ey_err *e)
{
    const char *mark = strstr(text, END_MARK), *behind = mark ? mark + strlen(END_MARK) : NULL;
    if (!mark || strstr(behind, END_MARK) || strlen(text) > EY_MAX_THINKING_END)
        return ey_fail(e, EY_BAD_REQUEST,
                       "the text that ends a thought must have %s once, and at most %d bytes",
                       END_MARK, EY_MAX_THINKING_END);
    if (!add_forced_text(t, tok, text, (size_t)(mark - text), e)) return false;
    t->forced[t->n_forced++] = t->end_id;
    t->forced_behind_end = t->n_forced;
    bool ok = add_forced_text(t, tok, behind, strlen(behind), e);
    t->forced_at = t->n_forced;
    return ok;
}

bool thought_open(struct thought *t, const struct tokenizer *tok, const struct thought_rules *rules,
                  ey_err *e)
{
    *t = (struct thought){.start_id = tokenizer_added_id(tok, "<think>"),
                          .end_id = tokenizer_added_id(tok, END_MARK),
                          .call_id = tokenizer_added_id(tok, "<tool_call>"),
                          .constrained = rules->constrained,
                          .text_begun = !rules->opened};
    t->possible = rules->possible && t->start_id >= 0 && t->end_id >= 0;
    t->open = t->possible && rules->opened;
    t->text_first = t->open ? INT_MAX : 0;
    return !t->possible || make_forced_end(t, tok, rules->end ? rules->end : DEFAULT_END, e);
}

/* Forces the end's tokens from `at` on; the first of them is the answer's token `index`. */
static void force_from(struct thought *t, int at, int index)
{
    t->forced_at = at;
    t->first_forced = index;
    t->n_was_forced = t->n_forced - at;
    if (t->forced_at == t->n_forced) t->text_first = index;
}

void thought_force_end(struct thought *t, int index)
{
    t->open = false;
    t->end = index;
    force_from(t, 0, index);
}

static enum token_place take_first(struct thought *t)
{
    t->open = true;
    t->first = 1;
    t->text_first = INT_MAX;
    t->text_begun = false;
    return TOKEN_HIDDEN;
}

static enum token_place take_end(struct thought *t, int index)
{
    t->open = false;
    t->end = index;
    if (t->constrained)
        force_from(t, t->forced_behind_end, index + 1);
    else
        t->text_first = index + 1;
    return TOKEN_HIDDEN;
}

enum token_place thought_cut(struct thought *t, int index)
{
    thought_force_end(t, index + 1);
    t->end = index;
    return TOKEN_HIDDEN;
}

/* A tool call ends the thought. Without a grammar, the call is the beginning of the text. With one,
 * its token is hidden, and the thought's end is forced. */
static enum token_place take_call(struct thought *t, int index)
{
    if (t->constrained) return thought_cut(t, index);
    t->open = false;
    t->end = t->text_first = index;
    return TOKEN_OF_TEXT;
}

enum token_place thought_take(struct thought *t, int32_t id, int index)
{
    if (thought_is_forced(t)) {
        const bool goes_on = thought_is_on(t) && t->end == index; /* no hidden token between */
        if (goes_on) t->end = index + 1;
        if (++t->forced_at == t->n_forced) t->text_first = index + 1;
        return goes_on ? TOKEN_OF_THOUGHT : TOKEN_HIDDEN;
    }
    if (t->possible && index == 0 && id == t->start_id) return take_first(t);
    if (!t->open) return TOKEN_OF_TEXT;
    if (id == t->end_id) return take_end(t, index);
    if (id == t->call_id) return take_call(t, index);
    if (t->budget && index + 1 - t->first >= t->budget) thought_force_end(t, index + 1);
    return TOKEN_OF_THOUGHT;
}
