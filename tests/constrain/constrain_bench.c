/* SPDX-License-Identifier: Apache-2.0 */
/* Times grammars: compiling, and the mask of each token, in microseconds of processor time.
 *
 *     constrain_bench [TOKENIZER_DIRECTORY [VOCABULARY_SIZE]]      (default: the demo model's)
 * "first": masks of a grammar's first answers; "later": masks of answers that find them in the
 * cache. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "constrain/random_walks.h"

enum { MOST_MASKS = 1 << 16, LATER_ROUNDS = 20 };

struct bench_case {
    const char *name;
    char kind; /* s: schema, r: regular expression, j: any object */
    const char *grammar;
    const char *answers[4]; /* as a model may write them */
};

#define TEXT                                                                               \
    "The image shows a street in the old town at dusk, with two bicycles \\\"leaning\\\" " \
    "against a brick wall, a cafe whose lights are on, and people"

static const struct bench_case cases[] = {
    {"invoice",
     's',
     "{\"type\":\"object\",\"properties\":{\"number\":{\"type\":\"string\"},\"date\":{\"type\":"
     "\"string\",\"format\":\"date\"},\"supplier\":{\"type\":\"object\","
     "\"properties\":{\"name\":{\"type\":\"string\"},\"vat_id\":{\"type\":[\"string\",\"null\"]}},"
     "\"required\":[\"name\",\"vat_id\"],\"additionalProperties\":false},"
     "\"lines\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{\"text\":{"
     "\"type\":\"string\"},\"quantity\":{\"type\":\"number\"},\"price\":"
     "{\"type\":\"number\"}},\"required\":[\"text\",\"quantity\",\"price\"],"
     "\"additionalProperties\":false}},\"total\":{\"type\":\"number\"},\"currency\":"
     "{\"enum\":[\"EUR\",\"USD\",\"GBP\"]}},\"required\":[\"number\",\"date\",\"supplier\","
     "\"lines\",\"total\",\"currency\"],\"additionalProperties\":false}",
     {"{\"number\": \"2024-00417\", \"date\": \"2024-03-15\", \"supplier\": {\"name\": \"Müller & "
      "Söhne GmbH\", \"vat_id\": \"DE123456789\"}, \"lines\": [{\"text\": \"Paper A4, 500 "
      "sheets\", \"quantity\": 10, \"price\": 4.99}, {\"text\": \"Toner \\\"black\\\"\", "
      "\"quantity\": 2, \"price\": 59.5}], \"total\": 168.90, \"currency\": \"EUR\"}"}},
    {"boxes",
     's',
     "{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{\"bbox_2d\":{\"type\":"
     "\"array\",\"items\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":1000},"
     "\"minItems\":4,\"maxItems\":4},\"label\":{\"type\":\"string\",\"maxLength\":100}},"
     "\"required\":[\"bbox_2d\",\"label\"],\"additionalProperties\":false},\"maxItems\":50}",
     {"[{\"bbox_2d\": [12, 34, 560, 780], \"label\": \"red car\"}, {\"bbox_2d\": [0, 0, 1000, "
      "999], \"label\": \"traffic light on the left\"}]"}},
    {"scene, bounded strings",
     's',
     "{\"type\":\"object\",\"properties\":{\"caption\":{\"type\":\"string\",\"maxLength\":200},"
     "\"objects\":{\"type\":\"array\",\"items\":{\"type\":\"string\",\"minLength\":1,"
     "\"maxLength\":40},\"maxItems\":10},\"indoors\":{\"type\":\"boolean\"}},\"required\":["
     "\"caption\",\"objects\",\"indoors\"]}",
     {"{\"caption\": \"" TEXT
      "\", \"objects\": [\"bicycle\", \"brick wall\", \"cafe\"], \"indoors\": false}"}},
    {"tree",
     's',
     "{\"$ref\":\"#/$defs/"
     "n\",\"$defs\":{\"n\":{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},"
     "\"children\":{\"type\":\"array\",\"items\":"
     "{\"$ref\":\"#/$defs/n\"}}},\"required\":[\"name\",\"children\"]}}}",
     {"{\"name\": \"root\", \"children\": [{\"name\": \"left\", \"children\": []}, {\"name\": "
      "\"right side\", \"children\": [{\"name\": \"leaf\", \"children\": []}]}]}"}},
    {"variants",
     's',
     "{\"type\":\"array\",\"items\":{\"anyOf\":[{\"type\":\"object\",\"properties\":{\"kind\":{"
     "\"const\":\"person\"},\"name\":{\"type\":\"string\"},\"age\":{\"type\":"
     "\"integer\",\"minimum\":0,\"maximum\":120}},\"required\":[\"kind\",\"name\"]},{\"type\":"
     "\"object\",\"properties\":{\"kind\":{\"const\":\"place\"},\"name\":{\"type\":"
     "\"string\"},\"country\":{\"type\":\"string\",\"pattern\":\"^[A-Z]{2}$\"}},\"required\":["
     "\"kind\",\"name\",\"country\"]}]}}",
     {"[{\"kind\": \"person\", \"name\": \"Ada Lovelace\", \"age\": 36}, {\"kind\": \"place\", "
      "\"name\": \"London\", \"country\": \"GB\"}]"}},
    {"patterns",
     's',
     "{\"type\":\"object\",\"properties\":{\"url\":{\"type\":\"string\",\"pattern\":\"^https?://"
     "\"},\"slug\":{\"type\":\"string\",\"pattern\":\"^[a-z0-9]+(-[a-z0-9]+)*$\"},"
     "\"phone\":{\"type\":\"string\",\"pattern\":\"^\\\\+?[0-9 "
     "()-]{5,20}$\"},\"line\":{\"type\":\"string\",\"pattern\":\"^[^,;]{1,100}$\"}},\"required\":["
     "\"url\",\"slug\",\"phone\",\"line\"]}",
     {"{\"url\": \"https://example.org/a/long/path?with=query\", \"slug\": "
      "\"a-street-in-the-old-town\", \"phone\": \"+49 (731) 555-0123\", \"line\": \"a line without "
      "commas in it\"}"}},
    {"any object",
     'j',
     "",
     {"{\"title\": \"Street\", \"items\": [1, 2.5, true, null, \"" TEXT
      "\"], \"nested\": {\"a\": {\"b\": []}}}"}},
    {"regex",
     'r',
     "(Yes|No), because [A-Za-z ,']{10,200}\\.",
     {"Yes, because the light is red and the people are waiting at the crossing."}},
    {"plate", 'r', "[A-Z]{1,3}-[A-Z]{1,2} [0-9]{1,4}", {"UL-AB 1234"}},
};

struct times {
    double us[MOST_MASKS];
    size_t n;
};

static double processor_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double share(struct times *t, double q)
{
    return t->n ? t->us[(size_t)(q * (double)(t->n - 1))] : 0;
}

/* Times the masks of one answer. Returns false if the grammar refuses it. */
static bool time_answer(struct matcher *c, const struct tokenizer *tok, const char *answer,
                        struct times *t)
{
    struct ids ids = {0};
    bool ok = tokenizer_encode(tok, answer, strlen(answer), false, &ids, NULL);
    matcher_reset(c);
    for (size_t i = 0; i < ids.n && ok; i++) {
        double begin = processor_seconds();
        bool allowed = mask_has(matcher_mask(c), ids.id[i]);
        if (t->n < MOST_MASKS) t->us[t->n++] = (processor_seconds() - begin) * 1e6;
        ok = allowed && matcher_accept_token(c, ids.id[i]);
        if (!ok) printf("token %zu of %s is not allowed\n", i, answer);
    }
    ids_free(&ids);
    return ok && matcher_may_end(c);
}

static bool compile(const struct bench_case *b, struct grammar **g, ey_err *e)
{
    if (b->kind == 'j') return grammar_of_json_object(g, e);
    return b->kind == 's' ? grammar_of_schema(g, b->grammar, strlen(b->grammar), e)
                          : grammar_of_regex(g, b->grammar, strlen(b->grammar), e);
}

static bool run_case(const struct bench_case *b, const struct tokenizer *tok,
                     const struct vocabulary *v, struct times *all)
{
    static struct times first, later;
    struct grammar *g = NULL;
    struct matcher *c = NULL;
    ey_err e;
    double begin = processor_seconds();
    if (!compile(b, &g, &e) || !matcher_open(&c, g, v, &e))
        return printf("%s: %s\n", b->name, e.text), false;
    double compiled = processor_seconds() - begin;
    bool ok = true;
    first.n = later.n = 0;
    for (int i = 0; i < 4 && b->answers[i] && ok; i++)
        ok = time_answer(c, tok, b->answers[i], &first);
    for (int round = 0; round < LATER_ROUNDS; round++)
        for (int i = 0; i < 4 && b->answers[i] && ok; i++)
            ok = time_answer(c, tok, b->answers[i], &later);
    for (size_t i = 0; i < first.n && all->n < MOST_MASKS; i++)
        all->us[all->n++] = first.us[i];
    qsort(first.us, first.n, sizeof(double), by_size);
    qsort(later.us, later.n, sizeof(double), by_size);
    printf("%-24s %8.2f %8zu %7zu %8.1f %8.1f %8.1f %8.1f %8.1f\n", b->name, compiled * 1e3,
           grammar_bytes(g) >> 10, first.n, share(&first, 0.5), share(&first, 0.99),
           share(&first, 1), share(&later, 0.5), share(&later, 0.99));
    matcher_close(&c);
    grammar_release(&g);
    return ok;
}

int main(int argc, char **argv)
{
    static struct times all;
    struct tokenizer *tok = NULL;
    struct vocabulary *v = NULL;
    ey_err e;
    bool ok = true;
    if (!tokenizer_open(&tok, argc > 1 ? argv[1] : "models/demo", &e))
        return printf("%s\n", e.text), 1;
    double begin = processor_seconds();
    if (!vocabulary_open(&v, tok, argc > 2 ? atoi(argv[2]) : tokenizer_size(tok),
                         VOCABULARY_CACHED_MASKS, &e))
        return printf("%s\n", e.text), 1;
    printf("vocabulary of %d tokens: %.0f ms, %zu KiB\n", tokenizer_size(tok),
           (processor_seconds() - begin) * 1e3, vocabulary_bytes(v) >> 10);
    printf("%-24s %8s %8s %7s %26s %17s\n", "", "compile", "size", "masks", "first: p50, p99, most",
           "later: p50, p99");
    printf("%-24s %8s %8s %7s %26s %17s\n", "", "ms", "KiB", "", "us", "us");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        ok &= run_case(&cases[i], tok, v, &all);
    qsort(all.us, all.n, sizeof(double), by_size);
    printf("first masks of all: p50 %.1f us, p99 %.1f us, most %.1f us\n", share(&all, 0.5),
           share(&all, 0.99), share(&all, 1));
    vocabulary_close(&v);
    tokenizer_close(tok);
    return !ok;
}
