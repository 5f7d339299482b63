/* SPDX-License-Identifier: Apache-2.0 */
/* Who is at the other end: what shares of places and memory are counted by. Behind a proxy that is
 * trusted, it is who the proxy says. */
#ifndef EY_SERVER_CLIENT_ADDRESS_H
#define EY_SERVER_CLIENT_ADDRESS_H

#include <arpa/inet.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In the order of the network, an IPv4 address as IPv6 has it. All 0: not known. */
struct client_address {
    unsigned char byte[16];
};

struct client_address client_address_of_socket(int fd);
/* As proxies write it: 192.0.2.1, 192.0.2.1:80, 2001:db8::1, [2001:db8::1]:80. */
bool client_address_read(struct client_address *out, const char *text, size_t n);
void client_address_write(struct client_address address, char out[INET6_ADDRSTRLEN]);

/* A single client has all IPv6 addresses that begin with the same 64 bits. */
struct client_number {
    uint64_t high, low;
};
struct client_number client_address_number(struct client_address address);
bool client_number_equal(struct client_number a, struct client_number b);

struct address_range {
    struct client_address first;
    int bits; /* that all in it begin with */
};

/* "192.0.2.1", "10.0.0.0/8", "fd00::/8". */
bool address_range_read(struct address_range *out, const char *text);
bool address_range_has(const struct address_range *range, struct client_address address);

struct trusted_proxies {
    struct address_range *range;
    size_t n;
};

bool is_trusted_proxy(const struct trusted_proxies *proxies, struct client_address address);
/* Goes back one line of X-Forwarded-For, or of Forwarded: from *address, a trusted proxy, to who it
 * says it heard from, and on while that is one too. False: *address is the client, or nothing more
 * is known about it. */
bool client_address_forwarded(struct client_address *address, const char *line, bool plain,
                              const struct trusted_proxies *proxies);

#endif
