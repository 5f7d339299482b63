/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the tests of grammars (schemas, patterns, choices) and of the matcher. */
#include "constrain/constrain_fixture.h"

int main(void)
{
    int failed = run_schema_tests() + run_regex_tests() + run_matcher_tests() + run_limit_tests();
    close_fixture();
    return failed != 0;
}
