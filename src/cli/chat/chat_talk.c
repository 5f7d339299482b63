/* SPDX-License-Identifier: Apache-2.0 */
/* Sends messages to the model and streams its answers. */
#include <string.h>

#include "cli/chat/chat.h"
#include "cli/terminal/cancel.h"
#include "cli/input_document.h"
#include "image/image.h"

/* Errors go to standard error, so that standard output has answers only. */
void chat_complain(struct chat *c, const ey_err *e)
{
    progress_clear(&c->cli.progress);
    fprintf(stderr, "eyelet: %s%s\n", e->text,
            e->code == EY_TOO_LONG ? "; /clear starts over" : "");
    c->failed = true;
}

static bool chat_add_page(struct chat *c, struct input_document *document, size_t i,
                          struct chat_images *added, ey_err *e)
{
    struct input page = {0};
    struct image seen = {0};
    bool ok = input_document_page(document, i, &page, e) &&
              image_decode(&seen, page.bytes, page.size, page.name, e) &&
              conversation_add_image(&c->conversation, cli_engine_image_part(&c->cli, &page),
                                     page.name, e);
    if (ok) page.bytes = NULL; /* the conversation owns it now */
    added->width = seen.width;
    added->height = seen.height;
    input_free(&page);
    image_free(&seen);
    return ok;
}

bool chat_add_image(struct chat *c, const char *path, struct chat_images *added, ey_err *e)
{
    struct input_document document;
    const size_t n_before = c->conversation.n_draft;
    bool ok = input_document_open(&document, path, c->cli.options, e);
    added->n = document.n;
    for (size_t i = 0; ok && i < document.n; i++)
        ok = chat_add_page(c, &document, i, added, e);
    /* a document is added whole or not at all */
    if (!ok) conversation_shorten_draft(&c->conversation, n_before);
    if (ok) input_note_animation(&document, path, c->cli.options);
    input_document_close(&document);
    return ok;
}

/* Prints why the engine ended the answer before the model did. */
static void print_stop_reason(const struct chat *c, const ey_answer *answer)
{
    int context = cli_engine_context_length(&c->cli);
    if (answer->finish_reason != EY_FINISH_LENGTH || c->cli.options->quiet) return;
    if (context && answer->prompt_tokens + answer->completion_tokens >= context)
        fprintf(stderr, "eyelet: the context of %d tokens is full; /clear starts over\n", context);
    else
        fprintf(stderr, "eyelet: the answer was cut after %d tokens; see --max-tokens%s\n",
                answer->completion_tokens, c->interactive ? ", or /set max-tokens N" : "");
}

/* Puts the earlier answer back, or removes the question if there was none. */
static void go_back(struct chat *c, ey_message *earlier, bool keep_images)
{
    if (earlier->role)
        conversation_put_answer(&c->conversation, earlier);
    else
        conversation_undo(&c->conversation, keep_images);
}

/* Adds the answer to the conversation. Drops it if it was stopped before it had any text. */
static bool keep_answer(struct chat *c, ey_message *earlier, const ey_answer *answer, ey_err *e)
{
    if (cancel_requested() && !answer->n_text) {
        if (c->interactive)
            fprintf(stderr, "stopped before the answer began; the %s\n",
                    earlier->role ? "earlier one is kept" : "message was removed");
        go_back(c, earlier, true);
        return true;
    }
    if (conversation_answer(&c->conversation, answer->text, answer->n_text, e)) return true;
    go_back(c, earlier, false);
    return false;
}

static bool chat_generate(struct chat *c, ey_answer *answer, ey_err *e)
{
    struct cli_engine *s = &c->cli;
    struct answer_sink sink = {s, true};
    ey_request request = cli_engine_request(s, c->conversation.message, c->conversation.n, false,
                                            &sink);
    bool ok = cli_engine_send(s, &request, NULL, answer, e);
    progress_clear(&s->progress);
    return ok;
}

/* Removes the question, or puts the earlier answer back. Keeps the images for the next message if
 * they did not cause the error. */
static void remove_question(struct chat *c, ey_message *earlier, const ey_err *e)
{
    const bool retried = earlier->role != NULL, keeps = e->code == EY_IO || e->code == EY_BUSY;
    go_back(c, earlier, keeps);
    if (!retried && keeps && c->conversation.n_draft && c->interactive)
        fprintf(stderr, "the message was removed; its images are sent with the next one\n");
}

/* Answers the conversation's last message. If that fails, its earlier answer, if any, is kept. */
static bool answer_question(struct chat *c, ey_message *earlier, ey_err *e)
{
    ey_answer answer = {0};
    bool ok = chat_generate(c, &answer, e);
    if (!ok) remove_question(c, earlier, e);
    if (ok) {
        if (!answer.n_text || answer.text[answer.n_text - 1] != '\n')
            term_write(&c->cli.out, "\n", 1);
        print_stop_reason(c, &answer);
        ok = keep_answer(c, earlier, &answer, e);
    }
    ey_answer_free(&answer);
    return ok;
}

void chat_send(struct chat *c, const char *text, size_t n)
{
    ey_err e;
    ey_message none = {0};
    bool ok = input_check_text(text, n, "the message", &e) &&
              conversation_say(&c->conversation, text, n, &e) && answer_question(c, &none, &e);
    if (!ok) chat_complain(c, &e);
}

void chat_send_again(struct chat *c)
{
    ey_err e;
    ey_message earlier = {0};
    bool ok = conversation_take_answer(&c->conversation, &earlier);
    if (!ok) ey_fail(&e, EY_BAD_REQUEST, "there is no answer yet that could be retried");
    if (ok) c->cli.seed++; /* the same seed would give the same answer */
    ok = ok && answer_question(c, &earlier, &e);
    conversation_free_answer(&earlier);
    if (!ok) chat_complain(c, &e);
}
