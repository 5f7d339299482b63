/* SPDX-License-Identifier: Apache-2.0 */
/* How fast the engines of servers in other processes compute, so that an answer is still under way
 * when a test does something beside it, however fast the machine is. The test program is linked
 * with --wrap=ey_engine_open. */
#ifndef EY_TESTS_SERVER_PACE_H
#define EY_TESTS_SERVER_PACE_H

enum { SLOW_MS = 100 };

/* Before a server is forked: it sees what is set later, too. */
void pace_share(void);
/* From the next decoder step on, each takes at least so many ms; 0: as fast as it goes. */
void pace_set(int ms_a_step);

/* For cmocka_unit_test_setup_teardown: steps take SLOW_MS, afterwards they are fast again. */
int pace_slow(void **state);
int pace_fast(void **state);

#endif
