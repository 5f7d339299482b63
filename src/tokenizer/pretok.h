/* SPDX-License-Identifier: Apache-2.0 */
/* Splits a segment of text into pre-tokens: each match of a pattern is a piece, and so is the text
 * between two matches. */
#ifndef EY_TOKENIZER_PRETOK_H
#define EY_TOKENIZER_PRETOK_H

#include "base/err.h"

#define PRETOK_GPT2_PATTERN \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

struct pretok {
    void *code; /* pcre2_code, read-only once compiled */
};

bool pretok_compile(struct pretok *p, const char *pattern, size_t n, const char *what, ey_err *e);
void pretok_finish(struct pretok *p);

struct pretok_scan {
    const struct pretok *pretok;
    void *match, *context;
    const char *text; /* well-formed UTF-8, borrowed */
    size_t n;
    size_t at;                     /* end of the last piece */
    size_t match_begin, match_end; /* a match found but not yet returned, if match_end > at */
    size_t search;                 /* offset of the next search */
    bool exhausted;                /* no more matches */
};

/* Initializes a scan, one per thread, for any number of segments. */
bool pretok_scan_init(struct pretok_scan *s, const struct pretok *p, ey_err *e);
void pretok_scan_finish(struct pretok_scan *s);
void pretok_scan_begin(struct pretok_scan *s, const char *text, size_t n);
/* Returns the next piece [*begin, *end) of the segment; *begin == *end at its end. */
bool pretok_scan_next(struct pretok_scan *s, size_t *begin, size_t *end, ey_err *e);

#endif
