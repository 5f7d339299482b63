/* SPDX-License-Identifier: Apache-2.0 */
/* Bounds on work that also hold on slow or busy machines: processor time in units of a fixed piece
 * of work. */
#ifndef EY_TESTS_BASE_YARDSTICK_H
#define EY_TESTS_BASE_YARDSTICK_H

/* Processor seconds of all threads of this process so far. */
double cpu_seconds(void);
/* Processor seconds of the fixed work, measured at the first call: about 0.1 s on a CPU of 2020. */
double yardstick(void);

#endif
