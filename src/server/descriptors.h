/* SPDX-License-Identifier: Apache-2.0 */
/* What `ulimit -n` leaves for connections. */
#ifndef EY_SERVER_DESCRIPTORS_H
#define EY_SERVER_DESCRIPTORS_H

#include <stdbool.h>

/* How many connections may be open, at most `wanted`, so that files, decoders and fetches still
 * have descriptors. Raises the soft limit first; says in the log when they are fewer. */
int descriptors_for_connections(int wanted);
/* Whether so many, at most 16, can be opened now. */
bool descriptors_are_free(int n);

#endif
