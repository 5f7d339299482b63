/* SPDX-License-Identifier: Apache-2.0 */
/* Compares vectors and scores with the reference's (tools/golden/pooling_golden.py), case by case:
 *     test_pooling_golden NAME CHECKPOINT DEVICE
 * Ids must be equal; the table below bounds the errors of vectors and scores. */
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
#include "eyelet/pooling.h"

/* Relative error of vectors, absolute error of scores. An error of 0.03 is a cosine of 0.9995, like
 * that of a vector truncated to 768 numbers and rounded to bytes. In the case where a GPU has
 * 0.021, transformers in BF16 has 0.048 (README.md). */
static const struct tolerance {
    const char *device;
    double vector, score;
} tolerances[] = {{"ref", 1e-4, 1e-4}, {"cpu", 2e-2, 2e-2}, {"cuda", 3e-2, 2e-2}};

enum { MAX_PARTS = 8 };

static struct {
    const struct tolerance *tolerance;
    ey_engine *engine;
    json_object *head;
    struct safetensors *tensors;
    double worst_vector, worst_score;
} golden;

struct pooling_case {
    ey_part parts[MAX_PARTS], query[MAX_PARTS];
    char *files[2 * MAX_PARTS];
    size_t n_files;
    ey_pooling_input input;
    ey_request request;
};

static void must(bool ok, const ey_err *e)
{
    if (!ok) fail_msg("%s", e->text);
}

static ey_part read_part(struct pooling_case *c, json_object *part)
{
    const char *words = json_object_get_string(json_member(part, "text")),
               *file = json_object_get_string(json_member(part, "image"));
    char path[EY_MAX_PATH];
    size_t n;
    ey_err e;
    if (words) return ey_text_part(words);
    must(path_join(path, "tests/golden/pictures", file, &e), &e);
    must(file_read(&c->files[c->n_files], &n, path, EY_MAX_IMAGE_BYTES, &e), &e);
    return ey_image_part(c->files[c->n_files++], n);
}

static size_t read_parts(struct pooling_case *c, ey_part *out, json_object *parts)
{
    size_t n = parts ? json_object_array_length(parts) : 0;
    assert_true(n <= MAX_PARTS);
    for (size_t i = 0; i < n; i++)
        out[i] = read_part(c, json_object_array_get_idx(parts, i));
    return n;
}

static void read_case(struct pooling_case *c, json_object *from)
{
    json_object *instruction = json_member(from, "instruction"),
                *query = json_member(from, "query");
    *c = (struct pooling_case){.request = ey_request_defaults()};
    c->input.parts = c->parts;
    c->input.n_parts = read_parts(c, c->parts, json_member(from, "parts"));
    c->input.query = query ? c->query : NULL;
    c->input.n_query = read_parts(c, c->query, query);
    c->input.instruction = json_object_get_string(instruction);
    c->input.n_instruction = instruction ? strlen(c->input.instruction) : 0;
    c->request.pool = true;
    c->request.input = &c->input;
    c->request.max_prompt_tokens = json_object_get_int(json_member(from, "max_tokens"));
    c->request.truncate = c->request.max_prompt_tokens > 0;
}

static void check_ids(const struct pooling_case *c, json_object *ids)
{
    ey_prompt *prompt;
    ey_err e;
    must(ey_prompt_prepare(golden.engine, &c->request, &prompt, &e), &e);
    assert_int_equal(prompt->ids.n, json_object_array_length(ids));
    for (size_t i = 0; i < prompt->ids.n; i++)
        assert_int_equal(prompt->ids.id[i], json_object_get_int(json_object_array_get_idx(ids, i)));
    ey_prompt_free(&prompt);
}

static const float *golden_row(const char *name, const char *part, size_t n)
{
    char whole[128];
    snprintf(whole, sizeof(whole), "%s.%s", name, part);
    const struct tensor_view *t = safetensors_find(golden.tensors, whole);
    if (!t || t->size != n * sizeof(float)) fail_msg("no tensor %s of %zu numbers", whole, n);
    float *copy = malloc(t->size);
    memcpy(copy, t->data, t->size);
    return copy;
}

/* Compares got[n] with the first n of want; both are normalized if `scaled`. */
static double relative_error(const float *got, const float *want, size_t n, bool scaled)
{
    double length = 0, error = 0, power = 0;
    for (size_t i = 0; i < n; i++)
        length += (double)want[i] * (double)want[i];
    const double scale = scaled ? 1 / sqrt(length) : 1;
    for (size_t i = 0; i < n; i++) {
        double w = (double)want[i] * scale, diff = (double)got[i] - w;
        error += diff * diff;
        power += w * w;
    }
    return sqrt(error / power);
}

static void check_vector(struct pooling_case *c, const char *name, int dimensions, bool raw)
{
    const size_t hidden = (size_t)ey_engine_dimensions(golden.engine);
    const float *want = golden_row(name, raw ? "hidden" : "vector", hidden);
    ey_answer answer;
    ey_err e;
    c->request.dimensions = dimensions;
    c->request.raw_vector = raw;
    must(ey_ask(golden.engine, &c->request, &answer, &e), &e);
    ey_pooled pooled = ey_answer_pooled(&answer);
    assert_int_equal(pooled.n_vector, dimensions ? (size_t)dimensions : hidden);
    assert_int_equal(answer.finish_reason, EY_FINISH_STOP);
    double error = relative_error(pooled.vector, want, pooled.n_vector, !raw);
    golden.worst_vector = fmax(golden.worst_vector, error);
    if (!(error <= golden.tolerance->vector))
        fail_msg("%s: relative error of the vector of %zu is %.3g", name, pooled.n_vector, error);
    ey_answer_free(&answer);
    free((float *)(uintptr_t)want);
}

static void check_score(struct pooling_case *c, const char *name, double want)
{
    ey_answer answer;
    ey_err e;
    must(ey_ask(golden.engine, &c->request, &answer, &e), &e);
    ey_pooled pooled = ey_answer_pooled(&answer);
    double error = fabs(pooled.score - want);
    assert_null(pooled.vector);
    golden.worst_score = fmax(golden.worst_score, error);
    if (!(error <= golden.tolerance->score))
        fail_msg("%s: the score is %.5f, the reference has %.5f", name, pooled.score, want);
    ey_answer_free(&answer);
}

static void run_case(void **state)
{
    struct pooling_case c;
    const char *name = json_object_get_string(json_member(*state, "name"));
    json_object *score = json_member(*state, "score");
    read_case(&c, *state);
    check_ids(&c, json_member(*state, "ids"));
    if (score) {
        check_score(&c, name, json_object_get_double(score));
    } else {
        check_vector(&c, name, 0, false);
        check_vector(&c, name, 0, true);
        check_vector(&c, name, 64, false);
        check_vector(&c, name, 100, false);
    }
    for (size_t i = 0; i < c.n_files; i++)
        free(c.files[i]);
}

static const struct tolerance *tolerance_of(const char *device)
{
    for (size_t i = 0; i < sizeof(tolerances) / sizeof(tolerances[0]); i++)
        if (strcmp(tolerances[i].device, device) == 0) return &tolerances[i];
    return NULL;
}

static bool open_golden(const char *name, const char *checkpoint, const char *device, ey_err *e)
{
    char path[EY_MAX_PATH];
    ey_engine_options options = ey_engine_defaults();
    options.model = checkpoint;
    options.device = device;
    golden.tolerance = tolerance_of(device);
    if (!golden.tolerance) return ey_fail(e, EY_BAD_REQUEST, "no tolerance for device %s", device);
    snprintf(path, sizeof(path), "tests/golden/%s.json", name);
    if (!(golden.head = json_parse_file(path, EY_IO, e))) return false;
    snprintf(path, sizeof(path), "tests/golden/%s.safetensors", name);
    return safetensors_open(&golden.tensors, path, e) &&
           ey_engine_open(&golden.engine, &options, e);
}

int main(int argc, char **argv)
{
    ey_err e;
    if (argc != 4) return fprintf(stderr, "usage: test_pooling_golden NAME CHECKPOINT DEVICE\n"), 2;
    if (!open_golden(argv[1], argv[2], argv[3], &e)) return fprintf(stderr, "%s\n", e.text), 1;
    json_object *cases = json_member(golden.head, "cases");
    size_t n = json_object_array_length(cases);
    struct CMUnitTest *tests = calloc(n, sizeof(*tests));
    for (size_t i = 0; i < n; i++) {
        json_object *c = json_object_array_get_idx(cases, i);
        tests[i] = (struct CMUnitTest){json_object_get_string(json_member(c, "name")), run_case,
                                       NULL, NULL, c};
    }
    int failed = _cmocka_run_group_tests(argv[1], tests, n, NULL, NULL);
    printf("%s on %s: largest relative error of a vector %.2g, of a score %.2g\n", argv[1], argv[3],
           golden.worst_vector, golden.worst_score);
    free(tests);
    ey_engine_close(&golden.engine);
    safetensors_close(golden.tensors);
    json_object_put(golden.head);
    return failed;
}
