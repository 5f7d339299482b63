/* SPDX-License-Identifier: Apache-2.0 */
/* A prompt between chat template and token ids: pieces of text, special tokens and image
 * placeholders.
 *
 * A family's template (qwen3vl_chat.c) writes its markers as special tokens and users' text as
 * text, so <|image_pad|> typed by a user stays these characters and is no image token. */
#ifndef EY_MODELS_CHAT_PROMPT_PIECES_H
#define EY_MODELS_CHAT_PROMPT_PIECES_H

#include "base/buf.h"
#include "tokenizer/tokenizer.h"

enum prompt_piece_type { PIECE_TEXT, PIECE_SPECIAL, PIECE_TAG, PIECE_IMAGE };

struct prompt_piece {
    enum prompt_piece_type type;
    size_t at, n;        /* TEXT, TAG: bytes of prompt.text */
    const char *special; /* SPECIAL, TAG: the token's content, a static string */
    int image;           /* IMAGE: index in the request, from 0 */
};

struct prompt {
    struct prompt_piece *pieces;
    size_t n_pieces, capacity;
    struct buf text; /* bytes of all text pieces and tags */
    int n_images;
};

/* The tokens of an image: start, one pad for each visual token, end. */
struct vision_marks {
    const char *start, *pad, *end;
};

struct prompt prompt_start(void);
void prompt_free(struct prompt *p);
/* Appends text. Consecutive text becomes one piece, because words are split within pieces. */
bool prompt_add_text(struct prompt *p, const char *text, size_t n, ey_err *e);
bool prompt_add_special(struct prompt *p, const char *content, ey_err *e);
/* Appends a special token that only some tokenizers have; with the others it is part of the text
 * around it. */
bool prompt_add_tag(struct prompt *p, const char *content, ey_err *e);
bool prompt_add_image(struct prompt *p, ey_err *e);

/* Appends the prompt as the template would render it, with one pad per image. */
bool prompt_text(const struct prompt *p, const struct vision_marks *marks, struct buf *out);

/* The position of an image's pads among the ids. */
struct vision_span {
    size_t first, count;
};
/* Appends the prompt's ids with image_tokens[i] pads for image i, and fills spans[p->n_images].
 * parse_special: text that spells an added token becomes that token; with images, text must not
 * spell a pad then. */
bool prompt_tokens(struct ids *out, struct vision_span *spans, const struct prompt *p,
                   const struct vision_marks *marks, const struct tokenizer *tok,
                   const int *image_tokens, bool parse_special, ey_err *e);

#endif
