/* SPDX-License-Identifier: Apache-2.0 */
/* Regular expressions that match whole texts, and choices. */
#include <string.h>

#include "constrain/constrain_fixture.h"

struct regex_case {
    const char *pattern;
    const char *in[MAX_TEXTS], *out[MAX_TEXTS];
};

static const struct regex_case cases[] = {
    {"abc", {"abc"}, {"", "ab", "abcd", "xabc"}},
    {"", {""}, {"a"}},
    {"a|bc|", {"a", "bc", ""}, {"b", "abc"}},
    {"(yes|no)", {"yes", "no"}, {"y", "yesno"}},
    {"a*b+c?", {"b", "aabbc", "bc"}, {"a", "c", "bcc"}},
    {"a{3}", {"aaa"}, {"aa", "aaaa"}},
    {"a{2,}", {"aa", "aaaaa"}, {"a"}},
    {"a{1,3}", {"a", "aaa"}, {"", "aaaa"}},
    {"a{0}b", {"b"}, {"ab"}},
    {"(ab){2}", {"abab"}, {"ab", "aabb"}},
    {"(a|b){2,3}?c", {"abc", "bbbc"}, {"ac", "abbbc"}},
    {"(a*)*", {"", "aaa"}, {"b"}},
    {"(a+|b)+c", {"aabac", "bc"}, {"c"}},
    {"[a-c0-2_]+", {"a0_", "c2"}, {"d", "3", ""}},
    {"[^a-c]", {"d", "é", "日", "\n", "😀"}, {"a", "", "dd", "\xc3", "\xff"}},
    {"[\\]\\-x]+", {"]-x"}, {"\\"}},
    {"[-a]+[a-]+", {"-a-a"}, {"b"}},
    {"[^\\d\\s]+", {"abc"}, {"a1", "a b"}},
    {"\\d{2}:\\d{2}", {"12:34"}, {"1:2", "ab:cd", "١٢:٣٤"}},
    {"\\w+\\s\\W", {"ab_9 -", "a\u3000!"}, {"a b", "é !"}},
    {".", {"x", "é", "😀"}, {"", "\n", "\r", "xx", "\u2028"}},
    {"\\.\\*\\+\\?\\(\\)\\[\\]\\{\\}\\|\\^\\$\\\\\\/", {".*+?()[]{}|^$\\/"}, {"a"}},
    {"\\t\\n\\r\\f\\v", {"\t\n\r\f\v"}, {" "}},
    {"\\x41\\u00e9\\u{1F600}\\ud83d\\ude00", {"Aé😀😀"}, {"A"}},
    {"^abc$", {"abc"}, {"abc\n"}},
    {"^(a|^b)c$|d$", {"ac", "bc", "d"}, {"dc"}},
    {"a^b", {NULL}, {"ab"}},
    {"\\0", {NULL}, {""}},
    {"[^a]b",
     {"xb", "\x01"
            "b"},
     {"ab", ""}},
    {"(?:ab|c)(?<name>d)(?P<other>e)", {"abde", "cde"}, {"ab"}},
    {"{\"a\": \\d}", {"{\"a\": 5}"}, {"{\"a\": x}"}},
    {"x{a}y{,2}", {"x{a}", "x{a}y", "x{a}yy"}, {"x", "x{a}yyy", "x{a}y{,2}"}},
    {"a{,}b", {"b", "aaab"}, {"a", "a{,}b"}},
    {"x{,a}", {"x{,a}"}, {"x"}},
    {"[é日-本]", {"é", "日"}, {"a", "\xc3"}},
    {"[\\u0800-\\uffff]", {"\u0800", "\uffff", "日", "\ud7ff"}, {"\u07ff", "😀", "\xed\xa0\x80"}},
    {"[\\u{10000}-\\u{10ffff}]", {"😀", "\U00010000", "\U0010ffff"}, {"\uffff"}},
    {"[\\u00ff-\\u0100]", {"ÿ", "Ā"}, {"þ", "ā"}},
    {".*x.*", {"x", "axb", "xxx"}, {"abc", "x\n"}},
};

static void patterns_match_whole_texts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct grammar *g = NULL;
        ey_err e;
        bool ok = grammar_of_regex(&g, cases[i].pattern, strlen(cases[i].pattern), &e);
        if (!ok && cases[i].in[0]) fail_msg("%s\n  %s", cases[i].pattern, e.text);
        if (ok) check_texts(g, cases[i].pattern, cases[i].in, cases[i].out);
        if (!ok) assert_non_null(strstr(e.text, "no text satisfies it"));
        grammar_release(&g);
    }
}

static const char *const refused[][2] = {
    {"(?=a)", "\"(?=\" (look-ahead)"},
    {"(?!a)", "look-ahead"},
    {"(?<=a)", "\"(?<=\" (look-behind)"},
    {"(?<!a)", "look-behind"},
    {"(a)\\1", "byte 3: \"\\1\" (back-reference)"},
    {"(?<x>a)\\k<x>", "back-reference"},
    {"(?P=x)", "back-reference"},
    {"\\bword\\b", "word boundary"},
    {"\\p{L}", "Unicode property"},
    {"(?i)a", "inline flag"},
    {"(?>a)", "inline flag or special group"},
    {"\\q", "unknown escape"},
    {"\\012", "octal"},
    {"[[:alpha:]]", "POSIX class"},
    {"a++", "possessive"},
    {"a**", "a repeat cannot be repeated"},
    {"*a", "nothing to repeat"},
    {"a|*", "nothing to repeat"},
    {"(a", "a group is not closed"},
    {"a)", "unmatched closing parenthesis"},
    {"[a", "a class is not closed"},
    {"[]", "an empty class"},
    {"[^]", "an empty class"},
    {"[z-a]", "this range is reversed"},
    {"[\\d-z]", "this range is reversed"},
    {"a{3,2}", "are reversed"},
    {"\\", "the backslash at the end"},
    {"\\x4", "hexadecimal"},
    {"\\u{110000}", "not a valid character"},
    {"\\ud800", "not a valid character"},
    {"(?<x", "name is not closed"},
    {"\xff", "not UTF-8"},
    {"(a|b)*a(a|b){20}", "too large or too ambiguous"},
    {"((a{1000}){1000}){1000}", "too large"},
    {"a{10000000000}", "too large"},
    {"a{0,99999999999}", "too large"},
    {"a{10000000000,1}", "are reversed"},
    {"(.{1,500}x){1,500}", "too large"},
};

static void other_patterns_are_refused_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        struct grammar *g = NULL;
        ey_err e = {0};
        if (grammar_of_regex(&g, refused[i][0], strlen(refused[i][0]), &e))
            fail_msg("%s is not refused", refused[i][0]);
        if (e.code != EY_BAD_REQUEST || !strstr(e.text, refused[i][1]))
            fail_msg("%s\n  says  %s\n  not   %s", refused[i][0], e.text, refused[i][1]);
    }
}

static void one_of_several_choices(void **state)
{
    static const char *const choices[] = {"yes",           "no",        "not sure", "no",
                                          "ja, natürlich", "{\"a\": 1}"};
    static const char *const in[] = {"yes", "no", "not sure", "ja, natürlich", "{\"a\": 1}", NULL},
                             *const out[] = {"", "n", "not", "yes ", "Yes", NULL};
    static const char *const bad[][2] = {{"a", ""}, {"a", "\xc3"}};
    struct grammar *g = NULL;
    ey_err e;
    (void)state;
    assert_true(grammar_of_choices(&g, choices, 6, &e));
    check_texts(g, "choices", in, out);
    grammar_release(&g);
    assert_false(grammar_of_choices(&g, bad[0], 2, &e));
    assert_string_equal(e.text, "choice 1 is empty");
    assert_false(grammar_of_choices(&g, bad[1], 2, &e));
    assert_string_equal(e.text, "choice 1 is not UTF-8");
    assert_false(grammar_of_choices(&g, choices, 0, &e));
    assert_int_equal(e.code, EY_BAD_REQUEST);
}

int run_regex_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_match_whole_texts),
        cmocka_unit_test(other_patterns_are_refused_by_name),
        cmocka_unit_test(one_of_several_choices),
    };
    return cmocka_run_group_tests_name("patterns", tests, NULL, NULL);
}
