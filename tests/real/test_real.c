/* SPDX-License-Identifier: Apache-2.0 */
/* A model with real weights against transformers in F32 (see README.md):
 *     test_real REFERENCE.json DEVICE [TOKENS]          (at most TOKENS of each greedy answer)
 * Skipped unless tools/real/fetch.sh was run. On `ref`, logits and every greedy token must agree;
 * other devices are bounded by the KL divergence of next-token distributions, and by greedy tokens
 * except at near-ties, which are printed. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "engine/engine_internal.h"
#include "engine/request/prompt.h"

enum { SKIPPED = 77, MAX_TURNS = 16 };

static const struct bound {
    const char *device;
    double logits, kl, tie; /* tie: margin below which the second best may win */
    double score;           /* of log-probabilities; the reference has five digits */
} bounds[] = {{"ref", 1e-4, 1e-6, 1e-4, 3e-4},
              {"cpu", INFINITY, 1e-3, 0.2, 0.25},
              {"cuda", INFINITY, 3e-3, 0.3, 0.5}};

static struct {
    const struct bound *bound;
    ey_engine *engine;
    json_object *reference;
    double worst_logit, worst_kl;
    int same, near_ties;
    size_t max_tokens; /* of an answer */
} real;

static void must(bool ok, const ey_err *e)
{
    if (!ok) fail_msg("%s", e->text);
}

/* ---- the request ---- */

struct asked {
    ey_message messages[MAX_TURNS];
    ey_part parts[MAX_TURNS];
    ey_request request;
};

static void read_asked(struct asked *a, json_object *c)
{
    json_object *messages = json_member(c, "messages");
    *a = (struct asked){.request = ey_request_defaults()};
    a->request.no_prefix_cache = true;
    if (!messages) {
        json_object *text = json_member(c, "text");
        a->request.text = json_object_get_string(text);
        a->request.n_text = (size_t)json_object_get_string_len(text);
        a->request.parse_special_tokens = true;
        return;
    }
    const size_t n = json_object_array_length(messages);
    assert_true(n <= MAX_TURNS);
    for (size_t i = 0; i < n; i++) {
        json_object *message = json_object_array_get_idx(messages, i);
        a->parts[i] = ey_text_part(json_object_get_string(json_member(message, "content")));
        a->messages[i] = (ey_message){.role = json_object_get_string(json_member(message, "role")),
                                      .parts = &a->parts[i],
                                      .n_parts = 1};
    }
    a->request.messages = a->messages;
    a->request.n_messages = n;
}

static int int_at(json_object *list, size_t i)
{
    return json_object_get_int(json_object_array_get_idx(list, i));
}

static double number_at(json_object *list, size_t i)
{
    return json_object_get_double(json_object_array_get_idx(list, i));
}

static void check_ids(const struct asked *a, json_object *want)
{
    ey_prompt *prompt;
    ey_err e;
    must(ey_prompt_prepare(real.engine, &a->request, &prompt, &e), &e);
    assert_int_equal(prompt->ids.n, json_object_array_length(want));
    for (size_t i = 0; i < prompt->ids.n; i++)
        assert_int_equal(prompt->ids.id[i], int_at(want, i));
    ey_prompt_free(&prompt);
}

/* ---- logits ---- */

static const float *read_logits(int n)
{
    struct backend *be = real.engine->devices.be;
    be->ops->memory->read_logits(be, real.engine->buffers.host.logits, real.engine->buffers.logits,
                                 (size_t)n);
    return real.engine->buffers.host.logits;
}

static double log_of_sum(const float *x, int n)
{
    double most = -INFINITY, sum = 0;
    for (int i = 0; i < n; i++)
        most = fmax(most, (double)x[i]);
    for (int i = 0; i < n; i++)
        sum += exp((double)x[i] - most);
    return most + log(sum);
}

/* Over the reference's best tokens; all others count as one. */
static double kl_divergence(json_object *c, const float *got, int n)
{
    json_object *ids = json_member(c, "top_ids"), *logits = json_member(c, "top_logits");
    const double total = json_object_get_double(json_member(c, "logsumexp")),
                 own = log_of_sum(got, n);
    double kl = 0, rest = 1, own_rest = 1;
    for (size_t i = 0; i < json_object_array_length(ids); i++) {
        const double want = number_at(logits, i) - total, is = (double)got[int_at(ids, i)] - own;
        kl += exp(want) * (want - is);
        rest -= exp(want);
        own_rest -= exp(is);
    }
    return rest > 1e-9 && own_rest > 1e-9 ? kl + rest * log(rest / own_rest) : kl;
}

static void check_logits(json_object *c, const char *id)
{
    const int n = real.engine->devices.model.text.vocab_size,
              stride = json_object_get_int(json_member(real.reference, "sample_stride"));
    const float *got = read_logits(n);
    json_object *ids = json_member(c, "top_ids"), *logits = json_member(c, "top_logits"),
                *sample = json_member(c, "sample");
    double worst = 0;
    for (size_t i = 0; i < json_object_array_length(ids); i++)
        worst = fmax(worst, fabs(number_at(logits, i) - (double)got[int_at(ids, i)]));
    for (size_t i = 0; sample && i < json_object_array_length(sample); i++)
        worst = fmax(worst, fabs(number_at(sample, i) - (double)got[i * (size_t)stride]));
    const double kl = kl_divergence(c, got, n);
    real.worst_logit = fmax(real.worst_logit, worst);
    real.worst_kl = fmax(real.worst_kl, kl);
    if (!(worst <= real.bound->logits)) fail_msg("%s: logits differ by %.3g", id, worst);
    if (!(kl <= real.bound->kl)) fail_msg("%s: the KL divergence is %.3g", id, kl);
}

/* ---- the answer ---- */

/* Token i of the answer, or the one that ended it there. */
static int answer_token(const ey_answer *answer, size_t i)
{
    return i < (size_t)answer->n_tokens ? answer->tokens[i] : answer->stop_id;
}

static void check_answer(json_object *c, const char *id, const ey_answer *answer)
{
    json_object *want = json_member(c, "answer"), *margins = json_member(c, "margins");
    const size_t all = json_object_array_length(want),
                 n = all < real.max_tokens ? all : real.max_tokens;
    for (size_t i = 0; i < n; i++) {
        const int got = answer_token(answer, i);
        if (got == int_at(want, i)) continue;
        if (number_at(margins, i) > real.bound->tie)
            fail_msg("%s: token %zu is %d, the reference has %d (margin %.3g)", id, i, got,
                     int_at(want, i), number_at(margins, i));
        print_message("%s: near-tie at token %zu (margin %.2g): %d instead of %d\n", id, i,
                      number_at(margins, i), got, int_at(want, i));
        real.near_ties++;
        return;
    }
    assert_int_equal(answer->completion_tokens, n);
    real.same++;
}

static void run_case(void **state)
{
    json_object *c = *state;
    const char *id = json_object_get_string(json_member(c, "id"));
    struct asked a;
    ey_answer answer;
    ey_err e;
    read_asked(&a, c);
    check_ids(&a, json_member(c, "ids"));
    a.request.max_tokens = 1;
    must(ey_ask(real.engine, &a.request, &answer, &e), &e);
    ey_answer_free(&answer);
    check_logits(c, id);
    const size_t all = json_object_array_length(json_member(c, "answer"));
    a.request.max_tokens = (int)(all < real.max_tokens ? all : real.max_tokens);
    must(ey_ask(real.engine, &a.request, &answer, &e), &e);
    check_answer(c, id, &answer);
    ey_answer_free(&answer);
}

/* Log-probabilities of the first tokens of text.txt. The last ones are left out, because there they
 * are parts of longer tokens. */
static void score_text(void **state)
{
    enum { BYTES = 240, CUT = 2 };
    json_object *want = *state;
    char *text;
    size_t n;
    ey_request request = ey_request_defaults();
    ey_answer answer;
    ey_err e;
    double worst = 0;
    must(file_read_regular(&text, &n, "tests/real/text.txt", 1 << 20, &e), &e);
    request.text = text;
    request.n_text = BYTES;
    request.max_tokens = 1;
    request.prompt_logprobs = true;
    must(ey_ask(real.engine, &request, &answer, &e), &e);
    assert_true(answer.n_prompt_logprobs > 40);
    for (size_t i = 1; i + CUT < answer.n_prompt_logprobs; i++)
        worst = fmax(
            worst, fabs(number_at(want, i - 1) + (double)answer.prompt_logprobs[i].chosen.logprob));
    print_message("log-probabilities of %zu tokens of a text differ by %.2g\n",
                  answer.n_prompt_logprobs, worst);
    assert_true(worst <= real.bound->score);
    ey_answer_free(&answer);
    free(text);
}

/* ---- the model ---- */

static bool find_file(char *out, const char *name)
{
    const char *set = getenv("EYELET_REAL"), *cache = getenv("XDG_CACHE_HOME"),
               *home = getenv("HOME");
    if (set && *set)
        snprintf(out, EY_MAX_PATH, "%s/%s", set, name);
    else if (cache && *cache)
        snprintf(out, EY_MAX_PATH, "%s/eyelet/real/%s", cache, name);
    else
        snprintf(out, EY_MAX_PATH, "%s/.cache/eyelet/real/%s", home ? home : "", name);
    return path_is_file(out);
}

static bool open_real(const char *device, const char *file, ey_err *e)
{
    ey_engine_options options = ey_engine_defaults();
    options.model = file;
    options.device = device;
    for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++)
        if (strcmp(bounds[i].device, device) == 0) real.bound = &bounds[i];
    if (!real.bound) return ey_fail(e, EY_BAD_REQUEST, "no bound for device %s", device);
    return ey_engine_open(&real.engine, &options, e);
}

static int run_cases(const char *device)
{
    json_object *cases = json_member(real.reference, "cases");
    const size_t n = json_object_array_length(cases);
    struct CMUnitTest *tests = calloc(n + 1, sizeof(*tests));
    for (size_t i = 0; i < n; i++) {
        json_object *c = json_object_array_get_idx(cases, i);
        tests[i] = (struct CMUnitTest){json_object_get_string(json_member(c, "id")), run_case, NULL,
                                       NULL, c};
    }
    tests[n] = (struct CMUnitTest){"text.txt", score_text, NULL, NULL,
                                   json_member(json_member(real.reference, "text"), "token_nll")};
    const int failed = _cmocka_run_group_tests(device, tests, n + 1, NULL, NULL);
    printf("%s: largest logit difference %.2g, KL %.2g; of %zu greedy answers %d are the same, %d "
           "differ at a near-tie\n",
           device, real.worst_logit, real.worst_kl, n, real.same, real.near_ties);
    free(tests);
    return failed;
}

int main(int argc, char **argv)
{
    char file[EY_MAX_PATH];
    ey_err e;
    if (argc != 3 && argc != 4)
        return fprintf(stderr, "usage: test_real REFERENCE.json DEVICE [TOKENS]\n"), 2;
    real.max_tokens = argc == 4 ? strtoul(argv[3], NULL, 10) : SIZE_MAX;
    if (!(real.reference = json_parse_file(argv[1], EY_IO, &e)))
        return fprintf(stderr, "%s\n", e.text), 1;
    const char *name = json_object_get_string(json_member(real.reference, "file"));
    if (!find_file(file, name)) {
        printf("skipped: %s is not in the cache; tools/real/fetch.sh fetches it\n", name);
        return json_object_put(real.reference), SKIPPED;
    }
    if (!open_real(argv[2], file, &e)) return fprintf(stderr, "%s\n", e.text), 1;
    const int failed = run_cases(argv[2]);
    ey_engine_close(&real.engine);
    json_object_put(real.reference);
    return failed;
}
