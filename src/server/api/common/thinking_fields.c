/* SPDX-License-Identifier: Apache-2.0 */
#include "server/api/common/thinking_fields.h"

#include "base/limits.h"
#include "server/api/common/api_dialect.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { MAX_LOOP_PATTERN = 2048, MAX_LOOP_COUNT = 1000000 };

/* ---- on or off ---- */

static ey_thinking on_or_off(bool wanted)
{
    return wanted ? EY_THINKING_ON : EY_THINKING_OFF;
}

void thinking_ask(struct api_parser *p, const char *path, bool wanted)
{
    p->thinking.asked = on_or_off(wanted);
    p->thinking.path = field_root(path);
}

bool read_enable_thinking(struct api_parser *p, const char *path, json_object *value)
{
    bool wanted;
    if (!field_bool(&p->reading, path, value, &wanted)) return false;
    thinking_ask(p, path, wanted);
    return true;
}

bool read_reasoning_effort(struct api_parser *p, const char *path, json_object *value)
{
    static const struct {
        const char *word;
        int budget;
    } efforts[] = {{"none", 0}, {"minimal", 512}, {"low", 2048}, {"medium", 8192},
                   {"high", 0}, {"xhigh", 0},     {"max", 0}};
    for (size_t i = 0; i < COUNT(efforts); i++)
        if (field_text_is(value, efforts[i].word)) {
            p->thinking.effort = on_or_off(i > 0);
            p->thinking.effort_budget = efforts[i].budget;
            return true;
        }
    return api_fail_field(
        p->reading.error, path,
        "\"none\", \"minimal\", \"low\", \"medium\", \"high\", \"xhigh\" or \"max\"", value);
}

/* ---- budget ---- */

bool read_thinking_budget(struct api_parser *p, const char *path, json_object *value)
{
    int64_t got;
    if (!field_int(&p->reading, path, value, -1, INT32_MAX, &got)) return false;
    p->thinking.budget_given = true;
    p->thinking.budget = got < EY_MAX_CONTEXT ? (int)got : EY_MAX_CONTEXT;
    return true;
}

bool read_include_reasoning(struct api_parser *p, const char *path, json_object *value)
{
    bool wanted;
    if (!field_bool(&p->reading, path, value, &wanted)) return false;
    p->reading.out->hides_thinking = !wanted;
    return true;
}

/* ---- template options ---- */

static bool read_vision_id(struct api_parser *p, const char *path, json_object *value)
{
    return field_bool(&p->reading, path, value, &p->reading.out->request.add_vision_id);
}

bool read_template_options(struct api_parser *p, const char *path, json_object *value)
{
    static const struct {
        const char *name;
        api_field_fn *read;
    } switches[] = {{"add_vision_id", read_vision_id},
                    {"enable_thinking", read_enable_thinking},
                    {"thinking_budget", read_thinking_budget}};
    struct field_path whole = field_root(path);
    if (!field_object(&p->reading, path, value)) return false;
    for (size_t i = 0; i < COUNT(switches); i++) {
        json_object *given = json_member(value, switches[i].name);
        if (given && !switches[i].read(p, field_member(&whole, switches[i].name).text, given))
            return false;
    }
    return true;
}

/* ---- loops ---- */

static bool read_loop_member(struct api_parser *p, const struct field_path *whole,
                             json_object *object, const char *name, int64_t most, int *out)
{
    json_object *value = json_member(object, name);
    int64_t got = 0;
    if (value && !field_int(&p->reading, field_member(whole, name).text, value, 0, most, &got))
        return false;
    *out = (int)got;
    return true;
}

bool read_repetition_detection(struct api_parser *p, const char *path, json_object *value)
{
    static const char *const known[] = {"max_pattern_size", "min_pattern_size", "min_count",
                                        "min_tokens"};
    struct field_path whole = field_root(path);
    ey_loop_guard guard = {0};
    if (!field_object(&p->reading, path, value) ||
        !field_members_known(&p->reading, path, value, known, COUNT(known)) ||
        !read_loop_member(p, &whole, value, known[0], MAX_LOOP_PATTERN, &guard.max_pattern) ||
        !read_loop_member(p, &whole, value, known[1], MAX_LOOP_PATTERN, &guard.min_pattern) ||
        !read_loop_member(p, &whole, value, known[2], MAX_LOOP_COUNT, &guard.min_count) ||
        !read_loop_member(p, &whole, value, known[3], EY_MAX_CONTEXT, &guard.min_tokens))
        return false;
    if (guard.min_pattern > guard.max_pattern)
        return api_fail_value(p->reading.error, path,
                              "%s.min_pattern_size must not be more than max_pattern_size", path);
    if (guard.max_pattern && guard.min_count < 2)
        return api_fail_value(p->reading.error, path, "%s.min_count must be at least 2", path);
    p->reading.out->request.loop_guard = guard;
    p->reading.out->loops_asked = true;
    return true;
}

/* The guard is off for ignore_eos: benchmarks request answers of a fixed length. */
static void settle_loops(const struct api_reading *r)
{
    ey_request *request = &r->out->request;
    if (!r->out->loops_asked && r->limits->loop_tokens && !request->ignore_eos)
        request->loop_guard = ey_loop_guard_cautious(r->limits->loop_tokens);
}

/* ---- resolution ---- */

/* The thinking budget if no token count is given. */
static int settled_budget(const struct api_parser *p)
{
    const struct api_limits *limits = p->reading.limits;
    const struct api_request *out = p->reading.out;
    if (limits->effort_budgets && p->thinking.effort_budget) return p->thinking.effort_budget;
    return (out->dialect->keeps_answer || limits->keeps_answer) && out->request.max_tokens
               ? EY_KEEP_ANSWER
               : 0;
}

static bool refuse_thinking(struct api_parser *p)
{
    const char *path = p->thinking.path.text;
    api_fail(p->reading.error, path,
             "%s is not supported, because this model does not think; leave the field out", path);
    p->reading.error->code = API_ERROR_UNSUPPORTED;
    return false;
}

/* A client that asks for a thought must learn why there is none. */
static void note_no_thought(const struct api_parser *p)
{
    const struct api_thinking *t = &p->thinking;
    if (p->reading.out->request.continue_answer &&
        (t->asked ? t->asked : t->effort) == EY_THINKING_ON)
        api_note(&p->reading, "an answer that continues the last message has no thought");
}

bool thinking_settle(struct api_parser *p)
{
    const struct api_reading *r = &p->reading;
    const struct api_thinking *t = &p->thinking;
    ey_request *request = &r->out->request;
    settle_loops(r);
    if (t->asked == EY_THINKING_ON && !r->limits->thinks) return refuse_thinking(p);
    if (!r->limits->thinks) return true;
    note_no_thought(p);
    request->thinking = t->asked ? t->asked : t->effort ? t->effort : r->limits->thinking;
    if (t->budget_given && !t->budget) request->thinking = EY_THINKING_OFF;
    request->thinking_budget = !t->budget_given ? settled_budget(p) : t->budget > 0 ? t->budget : 0;
    return true;
}
