/* SPDX-License-Identifier: Apache-2.0 */
/* Reads "options", "think" and "keep_alive". A model's recommendations take precedence over
 * Ollama's defaults. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "server/api/common/sampling_fields.h"
#include "server/api/common/thinking_fields.h"
#include "server/api/ollama/ollama_dialect.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- values, as Ollama's Go parser accepts them ---- */

static bool fail_option(const struct api_reading *r, const char *name, const char *type)
{
    struct field_path options = field_root("options");
    return api_fail(r->error, field_member(&options, name).text, "option \"%s\" must be of type %s",
                    name, type);
}

static bool option_number(const struct api_reading *r, const char *name, json_object *value,
                          double *out)
{
    if (!json_object_is_type(value, json_type_int) && !json_object_is_type(value, json_type_double))
        return fail_option(r, name, "float32");
    *out = json_object_get_double(value);
    return isfinite(*out) || fail_option(r, name, "float32");
}

/* User interfaces with sliders send integers as floats, which are truncated here. */
static bool option_int(const struct api_reading *r, const char *name, json_object *value,
                       int64_t *out)
{
    double number;
    if (json_object_is_type(value, json_type_int)) return *out = json_object_get_int64(value), true;
    if (!json_object_is_type(value, json_type_double)) return fail_option(r, name, "integer");
    number = json_object_get_double(value);
    if (!(fabs(number) < 9e15)) return fail_option(r, name, "integer");
    return *out = (int64_t)number, true;
}

/* Reads a number. One outside of the range is clamped, and a note says so. */
static bool option_in_range(const struct api_reading *r, const char *name, json_object *value,
                            double lo, double hi, float *out)
{
    double number = 0;
    if (!option_number(r, name, value, &number)) return false;
    if (number < lo || number > hi) {
        api_note(r, "%s %g was changed to %g", name, number, number < lo ? lo : hi);
        number = number < lo ? lo : hi;
    }
    *out = (float)number;
    return true;
}

/* ---- each option ---- */

typedef bool option_fn(struct api_parser *p, const char *name, json_object *value);

static bool set_temperature(struct api_parser *p, const char *name, json_object *value)
{
    return option_in_range(&p->reading, name, value, 0, 2,
                           &p->reading.out->request.sampling.temperature);
}

static bool set_top_p(struct api_parser *p, const char *name, json_object *value)
{
    return option_in_range(&p->reading, name, value, 0, 1, &p->reading.out->request.sampling.top_p);
}

static bool set_min_p(struct api_parser *p, const char *name, json_object *value)
{
    return option_in_range(&p->reading, name, value, 0, 1, &p->reading.out->request.sampling.min_p);
}

static bool set_top_k(struct api_parser *p, const char *name, json_object *value)
{
    int64_t got = 0;
    if (!option_int(&p->reading, name, value, &got)) return false;
    p->reading.out->request.sampling.top_k = got > 0 && got < p->reading.limits->vocab_size
                                                 ? (int)got
                                                 : 0;
    return true;
}

static bool set_repeat_penalty(struct api_parser *p, const char *name, json_object *value)
{
    return option_in_range(&p->reading, name, value, 0.01, 100,
                           &p->reading.out->request.sampling.repetition_penalty);
}

static bool set_presence_penalty(struct api_parser *p, const char *name, json_object *value)
{
    return option_in_range(&p->reading, name, value, -2, 2,
                           &p->reading.out->request.sampling.presence_penalty);
}

static bool set_frequency_penalty(struct api_parser *p, const char *name, json_object *value)
{
    return option_in_range(&p->reading, name, value, -2, 2,
                           &p->reading.out->request.sampling.frequency_penalty);
}

/* The number of tokens that the penalty looks at. 0 disables the penalty; here, any other number
 * means all tokens. */
static bool set_repeat_last_n(struct api_parser *p, const char *name, json_object *value)
{
    float *penalty = &p->reading.out->request.sampling.repetition_penalty;
    int64_t got = 0;
    if (!option_int(&p->reading, name, value, &got)) return false;
    if (got == 0) *penalty = 1;
    if (got > 0 && *penalty != 1.0f)
        api_note(&p->reading, "repeat_penalty looks at all tokens, not at the last %lld",
                 (long long)got);
    return true;
}

static bool set_seed(struct api_parser *p, const char *name, json_object *value)
{
    int64_t got = 0;
    if (!option_int(&p->reading, name, value, &got)) return false;
    p->reading.out->seed_given = got > -1;
    p->reading.out->request.sampling.seed = (uint64_t)got;
    return true;
}

static bool set_num_predict(struct api_parser *p, const char *name, json_object *value)
{
    int64_t got = 0;
    if (!option_int(&p->reading, name, value, &got)) return false;
    p->reading.out->length_given = got > 0;
    p->reading.out->request.max_tokens = got <= 0               ? 0
                                         : got > EY_MAX_CONTEXT ? EY_MAX_CONTEXT
                                                                : (int)got;
    return true;
}

/* The memory plan fixes the context; a client that requests a longer one gets a note. */
static bool set_num_ctx(struct api_parser *p, const char *name, json_object *value)
{
    int most = p->reading.limits->max_model_len;
    int64_t got = 0;
    if (!option_int(&p->reading, name, value, &got)) return false;
    if (most && got > most)
        api_note(&p->reading, "num_ctx is limited to %d by the server's --max-model-len", most);
    return true;
}

static bool set_stop(struct api_parser *p, const char *name, json_object *value)
{
    (void)name;
    return read_stop(p, "options.stop", value);
}

/* langchaingo sends `think` among the options; the field of the request wins. */
static bool set_think(struct api_parser *p, const char *name, json_object *value)
{
    return json_member(p->json, name) || ollama_read_think(p, name, value);
}

/* Adds a note that eyelet lacks this sampler, unless the value is 0 or `off`, which disable it. */
static bool note_unless_off(struct api_parser *p, const char *name, json_object *value, double off)
{
    double number = 0;
    if (!option_number(&p->reading, name, value, &number)) return false;
    if (number != 0 && number != off) api_note(&p->reading, "%s is not supported", name);
    return true;
}

static bool note_tail_sampler(struct api_parser *p, const char *name, json_object *value)
{
    return note_unless_off(p, name, value, 1);
}

static bool note_mirostat(struct api_parser *p, const char *name, json_object *value)
{
    return note_unless_off(p, name, value, 0); /* 1 and 2 are its versions */
}

/* Read in this order, because repeat_last_n changes the value of repeat_penalty. */
static const struct {
    const char *name;
    option_fn *set;
} options[] = {
    {"num_predict", set_num_predict},
    {"num_ctx", set_num_ctx},
    {"temperature", set_temperature},
    {"top_k", set_top_k},
    {"top_p", set_top_p},
    {"min_p", set_min_p},
    {"seed", set_seed},
    {"stop", set_stop},
    {"repeat_penalty", set_repeat_penalty},
    {"repeat_last_n", set_repeat_last_n},
    {"presence_penalty", set_presence_penalty},
    {"frequency_penalty", set_frequency_penalty},
    {"typical_p", note_tail_sampler},
    {"tfs_z", note_tail_sampler},
    {"mirostat", note_mirostat},
    {"think", set_think},
};

/* Settings of Ollama's runner, which have no meaning here. */
static const char *const runner_options[] = {
    "num_keep",   "num_batch",        "num_gpu",  "main_gpu",     "num_thread",
    "use_mmap",   "use_mlock",        "low_vram", "f16_kv",       "vocab_only",
    "logits_all", "penalize_newline", "numa",     "mirostat_tau", "mirostat_eta"};

static bool is_known_option(const char *name)
{
    for (size_t i = 0; i < COUNT(options); i++)
        if (strcmp(name, options[i].name) == 0) return true;
    for (size_t i = 0; i < COUNT(runner_options); i++)
        if (strcmp(name, runner_options[i]) == 0) return true;
    return false;
}

static bool note_unknown_options(const struct api_reading *r, json_object *given)
{
    const struct field_path path = field_root("options");
    json_object_object_foreach(given, name, value)
    {
        if (value && !is_known_option(name) && !field_unknown(r, field_member(&path, name).text))
            return false;
    }
    return true;
}

bool ollama_read_options(struct api_parser *p, const char *path, json_object *value)
{
    if (!field_object(&p->reading, path, value)) return false;
    for (size_t i = 0; i < COUNT(options); i++) {
        json_object *option = json_member(value, options[i].name);
        if (option && !options[i].set(p, options[i].name, option)) return false;
    }
    return note_unknown_options(&p->reading, value);
}

/* ---- thinking ---- */

bool ollama_read_think(struct api_parser *p, const char *path, json_object *value)
{
    static const char *const levels[] = {"low", "medium", "high", "max"};
    const struct api_reading *r = &p->reading;
    bool wanted = json_object_is_type(value, json_type_boolean) && json_object_get_boolean(value);
    bool known = json_object_is_type(value, json_type_boolean);
    for (size_t i = 0; i < COUNT(levels); i++)
        if (field_text_is(value, levels[i])) wanted = known = true;
    if (!known)
        return api_fail_field(r->error, path,
                              "true, false, \"low\", \"medium\", \"high\" or \"max\"", value);
    thinking_ask(p, path, wanted);
    if (!wanted || r->limits->thinks) return true;
    api_fail(r->error, path, "\"%.200s\" does not support thinking", r->out->model);
    r->error->code = API_ERROR_UNSUPPORTED;
    return false;
}

/* ---- keep_alive ---- */

/* Returns the seconds of the unit with which the text begins, as in Go's durations, or 0 if there
 * is none. Writes the length of the unit's name to *n. */
static double duration_unit(const char *text, size_t *n)
{
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}, {"h", 3600}, {"m", 60}, {"s", 1}};
    for (size_t i = 0; i < COUNT(units); i++) {
        *n = strlen(units[i].name);
        if (strncmp(text, units[i].name, *n) == 0) return units[i].seconds;
    }
    return 0;
}

/* Reads "1h30m", "-1m", "300ms", or a bare number of seconds. */
static bool read_duration(const char *text, double *out)
{
    double sign = *text == '-' ? -1 : 1, sum = 0;
    if (*text == '-' || *text == '+') text++;
    bool bare = true;
    if (!*text) return false;
    while (*text) {
        size_t n;
        char *rest;
        const size_t n_number = strspn(text, "0123456789.");
        if (!n_number) return false;
        double number = strtod(text, &rest);
        if (rest != text + n_number) return false; /* "0x10", "1e2", "1.2.3", "." */
        double unit = duration_unit(rest, &n);
        bool known = unit != 0;
        if (!known && (*rest || !bare)) return false;
        sum += number * (known ? unit : 1);
        text = rest + (known ? n : 0);
        bare = false;
    }
    *out = sign * sum;
    return true;
}

bool ollama_read_keep_alive(json_object *request, bool *given, double *seconds,
                            struct api_error *error)
{
    const double century = 100 * 365.25 * 86400;
    json_object *value = json_member(request, "keep_alive");
    *given = value != NULL;
    *seconds = 0;
    if (!value) return true;
    bool ok = json_object_is_type(value, json_type_int) ||
              json_object_is_type(value, json_type_double);
    if (ok) *seconds = json_object_get_double(value);
    if (json_object_is_type(value, json_type_string))
        ok = read_duration(json_object_get_string(value), seconds);
    if (!ok || isnan(*seconds))
        return api_fail_field(error, "keep_alive", "a number of seconds or a duration like \"5m\"",
                              value);
    if (*seconds < 0 || *seconds > century)
        *seconds = INFINITY; /* for ever; a longer time would overflow clocks */
    return true;
}
