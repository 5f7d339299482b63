/* SPDX-License-Identifier: Apache-2.0 */
/* Structs of programs that were compiled against an older or newer eyelet.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine_internal.h"

/* Options of a newer header, with unknown fields. */
struct newer {
    ey_engine_options options;
    uint64_t more[4];
};

static struct newer newer_defaults(void)
{
    struct newer n = {.options = ey_engine_defaults()};
    n.options.size = sizeof(n);
    return n;
}

static void the_current_size_is_accepted(void **state)
{
    (void)state;
    ey_err e;
    ey_engine_options given = ey_engine_defaults(), out;
    given.max_images = 7;
    assert_true(engine_options_read(&out, &given, &e));
    assert_int_equal(out.max_images, 7);
    assert_int_equal(out.size, sizeof(out));
}

static void newer_options_work_where_they_say_nothing_new(void **state)
{
    (void)state;
    ey_err e;
    struct newer n = newer_defaults();
    ey_engine_options out;
    n.options.max_images = 7;
    assert_true(engine_options_read(&out, &n.options, &e));
    assert_int_equal(out.max_images, 7);
    n.more[3] = 1;
    assert_false(engine_options_read(&out, &n.options, &e));
    assert_non_null(strstr(e.text, "does not know"));
}

static void a_size_that_no_version_had_is_refused(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 8, offsetof(ey_engine_options, notice_user), 1 << 20,
                                   SIZE_MAX};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        ey_err e;
        ey_engine_options given = {.size = sizes[i]}, out;
        ey_engine *engine = NULL;
        ey_plan *plan = calloc(1, sizeof(*plan));
        assert_false(engine_options_read(&out, &given, &e));
        assert_non_null(strstr(e.text, "ey_engine_defaults()"));
        assert_false(ey_engine_open(&engine, &given, &e));
        assert_int_equal(e.code, EY_BAD_REQUEST);
        assert_null(engine);
        assert_false(ey_plan_make(&given, plan, &e));
        free(plan);
    }
    ey_err e;
    ey_request given = {.size = 8}, out;
    assert_false(request_read(&out, &given, &e));
    assert_non_null(strstr(e.text, "ey_request_defaults()"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_current_size_is_accepted),
        cmocka_unit_test(newer_options_work_where_they_say_nothing_new),
        cmocka_unit_test(a_size_that_no_version_had_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
