/* SPDX-License-Identifier: Apache-2.0 */
/* Expensive schemas and patterns compile or are refused in bounded time and memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/yardstick.h"
#include "constrain/constrain_fixture.h"

enum { MOST_YARDSTICKS = 100 }; /* about three are needed, also with sanitizers */

/* Compiles within the time limit; *error is "" on success. */
static struct grammar *compiled(const struct buf *schema, char *error, size_t size)
{
    struct grammar *g = NULL;
    ey_err e = {0};
    double start = cpu_seconds();
    bool ok = grammar_of_schema(&g, schema->data, schema->size, &e);
    double yardsticks = (cpu_seconds() - start) / yardstick();
    if (yardsticks > MOST_YARDSTICKS)
        fail_msg("%.100s… took %.1f yardsticks", schema->data, yardsticks);
    snprintf(error, size, "%s", ok ? "" : e.text);
    if (!ok) assert_int_equal(e.code, EY_BAD_REQUEST);
    return g;
}

/* `says` is a part of the error; "": it must compile. */
static struct grammar *check_schema(struct buf *schema, const char *says)
{
    char error[800];
    assert_false(schema->failed);
    struct grammar *g = compiled(schema, error, sizeof(error));
    if (!strstr(error, says) || (!says[0] && error[0]))
        fail_msg("%.200s…\n  says %s\n  not  %s", schema->data, error, says);
    buf_free(schema);
    return g;
}

static struct buf new_schema(void)
{
    return buf_with_max(8 << 20);
}

static void thousands_of_constants(void **state)
{
    static const char *const in[] = {"\"value number 0\"", "\"value number 3999\"", NULL},
                             *const out[] = {"\"value number 4000\"", "\"value\"", NULL};
    struct buf s = new_schema();
    (void)state;
    buf_add_text(&s, "{\"enum\": [");
    for (int i = 0; i < 4000; i++)
        buf_printf(&s, "%s\"value number %d\"", i ? ", " : "", i);
    buf_add_text(&s, "]}");
    struct grammar *g = check_schema(&s, "");
    check_texts(g, "4000 constants", in, out);
    grammar_release(&g);
}

static void hundreds_of_optional_properties(void **state)
{
    static const char *const in[] = {"{}", "{\"property_0\":1,\"property_299\":2}",
                                     "{\"property_17\": 5}", NULL};
    static const char *const out[] = {"{\"property_299\":1,\"property_0\":2}",
                                      "{\"property_300\":1}", NULL};
    struct buf s = new_schema();
    (void)state;
    buf_add_text(&s, "{\"type\": \"object\", \"properties\": {");
    for (int i = 0; i < 300; i++)
        buf_printf(&s, "%s\"property_%d\": {\"type\": \"integer\"}", i ? ", " : "", i);
    buf_add_text(&s, "}}");
    struct grammar *g = check_schema(&s, "");
    check_texts(g, "300 properties", in, out);
    grammar_release(&g);
}

static void hundreds_of_variants(void **state)
{
    static const char *const in[] = {"{\"kind\":\"k7\",\"value\":7}",
                                     "{\"kind\":\"k199\",\"value\":199}", NULL};
    static const char *const out[] = {"{\"kind\":\"k7\",\"value\":8}",
                                      "{\"kind\":\"k200\",\"value\":200}", NULL};
    struct buf s = new_schema();
    (void)state;
    buf_add_text(&s, "{\"oneOf\": [");
    for (int i = 0; i < 200; i++)
        buf_printf(&s,
                   "%s{\"type\": \"object\", \"properties\": {\"kind\": {\"const\": \"k%d\"}, "
                   "\"value\": {\"const\": %d}}, \"required\": [\"kind\", \"value\"]}",
                   i ? ", " : "", i, i);
    buf_add_text(&s, "]}");
    struct grammar *g = check_schema(&s, "");
    check_texts(g, "200 variants", in, out);
    grammar_release(&g);
}

/* Each member decides which alternatives remain: 2^20 sets of them. */
static void alternatives_that_overlap_in_all_ways(void **state)
{
    struct buf s = new_schema();
    (void)state;
    buf_add_text(&s, "{\"anyOf\": [");
    for (int i = 0; i < 20; i++) {
        buf_printf(&s, "%s{\"type\": \"object\", \"properties\": {", i ? ", " : "");
        for (int j = 0; j < 20; j++)
            buf_printf(&s, "%s\"p%d\": {\"type\": \"%s\"}", j ? ", " : "", j,
                       i == j ? "integer" : "number");
        buf_add_text(&s, "}}");
    }
    buf_add_text(&s, "]}");
    struct grammar *g = check_schema(&s, "too large or too ambiguous");
    grammar_release(&g);
}

static void references_that_multiply(void **state)
{
    struct buf s = new_schema();
    (void)state;
    buf_add_text(&s, "{\"$ref\": \"#/$defs/a0\", \"$defs\": {");
    for (int i = 0; i < 25; i++)
        buf_printf(
            &s,
            "\"a%d\": {\"anyOf\": [{\"$ref\": \"#/$defs/a%d\"}, {\"$ref\": \"#/$defs/a%d\"}]}, ", i,
            i + 1, i + 1);
    buf_add_text(&s, "\"a25\": false}}");
    struct grammar *g = check_schema(&s, "references lead to more than");
    grammar_release(&g);
    /* as members of objects, references are one rule each and do not multiply */
    s = new_schema();
    buf_add_text(&s, "{\"$ref\": \"#/$defs/a0\", \"$defs\": {");
    for (int i = 0; i < 25; i++)
        buf_printf(&s,
                   "\"a%d\": {\"type\": \"object\", \"properties\": {\"l\": {\"$ref\": "
                   "\"#/$defs/a%d\"}, \"r\": {\"$ref\": \"#/$defs/a%d\"}}}, ",
                   i, i + 1, i + 1);
    buf_add_text(&s, "\"a25\": {\"type\": \"null\"}}}");
    g = check_schema(&s, "");
    grammar_release(&g);
}

static void a_long_chain_of_references(void **state)
{
    struct buf s = new_schema();
    (void)state;
    buf_add_text(&s, "{\"$ref\": \"#/$defs/a0\", \"$defs\": {");
    for (int i = 0; i < 1000; i++)
        buf_printf(&s, "\"a%d\": {\"$ref\": \"#/$defs/a%d\"}, ", i, i + 1);
    buf_add_text(&s, "\"a1000\": {\"type\": \"null\"}}}");
    struct grammar *g = check_schema(&s, "refers to itself");
    grammar_release(&g);
}

static void counts_that_are_huge(void **state)
{
    static const char *const in[] = {"[\"a\",\"b\"]", "[]", NULL}, *const out[] = {"[1]", NULL};
    struct buf s = new_schema();
    (void)state;
    buf_add_text(&s, "{\"type\": \"array\", \"maxItems\": 1000000000, \"items\": {\"type\": "
                     "\"string\", \"pattern\": \"^[a-z ]*$\", \"maxLength\": 1e300}}");
    struct grammar *g = check_schema(&s, "");
    check_texts(g, "huge counts", in, out);
    grammar_release(&g);
    /* in an anyOf with another array it is unrolled, which is too large */
    s = new_schema();
    buf_add_text(&s, "{\"anyOf\": [{\"type\": \"array\", \"minItems\": 1000000000, \"items\": "
                     "{\"type\": \"string\"}}, {\"type\": \"array\"}]}");
    g = check_schema(&s, "too large");
    grammar_release(&g);
    s = new_schema();
    buf_add_text(&s,
                 "{\"type\": \"string\", \"pattern\": \"^[a-z ]*$\", \"minLength\": 1000000000}");
    g = check_schema(&s, "too large");
    grammar_release(&g);
}

static void add_properties(struct buf *s, int n)
{
    buf_add_text(s, "{\"type\": \"object\", \"additionalProperties\": false, \"properties\": {");
    for (int i = 0; i < n; i++)
        buf_printf(s, "%s\"p%d\": {\"type\": \"boolean\"}", i ? ", " : "", i);
    buf_add_text(s, "}, \"required\": [");
    for (int i = 0; i < n; i++)
        buf_printf(s, "%s\"p%d\"", i ? ", " : "", i);
    buf_add_text(s, "]}");
}

/* A strict schema requires all its properties; each counts once. */
static void a_thousand_required_properties(void **state)
{
    struct buf s = new_schema();
    (void)state;
    add_properties(&s, EY_MAX_SCHEMA_BRANCHES);
    struct grammar *g = check_schema(&s, "");
    grammar_release(&g);
    s = new_schema();
    add_properties(&s, EY_MAX_SCHEMA_BRANCHES + 1);
    g = check_schema(&s, "#/properties: 1025 are more than the limit of 1024");
    grammar_release(&g);
}

static void schemas_that_are_too_long_or_deep(void **state)
{
    struct buf s = new_schema();
    (void)state;
    buf_add_text(&s, "{\"description\": \"");
    for (int i = 0; i < EY_MAX_SCHEMA_BYTES; i++)
        buf_add(&s, "x", 1);
    buf_add_text(&s, "\"}");
    struct grammar *g = check_schema(&s, "larger than the limit of 262144");
    grammar_release(&g);
    s = new_schema();
    for (int i = 0; i < 5000; i++)
        buf_add_text(&s, "{\"items\":");
    g = check_schema(&s, "nested too deeply");
    grammar_release(&g);
    s = new_schema();
    buf_printf(&s, "{\"properties\": {\"%0600d\": {}}}", 0);
    g = check_schema(&s, "longer than 512 bytes");
    grammar_release(&g);
}

static void nesting_ends_at_a_limit(void **state)
{
    struct grammar *g = schema_ok("{\"type\": \"array\", \"items\": {\"$ref\": \"#\"}}");
    struct matcher *c = NULL;
    int depth = 0;
    (void)state;
    assert_true(matcher_open(&c, g, demo_vocabulary(), NULL));
    while (matcher_accept_text(c, "[", 1))
        depth++;
    assert_int_equal(depth, EY_MAX_GRAMMAR_NESTING);
    while (matcher_accept_text(c, "]", 1))
        depth--;
    assert_int_equal(depth, 0);
    assert_true(matcher_must_end(c));
    matcher_close(&c);
    grammar_release(&g);
}

int run_limit_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thousands_of_constants),
        cmocka_unit_test(hundreds_of_optional_properties),
        cmocka_unit_test(hundreds_of_variants),
        cmocka_unit_test(alternatives_that_overlap_in_all_ways),
        cmocka_unit_test(references_that_multiply),
        cmocka_unit_test(a_long_chain_of_references),
        cmocka_unit_test(counts_that_are_huge),
        cmocka_unit_test(a_thousand_required_properties),
        cmocka_unit_test(schemas_that_are_too_long_or_deep),
        cmocka_unit_test(nesting_ends_at_a_limit),
    };
    return cmocka_run_group_tests_name("limits", tests, NULL, NULL);
}
