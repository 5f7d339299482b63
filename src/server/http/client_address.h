/* SPDX-License-Identifier: Apache-2.0 */
/* Who is at the other end: what shares of places and memory are counted by. */
#ifndef EY_SERVER_CLIENT_ADDRESS_H
#define EY_SERVER_CLIENT_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* An IPv4 address as IPv6 has it, or the first 64 bits of an IPv6 address: a single client has all
 * that begin with them. */
struct client_address {
    uint64_t high, low;
};

struct client_address client_address_from(const struct sockaddr *address);
bool client_address_equal(struct client_address a, struct client_address b);

#endif
