/* SPDX-License-Identifier: Apache-2.0 */
/* A list of messages that owns its parts, although the engine's structs declare them const. */
#include "cli/chat/conversation.h"

#include <stdlib.h>
#include <string.h>

bool conversation_open(struct conversation *c, ey_err *e)
{
    *c = (struct conversation){.message = calloc(EY_MAX_MESSAGES, sizeof(*c->message))};
    return c->message ||
           ey_fail_memory(e, "the conversation", EY_MAX_MESSAGES * sizeof(*c->message));
}

static void free_parts(const ey_part *parts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free((void *)parts[i].bytes);
}

static void free_message(ey_message *m)
{
    free_parts(m->parts, m->n_parts);
    free((void *)m->parts);
    *m = (ey_message){0};
}

static void free_image_names(struct conversation *c)
{
    while (c->n_images)
        free(c->image_names[--c->n_images]);
}

void conversation_clear(struct conversation *c)
{
    while (c->n > c->has_system)
        free_message(&c->message[--c->n]);
    free_parts(c->draft, c->n_draft);
    c->n_draft = 0;
    free_image_names(c);
}

void conversation_close(struct conversation *c)
{
    conversation_clear(c);
    if (c->has_system) free_message(&c->message[0]);
    free(c->message);
    *c = (struct conversation){0};
}

bool conversation_add_image(struct conversation *c, ey_part image, const char *name, ey_err *e)
{
    if (c->n_images == EY_MAX_IMAGES)
        return ey_fail(e, EY_TOO_LONG,
                       "the conversation already has %d images, the most that it can have",
                       EY_MAX_IMAGES);
    char *copy = strdup(name);
    if (!copy) return ey_fail_memory(e, "the conversation", strlen(name));
    c->draft[c->n_draft++] = image;
    c->image_names[c->n_images++] = copy;
    return true;
}

void conversation_shorten_draft(struct conversation *c, size_t n)
{
    while (c->n_draft > n) {
        free((void *)c->draft[--c->n_draft].bytes);
        free(c->image_names[--c->n_images]);
    }
}

/* Appends a message that consists of the images and a copy of the text. Takes ownership of the
 * images' bytes unless it fails. */
static bool conversation_append(struct conversation *c, const char *role, const ey_part *images,
                                size_t n_images, const char *text, size_t n, ey_err *e)
{
    ey_part *parts = calloc(n_images + 1, sizeof(*parts));
    char *copy = malloc(n + 1);
    if (!parts || !copy) {
        free(parts);
        free(copy);
        return ey_fail_memory(e, "the conversation", n + (n_images + 1) * sizeof(*parts));
    }
    if (n_images) memcpy(parts, images, n_images * sizeof(*parts));
    if (n) memcpy(copy, text, n);
    copy[n] = 0;
    parts[n_images] = (ey_part){.type = EY_PART_TEXT, .bytes = copy, .n_bytes = n};
    c->message[c->n++] = (ey_message){.role = role, .parts = parts, .n_parts = n_images + 1};
    return true;
}

const char *conversation_system(const struct conversation *c)
{
    return c->has_system ? c->message[0].parts[0].bytes : NULL;
}

bool conversation_set_system(struct conversation *c, const char *text, ey_err *e)
{
    if (text && !c->has_system) { /* it is appended and then moved to the front */
        if (c->n + 2 > EY_MAX_MESSAGES)
            return ey_fail(e, EY_TOO_LONG, "the conversation is too long for a system prompt");
        if (!conversation_append(c, "system", NULL, 0, text, strlen(text), e)) return false;
        ey_message system = c->message[c->n - 1];
        memmove(c->message + 1, c->message, (c->n - 1) * sizeof(*c->message));
        c->message[0] = system;
        c->has_system = true;
    } else if (text) {
        if (!conversation_append(c, "system", NULL, 0, text, strlen(text), e)) return false;
        free_message(&c->message[0]);
        c->message[0] = c->message[--c->n];
    } else if (c->has_system) {
        free_message(&c->message[0]);
        memmove(c->message, c->message + 1, --c->n * sizeof(*c->message));
        c->has_system = false;
    }
    return true;
}

bool conversation_say(struct conversation *c, const char *text, size_t n, ey_err *e)
{
    if (c->n + 3 > EY_MAX_MESSAGES) /* the message, its answer, and space for a system prompt */
        return ey_fail(e, EY_TOO_LONG,
                       "the conversation already has %zu messages, the most that it can have",
                       c->n);
    if (!conversation_append(c, "user", c->draft, c->n_draft, text, n, e)) return false;
    c->n_draft = 0;
    return true;
}

bool conversation_answer(struct conversation *c, const char *text, size_t n, ey_err *e)
{
    return conversation_append(c, "assistant", NULL, 0, text, n, e);
}

bool conversation_take_answer(struct conversation *c, ey_message *answer)
{
    if (c->n < 2 || strcmp(c->message[c->n - 1].role, "assistant") != 0) return false;
    *answer = c->message[--c->n];
    return true;
}

void conversation_put_answer(struct conversation *c, ey_message *answer)
{
    c->message[c->n++] = *answer;
    *answer = (ey_message){0};
}

void conversation_free_answer(ey_message *answer)
{
    free_message(answer);
}

/* Removes the names of the n images before the draft's. */
static void forget_names_before_draft(struct conversation *c, size_t n)
{
    size_t first = c->n_images - c->n_draft - n;
    for (size_t i = 0; i < n; i++)
        free(c->image_names[first + i]);
    memmove(c->image_names + first, c->image_names + first + n, c->n_draft * sizeof(char *));
    c->n_images -= n;
}

void conversation_undo(struct conversation *c, bool keep_images)
{
    ey_message *m = &c->message[--c->n];
    size_t n_images = m->n_parts - 1;
    if (keep_images) {
        memmove(c->draft + n_images, c->draft, c->n_draft * sizeof(*c->draft));
        memcpy(c->draft, m->parts, n_images * sizeof(*c->draft));
        c->n_draft += n_images;
        free((void *)m->parts[n_images].bytes);
        m->n_parts = 0;
    } else {
        forget_names_before_draft(c, n_images);
    }
    free_message(m);
}
