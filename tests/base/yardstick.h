/* SPDX-License-Identifier: Apache-2.0 */
/* Bounds on work that hold on however slow or busy a machine: processor time, in units of what a
 * fixed piece of work takes here and now. */
#ifndef YARDSTICK_H
#define YARDSTICK_H

/* Processor time of this process so far, of all its threads. */
double cpu_seconds(void);
/* That of the fixed work, measured at the first call: some tenth of a second on a machine of 2020.
 */
double yardstick(void);

#endif
