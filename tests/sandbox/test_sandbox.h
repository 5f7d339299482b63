/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of src/sandbox: what its files share. */
#ifndef EY_TESTS_TEST_SANDBOX_H
#define EY_TESTS_TEST_SANDBOX_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Each runs its file's tests; returns how many failed. */
int run_message_tests(void);
int run_filter_tests(void);
int run_job_tests(void);

#endif
