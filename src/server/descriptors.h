/* SPDX-License-Identifier: Apache-2.0 */
/* The descriptors that `ulimit -n` leaves for connections. */
#ifndef EY_SERVER_DESCRIPTORS_H
#define EY_SERVER_DESCRIPTORS_H

#include <stdbool.h>

/* Returns how many connections, at most `wanted`, may be open without taking the descriptors that
 * files, decoders and fetches need. Raises the soft limit first, and logs if it is too low. */
int descriptors_for_connections(int wanted);
/* Whether n more descriptors, 16 at most, can be opened now. */
bool descriptors_are_free(int n);

#endif
