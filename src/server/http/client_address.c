/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of clients as numbers. */
#include "server/http/client_address.h"

#include <netinet/in.h>
#include <string.h>

static struct client_address v4_client(const void *four)
{
    uint32_t n;
    memcpy(&n, four, sizeof(n));
    return (struct client_address){0, (uint64_t)0xffff << 32 | ntohl(n)};
}

static struct client_address v6_client(const struct in6_addr *address)
{
    struct client_address out = {0};
    if (IN6_IS_ADDR_V4MAPPED(address)) return v4_client(&address->s6_addr[12]);
    for (int i = 0; i < 8; i++)
        out.high = out.high << 8 | address->s6_addr[i];
    if (!out.high) out.low = 1; /* ::1, and no address at all is 0 */
    return out;
}

struct client_address client_address_from(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET)
        return v4_client(&((const struct sockaddr_in *)(const void *)address)->sin_addr);
    if (address->sa_family == AF_INET6)
        return v6_client(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
    return (struct client_address){0};
}

bool client_address_equal(struct client_address a, struct client_address b)
{
    return a.high == b.high && a.low == b.low;
}
