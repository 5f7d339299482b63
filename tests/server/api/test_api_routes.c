/* SPDX-License-Identifier: Apache-2.0 */
/* The API's routes with a fake exchange and a scripted engine: the output and its order, either
 * side leaving early, and no leaks. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/json.h"
#include "models/chat/hermes.h"
#include "models/toy_tool_calls.h"
#include "server/api/common/model_card.h"
#include "server/api/openai_chat/api_routes.h"
#include "server/log.h"

/* ---- the engine ---- */

/* The steps of one answer; NULL ends it. */
struct script {
    const char *steps[12]; /* "text", ":phase", "-" (no event) or "=" (no event ever) */
    ey_finish finish;
    const char *stop_text;
    int stop_id;     /* 0: none */
    ey_code failure; /* error of ey_generation_collect */
};

struct ey_prompt {
    ey_prompt_info info;
};

struct ey_generation {
    const struct script *script;
    size_t step;
    int n_tokens;
    bool cancelled;
    ey_request request;
};

static struct {
    /* scripts of the answers, in order of their starts; the last one repeats */
    const struct script *script[64];
    ey_code prepare_fails, start_fails;
    size_t failed_image;                   /* image for which preparing fails, from 1; 0: none */
    int start_fails_at, start_fails_times; /* the first start that fails, and how many do */
    int prompts, running, most_running, started, cancelled, leased, watches;
    bool waited; /* the request waited for the model */
    size_t n_prompt_tokens;
    uint64_t seeds[64];
    const ey_grammar *grammars[64];
    const ey_tool_format *tool_format; /* NULL: Hermes */
    double clock;
    double ending_at;  /* when the server shuts down; 0: never */
    ey_budget *budget; /* the client's share */
} fake;

double seconds_now(void)
{
    return fake.clock;
}

ey_sampling ey_model_sampling(const ey_engine *engine)
{
    (void)engine;
    return (ey_sampling){.top_p = 1, .repetition_penalty = 1};
}

/* Returns the test's format, else the family's. */
const ey_tool_format *ey_engine_tool_format(const ey_engine *engine)
{
    (void)engine;
    return fake.tool_format ? fake.tool_format : &hermes_tool_calls;
}

ey_task ey_engine_task(const ey_engine *engine)
{
    (void)engine;
    return EY_TASK_GENERATE;
}

int ey_engine_dimensions(const ey_engine *engine)
{
    (void)engine;
    return 64;
}

ey_pooled ey_answer_pooled(const ey_answer *answer)
{
    (void)answer;
    return (ey_pooled){0};
}

uint64_t ey_random_seed(void)
{
    return 1000;
}

ey_engine_info ey_engine_describe(const ey_engine *engine)
{
    (void)engine;
    return (ey_engine_info){.max_model_len = 100, .vocab_size = 1000};
}

static const int prompt_ids[100] = {7, 8, 9};
static const ey_image_usage prompt_images[1] = {{10, 20, 32, 64, 2, false}};

bool ey_prompt_prepare(ey_engine *engine, const ey_request *request, ey_prompt **prompt, ey_err *e)
{
    (void)engine;
    bool short_text = request->ids || (request->text && !request->n_text);
    if (fake.prepare_fails && !(fake.prepare_fails == EY_TOO_LONG && short_text)) {
        ey_fail(e, fake.prepare_fails, "it cannot be prepared");
        return fake.failed_image ? ey_fail_item(e, EY_ITEM_IMAGE, fake.failed_image - 1, NULL)
                                 : false;
    }
    *prompt = calloc(1, sizeof(**prompt));
    (*prompt)->info = (ey_prompt_info){
        prompt_ids, fake.n_prompt_tokens, prompt_images, request->n_messages ? 1 : 0, 2, 4096};
    fake.prompts++;
    return true;
}

ey_prompt_info ey_prompt_describe(const ey_prompt *prompt)
{
    return prompt->info;
}

void ey_prompt_free(ey_prompt **prompt)
{
    if (*prompt) fake.prompts--;
    free(*prompt);
    *prompt = NULL;
}

bool ey_generation_start(ey_engine *engine, ey_prompt *prompt, const ey_request *request,
                         ey_generation **generation, ey_err *e)
{
    (void)engine;
    assert_non_null(prompt);
    if (fake.start_fails && fake.started >= fake.start_fails_at && fake.start_fails_times-- > 0)
        return ey_fail(e, fake.start_fails, "it cannot be started");
    *generation = calloc(1, sizeof(**generation));
    (*generation)->request = *request;
    size_t k = (size_t)fake.started;
    while (k && !fake.script[k])
        k--;
    (*generation)->script = fake.script[k];
    fake.grammars[fake.started] = request->grammar;
    fake.seeds[fake.started++] = request->sampling.seed;
    if (++fake.running > fake.most_running) fake.most_running = fake.running;
    return true;
}

static ey_phase phase_called(const char *text)
{
    static const ey_phase phases[] = {EY_PHASE_QUEUE, EY_PHASE_VISION, EY_PHASE_PREFILL,
                                      EY_PHASE_DECODE};
    for (size_t i = 0; i < sizeof(phases) / sizeof(phases[0]); i++)
        if (strcmp(text, ey_phase_text(phases[i])) == 0) return phases[i];
    fail_msg("no phase is called \"%s\"", text);
    return EY_PHASE_NONE;
}

void ey_generation_next(ey_generation *t, int timeout_ms, ey_event *event)
{
    const char *step = t->script->steps[t->step];
    *event = (ey_event){.type = EY_EVENT_NONE, .n_tokens = t->n_tokens};
    bool endless = step && !strcmp(step, "=");
    if (step && !endless) t->step++;
    if (!step || t->cancelled) {
        event->type = EY_EVENT_DONE;
    } else if (endless || !strcmp(step, "-")) {
        fake.clock += timeout_ms / 1e3;
    } else if (step[0] == ':') {
        *event = (ey_event){
            .type = EY_EVENT_PHASE, .phase = phase_called(step + 1), .done = 1, .total = 2};
    } else {
        *event = (ey_event){
            .type = EY_EVENT_TEXT, .text = step, .n_text = strlen(step), .n_tokens = ++t->n_tokens};
    }
}

static const char letters[] = "a\0b\0c\0d\0e\0f\0g\0h\0i\0j\0k\0l\0m";

ey_token_logprobs ey_generation_logprobs(const ey_generation *t, int i, ey_logprob *top)
{
    assert_true(i >= 0 && i < t->n_tokens);
    for (int k = 0; k < t->request.top_logprobs; k++)
        top[k] = (ey_logprob){k, "T", -1, "T", 1};
    return (ey_token_logprobs){
        {i, letters + 2 * i, -0.5f, letters + 2 * i, 1}, top, (size_t)t->request.top_logprobs};
}

/* The prompt's tokens: four capital letters, again and again. */
static const char capitals[] = "A\0B\0C\0D";
static int prompt_ranks[100] = {0, 1, 2, 3};

static ey_token_logprobs prompt_token(int i)
{
    const char *letter = capitals + 2 * (i % 4);
    return (ey_token_logprobs){.chosen = {i, letter, i ? -0.25f : NAN, letter, 1}};
}

ey_token_logprobs ey_generation_prompt_logprobs(const ey_generation *t, int i, ey_logprob *top)
{
    (void)top;
    assert_true(t->request.prompt_logprobs && i >= 0 && (size_t)i < fake.n_prompt_tokens);
    return prompt_token(i);
}

void ey_generation_cancel(ey_generation *t)
{
    t->cancelled = true;
    fake.cancelled++;
}

/* One more token than texts: the one that stopped the answer. */
static void fill_scores(ey_answer *answer, const ey_generation *t)
{
    answer->n_logprobs = (size_t)t->n_tokens + 1;
    answer->logprobs = calloc(answer->n_logprobs, sizeof(*answer->logprobs));
    for (size_t i = 0; i < answer->n_logprobs; i++)
        answer->logprobs[i].chosen = (ey_logprob){(int)i, letters + 2 * i, -0.5f, letters + 2 * i,
                                                  1};
}

static void fill_prompt_scores(ey_answer *answer)
{
    answer->n_prompt_logprobs = fake.n_prompt_tokens;
    answer->prompt_logprobs = calloc(fake.n_prompt_tokens, sizeof(*answer->prompt_logprobs));
    for (size_t i = 0; i < fake.n_prompt_tokens; i++)
        answer->prompt_logprobs[i] = prompt_token((int)i);
    answer->prompt_ranks = prompt_ranks;
}

bool ey_generation_collect(ey_generation **generation, ey_answer *answer, ey_err *e)
{
    ey_generation *t = *generation;
    const struct script *s = t->script;
    struct buf text = buf_with_max(1 << 16);
    buf_add_text(&text, "");
    for (size_t i = 0; s->steps[i]; i++)
        if (!strchr(":-=", s->steps[i][0])) buf_add_text(&text, s->steps[i]);
    *answer = (ey_answer){.text = text.data,
                          .n_text = text.size,
                          .finish_reason = s->finish,
                          .stop_text = s->stop_text,
                          .stop_id = s->stop_id ? s->stop_id : -1,
                          .prompt_tokens = (int)fake.n_prompt_tokens,
                          .cached_tokens = 1,
                          .completion_tokens = t->n_tokens + 1,
                          .images = (ey_image_usage *)prompt_images};
    if (t->request.top_logprobs >= 0) fill_scores(answer, t);
    if (t->request.prompt_logprobs) fill_prompt_scores(answer);
    answer->owner = answer->text;
    bool ok = !s->failure || ey_fail(e, s->failure, "it broke");
    fake.running--;
    free(t);
    *generation = NULL;
    return ok;
}

void ey_answer_free(ey_answer *answer)
{
    free(answer->owner);
    free(answer->logprobs);
    free(answer->prompt_logprobs);
    *answer = (ey_answer){0};
}

bool ey_tokenize(const ey_engine *engine, const char *text, size_t n_text, bool parse_special,
                 int **ids, size_t *n, ey_err *e)
{
    (void)engine;
    (void)text;
    (void)parse_special;
    (void)e;
    *n = n_text;
    *ids = malloc(n_text * sizeof(**ids));
    for (size_t i = 0; i < n_text; i++)
        (*ids)[i] = (int)i + 1;
    return true;
}

bool ey_detokenize(const ey_engine *engine, const int *ids, size_t n_ids, char **text, size_t *n,
                   ey_err *e)
{
    (void)engine;
    (void)ids;
    (void)e;
    *n = n_ids;
    *text = malloc(n_ids + 1);
    memset(*text, '#', n_ids);
    return true;
}

const char *ey_token_text(const ey_engine *engine, int id)
{
    (void)engine;
    (void)id;
    return "t";
}

/* ---- the server ---- */

static char logged[256];

void log_line(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(logged, sizeof(logged), fmt, args);
    va_end(args);
}

struct exchange {
    const char *body;
    int replies, status;
    char param[160], warning[600];
    struct buf out;
    struct response_stream stream;
    bool streaming;
    double hangs_up_at; /* 0: never */
    size_t room;        /* bytes that the client accepts at a time */
    bool cut;
    uint64_t budget_used; /* of the client's share, when the reply was sent */
};

const char *exchange_body(const struct exchange *x, size_t *n)
{
    *n = strlen(x->body);
    return x->body;
}

void exchange_drop_body(struct exchange *x)
{
    x->body = "";
}

double exchange_started(const struct exchange *x)
{
    (void)x;
    return 0;
}

bool exchange_hung_up(struct exchange *x)
{
    return x->hangs_up_at > 0 && fake.clock >= x->hangs_up_at;
}

bool exchange_abandoned(struct exchange *x)
{
    return exchange_hung_up(x);
}

bool exchange_charge(struct exchange *x, uint64_t n)
{
    (void)x;
    (void)n;
    return true;
}

void exchange_uncharge(struct exchange *x, uint64_t kept)
{
    (void)x;
    (void)kept;
}

ey_budget *exchange_budget(const struct exchange *x)
{
    (void)x;
    return fake.budget;
}

uint64_t exchange_budget_held(const struct exchange *x)
{
    (void)x;
    return 0;
}

void exchange_add_header(struct exchange *x, const char *name, const char *value)
{
    assert_string_equal(name, "Warning");
    snprintf(x->warning, sizeof(x->warning), "%s", value);
}

void exchange_reply(struct exchange *x, int status, const char *content_type, struct buf *body)
{
    assert_string_equal(content_type, "application/json");
    assert_false(body->failed);
    if (fake.budget) x->budget_used = ey_budget_used(fake.budget);
    x->replies++;
    x->status = status;
    x->out = *body;
    *body = buf_with_max(body->max);
}

void exchange_fail(struct exchange *x, int status, const char *type, const char *param,
                   const char *fmt, ...)
{
    char message[2048];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof(message), fmt, args);
    va_end(args);
    x->replies++;
    x->status = status;
    x->out = buf_with_max(1 << 16);
    buf_printf(&x->out, "%s: %s", type ? type : "-", message);
    snprintf(x->param, sizeof(x->param), "%s", param ? param : "-");
}

void exchange_send_error(struct exchange *x, const struct api_error *error)
{
    exchange_fail(x, error->status, error->type, error->param[0] ? error->param : NULL, "%s",
                  error->message);
}

/* Called by the HTTP library after the route has returned. */
void exchange_stream(struct exchange *x, int status, const char *content_type,
                     struct response_stream stream)
{
    assert_string_equal(content_type, "text/event-stream; charset=utf-8");
    x->replies++;
    x->status = status;
    x->stream = stream;
    x->streaming = true;
}

static void send_stream(struct exchange *x)
{
    char block[4096];
    ssize_t n;
    x->out = buf_with_max(1 << 20);
    buf_add_text(&x->out, "");
    while ((n = x->stream.pull(x->stream.state, x, block, x->room)) > 0)
        buf_add(&x->out, block, (size_t)n);
    x->cut = n == -2;
    assert_true(n == -1 || n == -2);
    x->stream.close(x->stream.state);
}

bool server_acquire_engine(struct server *server, size_t model, struct exchange *x,
                           struct lease *out, ey_err *e)
{
    (void)server;
    (void)x;
    (void)e;
    fake.leased++;
    *out = (struct lease){.engine = (ey_engine *)&fake, .model = model, .waited = fake.waited};
    return true;
}

void server_release_engine(struct server *server, struct lease *lease)
{
    (void)server;
    fake.leased -= lease->engine != NULL;
}

bool server_is_ending(const struct server *server)
{
    (void)server;
    return fake.ending_at > 0 && fake.clock >= fake.ending_at;
}

struct metrics_watch metrics_watch_start(struct metrics *metrics, size_t model, double started)
{
    fake.watches++;
    return (struct metrics_watch){metrics, model, started, started, 0};
}

void metrics_watch_tokens(struct metrics_watch *watch, int n_tokens)
{
    assert_true(n_tokens > watch->tokens);
    watch->tokens = n_tokens;
}

void metrics_watch_end(struct metrics_watch *watch, const ey_answer *answer, bool hung_up)
{
    (void)watch;
    (void)answer;
    (void)hung_up;
    fake.watches--;
}

/* ---- running a route ---- */

static int forget(void **state)
{
    (void)state;
    memset(&fake, 0, sizeof(fake));
    fake.n_prompt_tokens = 3;
    return 0;
}

static void run(struct exchange *x, route_fn *route, const char *body)
{
    static const struct server_options options = {
        .max_images = 4,
        .seed = 5,
        .models = {{.path = "/models/m", .names = {"m"}, .n_names = 1}},
        .n_models = 1};
    struct server server = {.options = &options};
    x->body = body;
    if (!x->room) x->room = 4096;
    route(&server, x);
    assert_int_equal(x->replies, 1);
    if (x->streaming) send_stream(x);
    assert_int_equal(fake.prompts + fake.running + fake.leased + fake.watches, 0);
}

static const char *text_of(json_object *object, const char *key)
{
    json_object *value = json_member(object, key);
    return value ? json_object_get_string(value) : "";
}

static void describe_scores(struct buf *out, json_object *choice)
{
    json_object *scores = json_member(choice, "logprobs"),
                *content = json_member(scores, "content"), *tokens = json_member(scores, "tokens");
    json_object *list = content ? content : tokens;
    if (!list) return;
    buf_add_text(out, " ~");
    for (size_t i = 0; i < json_object_array_length(list); i++) {
        json_object *item = json_object_array_get_idx(list, i);
        buf_add_text(out, content ? text_of(item, "token") : json_object_get_string(item));
    }
}

static void describe_calls(struct buf *out, json_object *said)
{
    json_object *calls = json_member(said, "tool_calls");
    for (size_t i = 0; calls && i < json_object_array_length(calls); i++) {
        json_object *call = json_object_array_get_idx(calls, i),
                    *function = json_member(call, "function");
        assert_memory_equal(text_of(call, "id"), "call_", 5);
        buf_printf(out, " %s(%s)", text_of(function, "name"), text_of(function, "arguments"));
    }
}

/* "0 role", "1 'text'", "0 f({})", "1 =stop" */
static void describe_choice(struct buf *out, json_object *choice)
{
    json_object *delta = json_member(choice, "delta"), *message = json_member(choice, "message"),
                *said = delta     ? delta
                        : message ? message
                                  : choice;
    json_object *text = json_member(said, delta || message ? "content" : "text");
    buf_printf(out, "%s", text_of(choice, "index"));
    if (delta && json_member(delta, "role"))
        buf_add_text(out, " role");
    else if (text)
        buf_printf(out, " '%s'", json_object_get_string(text));
    describe_calls(out, said);
    describe_scores(out, choice);
    if (json_member(choice, "finish_reason"))
        buf_printf(out, " =%s", text_of(choice, "finish_reason"));
    if (json_member(choice, "stop_reason")) buf_printf(out, "(%s)", text_of(choice, "stop_reason"));
    buf_add_text(out, "; ");
}

static void describe_object(struct buf *out, json_object *object)
{
    json_object *choices = json_member(object, "choices"), *usage = json_member(object, "usage"),
                *error = json_member(object, "error");
    for (size_t i = 0; choices && i < json_object_array_length(choices); i++)
        describe_choice(out, json_object_array_get_idx(choices, i));
    if (usage)
        buf_printf(out, "usage %s+%s; ", text_of(usage, "prompt_tokens"),
                   text_of(usage, "completion_tokens"));
    if (error) buf_printf(out, "error %s %s; ", text_of(error, "code"), text_of(error, "message"));
}

static void describe_json(struct buf *out, const char *text, size_t n)
{
    ey_err e;
    json_object *object = json_parse(text, n, "reply", EY_INTERNAL, &e);
    if (!object) fail_msg("%s in %.*s", e.text, (int)n, text);
    describe_object(out, object);
    json_object_put(object);
}

/* One event a line, each followed by an empty line. */
static void describe_stream(struct buf *out, const char *text)
{
    while (*text) {
        const char *end = strstr(text, "\n\n");
        assert_non_null(end);
        size_t n = (size_t)(end - text);
        if (text[0] == ':')
            buf_printf(out, "%.*s; ", (int)n, text);
        else if (n == 12 && memcmp(text, "data: [DONE]", 12) == 0)
            buf_add_text(out, "DONE");
        else
            describe_json(out, text + 6, n - 6);
        text = end + 2;
    }
}

static void check(struct exchange *x, const char *wanted)
{
    struct buf got = buf_with_max(1 << 20);
    buf_add_text(&got, "");
    if (x->streaming)
        describe_stream(&got, x->out.data);
    else if (x->status == 200)
        describe_json(&got, x->out.data, x->out.size);
    else
        buf_printf(&got, "%d %s", x->status, x->out.data);
    assert_string_equal(got.data, wanted);
    buf_free(&got);
    buf_free(&x->out);
}

#define MESSAGES "\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]"
#define TOOLS "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]"
#define STREAM "\"stream\": true, \"stream_options\": {\"include_usage\": true}"

/* ---- answers ---- */

static const struct script two_words = {.steps = {":queue", ":prefill", "one", " two"}};
static const struct script cut_short = {.steps = {"x", "-", "y"}, .finish = EY_FINISH_LENGTH};

static void a_whole_answer(void **state)
{
    (void)state;
    struct exchange x = {0};
    fake.script[0] = &two_words;
    run(&x, route_chat_completions, "{" MESSAGES ", \"foo\": 1}");
    assert_string_equal(x.warning, "299 eyelet \"unknown fields were ignored: foo\"");
    assert_string_equal(logged, "unknown fields were ignored: foo");
    check(&x, "0 'one two' =stop; usage 3+3; ");
    assert_int_equal(fake.seeds[0], 5);
}

static void a_streamed_answer(void **state)
{
    (void)state;
    static const size_t rooms[] = {1, 7, 4096};
    for (int i = 0; i < 3; i++) {
        struct exchange x = {.room = rooms[i]};
        forget(NULL);
        fake.script[0] = &two_words;
        run(&x, route_chat_completions, "{" MESSAGES ", " STREAM "}");
        check(&x, "0 role; 0 'one'; 0 ' two'; 0 =stop; usage 3+3; DONE");
    }
}

static void several_answers(void **state)
{
    (void)state;
    struct exchange x = {0}, s = {0};
    fake.script[0] = &two_words;
    fake.script[1] = &cut_short;
    run(&x, route_chat_completions, "{" MESSAGES ", \"n\": 2, \"seed\": 40}");
    check(&x, "0 'one two' =stop; 1 'xy' =length; usage 3+6; ");
    assert_int_equal(fake.seeds[0], 40);
    assert_int_equal(fake.seeds[1], 41);
    fake.started = 0;
    run(&s, route_chat_completions, "{" MESSAGES ", \"n\": 2, \"stream\": true}");
    check(&s, "1 role; 1 'x'; 0 role; 0 'one'; 1 'y'; 0 ' two'; 1 =length; 0 =stop; DONE");
}

static void finish_reasons_are_reported(void **state)
{
    (void)state;
    static const struct script by_text = {.steps = {"x"}, .stop_text = "END"},
                               by_id = {.steps = {"x"}, .stop_id = 9},
                               by_model = {.steps = {"x"}, .stop_id = 8};
    static const struct script *const scripts[] = {&by_text, &by_id, &by_model};
    static const char *const wanted[] = {"0 'x' =stop(END); usage 3+2; ",
                                         "0 'x' =stop(9); usage 3+2; ", "0 'x' =stop; usage 3+2; "};
    for (int i = 0; i < 3; i++) {
        struct exchange x = {0};
        forget(NULL);
        fake.script[0] = scripts[i];
        run(&x, route_chat_completions,
            "{" MESSAGES ", \"stop\": \"END\", \"stop_token_ids\": [9]}");
        check(&x, wanted[i]);
    }
}

static void completions(void **state)
{
    (void)state;
    struct exchange x = {0}, s = {0}, ids = {0};
    fake.script[0] = &cut_short;
    run(&x, route_completions, "{\"prompt\": [\"A\", \"B\"], \"n\": 2, \"echo\": true}");
    check(&x, "0 'Axy' =length; 1 'Axy' =length; 2 'Bxy' =length; 3 'Bxy' =length; usage 6+12; ");
    fake.started = 0;
    run(&s, route_completions, "{\"prompt\": \"A\", \"stream\": true, \"echo\": true}");
    check(&s, "0 'A'; 0 'x'; 0 'y'; 0 '' =length; DONE");
    run(&ids, route_completions, "{\"prompt\": [1, 2, 3], \"echo\": true}");
    check(&ids, "0 '###xy' =length; usage 3+3; ");
}

static void many_prompts_do_not_fill_the_queue(void **state)
{
    (void)state;
    struct exchange x = {0};
    struct buf body = buf_with_max(1 << 16), wanted = buf_with_max(1 << 16);
    fake.script[0] = &cut_short;
    buf_add_text(&body, "{\"prompt\": [");
    for (int i = 0; i < 20; i++) {
        buf_printf(&body, "%s\"p\"", i ? "," : "");
        buf_printf(&wanted, "%d 'xy' =length; ", i);
    }
    buf_add_text(&body, "]}");
    buf_add_text(&wanted, "usage 60+60; ");
    run(&x, route_completions, body.data);
    check(&x, wanted.data);
    assert_int_equal(fake.most_running, EY_MAX_REQUEST_CHOICES);
    buf_free(&body);
    buf_free(&wanted);
}

/* ---- log-probabilities and tools ---- */

static void log_probabilities(void **state)
{
    (void)state;
    struct exchange x = {0}, s = {0}, c = {0};
    fake.script[0] = &two_words;
    run(&x, route_chat_completions, "{" MESSAGES ", \"logprobs\": true, \"top_logprobs\": 2}");
    check(&x, "0 'one two' ~abc =stop; usage 3+3; ");
    run(&s, route_chat_completions, "{" MESSAGES ", \"logprobs\": true, \"stream\": true}");
    check(&s, "0 role; 0 'one' ~a; 0 ' two' ~b; 0 ~c =stop; DONE");
    run(&c, route_completions, "{\"prompt\": \"p\", \"logprobs\": 1, \"stream\": true}");
    check(&c, "0 'one' ~a; 0 ' two' ~b; 0 '' ~c =stop; DONE");
}

/* With echo, the prompt's log-probabilities come first; with no tokens to generate, the answer is
 * the prompt alone. */
static void log_probabilities_of_prompts(void **state)
{
    (void)state;
    struct exchange echoed = {0}, only = {0}, streamed = {0}, only_streamed = {0}, asked = {0},
                    chat = {0};
    fake.script[0] = &two_words;
    run(&echoed, route_completions, "{\"prompt\": \"p\", \"logprobs\": 1, \"echo\": true}");
    assert_non_null(
        strstr(echoed.out.data, "\"token_logprobs\":[null,-0.25,-0.25,-0.5,-0.5,-0.5],"));
    assert_non_null(strstr(echoed.out.data, "\"top_logprobs\":[null,{\"B\":-0.25}"));
    assert_non_null(strstr(echoed.out.data, "\"text_offset\":[0,1,2,3,4,5]"));
    check(&echoed, "0 'pone two' ~ABCabc =stop; usage 3+3; ");
    run(&only, route_completions,
        "{\"prompt\": \"p\", \"logprobs\": 1, \"echo\": true, \"max_tokens\": 0}");
    check(&only, "0 'p' ~ABC =stop; usage 3+3; ");
    run(&streamed, route_completions,
        "{\"prompt\": \"p\", \"logprobs\": 1, \"echo\": true, \"stream\": true}");
    check(&streamed, "0 'p' ~ABC; 0 'one' ~a; 0 ' two' ~b; 0 '' ~c =stop; DONE");
    run(&only_streamed, route_completions,
        "{\"prompt\": \"p\", \"logprobs\": 0, \"echo\": true, \"max_tokens\": 0, "
        "\"stream\": true}");
    check(&only_streamed, "0 'p' ~ABC; 0 '' =stop; DONE");
    run(&asked, route_completions, "{\"prompt\": \"p\", \"prompt_logprobs\": 0}");
#define OF_PROMPT                                                                       \
    "\"prompt_logprobs\":[null,{\"1\":{\"logprob\":-0.25,\"rank\":1,\"decoded_token\":" \
    "\"B\"}},{\"2\":{\"logprob\":-0.25,\"rank\":2,\"decoded_token\":\"C\"}}],"
    assert_non_null(strstr(asked.out.data, "\"logprobs\":null," OF_PROMPT "\"finish_reason\""));
    check(&asked, "0 'one two' =stop; usage 3+3; ");
    run(&chat, route_chat_completions, "{" MESSAGES ", \"prompt_logprobs\": 0}");
    assert_non_null(strstr(chat.out.data, OF_PROMPT "\"choices\":["));
    check(&chat, "0 'one two' =stop; usage 3+3; ");
}

/* Large answers are charged to the client's share of the budget, each for its own prompt. */
static void answers_are_charged_to_their_client(void **state)
{
    (void)state;
    struct exchange one = {0}, two = {0};
    ey_budget *whole = ey_budget_create(64 << 20);
    assert_non_null(whole);
    fake.budget = ey_budget_part_open(whole, 1, 2);
    assert_non_null(fake.budget);
    fake.script[0] = &two_words;
    fake.n_prompt_tokens = 90;
    run(&one, route_completions, "{\"prompt\": \"p\", \"prompt_logprobs\": 20}");
    run(&two, route_completions, "{\"prompt\": [\"p\", \"p\"], \"prompt_logprobs\": 20}");
    assert_int_equal(one.status, 200);
    assert_int_equal(two.status, 200);
    assert_true(one.budget_used > 0);
    assert_int_equal(two.budget_used, 2 * one.budget_used);
    buf_free(&one.out);
    buf_free(&two.out);
    assert_int_equal(ey_budget_used(whole), 0);
    ey_budget_part_close(&fake.budget);
    ey_budget_free(&whole);
}

static const struct script calling = {
    .steps = {"Let me", " see.", "\n<tool", "_call>\n{\"name\": \"f\",",
              " \"arguments\": {\"a\": 1}}\n</tool_", "call>", "\n"}};
static const struct script a_call = {
    .steps = {"<tool_call>\n{\"name\": \"f\", ", "\"arguments\": {}}\n</tool_call>"}};

/* All choices share one grammar. Its output is a call if calls were requested, and text if a format
 * was. */
static void answers_that_keep_to_a_grammar(void **state)
{
    (void)state;
    struct exchange called = {0}, streamed = {0}, formed = {0};
    fake.script[0] = &a_call;
    run(&called, route_chat_completions,
        "{" MESSAGES ", " TOOLS ", \"tool_choice\": \"required\", \"n\": 2}");
    check(&called, "0 f({}) =tool_calls; 1 f({}) =tool_calls; usage 3+6; ");
    assert_non_null(fake.grammars[0]);
    assert_ptr_equal(fake.grammars[0], fake.grammars[1]);
    run(&streamed, route_chat_completions,
        "{" MESSAGES ", " TOOLS
        ", \"tool_choice\": {\"function\": {\"name\": \"f\"}}, \"stream\": true}");
    check(&streamed, "0 role; 0 f({}); 0 =tool_calls; DONE");
    assert_non_null(fake.grammars[2]);
    run(&formed, route_chat_completions, "{" MESSAGES ", " TOOLS ", \"guided_regex\": \".*\"}");
    check(&formed,
          "0 '<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>' =stop; usage 3+3; ");
    assert_non_null(fake.grammars[3]);
}

static const struct script not_quite = {
    .steps = {"<tool_call>\n{\"name\": ", "oops}\n</tool_call>"}};

static void tool_calls_are_parsed(void **state)
{
    (void)state;
    struct exchange whole = {0}, streamed = {0}, plain = {0}, scored = {0}, bad = {0};
    fake.script[0] = &calling;
    run(&whole, route_chat_completions, "{" MESSAGES ", " TOOLS "}");
    check(&whole, "0 'Let me see.' f({\"a\": 1}) =tool_calls; usage 3+8; ");
    run(&streamed, route_chat_completions, "{" MESSAGES ", " TOOLS ", \"stream\": true}");
    check(&streamed, "0 role; 0 'Let me'; 0 ' see.'; 0 f({\"a\": 1}); 0 =tool_calls; DONE");
    run(&scored, route_chat_completions,
        "{" MESSAGES ", " TOOLS ", \"stream\": true, \"logprobs\": true}");
    check(&scored,
          "0 role; 0 'Let me' ~a; 0 ' see.' ~b; 0 f({\"a\": 1}); 0 ~cdefgh =tool_calls; DONE");
    run(&plain, route_chat_completions, "{" MESSAGES "}");
    check(&plain, "0 'Let me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": "
                  "1}}\n</tool_call>\n' =stop; usage 3+8; ");
    forget(NULL);
    fake.script[0] = &not_quite;
    run(&bad, route_chat_completions, "{" MESSAGES ", " TOOLS ", \"stream\": true}");
    check(&bad, "0 role; 0 '<tool_call>\n{\"name\": oops}\n</tool_call>'; 0 =stop; DONE");
}

/* The server parses the model family's format only. */
static void tool_calls_of_another_format(void **state)
{
    (void)state;
    static const struct script toy_call = {.steps = {"!f {\"a\": ", "2};"}};
    struct exchange whole = {0}, streamed = {0}, hermes = {0};
    fake.tool_format = &toy_tool_calls;
    fake.script[0] = &toy_call;
    run(&whole, route_chat_completions, "{" MESSAGES ", " TOOLS ", \"tool_choice\": \"required\"}");
    check(&whole, "0 f({\"a\": 2}) =tool_calls; usage 3+3; ");
    run(&streamed, route_chat_completions, "{" MESSAGES ", " TOOLS ", \"stream\": true}");
    check(&streamed, "0 role; 0 f({\"a\": 2}); 0 =tool_calls; DONE");
    forget(NULL);
    fake.tool_format = &toy_tool_calls;
    fake.script[0] = &a_call;
    run(&hermes, route_chat_completions, "{" MESSAGES ", " TOOLS "}");
    check(&hermes,
          "0 '<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>' =stop; usage 3+3; ");
}

/* ---- errors ---- */

static void refused_before_anything_is_sent(void **state)
{
    (void)state;
    struct exchange model = {0}, json = {0}, prepare = {0}, image = {0}, busy = {0}, broken = {0};
    fake.script[0] = &two_words;
    run(&model, route_chat_completions, "{" MESSAGES ", \"model\": \"other\", \"stream\": true}");
    assert_string_equal(model.param, "model");
    check(&model, "404 NotFoundError: The model `other` does not exist. This server has `m`");
    run(&json, route_chat_completions, "{");
    check(&json, "400 Bad Request: 1 validation error: the request: not valid JSON at byte 1: it "
                 "ends in the middle of a value");
    fake.prepare_fails = EY_BAD_REQUEST;
    run(&prepare, route_completions, "{\"prompt\": [\"a\", \"b\"]}");
    assert_string_equal(prepare.param, "prompt[0]");
    check(&prepare, "400 BadRequestError: it cannot be prepared");
    fake.prepare_fails = EY_BAD_IMAGE;
    run(&image, route_chat_completions, "{" MESSAGES "}");
    check(&image, "400 BadRequestError: Failed to load image: it cannot be prepared");
    forget(NULL);
    fake.start_fails = EY_BUSY;
    fake.start_fails_times = 1;
    run(&busy, route_chat_completions, "{" MESSAGES ", \"stream\": true}");
    check(&busy, "503 ServiceUnavailableError: it cannot be started");
    static const struct script failing = {.steps = {"x"}, .failure = EY_INTERNAL};
    fake.script[0] = &failing;
    run(&broken, route_chat_completions, "{" MESSAGES "}");
    check(&broken, "500 InternalServerError: it broke");
}

#define IMAGE_PART \
    "{\"type\": \"image_url\", \"image_url\": {\"url\": \"data:image/png;base64,aGVsbG8=\"}}"

/* The error has the field of the failed image, whatever the engine's words. */
static void images_that_fail_have_their_field(void **state)
{
    (void)state;
    static const char body[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": [" IMAGE_PART "]}, "
        "{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"and\"}, " IMAGE_PART
        ", " IMAGE_PART "]}]}";
    static const char *const params[] = {"messages[0].content[0].image_url.url",
                                         "messages[1].content[1].image_url.url",
                                         "messages[1].content[2].image_url.url"};
    for (size_t i = 0; i < sizeof(params) / sizeof(params[0]); i++) {
        struct exchange x = {0};
        fake.prepare_fails = EY_BAD_IMAGE;
        fake.failed_image = i + 1;
        run(&x, route_chat_completions, body);
        assert_string_equal(x.param, params[i]);
        check(&x, "400 BadRequestError: Failed to load image: it cannot be prepared");
    }
}

static void prompts_that_do_not_fit(void **state)
{
    (void)state;
    struct exchange fits = {0}, over = {0}, unsaid = {0}, alone = {0};
    fake.script[0] = &cut_short;
    fake.n_prompt_tokens = 90;
    run(&fits, route_chat_completions, "{" MESSAGES ", \"max_tokens\": 10}");
    check(&fits, "0 'xy' =length; usage 90+3; ");
    run(&over, route_chat_completions, "{" MESSAGES ", \"max_tokens\": 11}");
    assert_string_equal(over.param, "input_tokens");
    check(&over, "400 BadRequestError: This model's maximum context length is 100 tokens. However, "
                 "you requested 11 output tokens and your prompt contains 90 "
                 "input tokens, for a total of 101 tokens. Please reduce the length of the input "
                 "prompt or the number of requested output tokens. "
                 "(parameter=input_tokens, value=90)");
    run(&unsaid, route_completions,
        "{\"prompt\": \"a\"}"); /* 16 tokens are the default, not a request */
    check(&unsaid, "0 'xy' =length; usage 90+3; ");
    fake.prepare_fails = EY_TOO_LONG;
    run(&alone, route_chat_completions, "{" MESSAGES "}");
    check(&alone, "400 BadRequestError: This model's maximum context length is 100 tokens. "
                  "However, it cannot be prepared. Please reduce the length of the "
                  "input prompt or the number of requested output tokens.");
}

static void later_prompts_wait_for_a_full_queue(void **state)
{
    (void)state;
    struct exchange x = {0}, failed = {0};
    fake.script[0] = &cut_short;
    fake.start_fails = EY_BUSY;
    fake.start_fails_at = 1;
    fake.start_fails_times = 6;
    run(&x, route_completions, "{\"prompt\": [\"a\", \"b\", \"c\"]}");
    check(&x, "0 'xy' =length; 1 'xy' =length; 2 'xy' =length; usage 9+9; ");
    forget(NULL);
    fake.script[0] = &cut_short;
    fake.start_fails = EY_NO_MEMORY;
    fake.start_fails_at = 1;
    fake.start_fails_times = 1;
    run(&failed, route_completions, "{\"prompt\": [\"a\", \"b\", \"c\"]}");
    check(&failed, "503 ServiceUnavailableError: it cannot be started");
}

/* Requests that waited for the model are admitted even if later ones have filled the queue. */
static void waiting_requests_pass_a_full_queue(void **state)
{
    (void)state;
    struct exchange x = {0}, c = {0};
    fake.script[0] = &cut_short;
    fake.waited = true;
    fake.start_fails = EY_BUSY;
    fake.start_fails_times = 6;
    run(&x, route_completions, "{\"prompt\": \"a\"}");
    check(&x, "0 'xy' =length; usage 3+3; ");
    forget(NULL);
    fake.script[0] = &cut_short;
    fake.waited = true;
    fake.start_fails = EY_BUSY;
    fake.start_fails_times = 3;
    run(&c, route_chat_completions, "{" MESSAGES ", " STREAM "}");
    check(&c, "0 role; 0 'x'; 0 'y'; 0 =length; usage 3+3; DONE");
}

static void an_error_in_mid_stream(void **state)
{
    (void)state;
    static const struct script failing = {.steps = {"x"}, .failure = EY_INTERNAL},
                               stopped = {.steps = {"x"}, .finish = EY_FINISH_CANCELLED};
    struct exchange x = {0}, c = {0}, w = {0};
    fake.script[0] = &failing;
    run(&x, route_chat_completions, "{" MESSAGES ", " STREAM "}");
    check(&x, "0 role; 0 'x'; error 500 it broke; DONE");
    fake.script[0] = &stopped;
    run(&c, route_chat_completions, "{" MESSAGES ", " STREAM "}");
    check(&c, "0 role; 0 'x'; error 503 the server stopped this answer; DONE");
    run(&w, route_chat_completions, "{" MESSAGES "}");
    check(&w, "503 ServiceUnavailableError: the server stopped this answer");
}

static const struct script endless = {.steps = {"x", "="}};

static void the_client_leaves(void **state)
{
    (void)state;
    struct exchange s = {.hangs_up_at = 0.5}, w = {.hangs_up_at = 0.5};
    fake.script[0] = &endless;
    run(&s, route_chat_completions, "{" MESSAGES ", \"stream\": true}");
    assert_true(s.cut);
    assert_int_equal(fake.cancelled, 1);
    check(&s, "0 role; 0 'x'; ");
    fake.clock = 0;
    run(&w, route_chat_completions, "{" MESSAGES ", \"n\": 3}");
    assert_int_equal(fake.cancelled, 4);
    check(&w, "499 InternalServerError: the client has left");
}

static void the_server_ends(void **state)
{
    (void)state;
    struct exchange s = {0}, w = {0};
    fake.script[0] = &endless;
    fake.ending_at = 0.5;
    run(&s, route_chat_completions, "{" MESSAGES ", \"stream\": true}");
    check(&s, "0 role; 0 'x'; error 503 the server is shutting down; DONE");
    fake.clock = 0;
    run(&w, route_chat_completions, "{" MESSAGES "}");
    check(&w, "503 ServiceUnavailableError: the server is shutting down");
    assert_int_equal(fake.cancelled, 2);
}

/* After 10 seconds without output, a comment line keeps proxies from closing the connection; before
 * the first token it shows the progress. */
static void keep_alive_comments(void **state)
{
    (void)state;
    static const struct script waiting = {.steps = {":queue", "="}};
    struct exchange x = {.hangs_up_at = 29}, y = {.hangs_up_at = 19};
    fake.script[0] = &endless;
    fake.script[1] = &waiting;
    run(&x, route_chat_completions, "{" MESSAGES ", \"stream\": true}");
    check(&x, "0 role; 0 'x'; : waiting; : waiting; ");
    fake.clock = 0;
    run(&y, route_chat_completions, "{" MESSAGES ", \"stream\": true}");
    check(&y, ": queue 1/2; ");
}

/* Some clients take comments for events, so none is sent while other output comes in time. */
static void no_comment_on_progress(void **state)
{
    (void)state;
    static const struct script steps = {.steps = {":queue", ":vision", ":vision", ":vision",
                                                  ":prefill", "-", "-", ":prefill", "x", ":decode",
                                                  "y"}};
    struct exchange x = {0};
    fake.script[0] = &steps;
    run(&x, route_chat_completions, "{" MESSAGES ", \"stream\": true}");
    check(&x, "0 role; 0 'x'; 0 'y'; 0 =stop; DONE");
}

/* ---- counting ---- */

static void counting(void **state)
{
    (void)state;
    struct exchange text = {0}, chat = {0}, empty = {0}, back = {0}, render = {0}, bad = {0};
    struct exchange pieces = {0}, template = {0}, counted = {0}, long_text = {0}, bare = {0};
    run(&text, route_tokenize, "{\"prompt\": \"abc\", \"return_token_strs\": true}");
    assert_string_equal(text.out.data, "{\"count\":3,\"max_model_len\":100,\"tokens\":[7,8,9],"
                                       "\"token_strs\":[\"t\",\"t\",\"t\"]}");
    run(&chat, route_tokenize, "{" MESSAGES "}");
    assert_string_equal(
        chat.out.data,
        "{\"count\":3,\"max_model_len\":100,\"tokens\":[7,8,9],\"token_strs\":null}");
    run(&empty, route_tokenize, "{\"prompt\": \"\", \"return_token_strs\": true}");
    assert_string_equal(empty.out.data,
                        "{\"count\":0,\"max_model_len\":100,\"tokens\":[],\"token_strs\":[]}");
    run(&back, route_detokenize, "{\"tokens\": [1, 2]}");
    assert_string_equal(back.out.data, "{\"prompt\":\"##\",\"content\":\"##\"}");
    run(&render, route_render, "{" MESSAGES "}");
    assert_string_equal(render.out.data,
                        "{\"object\":\"chat.completion.render\",\"model\":\"m\",\"prompt_tokens\":"
                        "3,\"image_tokens\":2,\"kv_bytes\":4096,"
                        "\"max_model_len\":100,\"images\":[{\"width\":10,\"height\":20,\"used_"
                        "width\":32,\"used_height\":64,\"tokens\":2,"
                        "\"cached\":false}],\"prompt_token_ids\":[7,8,9]}");
    run(&pieces, route_tokenize, "{\"content\": \"abc\", \"with_pieces\": true}");
    assert_non_null(strstr(pieces.out.data, "\"tokens\":[{\"id\":7,\"piece\":\"t\"},{\"id\":8,"));
    run(&template, route_apply_template, "{" MESSAGES "}");
    assert_string_equal(template.out.data, "{\"prompt\":\"###\"}");
    run(&counted, route_input_tokens, "{" MESSAGES "}");
    assert_string_equal(counted.out.data, "{\"input_tokens\":3}");
    fake.prepare_fails = EY_TOO_LONG;
    run(&long_text, route_tokenize, "{\"prompt\": \"abc\"}");
    assert_string_equal(
        long_text.out.data,
        "{\"count\":4,\"max_model_len\":100,\"tokens\":[7,1,2,3],\"token_strs\":null}");
    run(&bare, route_tokenize, "{\"prompt\": \"abc\", \"add_special_tokens\": false}");
    assert_string_equal(
        bare.out.data,
        "{\"count\":3,\"max_model_len\":100,\"tokens\":[1,2,3],\"token_strs\":null}");
    fake.prepare_fails = EY_BAD_REQUEST;
    run(&bad, route_tokenize, "{\"prompt\": \"abc\"}");
    assert_string_equal(bad.param, "prompt");
    buf_free(&text.out);
    buf_free(&chat.out);
    buf_free(&empty.out);
    buf_free(&back.out);
    buf_free(&render.out);
    buf_free(&pieces.out);
    buf_free(&template.out);
    buf_free(&counted.out);
    buf_free(&long_text.out);
    buf_free(&bare.out);
    buf_free(&bad.out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_whole_answer, forget),
        cmocka_unit_test_setup(a_streamed_answer, forget),
        cmocka_unit_test_setup(several_answers, forget),
        cmocka_unit_test_setup(finish_reasons_are_reported, forget),
        cmocka_unit_test_setup(completions, forget),
        cmocka_unit_test_setup(many_prompts_do_not_fill_the_queue, forget),
        cmocka_unit_test_setup(log_probabilities, forget),
        cmocka_unit_test_setup(log_probabilities_of_prompts, forget),
        cmocka_unit_test_setup(answers_are_charged_to_their_client, forget),
        cmocka_unit_test_setup(tool_calls_are_parsed, forget),
        cmocka_unit_test_setup(tool_calls_of_another_format, forget),
        cmocka_unit_test_setup(answers_that_keep_to_a_grammar, forget),
        cmocka_unit_test_setup(refused_before_anything_is_sent, forget),
        cmocka_unit_test_setup(images_that_fail_have_their_field, forget),
        cmocka_unit_test_setup(prompts_that_do_not_fit, forget),
        cmocka_unit_test_setup(later_prompts_wait_for_a_full_queue, forget),
        cmocka_unit_test_setup(waiting_requests_pass_a_full_queue, forget),
        cmocka_unit_test_setup(an_error_in_mid_stream, forget),
        cmocka_unit_test_setup(the_client_leaves, forget),
        cmocka_unit_test_setup(the_server_ends, forget),
        cmocka_unit_test_setup(keep_alive_comments, forget),
        cmocka_unit_test_setup(no_comment_on_progress, forget),
        cmocka_unit_test_setup(counting, forget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
