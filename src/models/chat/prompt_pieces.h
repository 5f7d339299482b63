/* SPDX-License-Identifier: Apache-2.0 */
/* A prompt between chat template and token ids: pieces of text, special tokens and places for
 * images.
 *
 * A family's template (qwen3vl/chat.c) writes its own markers as special tokens and what people
 * wrote as text, so a person who types <|image_pad|> gets those characters and no vision token.
 * Text in, text out: no tensors here. */
#ifndef EY_MODELS_PROMPT_H
#define EY_MODELS_PROMPT_H

#include "base/buf.h"
#include "tokenizer/tokenizer.h"

enum prompt_piece_type { PIECE_TEXT, PIECE_SPECIAL, PIECE_IMAGE };

struct prompt_piece {
    enum prompt_piece_type type;
    size_t at, n;        /* TEXT: bytes of prompt.text */
    const char *special; /* SPECIAL: the token's content, a static string */
    int image;           /* IMAGE: which one, from 0 in the order of the request */
};

struct prompt {
    struct prompt_piece *pieces;
    size_t n_pieces, capacity;
    struct buf text; /* of all text pieces */
    int n_images;
};

/* Contents of the tokens that stand for an image: start, as many pads as it has tokens, end. */
struct vision_marks {
    const char *start, *pad, *end;
};

struct prompt prompt_start(void);
void prompt_free(struct prompt *p);
/* Text behind text makes one piece, because words are cut from pieces. */
bool prompt_add_text(struct prompt *p, const char *text, size_t n, ey_err *e);
bool prompt_add_special(struct prompt *p, const char *content, ey_err *e);
bool prompt_add_image(struct prompt *p, ey_err *e);

/* Appends the prompt as the template would have rendered it, one pad an image. */
bool prompt_text(const struct prompt *p, const struct vision_marks *marks, struct buf *out);

/* Where an image's pads are among the ids. */
struct vision_span {
    size_t first, count;
};
/* Appends the prompt's ids, with image_tokens[i] pads for image i, and fills spans[p->n_images].
 * parse_special: text that spells an added token becomes it; then no text may spell a pad if there
 * are images. */
bool prompt_tokens(struct ids *out, struct vision_span *spans, const struct prompt *p,
                   const struct vision_marks *marks, const struct tokenizer *tok,
                   const int *image_tokens, bool parse_special, ey_err *e);

#endif
