/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of clients. Each client gets a share of the places and of the memory. Behind a trusted
 * proxy, a client's address is the one that the proxy reports. */
#ifndef EY_SERVER_CLIENT_ADDRESS_H
#define EY_SERVER_CLIENT_ADDRESS_H

#include <arpa/inet.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An IPv6 address in network byte order, or an IPv4 address mapped to IPv6. All zeros mean that the
 * address is unknown. */
struct client_address {
    unsigned char byte[16];
};

struct client_address client_address_of_socket(int fd);
/* Reads an address as proxies write it: 192.0.2.1, 192.0.2.1:80, 2001:db8::1, [2001:db8::1]:80. */
bool client_address_read(struct client_address *out, const char *text, size_t n);
void client_address_write(struct client_address address, char out[INET6_ADDRSTRLEN]);

/* Identifies a client: an IPv4 address, or the first 64 bits of an IPv6 address. */
struct client_number {
    uint64_t high, low;
};
struct client_number client_address_number(struct client_address address);
bool client_number_equal(struct client_number a, struct client_number b);

struct address_range {
    struct client_address first;
    int bits; /* prefix length */
};

/* Reads an address or a network: "192.0.2.1", "10.0.0.0/8", "fd00::/8". */
bool address_range_read(struct address_range *out, const char *text);
bool address_range_has(const struct address_range *range, struct client_address address);

struct trusted_proxies {
    struct address_range *range;
    size_t n;
};

bool is_trusted_proxy(const struct trusted_proxies *proxies, struct client_address address);
/* Reads the entries of one X-Forwarded-For line (`plain`) or Forwarded line from last to first.
 * *address must be a trusted proxy. Replaces it by the address that this proxy reports, and
 * continues while that is a trusted proxy, too. Returns whether to read the previous line: *address
 * is still a trusted proxy, and every entry of this line could be read. */
bool client_address_forwarded(struct client_address *address, const char *line, bool plain,
                              const struct trusted_proxies *proxies);

#endif
