/* SPDX-License-Identifier: Apache-2.0 */
/* Slows the engines of servers in child processes, so that an answer is still running when the test
 * acts. Link with --wrap=ey_engine_open. */
#ifndef EY_TESTS_SERVER_PACE_H
#define EY_TESTS_SERVER_PACE_H

enum { SLOW_MS = 100 };

/* Call before a server is forked, so that it sees later changes. */
void pace_share(void);
/* From the next step on, steps take at least so many ms; 0: full speed. */
void pace_set(int ms_a_step);

/* For cmocka_unit_test_setup_teardown: slows steps to SLOW_MS and restores full speed. */
int pace_slow(void **state);
int pace_fast(void **state);

#endif
