/* SPDX-License-Identifier: Apache-2.0 */
/* Long tests of grammars: constrain_walks [WALKS [SEED [TOKENIZER]]] checks random walks over
 * random schemas and patterns; the defaults are 2,000 walks, seed 1 and the demo model's tokenizer
 * (TOKENIZER is a directory). constrain_walks --samples N [SEED [TOKENIZER]] prints N lines
 * {"schema": …, "texts": ["…", …]} for tests/clients/ajv.test.mjs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/text/json_writer.h"
#include "constrain/schema_checker.h"
#include "constrain/grammar_generator.h"
#include "constrain/random_walks.h"

enum { WALKS_A_GRAMMAR = 20, SAMPLES_A_SCHEMA = 8, EXACT_EVERY = 97 };

struct tally {
    long grammars, refused, patterns_refused, walks, ended, longs, wrong, exact;
};

struct setting {
    struct tokenizer *tok;
    struct vocabulary *v;
    uint64_t state;
    struct tally tally;
};

static void report_wrong(struct setting *s, const char *what, const char *grammar,
                         const struct buf *text, const char *why)
{
    if (s->tally.wrong++ < 10)
        printf("%s\n  grammar %s\n  text    %s\n  why     %s\n", what, grammar,
               text->data ? text->data : "", why);
}

/* Makes one walk and checks it. `schema` NULL: `source` is a regular expression. */
static void check_walk(struct setting *s, struct matcher *c, json_object *schema,
                       const char *source, struct buf *text)
{
    static const char *const what[] = {
        [WALK_STUCK] = "a dead end", [WALK_WRONG] = "the mask is wrong"};
    char why[200] = "";
    enum walk_end end = random_walk(c, s->tok, &s->state, (int)random_below(&s->state, 60), text);
    s->tally.walks++;
    if (end == WALK_STUCK || end == WALK_WRONG) report_wrong(s, what[end], source, text, why);
    if (end == WALK_LONG) s->tally.longs++;
    if (end != WALK_ENDED) return;
    s->tally.ended++;
    const char *data = text->data ? text->data : "";
    bool valid = schema ? checker_valid_text(schema, data, text->size, why)
                        : checker_matches(source, data, text->size, false);
    if (!valid) report_wrong(s, "an invalid text", source, text, why);
    if (s->tally.walks % EXACT_EVERY == 0 && text->size) {
        text->size = random_below(
            &s->state, (uint32_t)text->size); /* a random place, possibly inside a character */
        matcher_reset(c);
        s->tally.exact++;
        if (!matcher_accept_text(c, text->data, text->size) || !mask_is_exact(c, s->tok, text))
            report_wrong(s, "the mask is not exact", source, text, "");
    }
}

static void check_grammar(struct setting *s, struct grammar *g, json_object *schema,
                          const char *source)
{
    struct matcher *c = NULL;
    struct buf text = buf_with_max(1 << 20);
    ey_err e;
    s->tally.grammars++;
    if (!matcher_open(&c, g, s->v, &e)) {
        report_wrong(s, "no constraint", source, &text, e.text);
        return;
    }
    for (int i = 0; i < WALKS_A_GRAMMAR; i++)
        check_walk(s, c, schema, source, &text);
    buf_free(&text);
    matcher_close(&c);
}

static const char *plain_json(json_object *value)
{
    return json_object_to_json_string_ext(value,
                                          JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
}

static void walk_schema(struct setting *s)
{
    struct grammar *g = NULL;
    ey_err e;
    json_object *schema = random_schema(&s->state);
    const char *source = plain_json(schema);
    if (grammar_of_schema(&g, source, strlen(source), &e))
        check_grammar(s, g, schema, source);
    else if (s->tally.refused++ < 5 && getenv("VERBOSE"))
        printf("refused: %s\n  %s\n", source, e.text);
    grammar_release(&g);
    json_object_put(schema);
}

static void walk_pattern(struct setting *s)
{
    struct grammar *g = NULL;
    ey_err e;
    struct buf pattern = buf_with_max(1 << 16);
    random_pattern(&s->state, &pattern, 2);
    if (grammar_of_regex(&g, pattern.data, pattern.size, &e))
        check_grammar(s, g, NULL, pattern.data);
    else if (s->tally.patterns_refused++ < 5 && getenv("VERBOSE"))
        printf("refused: %s\n  %s\n", pattern.data, e.text);
    grammar_release(&g);
    buf_free(&pattern);
}

static int run_walks(struct setting *s, long walks)
{
    struct tally *t = &s->tally;
    for (long i = 0; t->walks < walks; i++) {
        if (i % 3)
            walk_schema(s);
        else
            walk_pattern(s);
    }
    printf("%ld walks over %ld grammars (%ld schemas and %ld patterns refused): %ld ended, %ld "
           "given up, %ld masks exact, %ld "
           "wrong\n",
           t->walks, t->grammars, t->refused, t->patterns_refused, t->ended, t->longs, t->exact,
           t->wrong);
    /* random schemas may contradict themselves, patterns may be too ambiguous and walks too long,
     * but only rarely */
    return t->wrong || t->refused * 10 > t->grammars || t->patterns_refused * 50 > t->grammars ||
           t->longs * 10 > t->walks;
}

static void print_sample(struct setting *s, struct grammar *g, const char *source)
{
    struct matcher *c = NULL;
    struct buf text = buf_with_max(1 << 20), line = buf_with_max(1 << 24);
    if (!matcher_open(&c, g, s->v, NULL)) abort();
    buf_printf(&line, "{\"schema\": %s, \"texts\": [", source);
    for (int i = 0; i < SAMPLES_A_SCHEMA; i++) {
        if (random_walk(c, s->tok, &s->state, (int)random_below(&s->state, 60), &text) !=
            WALK_ENDED)
            continue;
        if (line.data[line.size - 1] != '[') buf_add_text(&line, ", ");
        json_dump_string(&line, text.data, text.size);
    }
    buf_add_text(&line, "]}");
    puts(line.data);
    buf_free(&text);
    buf_free(&line);
    matcher_close(&c);
}

static int run_samples(struct setting *s, long samples)
{
    for (long i = 0; i < samples;) {
        struct grammar *g = NULL;
        json_object *schema = random_schema(&s->state);
        const char *source = plain_json(schema);
        if (grammar_of_schema(&g, source, strlen(source), NULL)) {
            print_sample(s, g, source);
            i++;
        }
        grammar_release(&g);
        json_object_put(schema);
    }
    return 0;
}

int main(int argc, char **argv)
{
    bool samples = argc > 2 && strcmp(argv[1], "--samples") == 0;
    argv += samples;
    argc -= samples;
    long n = argc > 1 ? atol(argv[1]) : 2000;
    struct setting s = {.state = argc > 2 ? strtoull(argv[2], NULL, 10) : 1};
    ey_err e;
    if (!tokenizer_open(&s.tok, argc > 3 ? argv[3] : "models/demo", &e) ||
        !vocabulary_open(&s.v, s.tok, tokenizer_size(s.tok), VOCABULARY_CACHED_MASKS, &e)) {
        fprintf(stderr, "%s\n", e.text);
        return 1;
    }
    int failed = samples ? run_samples(&s, n) : run_walks(&s, n);
    vocabulary_close(&s.v);
    tokenizer_close(s.tok);
    return failed;
}
