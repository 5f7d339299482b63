/* SPDX-License-Identifier: Apache-2.0 */
/* What a Jinja template says literally: the texts that it may write, and the names in its tags.
 * Nothing is run, so this tells what may be written, not when. */
#ifndef EY_MODELS_JINJA_LITERALS_H
#define EY_MODELS_JINJA_LITERALS_H

#include "base/buf.h"

enum jinja_kind {
    JINJA_TEXT,     /* outside tags, or a string of one, that may be written */
    JINJA_OTHER,    /* a string that is compared or passed to a function: it is not written */
    JINJA_NAME,     /* an identifier in a tag */
    JINJA_STATEMENT /* the first one of a statement: if, else, endif, set, ... */
};

struct jinja_literal {
    enum jinja_kind kind;
    const char *text; /* [n], valid until the next call */
    size_t n;
    int tag;         /* which one it is in, from 1; 0: outside */
    bool expression; /* that is a {{ }} */
};

struct jinja_reader {
    const char *at, *end;
    struct buf text; /* of the last literal */
    int n_tags;      /* opened so far */
    char closing;    /* the tag that `at` is in: '}' of an expression, '%' of a statement */
    bool trim_line,
        trim;       /* what the tag before takes away behind it: a line end; all white space */
    char before[3]; /* the last characters of the tag before `at` that are no blanks */
};

/* Reads with the options that transformers sets: trim_blocks and lstrip_blocks. */
struct jinja_reader jinja_reader_open(const char *text, size_t n);
void jinja_reader_close(struct jinja_reader *r);
/* False: the template is over, or memory. */
bool jinja_next(struct jinja_reader *r, struct jinja_literal *out);

#endif
