/* SPDX-License-Identifier: Apache-2.0 */
/* Thought and text of an answer, told apart by token ids: the words "</think>" spelled in several
 * tokens are text. Allocates nothing. */
#ifndef EY_ENGINE_THOUGHT_H
#define EY_ENGINE_THOUGHT_H

#include "base/err.h"
#include "tokenizer/tokenizer.h"

enum { MAX_FORCED_TOKENS = 16, MAX_HELD_BREAKS = 256 };

enum token_place {
    TOKEN_OF_TEXT,
    TOKEN_OF_THOUGHT,
    TOKEN_HIDDEN /* it opens or ends a thought */
};

struct thought {
    int32_t start_id, end_id, call_id; /* -1: the vocabulary has none */
    bool possible;                     /* the answer is a turn, which may begin with a thought */
    bool open;
    int budget;       /* tokens of the thought; 0: no limit */
    int first, end;   /* the thought's tokens among the answer's */
    int text_first;   /* the text's first one; INT_MAX: it has not begun */
    bool constrained; /* the text is, so it begins behind a fixed end */

    /* "\n</think>\n\n"; forced_at is the next of them, n_forced: none is forced. They were not
     * drawn: n_was_forced, from first_forced on among the answer's tokens. */
    int32_t forced[MAX_FORCED_TOKENS];
    int n_forced, forced_at, forced_behind_end;
    int first_forced, n_was_forced;

    /* line breaks at the ends of both are left out */
    int held_breaks; /* of the thought: they wait for what follows */
    bool thought_begun, text_begun;
};

/* `opened`: by the prompt. False: no memory. */
bool thought_open(struct thought *t, const struct tokenizer *tok, bool possible, bool opened,
                  bool constrained, ey_err *e);
/* Where token `index` of the answer belongs; moves on. */
enum token_place thought_take(struct thought *t, int32_t id, int index);
/* The next tokens are the thought's end. */
void thought_force_end(struct thought *t, int index);

/* The next token is thought_forced_token() and is not drawn. */
static inline bool thought_is_forced(const struct thought *t)
{
    return t->forced_at < t->n_forced;
}
static inline int32_t thought_forced_token(const struct thought *t)
{
    return t->forced[t->forced_at];
}
/* The next token is one of the text. */
static inline bool thought_is_over(const struct thought *t)
{
    return !t->open && !thought_is_forced(t);
}
static inline bool thought_was_forced(const struct thought *t, int index)
{
    return index >= t->first_forced && index < t->first_forced + t->n_was_forced;
}
/* Line breaks at the front of text[n]. */
size_t count_line_breaks(const char *text, size_t n);

#endif
