/* SPDX-License-Identifier: Apache-2.0 */
/* Names of phases and finish reasons, which the API and the metrics promise. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "eyelet/phase.h"

static void phases_have_their_words(void **state)
{
    (void)state;
    static const struct {
        ey_phase phase;
        const char *text;
    } rows[] = {
        {EY_PHASE_NONE, ""},
        {EY_PHASE_LOADING, "loading"},
        {EY_PHASE_CHECKING_GPU, "checking the GPU"},
        {EY_PHASE_QUANTIZING, "quantizing"},
        {EY_PHASE_QUEUE, "queue"},
        {EY_PHASE_VISION, "vision"},
        {EY_PHASE_PREFILL, "prefill"},
        {EY_PHASE_DECODE, "decode"},
        {EY_PHASE_SENDING, "sending"},
        {EY_PHASE_WAITING, "waiting"},
        {EY_PHASE_CONVERTING, "converting"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(rows[i].phase, i);
        assert_string_equal(ey_phase_text(rows[i].phase), rows[i].text);
    }
    assert_string_equal(ey_phase_text((ey_phase)(sizeof(rows) / sizeof(rows[0]))), "");
}

static void finish_reasons_have_their_words(void **state)
{
    (void)state;
    assert_string_equal(ey_finish_text(EY_FINISH_STOP), "stop");
    assert_string_equal(ey_finish_text(EY_FINISH_LENGTH), "length");
    assert_string_equal(ey_finish_text(EY_FINISH_CANCELLED), "cancelled");
    assert_string_equal(ey_finish_text((ey_finish)(EY_FINISH_CANCELLED + 1)), "");
}

static void requests_go_through_their_phases_in_order(void **state)
{
    (void)state;
    assert_true(EY_PHASE_QUEUE < EY_PHASE_VISION);
    assert_true(EY_PHASE_VISION < EY_PHASE_PREFILL);
    assert_true(EY_PHASE_PREFILL < EY_PHASE_DECODE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(phases_have_their_words),
        cmocka_unit_test(finish_reasons_have_their_words),
        cmocka_unit_test(requests_go_through_their_phases_in_order),
    };
    return cmocka_run_group_tests_name("phase texts", tests, NULL, NULL);
}
