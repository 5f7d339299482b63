/* SPDX-License-Identifier: Apache-2.0 */
/* Monotonic seconds. */
#ifndef EY_BASE_CLOCK_H
#define EY_BASE_CLOCK_H

double seconds_now(void);

#endif
