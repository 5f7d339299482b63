/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the tests of src/sandbox. */
#ifndef EY_TESTS_TEST_SANDBOX_H
#define EY_TESTS_TEST_SANDBOX_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Each runs the tests of its file and returns the number of failures. */
int run_message_tests(void);
int run_filter_tests(void);
int run_job_tests(void);

#endif
