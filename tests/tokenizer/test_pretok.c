/* SPDX-License-Identifier: Apache-2.0 */
/* PCRE2's pieces against a matcher written by hand from spec 6.1, and patterns that are refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"
#include "tokenizer/normalize.h"
#include "tokenizer/pretok.h"
#include "tokenizer/tok_fixture.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const char qwen_pattern[] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{"
                                   "N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
                                   "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

/* ---- the matcher by hand ---- */

enum { MAX_CHARACTERS = 64 };

struct characters {
    uint32_t cp[MAX_CHARACTERS + 1]; /* 0-terminated */
    size_t n;
};

static bool is_letter(uint32_t cp)
{
    return cp && utf8proc_category_string((utf8proc_int32_t)cp)[0] == 'L';
}

static bool is_number(uint32_t cp)
{
    return cp && utf8proc_category_string((utf8proc_int32_t)cp)[0] == 'N';
}

static bool is_space(uint32_t cp)
{
    return (cp >= 9 && cp <= 13) || cp == 32 || cp == 0x85 || cp == 0xa0 || cp == 0x1680 ||
           (cp >= 0x2000 && cp <= 0x200a) || cp == 0x2028 || cp == 0x2029 || cp == 0x202f ||
           cp == 0x205f || cp == 0x3000;
}

static bool is_line_end(uint32_t cp)
{
    return cp == '\r' || cp == '\n';
}

static uint32_t folded(uint32_t cp)
{
    return cp == 0x17f ? 's' : cp >= 'A' && cp <= 'Z' ? cp + 32 : cp;
}

static size_t contraction(const struct characters *t, size_t i)
{
    static const char *const endings[] = {"s", "t", "re", "ve", "m", "ll", "d"};
    if (t->cp[i] != '\'') return 0;
    for (size_t k = 0; k < COUNT(endings); k++) {
        size_t n = strlen(endings[k]), same = 0;
        while (same < n && folded(t->cp[i + 1 + same]) == (uint32_t)endings[k][same])
            same++;
        if (same == n) return 1 + n;
    }
    return 0;
}

static size_t letters_from(const struct characters *t, size_t i)
{
    while (is_letter(t->cp[i]))
        i++;
    return i;
}

static bool is_other(const struct characters *t, size_t i)
{
    return i < t->n && !is_space(t->cp[i]) && !is_letter(t->cp[i]) && !is_number(t->cp[i]);
}

static size_t space_end(const struct characters *t, size_t i)
{
    size_t end = i, after_line = 0;
    for (; end < t->n && is_space(t->cp[end]); end++)
        if (is_line_end(t->cp[end])) after_line = end + 1;
    if (after_line) return after_line;
    return end == t->n || end - i < 2 ? end : end - 1;
}

/* The end of the piece at i, by the numbered rules of spec 6.1. */
static size_t piece_end(const struct characters *t, size_t i)
{
    uint32_t cp = t->cp[i];
    size_t n = contraction(t, i);
    if (n) return i + n;
    if (is_letter(cp)) return letters_from(t, i);
    if (!is_line_end(cp) && !is_number(cp) && is_letter(t->cp[i + 1]))
        return letters_from(t, i + 1);
    if (is_number(cp)) return i + 1;
    size_t j = cp == ' ' ? i + 1 : i;
    if (is_other(t, j)) {
        while (is_other(t, j))
            j++;
        while (j < t->n && is_line_end(t->cp[j]))
            j++;
        return j;
    }
    return space_end(t, i);
}

/* ---- comparison ---- */

static void check_text(struct pretok_scan *scan, const struct characters *t)
{
    char text[4 * MAX_CHARACTERS];
    size_t at[MAX_CHARACTERS + 1], n = 0, begin, end;
    ey_err e;
    for (size_t i = 0; i < t->n; i++) {
        at[i] = n;
        n += (size_t)utf8_encode(t->cp[i], text + n);
    }
    at[t->n] = n;
    pretok_scan_begin(scan, text, n);
    for (size_t i = 0; i < t->n;) {
        size_t next = piece_end(t, i);
        assert_true(pretok_scan_next(scan, &begin, &end, &e));
        if (begin != at[i] || end != at[next])
            fail_msg("\"%.*s\": [%zu, %zu) is not [%zu, %zu)", (int)n, text, begin, end, at[i],
                     at[next]);
        i = next;
    }
    assert_true(pretok_scan_next(scan, &begin, &end, &e));
    assert_int_equal(begin, end);
}

static void test_against_hand_matcher(void **state)
{
    (void)state;
    /* U+180E is white space in PCRE2's \s only, U+200B nowhere; U+017F equals "s" under (?i). */
    static const uint32_t alphabet[] = {
        ' ',    ' ',    '\n',   '\r',   '\t',  0x0b,    0x85,   0xa0,  0x1680,  0x180e,  0x2003,
        0x200b, 0x2028, 0x205f, 0x3000, '\'',  '\'',    's',    'S',   0x17f,   't',     'r',
        'e',    'V',    'L',    'l',    'm',   'd',     'x',    '1',   '9',     0xb2,    0x2167,
        0x661,  '-',    '.',    '"',    0x301, 0x93f,   0x4e2d, 0xe9,  0x1f60a, 0x1f3fd, 0xfe0f,
        0x200d, 0xfffd, 1,      0x2b0,  0x1c5, 0x10400, 0xad,   0x20ac};
    ey_err e;
    struct pretok pretok = {0};
    struct pretok_scan scan;
    uint64_t seed = 4;
    assert_true(pretok_compile(&pretok, qwen_pattern, strlen(qwen_pattern), "pattern", &e));
    assert_true(pretok_scan_init(&scan, &pretok, &e));
    for (int round = 0; round < 200000; round++) {
        struct characters t = {.n = next_random(&seed) % 16};
        for (size_t i = 0; i < t.n; i++)
            t.cp[i] = alphabet[next_random(&seed) % COUNT(alphabet)];
        check_text(&scan, &t);
    }
    pretok_scan_finish(&scan);
    pretok_finish(&pretok);
}

/* For each Unicode character, the pattern separates it from a following "x" exactly if it is white
 * space. */
static void check_white_space(const char *pattern)
{
    ey_err e;
    struct pretok pretok = {0};
    struct pretok_scan scan;
    assert_true(pretok_compile(&pretok, pattern, strlen(pattern), "pattern", &e));
    assert_true(pretok_scan_init(&scan, &pretok, &e));
    for (uint32_t cp = 1; cp < 0x110000; cp++) {
        char text[8];
        size_t begin, end, n;
        if (cp >= 0xd800 && cp <= 0xdfff) continue;
        n = (size_t)utf8_encode(cp, text);
        text[n] = 'x';
        pretok_scan_begin(&scan, text, n + 1);
        assert_true(pretok_scan_next(&scan, &begin, &end, &e));
        if ((end == n) != is_space(cp)) fail_msg("%s: U+%04X", pattern, cp);
    }
    pretok_scan_finish(&scan);
    pretok_finish(&pretok);
}

static void test_white_space(void **state)
{
    (void)state;
    check_white_space("\\s(?=x)|[^\\s]x");
    check_white_space("[^\\S](?=x)|\\Sx");
}

static const struct {
    const char *pattern, *text, *pieces; /* pieces, separated by | */
} cuts[] = {
    {PRETOK_GPT2_PATTERN, "I've  123 abc's 'S\n\n x", "I|'ve| | 123| abc|'s| '|S|\n\n| x"},
    {"b", "abcbb", "a|b|c|b|b"}, /* unmatched text is a piece, too */
    {"x*", "axxb", "a|xx|b"},    /* an empty match cuts but is no piece */
    {"(?=b)", "abab", "a|ba|b"},
    {"",
     "a\xc3\xa9"
     "b",
     "a|\xc3\xa9|b"},
    {"[ab[:]+", "", NULL},
    {"(a+)+$", "", NULL},
    {"\\w+", "", NULL},
    {"^a", "", NULL},
    {"a\\b", "", NULL},
    {"[[:alpha:]]", "", NULL},
    {"[a&&b]", "", NULL},
    {"a{2,3}+", "", NULL},
    {"(*LIMIT_MATCH=1)a", "", NULL},
    {"(?C1)a", "", NULL},
    {"(?im:a)", "", NULL},
    {"(?ix:a)", "", NULL},
    {"(?i-m)a", "", NULL},
    {"(a)(b)(?2)", "", NULL},
    {"(?i:B)|(?<m>x)", "abxc", "a|b|x|c"},
    {"\\C", "", NULL},
    {"(", "", NULL},
    {"a\\", "", NULL},
    {"\\p{Nonsense}", "", NULL},
    {"\\p{L}+\\p{L", "", NULL},
};

static void check_cuts(const char *pattern, const char *text, const char *pieces)
{
    ey_err e;
    struct pretok pretok = {0};
    struct pretok_scan scan;
    struct buf got = buf_with_max(256);
    size_t begin, end;
    if (!pretok_compile(&pretok, pattern, strlen(pattern), "file", &e)) fail_msg("%s", e.text);
    assert_true(pretok_scan_init(&scan, &pretok, &e));
    pretok_scan_begin(&scan, text, strlen(text));
    while (pretok_scan_next(&scan, &begin, &end, &e) && begin < end)
        buf_printf(&got, "%s%.*s", begin ? "|" : "", (int)(end - begin), text + begin);
    assert_string_equal(got.data, pieces);
    buf_free(&got);
    pretok_scan_finish(&scan);
    pretok_finish(&pretok);
}

static void test_cuts(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cuts); i++) {
        ey_err e;
        struct pretok pretok = {0};
        if (cuts[i].pieces)
            check_cuts(cuts[i].pattern, cuts[i].text, cuts[i].pieces);
        else if (pretok_compile(&pretok, cuts[i].pattern, strlen(cuts[i].pattern), "file", &e))
            fail_msg("%s", cuts[i].pattern);
        else
            assert_true(e.code == EY_BAD_MODEL &&
                        !strncmp(e.text, "file: pre_tokenizer pattern", 27));
    }
}

/* Catastrophic backtracking gives an error, in short time. */
static void test_runaway_pattern(void **state)
{
    (void)state;
    ey_err e;
    struct pretok pretok = {0};
    struct pretok_scan scan;
    size_t begin, end;
    char text[200];
    memset(text, 'a', sizeof(text));
    assert_true(pretok_compile(&pretok, "(a|aa|a)+c|(a+a+)+b", 19, "file", &e));
    assert_true(pretok_scan_init(&scan, &pretok, &e));
    pretok_scan_begin(&scan, text, sizeof(text));
    assert_false(pretok_scan_next(&scan, &begin, &end, &e));
    assert_int_equal(e.code, EY_BAD_REQUEST);
    pretok_scan_finish(&scan);
    pretok_finish(&pretok);
}

/* ---- normal form ---- */

static void check_composed(const uint32_t *cp, size_t n)
{
    char text[4 * MAX_CHARACTERS + 1];
    size_t size = 0;
    for (size_t i = 0; i < n; i++)
        size += (size_t)utf8_encode(cp[i], text + size);
    text[size] = 0;
    utf8proc_uint8_t *want = utf8proc_NFC((utf8proc_uint8_t *)text);
    struct buf got = buf_with_max(1 << 16);
    assert_true(text_nfc(&got, text, size));
    assert_string_equal(got.data ? got.data : "", want);
    if (text_nfc_quick_check(text, size)) assert_string_equal(text, want);
    free(want);
    buf_free(&got);
}

static void test_composes_each_character(void **state)
{
    (void)state;
    for (uint32_t cp = 1; cp < 0x30000; cp++) {
        if (cp >= 0xd800 && cp <= 0xdfff) continue;
        check_composed((const uint32_t[]){'a', cp, 0x301, 0x323, cp}, 5);
        check_composed((const uint32_t[]){0x1100, cp, 0x4e2d}, 3);
    }
}

static void test_composes_random_text(void **state)
{
    (void)state;
    static const uint32_t alphabet[] = {
        'a',    'e',    ' ',    0x301,  0x323,  0x302, 0x327,   0xe9,   0x1ec7, 0x212b,
        0x1100, 0x1161, 0x11a8, 0xac00, 0xac01, 0x9c7, 0x9be,   0x9d7,  0x958,  0x4e2d,
        0x438,  0x306,  0x340,  0x344,  0xfb1d, 0x5b4, 0x1f60a, 0x3099, 0x304b};
    uint64_t seed = 5;
    for (int round = 0; round < 100000; round++) {
        uint32_t cp[24];
        size_t n = next_random(&seed) % COUNT(cp);
        for (size_t i = 0; i < n; i++)
            cp[i] = alphabet[next_random(&seed) % COUNT(alphabet)];
        check_composed(cp, n);
    }
}

int run_pretok_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_hand_matcher),
        cmocka_unit_test(test_white_space),
        cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_runaway_pattern),
        cmocka_unit_test(test_composes_each_character),
        cmocka_unit_test(test_composes_random_text),
    };
    return cmocka_run_group_tests_name("pretok", tests, NULL, NULL);
}
