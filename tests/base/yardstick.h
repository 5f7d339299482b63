/* SPDX-License-Identifier: Apache-2.0 */
/* For bounds on work that hold on a slow or busy machine, too: processor time, in units of what a
 * fixed piece of work takes here and now. */
#ifndef EY_TESTS_BASE_YARDSTICK_H
#define EY_TESTS_BASE_YARDSTICK_H

/* Processor time of this process so far, of all its threads. */
double cpu_seconds(void);
/* That of the fixed work, measured at the first call: about a tenth of a second in 2020. */
double yardstick(void);

#endif
