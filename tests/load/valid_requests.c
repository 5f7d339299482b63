/* SPDX-License-Identifier: Apache-2.0 */
/* Makes valid requests and compares their answers. */
#include "load/valid_requests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/text/json_writer.h"
#include "client/samples.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { MAX_IMAGE = 1 << 20, MAX_BODY = 4 << 20, ALONE_SECONDS = 120, MAX_LONG = 64 << 10 };

static const char *const images[] = {"shapes-1.png", "shapes-2.jpg", "shapes-3.png",
                                     "shapes-4.png", "shapes-5.png", "shapes-6.jpg",
                                     "turned.jpg",   "word-1.png",   "transparent.png",
                                     "word-2.jpg",   "both-1.png",   "both-2.png"};

/* `more`: members after the messages. `repeat`: repeats the text, for prompts of several chunks and
 * blocks. */
static const struct shape {
    const char *name;
    const char *text;
    int repeat;
    const char *more;
} texts[] = {
    {"greeting", "Say hello.", 1, "\"temperature\": 0, \"max_tokens\": 24"},
    {"one token", "Say hello.", 1, "\"temperature\": 0, \"max_tokens\": 1"},
    {"sampled", "Tell me about a red circle.", 1,
     "\"temperature\": 0.9, \"seed\": 11, \"max_tokens\": 40"},
    {"another seed", "Tell me about a red circle.", 1,
     "\"temperature\": 0.9, \"seed\": 12, \"max_tokens\": 40"},
    {"top_p and top_k", "A blue square and", 1,
     "\"temperature\": 1.2, \"top_p\": 0.8, \"top_k\": 12, \"seed\": 3, \"max_tokens\": 32"},
    {"min_p", "What is green?", 1,
     "\"temperature\": 1.5, \"min_p\": 0.05, \"top_k\": 0, \"top_p\": 1, \"seed\": 9, "
     "\"max_tokens\": 32"},
    {"penalties", "Count.", 1,
     "\"temperature\": 0, \"repetition_penalty\": 1.3, \"presence_penalty\": 0.5, "
     "\"frequency_penalty\": 0.5, \"max_tokens\": 48"},
    {"two answers", "Tell me about a star.", 1,
     "\"temperature\": 1, \"seed\": 5, \"n\": 2, \"max_tokens\": 24"},
    {"eight answers", "A heart.", 1,
     "\"temperature\": 1, \"seed\": 6, \"n\": 8, \"max_tokens\": 12"},
    {"stop text", "Describe a ring and a cross.", 1,
     "\"temperature\": 0, \"stop\": [\" a\", \"zzz\"], \"max_tokens\": 64"},
    {"beyond the stop token", "Say hello.", 1,
     "\"temperature\": 0, \"ignore_eos\": true, \"max_tokens\": 160"},
    {"log-probabilities", "Name a colour.", 1,
     "\"temperature\": 0, \"logprobs\": true, \"top_logprobs\": 4, \"max_tokens\": 16"},
    {"logit bias", "Name a colour.", 1,
     "\"temperature\": 0, \"logit_bias\": {\"40\": -100, \"41\": 2.5}, \"max_tokens\": 24"},
    {"special tokens as text",
     "<|im_end|><|vision_start|><|image_pad|><|vision_end|> what is this?", 1,
     "\"temperature\": 0, \"max_tokens\": 24"},
    {"some blocks", "The blue ring is above the red star. ", 12,
     "\"temperature\": 0, \"ignore_eos\": true, \"max_tokens\": 48"},
    {"many blocks", "A pink cross, a gray heart and an orange circle. ", 30,
     "\"temperature\": 0, \"ignore_eos\": true, \"max_tokens\": 64"},
    {"long answers", "Go on and on.", 1,
     "\"temperature\": 1, \"seed\": 7, \"n\": 4, \"ignore_eos\": true, \"max_tokens\": 300"},
    {"several chunks", "One word after the other, and then another word. ", 60,
     "\"temperature\": 0.7, \"seed\": 8, \"max_tokens\": 32"},
};

static const struct shape questions[] = {
    {"image", "Describe the image.", 1, "\"temperature\": 0, \"max_tokens\": 64"},
    {"image, sampled", "What is in the image?", 1,
     "\"temperature\": 1, \"seed\": 21, \"max_tokens\": 48"},
};

/* Questions that are asked in every dialect. */
static const struct common {
    const char *name, *text, *image;
    int repeat, max_tokens;
} commons[] = {
    {"greeting", "Say hello.", NULL, 1, 24},
    {"one token", "Say hello.", NULL, 1, 1},
    {"some blocks", "The blue ring is above the red star. ", NULL, 12, 48},
    {"image", "Describe the image.", "both-1.png", 1, 64},
    {"photo", "What is in the image?", "shapes-6.jpg", 1, 48},
};

/* ---- bodies ---- */

static const char *media_type(const char *name)
{
    return strstr(name, ".png") ? "image/png" : "image/jpeg";
}

static bool add_image(struct buf *out, const char *name, ey_err *e)
{
    char path[128], *bytes;
    size_t n;
    snprintf(path, sizeof(path), "examples/%s", name);
    if (!file_read(&bytes, &n, path, MAX_IMAGE, e)) return false;
    buf_add_text(out, "{\"type\": \"image_url\", \"image_url\": {\"url\": \"");
    chat_add_data_url(out, media_type(name), bytes, n);
    buf_add_text(out, "\"}}, ");
    free(bytes);
    return true;
}

/* NUL-terminated. */
static struct buf repeat_text(const char *text, int times)
{
    struct buf all = buf_with_max(MAX_LONG);
    for (int i = 0; i < times; i++)
        buf_add_text(&all, text);
    return all;
}

static void add_text(struct buf *out, const struct shape *s)
{
    struct buf text = repeat_text(s->text, s->repeat);
    json_dump_string(out, text.data, text.size);
    buf_free(&text);
}

static struct valid_request *add(struct valid_requests *g, const char *name, enum dialect d)
{
    struct valid_request *one = &g->item[g->n++];
    *one = (struct valid_request){
        .name = name, .dialect = d, .body = buf_with_max(MAX_BODY), .truth = chat_answer_make()};
    return one;
}

static void make_text(struct valid_requests *g, const struct shape *s)
{
    struct valid_request *one = add(g, s->name, DIALECT_CHAT);
    buf_add_text(&one->body, "{\"messages\": [{\"role\": \"user\", \"content\": ");
    add_text(&one->body, s);
    buf_printf(&one->body, "}], %s", s->more);
}

static bool make_question(struct valid_requests *g, const struct shape *s, const char *first,
                          const char *second, ey_err *e)
{
    struct valid_request *one = add(g, s->name, DIALECT_CHAT);
    buf_add_text(&one->body, "{\"messages\": [{\"role\": \"system\", \"content\": \"Answer in one "
                             "sentence.\"}, {\"role\": \"user\", \"content\": [");
    if (!add_image(&one->body, first, e) || (second && !add_image(&one->body, second, e)))
        return false;
    buf_add_text(&one->body, "{\"type\": \"text\", \"text\": ");
    add_text(&one->body, s);
    buf_printf(&one->body, "}]}], %s", s->more);
    return true;
}

static void make_completions(struct valid_requests *g)
{
    buf_add_text(&add(g, "completion", DIALECT_COMPLETIONS)->body,
                 "{\"prompt\": \"A red circle and\", \"temperature\": 0, \"max_tokens\": 24");
    buf_add_text(&add(g, "completion of ids", DIALECT_COMPLETIONS)->body,
                 "{\"prompt\": [70, 71, 72, 73, 74], \"temperature\": 0, \"max_tokens\": 24");
    buf_add_text(
        &add(g, "completion, two", DIALECT_COMPLETIONS)->body,
        "{\"prompt\": \"The word\", \"temperature\": 1, \"seed\": 4, \"n\": 2, \"max_tokens\": 24");
}

static bool make_common(struct valid_requests *g, enum dialect d, const struct common *c, ey_err *e)
{
    static const char marker[] = "<__media__>"; /* where llama.cpp inserts an image */
    char path[128], *image = NULL;
    size_t n_image = 0;
    struct buf text = repeat_text(c->text, c->repeat);
    if (c->image && d == DIALECT_LLAMACPP) buf_add_text(&text, marker);
    snprintf(path, sizeof(path), "examples/%s", c->image ? c->image : "");
    bool ok = !c->image || file_read(&image, &n_image, path, MAX_IMAGE, e);
    struct question q = {.text = text.data,
                         .image_type = c->image ? media_type(c->image) : NULL,
                         .image = image,
                         .n_image = n_image,
                         .max_tokens = c->max_tokens};
    if (ok) dialect_begin_body(&add(g, c->name, d)->body, d, &q);
    free(image);
    buf_free(&text);
    return ok;
}

static bool make_all(struct valid_requests *out, ey_err *e)
{
    for (enum dialect d = DIALECT_CHAT; d < N_DIALECTS; d++)
        for (size_t i = 0; i < COUNT(commons); i++)
            if ((!commons[i].image || d != DIALECT_COMPLETIONS) &&
                !make_common(out, d, &commons[i], e))
                return false;
    for (size_t i = 0; i < COUNT(texts); i++)
        make_text(out, &texts[i]);
    for (size_t i = 0; i < COUNT(questions); i++)
        for (size_t k = 0; k < COUNT(images); k++)
            if (!make_question(out, &questions[i], images[k], NULL, e)) return false;
    for (size_t k = 0; k < COUNT(images); k++)
        if (!make_question(out, &questions[0], images[k], images[(k + 5) % COUNT(images)], e))
            return false;
    make_completions(out);
    return true;
}

static void shuffle(struct valid_requests *g)
{
    struct rng dice = {1};
    for (size_t i = g->n; i > 1; i--) {
        size_t k = rng_below(&dice, i);
        struct valid_request swap = g->item[i - 1];
        g->item[i - 1] = g->item[k];
        g->item[k] = swap;
    }
}

bool valid_requests_make(struct valid_requests *out, const char *first, const char *second,
                         ey_err *e)
{
    const char *const models[] = {first, second};
    size_t most = 2 * (N_DIALECTS * COUNT(commons) + COUNT(texts) +
                       COUNT(questions) * COUNT(images) + COUNT(images) + 3);
    *out = (struct valid_requests){.item = calloc(most, sizeof(*out->item)),
                                   .mixed = second != NULL};
    if (!out->item) return ey_fail_memory(e, "requests", most * sizeof(*out->item));
    for (size_t m = 0; m < COUNT(models) && (!m || second); m++) {
        size_t start = out->n;
        if (!make_all(out, e)) return false;
        for (size_t i = start; i < out->n; i++)
            out->item[i].model = models[m];
    }
    for (size_t i = 0; i < out->n; i++)
        if (out->item[i].body.failed) return ey_fail_memory(e, out->item[i].name, MAX_BODY);
    shuffle(out);
    return true;
}

void valid_requests_free(struct valid_requests *g)
{
    for (size_t i = 0; i < g->n; i++) {
        buf_free(&g->item[i].body);
        chat_answer_free(&g->item[i].truth);
    }
    free(g->item);
    *g = (struct valid_requests){.n = 0};
}

/* ---- sending ---- */

void valid_request_write(const struct valid_request *g, const struct wire_target *to, bool stream,
                         struct buf *out)
{
    struct buf body = buf_with_max(MAX_BODY);
    bool may_leave_out = g->dialect == DIALECT_CHAT || g->dialect == DIALECT_COMPLETIONS;
    buf_add(&body, g->body.data, g->body.size);
    dialect_end_body(&body, g->dialect, g->model || may_leave_out ? g->model : "demo", stream);
    chat_post(out, to, dialect_path(g->dialect), body.data, body.size);
    buf_free(&body);
}

void valid_request_write_endless(const struct wire_target *to, uint64_t seed, struct buf *out)
{
    char body[512];
    int n = snprintf(
        body, sizeof(body),
        "{\"messages\": [{\"role\": \"user\", \"content\": \"Say %llu.\"}], \"temperature\": 1, "
        "\"seed\": %llu, \"ignore_eos\": true, "
        "\"logprobs\": true, \"top_logprobs\": 20, \"max_tokens\": 2000, \"stream\": true}",
        (unsigned long long)seed % 1000, (unsigned long long)seed % 1000000);
    chat_post(out, to, dialect_path(DIALECT_CHAT), body, (size_t)n);
}

static bool ask_alone(struct valid_request *g, const struct wire_target *to, struct wire *w,
                      ey_err *e)
{
    struct buf request = buf_with_max(MAX_BODY);
    valid_request_write(g, to, false, &request);
    bool replied = wire_exchange(w, to, request.data, request.size, ALONE_SECONDS);
    buf_free(&request);
    if (!replied) return ey_fail(e, EY_IO, "\"%s\", asked alone: no reply", g->name);
    if (w->reply.status != 200)
        return ey_fail(e, EY_IO, "%s, \"%s\", asked alone: status %d: %.300s",
                       dialect_name(g->dialect), g->name, w->reply.status, w->reply.body.data);
    dialect_read_whole(g->dialect, &g->truth, &w->reply.body);
    return g->truth.done || ey_fail(e, EY_IO, "%s, \"%s\", asked alone: this is no answer: %.300s",
                                    dialect_name(g->dialect), g->name, w->reply.body.data);
}

bool valid_requests_ask_alone(struct valid_requests *g, const struct wire_target *to, ey_err *e)
{
    struct wire w = wire_make();
    bool ok = true;
    for (size_t i = 0; ok && i < g->n; i++)
        ok = ask_alone(&g->item[i], to, &w, e);
    wire_free(&w);
    return ok;
}

/* ---- comparing ---- */

static bool bufs_are_equal(const struct buf *a, const struct buf *b)
{
    return a->size == b->size && (!a->size || memcmp(a->data, b->data, a->size) == 0);
}

/* Whole answers: all choices, including log-probabilities. Streams: the text and how it ended. */
bool valid_request_is_equal(const struct valid_request *g, const struct chat_answer *a, bool stream)
{
    const struct chat_answer *truth = &g->truth;
    if (!a->done || a->failed || a->completion_tokens != truth->completion_tokens ||
        a->prompt_tokens != truth->prompt_tokens)
        return false;
    if (!stream && !bufs_are_equal(&a->choices, &truth->choices)) return false;
    for (int i = 0; i < CHAT_MAX_CHOICES; i++)
        if (!bufs_are_equal(&a->choice[i].text, &truth->choice[i].text) ||
            strcmp(a->choice[i].finish, truth->choice[i].finish) != 0)
            return false;
    return true;
}

bool valid_request_is_beginning(const struct valid_request *g, const struct chat_answer *a)
{
    for (int i = 0; i < CHAT_MAX_CHOICES; i++) {
        const struct buf *text = &a->choice[i].text, *truth = &g->truth.choice[i].text;
        if (text->size > truth->size ||
            (text->size && memcmp(text->data, truth->data, text->size) != 0))
            return false;
    }
    return !a->failed;
}
