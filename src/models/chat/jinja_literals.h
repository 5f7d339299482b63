/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the literals of a Jinja template: the texts that it may write, and the names in its tags.
 * Nothing is run, so this shows what may be written, not when. */
#ifndef EY_MODELS_JINJA_LITERALS_H
#define EY_MODELS_JINJA_LITERALS_H

#include "base/buf.h"

enum jinja_kind {
    JINJA_TEXT,     /* text outside tags, or a string in a tag that may be written */
    JINJA_OTHER,    /* a string that is compared or passed to a function */
    JINJA_NAME,     /* an identifier in a tag */
    JINJA_STATEMENT /* first identifier of a statement: if, else, endif, set, ... */
};

struct jinja_literal {
    enum jinja_kind kind;
    const char *text; /* [n], valid until the next call */
    size_t n;
    int tag;         /* number of its tag from 1, or 0 outside of tags */
    bool expression; /* the tag is a {{ }} */
};

struct jinja_reader {
    const char *at, *end;
    struct buf text;      /* text of the last literal */
    int n_tags;           /* tags opened so far */
    char closing;         /* kind of the current tag: '}' of an expression, '%' of a statement */
    bool trim_line, trim; /* the last tag strips a following line end; all following whitespace */
    char before[3];       /* the last non-blank characters of the tag before `at` */
};

/* Opens a reader with the options that transformers sets: trim_blocks and lstrip_blocks. */
struct jinja_reader jinja_reader_open(const char *text, size_t n);
void jinja_reader_close(struct jinja_reader *r);
/* Reads the next literal. Returns false at the template's end or without memory. */
bool jinja_next(struct jinja_reader *r, struct jinja_literal *out);

#endif
