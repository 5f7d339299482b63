/* What the two files that read tokenizer.json share. */
#ifndef EY_TOKENIZER_TOK_LOAD_H
#define EY_TOKENIZER_TOK_LOAD_H

#include "base/json.h"
#include "tokenizer/tok_parts.h"

struct loading {
    struct tokenizer *tok;
    const json_object *root;
    const char *what; /* names the file */
    ey_err *e;
};

/* A value as it may stand in a message; lives as long as the value. */
const char *tok_shown(json_object *value);
/* Vocabulary, merges and added tokens; the pipeline (l->tok->nfc) is known already. */
bool tok_load_tables(struct loading *l, const json_object *model);

#endif
