/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/concurrent_requests.h"

static void must(bool ok, const ey_err *e)
{
    if (!ok) fail_msg("%s", e->text);
}

void concurrent_request_start_from(struct concurrent_request *m, ey_engine *engine,
                                   ey_prompt *prompt)
{
    ey_err e;
    m->n_text = 0;
    m->n_tokens = 0;
    m->done = false;
    must(ey_generation_start(engine, prompt, &m->request, &m->gen, &e), &e);
}

void concurrent_request_start(struct concurrent_request *m, ey_engine *engine)
{
    ey_prompt *prompt;
    ey_err e;
    must(ey_prompt_prepare(engine, &m->request, &prompt, &e), &e);
    concurrent_request_start_from(m, engine, prompt);
    ey_prompt_free(&prompt);
}

bool concurrent_request_poll(struct concurrent_request *m, int timeout_ms)
{
    ey_event event;
    if (m->done) return true;
    ey_generation_next(m->gen, timeout_ms, &event);
    m->done = event.type == EY_EVENT_DONE;
    assert_true(event.n_tokens >= m->n_tokens);
    m->n_tokens = event.n_tokens;
    if (event.type != EY_EVENT_TEXT) return m->done;
    assert_true(event.n_text > 0 && m->n_text + event.n_text < sizeof(m->text));
    memcpy(m->text + m->n_text, event.text, event.n_text);
    m->n_text += event.n_text;
    return false;
}

void concurrent_request_collect(struct concurrent_request *m)
{
    ey_err e;
    while (!concurrent_request_poll(m, 1000)) {}
    must(ey_generation_collect(&m->gen, &m->answer, &e), &e);
    assert_null(m->gen);
    /* the engine holds text back that may begin a stop text or is part of a character; a cancelled
     * answer has that text, but no event did */
    bool cancelled = m->answer.finish_reason == EY_FINISH_CANCELLED;
    if (cancelled ? m->n_text > m->answer.n_text : m->n_text != m->answer.n_text)
        fail_msg("events had %zu bytes of %zu", m->n_text, m->answer.n_text);
    assert_memory_equal(m->text, m->answer.text, m->n_text);
}

void concurrent_request_free(struct concurrent_request *m)
{
    ey_answer_free(&m->answer);
}

void concurrent_requests_run(struct concurrent_request *members, int n, ey_engine *engine)
{
    int n_over = 0;
    for (int i = 0; i < n; i++)
        concurrent_request_start(&members[i], engine);
    while (n_over < n) {
        n_over = 0;
        for (int i = 0; i < n; i++)
            n_over += concurrent_request_poll(&members[i], 2);
    }
    for (int i = 0; i < n; i++)
        concurrent_request_collect(&members[i]);
}

void concurrent_requests_free(struct concurrent_request *members, int n)
{
    for (int i = 0; i < n; i++)
        concurrent_request_free(&members[i]);
}

/* ---- comparing ---- */

static bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool same_candidate(const ey_logprob *a, const ey_logprob *b)
{
    return a->id == b->id && memcmp(&a->logprob, &b->logprob, sizeof(a->logprob)) == 0 &&
           same_text(a->token, b->token);
}

static bool same_logprobs(const ey_token_logprobs *a, const ey_token_logprobs *b)
{
    bool same = same_candidate(&a->chosen, &b->chosen) && a->n_top == b->n_top;
    for (size_t i = 0; same && i < a->n_top; i++)
        same = same_candidate(&a->top[i], &b->top[i]);
    return same;
}

bool answers_differ(const ey_answer *a, const ey_answer *b, char *how, size_t room)
{
    for (int i = 0; i < a->n_tokens && i < b->n_tokens; i++)
        if (a->tokens[i] != b->tokens[i])
            return snprintf(how, room, "token %d is %d and %d", i, a->tokens[i], b->tokens[i]),
                   true;
    if (a->n_tokens != b->n_tokens || a->completion_tokens != b->completion_tokens ||
        a->finish_reason != b->finish_reason)
        return snprintf(how, room, "%d tokens until \"%s\", and %d until \"%s\"", a->n_tokens,
                        ey_finish_text(a->finish_reason), b->n_tokens,
                        ey_finish_text(b->finish_reason)),
               true;
    if (a->n_text != b->n_text || !same_text(a->text, b->text))
        return snprintf(how, room, "other text"), true;
    if (!same_text(a->stop_text, b->stop_text) || a->stop_id != b->stop_id)
        return snprintf(how, room, "another stop text or token"), true;
    if (a->prompt_tokens != b->prompt_tokens || a->image_tokens != b->image_tokens ||
        a->n_images != b->n_images || a->seed != b->seed)
        return snprintf(how, room, "of another prompt"), true;
    if (a->n_logprobs != b->n_logprobs)
        return snprintf(how, room, "%zu and %zu log-probabilities", a->n_logprobs, b->n_logprobs),
               true;
    for (size_t i = 0; i < a->n_logprobs; i++)
        if (!same_logprobs(&a->logprobs[i], &b->logprobs[i]))
            return snprintf(how, room, "other log-probabilities of token %zu", i), true;
    if (a->n_prompt_logprobs != b->n_prompt_logprobs)
        return snprintf(how, room, "%zu and %zu tokens of prompts have log-probabilities",
                        a->n_prompt_logprobs, b->n_prompt_logprobs),
               true;
    for (size_t i = 0; i < a->n_prompt_logprobs; i++)
        if (!same_logprobs(&a->prompt_logprobs[i], &b->prompt_logprobs[i]) ||
            a->prompt_ranks[i] != b->prompt_ranks[i])
            return snprintf(how, room, "other log-probabilities of the prompt's token %zu", i),
                   true;
    return false;
}

void assert_same_answer(const ey_answer *a, const ey_answer *b, const char *what)
{
    char how[200];
    if (answers_differ(a, b, how, sizeof(how))) fail_msg("%s: %s", what, how);
}

#define NEAR_TIE 0.1 /* gap of two logits that BF16 may reverse in these models */

void assert_near_answer(const ey_answer *a, const ey_answer *b, const char *what)
{
    assert_int_equal(a->prompt_tokens, b->prompt_tokens);
    for (int i = 0; i < a->n_tokens && i < b->n_tokens; i++) {
        if (a->tokens[i] == b->tokens[i]) continue;
        const ey_token_logprobs *l = &a->logprobs[i];
        double gap = (double)l->top[0].logprob - (double)l->top[1].logprob;
        if (gap > NEAR_TIE)
            fail_msg("%s: token %d is %d and %d, but the best is ahead by %.3g", what, i,
                     a->tokens[i], b->tokens[i], gap);
        print_message("%s: near-tie at token %d (gap %.2g)\n", what, i, gap);
        return;
    }
    assert_int_equal(a->n_tokens, b->n_tokens);
}

/* ---- requests of all kinds ---- */

static const ey_sampling drawn = {.temperature = 0.9f,
                                  .top_k = 60,
                                  .top_p = 0.95f,
                                  .min_p = 0.001f,
                                  .repetition_penalty = 1.1f,
                                  .presence_penalty = 0.4f,
                                  .frequency_penalty = 0.2f,
                                  .seed = 7};

/* Two characters from the middle of a text. */
static void middle_of(char *out, size_t room, const char *text, size_t n)
{
    size_t at = n / 2, length = 0;
    while (at && (text[at] & 0xc0) == 0x80)
        at--;
    for (int characters = 0; characters < 2 && at + length < n; characters++)
        do
            length++;
        while (at + length < n && (text[at + length] & 0xc0) == 0x80);
    assert_true(length > 1 && length < room);
    memcpy(out, text + at, length);
    out[length] = 0;
}

static void build(struct request_kinds *s)
{
    static const char long_text[] = "Here is a list of things that may be in an image: a tree, a "
                                    "house, a river with two boats, a bridge of stone, a hill, "
                                    "clouds, a dog that runs after a ball, a road, and far behind "
                                    "them the sea. Say which of them you like best, and why.";
    struct question *q = s->question;
    question_simple(&q[0], 0, "Tell me a story of a fox.", 70);
    question_simple(&q[1], 1, "What is this?", 40);
    q[1].request.top_logprobs = 5;
    q[1].request.prompt_logprobs = true;
    q[1].request.top_prompt_logprobs = 3;
    question_simple(&q[2], 2, "Which is larger?", 60);
    q[2].request.sampling = drawn;
    q[2].request.top_logprobs = 0;
    question_simple(&q[3], 1, "What colour is it?", 110);
    question_simple(&q[4], 0, "Count to twenty, please.", 50);
    q[4].request.sampling = drawn;
    q[4].request.sampling.seed = 8;
    question_simple(&q[5], 1, "Name it.", 30);
    s->bias[0] = (ey_logit_bias){300, 4.5f};
    s->bias[1] = (ey_logit_bias){301, -100};
    q[5].request.logit_bias = s->bias;
    q[5].request.n_logit_bias = 2;
    q[5].request.sampling.temperature = 1.2f;
    q[5].request.sampling.seed = 9;
    question_simple(&q[6], 0, long_text, 90);
    q[6].request.top_logprobs = 20;
    question_simple(&q[7], 0, "", 45);
    q[7].request.messages = NULL;
    q[7].request.n_messages = 0;
    q[7].request.prompt_logprobs = true;
    q[7].request.text = "Once upon a time";
    q[7].request.n_text = strlen(q[7].request.text);
}

void request_kinds_open(struct request_kinds *s, ey_engine *engine)
{
    memset(s, 0, sizeof(*s));
    build(s);
    ey_answer whole = ask(engine, &s->question[3]);
    middle_of(s->stop, sizeof(s->stop), whole.text, whole.n_text);
    s->stops[0] = s->stop;
    s->question[3].request.stop = s->stops;
    s->question[3].request.n_stop = 1;
    ey_answer_free(&whole);
    whole = ask(engine, &s->question[4]);
    s->stop_ids[0] = whole.tokens[20];
    s->question[4].request.stop_ids = s->stop_ids;
    s->question[4].request.n_stop_ids = 1;
    ey_answer_free(&whole);
    for (int i = 0; i < N_REQUEST_KINDS; i++)
        s->expected[i] = ask(engine, &s->question[i]);
    assert_int_equal(s->expected[3].finish_reason, EY_FINISH_STOP);
    assert_string_equal(s->expected[3].stop_text, s->stop);
    assert_int_equal(s->expected[3].stop_id, -1);
    assert_int_equal(s->expected[4].finish_reason, EY_FINISH_STOP);
    assert_int_equal(s->expected[4].stop_id, s->stop_ids[0]);
    assert_null(s->expected[4].stop_text);
    assert_int_equal(s->expected[0].finish_reason, EY_FINISH_LENGTH);
    assert_true(s->expected[0].stop_id == -1 && !s->expected[0].stop_text);
    for (int i = 0; i < N_REQUEST_KINDS; i++)
        s->question[i].request.no_prefix_cache = false;
}

void request_kinds_close(struct request_kinds *s)
{
    for (int i = 0; i < N_REQUEST_KINDS; i++)
        ey_answer_free(&s->expected[i]);
}
