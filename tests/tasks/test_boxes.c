/* SPDX-License-Identifier: Apache-2.0 */
/* Reading boxes from answers: accepted variants of the format, limits, and text that is no answer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/limits.h"
#include "eyelet/tasks.h"

/* Prints boxes as "label x1 y1 x2 y2; ". */
static void describe(struct buf *out, const ey_box_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        const ey_box *b = &list->boxes[i];
        buf_printf(out, "%s%s %g %g %g %g", i ? "; " : "", b->label, b->x1, b->y1, b->x2, b->y2);
    }
    if (list->result == EY_BOXES_NONE) buf_add_text(out, "none");
    if (list->result == EY_BOXES_UNCLEAR) buf_add_text(out, "unclear");
}

struct answer_case {
    const char *answer, *boxes;
};

static void check(const struct answer_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        ey_box_list list;
        ey_err e;
        struct buf got = buf_with_max(1 << 16);
        size_t length = strlen(cases[i].answer);
        /* without a NUL, so that a sanitizer sees reads past the end */
        char *exact = malloc(length + 1);
        memcpy(exact, cases[i].answer, length);
        assert_true(ey_boxes_read(&list, exact, length, &e));
        describe(&got, &list);
        if (strcmp(got.data, cases[i].boxes) != 0)
            fail_msg("%s\n  gives  %s\n  wanted %s", cases[i].answer, got.data, cases[i].boxes);
        ey_boxes_free(&list);
        buf_free(&got);
        free(exact);
    }
}
#define CHECK(cases) check(cases, sizeof(cases) / sizeof(cases[0]))

static void lists_and_their_variants(void **state)
{
    (void)state;
    static const struct answer_case cases[] = {
        {"[{\"bbox_2d\": [1, 2, 30, 40], \"label\": \"car\"}]", "car 1 2 30 40"},
        {"```json\n[\n\t{\"bbox_2d\": [1, 2, 30, 40], \"label\": \"car\"},\n\t{\"bbox_2d\": [5, 6, "
         "7, 8], \"label\": \"dog\"}\n]\n```",
         "car 1 2 30 40; dog 5 6 7 8"},
        {"{\"bbox_2d\": [1, 2, 3, 4], \"label\": \"one\"}", "one 1 2 3 4"},
        {"{\"bbox_2d\":[1,2,3,4],\"label\":\"a\"}\n{\"bbox_2d\":[5,6,7,8],\"label\":\"b\"}",
         "a 1 2 3 4; b 5 6 7 8"},
        {"[{'bbox_2d': [1, 2, 3, 4], 'label': 'car'}]", "car 1 2 3 4"},
        {"[{'label': 'person's hat', 'bbox_2d': [1, 2, 3, 4]}]", "person's hat 1 2 3 4"},
        {"[{\"label\": \"a 5\" screw\", \"bbox_2d\": [1, 2, 3, 4]}]", "a 5\" screw 1 2 3 4"},
        {"[{bbox_2d: [1, 2, 3, 4], label: \"bare\"}]", "bare 1 2 3 4"},
        {"[{\"bbox\": [1, 2, 3, 4], \"label\": \"alias\"}]", "alias 1 2 3 4"},
        {"[{\"bbox_2d\": [1, 2, 3, 4], \"text_content\": \"EXIT, please: now\"}]",
         "EXIT, please: now 1 2 3 4"},
        {"[{\"bbox_2d\": [1, 2, 3, 4]}]", " 1 2 3 4"},
        {"Here's what I see {in short}: [{\"bbox_2d\": [1, 2, 3, 4], \"label\": \"a\"}] That's "
         "all.",
         "a 1 2 3 4"},
        {"{\"objects\": [{\"bbox_2d\": [1, 2, 3, 4], \"label\": \"a\"}], \"note\": \"it's one\"}",
         "a 1 2 3 4"},
        {"[{\"bbox_2d\": [1, 2, 3, 4], \"tags\": [\"x\", {\"y\": [1]}], \"n\": {\"m\": null}, "
         "\"label\": \"a\"}]",
         "a 1 2 3 4"},
        {"[{\"score\": 0.5, \"bbox_2d\": [1, 2, 3, 4], \"ok\": true, \"label\": \"a\"},]",
         "a 1 2 3 4"},
        {"[{\"label\": \"gr\\u00fcn \\ud83d\\ude00 \\\"q\\\" \\\\ \\/\", \"bbox_2d\": [1, 2, 3, "
         "4]}]",
         "gr\xc3\xbcn \xf0\x9f\x98\x80 \"q\" \\ / 1 2 3 4"},
        {"[{\"label\": \" two\\nlines\x1b\\u0000\\ud800 \", \"bbox_2d\": [1, 2, 3, 4]}]",
         "two lines  \xef\xbf\xbd 1 2 3 4"},
        {"[{\"label\": \"\xff\xc3\", \"bbox_2d\": [1, 2, 3, 4]}]",
         "\xef\xbf\xbd\xef\xbf\xbd 1 2 3 4"},
    };
    CHECK(cases);
}

static void incomplete_boxes_are_left_out(void **state)
{
    (void)state;
    static const struct answer_case cases[] = {
        {"[{\"bbox_2d\": [1, 2, 3, 4], \"label\": \"a\"}, {\"bbox_2d\": [5, 6", "a 1 2 3 4"},
        {"[{\"bbox_2d\": [1, 2, 3, 4], \"label\": \"a\"}, {\"bbox_2d\": [5, 6, 7, 8], \"label\": "
         "\"b\"",
         "a 1 2 3 4"},
        {"[{\"bbox_2d\": [1, 2, 3, 4], \"label\": \"a\"}, {\"bbox_2d\": [5, 6, 7, 8], \"label\": "
         "\"b",
         "a 1 2 3 4"},
        {"[{\"bbox_2d\": [1, 2, 3, 4], \"label\": \"a\"}, {\"bb", "a 1 2 3 4"},
        {"[{\"bbox_2d\": [1, 2, 3, 4], \"label\": \"a\"},", "a 1 2 3 4"},
        {"[{\"bbox_2d\": [1, 2, 3, 4], {\"bbox_2d\": [5, 6, 7, 8], \"label\": \"b\"}]",
         "b 5 6 7 8"},
        {"[{\"bbox_2d\": [1, 2, 3}, {\"bbox_2d\": [5, 6, 7, 8], \"label\": \"b\"}]", "b 5 6 7 8"},
        {"[{\"bbox_2d\": [1, 2, 3], \"label\": \"a\"}, {\"bbox_2d\": [5, 6, 7, 8, 9]}, "
         "{\"bbox_2d\": [1, 1, 2, 2]}]",
         " 1 1 2 2"},
        {"[{\"bbox_2d\": [1, 2, 3,", "unclear"},
        {"[{\"bbox_2d\": [1, 2, 3, 4], \"bbox\": [900, 50, 10, x], \"label\": \"a\"}]",
         "a 1 2 3 4"}, /* the valid box is kept */
        {"[{", "unclear"},
        {"[{\"label\": \"a\\", "unclear"},
    };
    CHECK(cases);
}

static void coordinates(void **state)
{
    (void)state;
    static const struct answer_case cases[] = {
        {"{\"bbox_2d\": [-5, 0, 1001, 99999999999]}", " 0 0 1000 1000"},
        {"{\"bbox_2d\": [30, 40, 10, 20]}", " 10 20 30 40"},
        {"{\"bbox_2d\": [30, 20, 10, 40]}", " 10 20 30 40"},
        {"{\"bbox_2d\": [0.1, 0.25, 0.5, 1.0]}", " 100 250 500 1000"},
        {"{\"bbox_2d\": [0, 0, 1, 0.5]}", " 0 0 1000 500"},
        {"{\"bbox_2d\": [0, 0, 1, 1]}", " 0 0 1 1"},
        {"{\"bbox_2d\": [0.5, 0.5, 1.5, 1]}", " 0.5 0.5 1.5 1"},
        {"{\"bbox_2d\": [100.5, 1e2, 2.5e2, 300]}", " 100.5 100 250 300"},
        {"{\"bbox_2d\": [1, 2, 3, nan]}", "unclear"},
        {"{\"bbox_2d\": [1, 2, 3, 1e999]}", "unclear"},
        {"{\"bbox_2d\": [1, 2, 3, 4-5]}", "unclear"},
        {"{\"bbox_2d\": [1 2 3 4]}", "unclear"},
        {"{\"bbox_2d\": [ 1 ,\n2 , 3 ,4 ] }", " 1 2 3 4"},
        {"{\"bbox_2d\": [0000000000000000000000000000000000000000000000000001, 2, 3, 4]}",
         "unclear"},
    };
    CHECK(cases);
}

static void no_boxes(void **state)
{
    (void)state;
    static const struct answer_case cases[] = {
        {"[]", "none"},
        {" [ ]\n", "none"},
        {"```json\n[]\n```", "none"},
        {"```\n{}\n```", "none"},
        {"None", "none"},
        {"none.", "none"},
        {"null", "none"},
        {"No.", "none"},
        {"There are no cars in the image.", "none"},
        {"Notably, I cannot say.", "unclear"},
        {"", "unclear"},
        {"[", "unclear"},
        {"Please.", "unclear"},
        {"[1, 2, 3, 4]", "unclear"},
        {"[{\"point_2d\": [10, 20], \"label\": \"a\"}]", "unclear"},
        {"[{\"point_2d\": [10, 20], \"label\": \"a\"}, {\"bbox_2d\": [1, 2, 3, 4], \"label\": "
         "\"b\"}]",
         "b 1 2 3 4"},
        {"[{\"bbox_3d\": [1, 2, 3, 4, 5, 6, 7, 8, 9], \"label\": \"a\"}]", "unclear"},
    };
    CHECK(cases);
}

/* ---- limits ---- */

static void boxes_are_limited(void **state)
{
    (void)state;
    for (size_t wanted = EY_MAX_BOXES - 1; wanted <= EY_MAX_BOXES + 1; wanted++) {
        struct buf text = buf_with_max(1 << 20);
        ey_box_list list;
        ey_err e;
        buf_add_text(&text, "[");
        for (size_t i = 0; i < wanted; i++)
            buf_printf(&text, "{\"bbox_2d\": [%zu, 1, 1000, 9], \"label\": \"n\"},", i % 1000);
        assert_true(ey_boxes_read(&list, text.data, text.size, &e));
        assert_int_equal(list.n, wanted > EY_MAX_BOXES ? EY_MAX_BOXES : wanted);
        assert_int_equal(list.truncated, wanted > EY_MAX_BOXES);
        assert_true(list.boxes[list.n - 1].x1 == (double)((list.n - 1) % 1000));
        ey_boxes_free(&list);
        buf_free(&text);
    }
}

/* Two-byte characters at odd offsets: the limit falls inside one. */
static void long_labels_are_cut_between_characters(void **state)
{
    (void)state;
    struct buf text = buf_with_max(1 << 20);
    ey_box_list list;
    ey_err e;
    buf_add_text(&text, "{\"label\": \"x");
    for (int i = 0; i < 700; i++)
        buf_add_text(&text, "\xc3\xbc");
    buf_add_text(&text, "\", \"bbox_2d\": [1, 2, 3, 4]}");
    assert_true(ey_boxes_read(&list, text.data, text.size, &e));
    assert_int_equal(list.n, 1);
    assert_int_equal(strlen(list.boxes[0].label), EY_MAX_LABEL_BYTES - 1);
    ey_boxes_free(&list);
    buf_free(&text);
}

/* Deep nesting takes no stack, and many quotes do not take quadratic time. */
static void endless_nesting_and_quotes(void **state)
{
    (void)state;
    static const char *const pieces[] = {"[",  "{",  "{\"a\":", "{\"a\":[", "'",
                                         "' ", "{'", "{\"",     "\\",       "{\"a\": '\\"};
    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        struct buf text = buf_with_max(8 << 20);
        ey_box_list list;
        ey_err e;
        buf_add_text(&text, i % 2 ? "{" : "");
        for (int k = 0; k < 300000; k++)
            buf_add_text(&text, pieces[i]);
        assert_true(ey_boxes_read(&list, text.data, text.size, &e));
        assert_int_equal(list.result, EY_BOXES_UNCLEAR);
        ey_boxes_free(&list);
        buf_free(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_and_their_variants),
        cmocka_unit_test(incomplete_boxes_are_left_out),
        cmocka_unit_test(coordinates),
        cmocka_unit_test(no_boxes),
        cmocka_unit_test(boxes_are_limited),
        cmocka_unit_test(long_labels_are_cut_between_characters),
        cmocka_unit_test(endless_nesting_and_quotes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
