/* SPDX-License-Identifier: Apache-2.0 */
/* Separates the thought of an answer from its text by token ids: "</think>" spelled in several
 * tokens is text. Allocates nothing after thought_open(). */
#ifndef EY_ENGINE_THOUGHT_H
#define EY_ENGINE_THOUGHT_H

#include "base/err.h"
#include "eyelet/request.h"
#include "tokenizer/tokenizer.h"

enum { MAX_FORCED_TOKENS = EY_MAX_THINKING_END + 2, MAX_HELD_BREAKS = 256 };

enum token_place {
    TOKEN_OF_TEXT,
    TOKEN_OF_THOUGHT,
    TOKEN_HIDDEN /* opens or ends a thought */
};

struct thought {
    int32_t start_id, end_id, call_id; /* -1 if the vocabulary has none */
    bool possible;                     /* the answer is a turn and may begin with a thought */
    bool open;
    int budget;       /* most tokens of a thought; 0 is no limit */
    int first, end;   /* the thought's token range in the answer */
    int text_first;   /* first token of the text; INT_MAX before it begins */
    bool constrained; /* the text follows a grammar, so the thought's end is fixed */

    /* The tokens that end the thought when they are forced: those of request.thinking_end, or of
     * "\n</think>\n\n". The one at forced_behind_end - 1 is </think>; those before it belong to the
     * thought. forced_at is the index of the next token to force, or n_forced if none is left. In
     * the answer, n_was_forced tokens from first_forced on were forced, not sampled. */
    int32_t forced[MAX_FORCED_TOKENS];
    int n_forced, forced_at, forced_behind_end;
    int first_forced, n_was_forced;

    /* line breaks around the thought are dropped: at its ends, and before the text that follows */
    int held_breaks; /* the thought's trailing ones, pending until more text follows */
    bool thought_begun, text_begun;
};

/* How a thought begins and ends. */
struct thought_rules {
    bool possible;    /* the answer is a turn */
    bool opened;      /* the prompt ends inside the thought */
    bool constrained; /* the text that follows has a grammar */
    const char *end;  /* request.thinking_end */
};
/* Fails if memory runs out, or if `end` is not a valid request.thinking_end. */
bool thought_open(struct thought *t, const struct tokenizer *tok, const struct thought_rules *rules,
                  ey_err *e);
/* Classifies token `index` of the answer and advances the state. */
enum token_place thought_take(struct thought *t, int32_t id, int index);
/* Ends the thought before token `index`, which is hidden, and forces the thought's end. */
enum token_place thought_cut(struct thought *t, int index);
/* Forces the tokens that end the thought, from token `index` of the answer on. */
void thought_force_end(struct thought *t, int index);

/* Whether the next token is thought_forced_token() instead of a sampled one. */
static inline bool thought_is_forced(const struct thought *t)
{
    return t->forced_at < t->n_forced;
}
static inline int32_t thought_forced_token(const struct thought *t)
{
    return t->forced[t->forced_at];
}
/* Whether the thought goes on with the next token, be it sampled or forced. */
static inline bool thought_is_on(const struct thought *t)
{
    return t->open || t->forced_at + 1 < t->forced_behind_end;
}
/* Whether the next token belongs to the text. */
static inline bool thought_is_over(const struct thought *t)
{
    return !t->open && !thought_is_forced(t);
}
static inline bool thought_was_forced(const struct thought *t, int index)
{
    return index >= t->first_forced && index < t->first_forced + t->n_was_forced;
}
/* Returns the number of leading line breaks of text[n]. */
size_t count_line_breaks(const char *text, size_t n);

#endif
