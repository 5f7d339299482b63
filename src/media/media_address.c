/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which addresses an untrusted URL may lead to, by IANA's special-purpose registries. An
 * IPv4 address is public unless it is in a range listed here. An IPv6 address is public only within
 * 2000::/3, or if it embeds a public IPv4 address. */
#include <arpa/inet.h>
#include <string.h>

#include "media/media_internal.h"

struct range4 {
    uint32_t first;
    int bits;
};

#define IPV4(a, b, c, d) \
    ((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (uint32_t)(d))

static const struct range4 loopback4 = {IPV4(127, 0, 0, 0), 8};

static const struct range4 refused4[] = {
    {IPV4(0, 0, 0, 0), 8},     /* this network; 0.0.0.0 is this machine */
    {IPV4(10, 0, 0, 0), 8},    /* private */
    {IPV4(100, 64, 0, 0), 10}, /* carrier-grade NAT; Alibaba Cloud's metadata (100.100.100.200) */
    {IPV4(127, 0, 0, 0), 8},   /* loopback */
    {IPV4(168, 63, 129, 16), 32}, /* Azure's internal services */
    {IPV4(169, 254, 0, 0), 16},   /* link-local; cloud metadata */
    {IPV4(172, 16, 0, 0), 12},    /* private */
    {IPV4(192, 0, 0, 0), 24},     /* IETF protocol assignments; Oracle Cloud's metadata */
    {IPV4(192, 0, 2, 0), 24},     /* documentation */
    {IPV4(192, 88, 99, 0), 24},   /* 6to4 relays */
    {IPV4(192, 168, 0, 0), 16},   /* private */
    {IPV4(198, 18, 0, 0), 15},    /* benchmarks */
    {IPV4(198, 51, 100, 0), 24},  /* documentation */
    {IPV4(203, 0, 113, 0), 24},   /* documentation */
    {IPV4(224, 0, 0, 0), 4},      /* multicast */
    {IPV4(240, 0, 0, 0), 4},      /* reserved, broadcast */
};

static bool in_range4(uint32_t address, struct range4 range)
{
    return (address ^ range.first) >> (32 - range.bits) == 0;
}

static bool is_public4(uint32_t address)
{
    for (size_t i = 0; i < sizeof(refused4) / sizeof(refused4[0]); i++)
        if (in_range4(address, refused4[i])) return false;
    return true;
}

/* ---- IPv6 ---- */

struct range6 {
    uint8_t first[4];
    int bits;
};

/* Ranges of 2000::/3 that are not public. */
static const struct range6 refused6[] = {
    {{0x20, 0x01, 0x00, 0x00}, 23}, /* IETF protocol assignments: Teredo, benchmarks, ORCHID */
    {{0x20, 0x01, 0x0d, 0xb8}, 32}, /* documentation */
    {{0x3f, 0xff, 0x00, 0x00}, 20}, /* documentation */
};

static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};   /* ::ffff:0:0/96 */
static const uint8_t translated[12] = {0x00, 0x64, 0xff, 0x9b}; /* 64:ff9b::/96, NAT64 */

static bool in_range6(const uint8_t *address, const uint8_t *first, int bits)
{
    int whole = bits / 8, rest = bits % 8;
    return memcmp(address, first, (size_t)whole) == 0 &&
           (!rest || (address[whole] ^ first[whole]) >> (8 - rest) == 0);
}

static uint32_t ipv4_at(const uint8_t *bytes)
{
    return IPV4(bytes[0], bytes[1], bytes[2], bytes[3]);
}

static bool is_public6(const uint8_t *address)
{
    static const uint8_t global[] = {0x20}, from_ipv4[] = {0x20, 0x02};
    if (memcmp(address, mapped, sizeof(mapped)) == 0 ||
        memcmp(address, translated, sizeof(translated)) == 0)
        return is_public4(ipv4_at(address + 12));
    if (in_range6(address, from_ipv4, 16))
        return is_public4(ipv4_at(address + 2)); /* 2002::/16, 6to4 */
    if (!in_range6(address, global, 3)) return false;
    for (size_t i = 0; i < sizeof(refused6) / sizeof(refused6[0]); i++)
        if (in_range6(address, refused6[i].first, refused6[i].bits)) return false;
    return true;
}

/* ---- both ---- */

bool address_is_public(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET)
        return is_public4(ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr));
    return address->sa_family == AF_INET6 &&
           is_public6(((const struct sockaddr_in6 *)address)->sin6_addr.s6_addr);
}

bool address_is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET)
        return in_range4(ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr), loopback4);
    return address->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
}
