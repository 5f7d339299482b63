/* SPDX-License-Identifier: Apache-2.0 */
/* Collects the pieces of a prompt and turns them into text or token ids. */
#include "models/chat/prompt_pieces.h"

#include <stdlib.h>
#include <string.h>

#include "base/limits.h"

struct prompt prompt_start(void)
{
    return (struct prompt){.text = buf_with_max(EY_MAX_TEXT_BYTES)};
}

void prompt_free(struct prompt *p)
{
    free(p->pieces);
    buf_free(&p->text);
    *p = (struct prompt){0};
}

static bool add_piece(struct prompt *p, struct prompt_piece piece, ey_err *e)
{
    if (p->n_pieces == p->capacity) {
        size_t capacity = p->capacity ? p->capacity * 2 : 16;
        struct prompt_piece *pieces = realloc(p->pieces, capacity * sizeof(*pieces));
        if (!pieces) return ey_fail_memory(e, "prompt", capacity * sizeof(*pieces));
        p->pieces = pieces;
        p->capacity = capacity;
    }
    p->pieces[p->n_pieces++] = piece;
    return true;
}

static bool add_prompt_bytes(struct prompt *p, const char *text, size_t n, ey_err *e)
{
    if (n > EY_MAX_TEXT_BYTES - p->text.size)
        return ey_fail(e, EY_TOO_LONG, "the messages have more than %d bytes of text",
                       EY_MAX_TEXT_BYTES);
    return buf_add(&p->text, text, n) || ey_fail_memory(e, "prompt", p->text.size + n);
}

bool prompt_add_text(struct prompt *p, const char *text, size_t n, ey_err *e)
{
    size_t at = p->text.size;
    if (n == 0) return true;
    if (!add_prompt_bytes(p, text, n, e)) return false;
    struct prompt_piece *last = p->n_pieces ? &p->pieces[p->n_pieces - 1] : NULL;
    if (last && last->type == PIECE_TEXT) {
        last->n += n;
        return true;
    }
    return add_piece(p, (struct prompt_piece){.type = PIECE_TEXT, .at = at, .n = n}, e);
}

bool prompt_add_special(struct prompt *p, const char *content, ey_err *e)
{
    return add_piece(p, (struct prompt_piece){.type = PIECE_SPECIAL, .special = content}, e);
}

bool prompt_add_tag(struct prompt *p, const char *content, ey_err *e)
{
    size_t at = p->text.size, n = strlen(content);
    return add_prompt_bytes(p, content, n, e) &&
           add_piece(p,
                     (struct prompt_piece){.type = PIECE_TAG, .at = at, .n = n, .special = content},
                     e);
}

bool prompt_add_image(struct prompt *p, ey_err *e)
{
    if (p->n_images == EY_MAX_IMAGES)
        return ey_fail(e, EY_BAD_REQUEST, "the messages have more than %d images", EY_MAX_IMAGES);
    return add_piece(p, (struct prompt_piece){.type = PIECE_IMAGE, .image = p->n_images++}, e);
}

/* ---- as text ---- */

static bool piece_text(const struct prompt *p, const struct prompt_piece *piece,
                       const struct vision_marks *marks, struct buf *out)
{
    switch (piece->type) {
    case PIECE_TEXT:
    case PIECE_TAG: return buf_add(out, p->text.data + piece->at, piece->n);
    case PIECE_SPECIAL: return buf_add_text(out, piece->special);
    case PIECE_IMAGE:
        return buf_add_text(out, marks->start) && buf_add_text(out, marks->pad) &&
               buf_add_text(out, marks->end);
    }
    return false;
}

bool prompt_text(const struct prompt *p, const struct vision_marks *marks, struct buf *out)
{
    for (size_t i = 0; i < p->n_pieces; i++)
        if (!piece_text(p, &p->pieces[i], marks, out)) return false;
    return true;
}

/* ---- as tokens ---- */

struct tokens_out {
    struct ids *ids;
    struct vision_span *spans;
    const struct prompt *prompt;
    const struct tokenizer *tok;
    const int *image_tokens;
    int32_t start, pad, end; /* -1 in a prompt without images */
    bool parse_special;
    ey_err *e;
};

static bool special_id(const struct tokenizer *tok, const char *content, int32_t *id, ey_err *e)
{
    *id = tokenizer_added_id(tok, content);
    return *id >= 0 ||
           ey_fail(e, EY_BAD_MODEL,
                   "the tokenizer has no token \"%s\", which the chat format needs", content);
}

static bool push_id(struct tokens_out *t, int32_t id)
{
    return ids_push(t->ids, id) ||
           ey_fail_memory(t->e, "prompt tokens", t->ids->n * sizeof(*t->ids->id));
}

static bool push_special(struct tokens_out *t, const char *content)
{
    int32_t id;
    return special_id(t->tok, content, &id, t->e) && push_id(t, id);
}

static bool piece_is_text(const struct tokens_out *t, const struct prompt_piece *piece)
{
    return piece->type == PIECE_TEXT ||
           (piece->type == PIECE_TAG && tokenizer_added_id(t->tok, piece->special) < 0);
}

/* Returns the number of pieces of text from piece `at` on. Their bytes are adjacent. */
static size_t count_texts(const struct tokens_out *t, size_t at)
{
    size_t end = at;
    while (end < t->prompt->n_pieces && piece_is_text(t, &t->prompt->pieces[end]))
        end++;
    return end - at;
}

/* Tokenizes n bytes of the prompt's text. Whitespace after a marker that absorbs it is dropped,
 * whoever wrote it. A pad token typed by a user would take an image's place and is refused, as in
 * the references. */
static bool push_text(struct tokens_out *t, size_t at, size_t n)
{
    size_t before = t->ids->n;
    const char *text = t->prompt->text.data + at;
    size_t swallowed = before ? tokenizer_rstrip_length(t->tok, t->ids->id[before - 1], text, n)
                              : 0;
    if (!tokenizer_encode(t->tok, text + swallowed, n - swallowed, t->parse_special, t->ids, t->e))
        return false;
    for (size_t i = before; i < t->ids->n && t->pad >= 0; i++)
        if (t->ids->id[i] == t->pad)
            return ey_fail(
                t->e, EY_BAD_REQUEST,
                "the text spells the image token, so images and their places do not match");
    return true;
}

static bool push_image(struct tokens_out *t, int image)
{
    int count = t->image_tokens[image];
    if (count < 1 || count > EY_MAX_CONTEXT)
        return ey_fail(t->e, EY_TOO_LONG, "image %d has %d tokens; it must have 1 to %d", image + 1,
                       count, EY_MAX_CONTEXT);
    if (!push_id(t, t->start)) return false;
    t->spans[image] = (struct vision_span){.first = t->ids->n, .count = (size_t)count};
    for (int i = 0; i < count; i++)
        if (!push_id(t, t->pad)) return false;
    return push_id(t, t->end);
}

/* Pushes n > 0 pieces of text as one, because words are split and merged across tags that the
 * tokenizer lacks. */
static bool push_texts(struct tokens_out *t, const struct prompt_piece *first, size_t n)
{
    const struct prompt_piece *last = &first[n - 1];
    return push_text(t, first->at, last->at + last->n - first->at);
}

static bool push_pieces(struct tokens_out *t)
{
    bool ok = true;
    for (size_t i = 0; ok && i < t->prompt->n_pieces;) {
        const struct prompt_piece *piece = &t->prompt->pieces[i];
        size_t n_texts = count_texts(t, i);
        if (n_texts)
            ok = push_texts(t, piece, n_texts);
        else if (piece->type == PIECE_IMAGE)
            ok = push_image(t, piece->image);
        else
            ok = push_special(t, piece->special);
        i += n_texts ? n_texts : 1;
    }
    return ok;
}

bool prompt_tokens(struct ids *out, struct vision_span *spans, const struct prompt *p,
                   const struct vision_marks *marks, const struct tokenizer *tok,
                   const int *image_tokens, bool parse_special, ey_err *e)
{
    struct tokens_out t = {.ids = out,
                           .spans = spans,
                           .prompt = p,
                           .tok = tok,
                           .image_tokens = image_tokens,
                           .start = -1,
                           .pad = -1,
                           .end = -1,
                           .parse_special = parse_special,
                           .e = e};
    bool marks_known = p->n_images == 0 || (special_id(tok, marks->start, &t.start, e) &&
                                            special_id(tok, marks->pad, &t.pad, e) &&
                                            special_id(tok, marks->end, &t.end, e));
    return marks_known && push_pieces(&t);
}
