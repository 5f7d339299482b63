/* SPDX-License-Identifier: Apache-2.0 */
#include "server/http/client_address.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

enum { V4_START = 12, V4_BITS = 96 };

static struct client_address address_of_v4(const void *four)
{
    struct client_address out = {{[10] = 0xff, [11] = 0xff}};
    memcpy(out.byte + V4_START, four, 4);
    return out;
}

static bool is_v4(struct client_address a)
{
    static const unsigned char mapped[V4_START] = {[10] = 0xff, [11] = 0xff};
    return memcmp(a.byte, mapped, sizeof(mapped)) == 0;
}

struct client_address client_address_of_socket(int fd)
{
    struct sockaddr_storage peer = {0};
    socklen_t n = sizeof(peer);
    struct client_address out = {{0}};
    if (getpeername(fd, (struct sockaddr *)&peer, &n)) return out;
    if (peer.ss_family == AF_INET)
        return address_of_v4(&((struct sockaddr_in *)(void *)&peer)->sin_addr);
    if (peer.ss_family == AF_INET6)
        memcpy(out.byte, &((struct sockaddr_in6 *)(void *)&peer)->sin6_addr, sizeof(out.byte));
    return out;
}

static bool read_plain_address(struct client_address *out, const char *text)
{
    unsigned char four[4];
    if (inet_pton(AF_INET6, text, out->byte) == 1) return true;
    if (inet_pton(AF_INET, text, four) != 1) return false;
    *out = address_of_v4(four);
    return true;
}

bool client_address_read(struct client_address *out, const char *text, size_t n)
{
    char copy[64];
    if (n >= sizeof(copy)) return false;
    memcpy(copy, text, n);
    copy[n] = 0;
    char *start = copy, *colon = strchr(copy, ':');
    if (copy[0] == '[') {
        start++;
        copy[strcspn(copy, "]")] = 0;
    } else if (colon && !strchr(colon + 1, ':')) {
        *colon = 0;
    }
    return read_plain_address(out, start);
}

void client_address_write(struct client_address a, char out[INET6_ADDRSTRLEN])
{
    const bool v4 = is_v4(a);
    inet_ntop(v4 ? AF_INET : AF_INET6, a.byte + (v4 ? V4_START : 0), out, INET6_ADDRSTRLEN);
}

/* ---- numbers ---- */

static uint64_t number_of_bytes(const unsigned char *byte)
{
    uint64_t n = 0;
    for (int i = 0; i < 8; i++)
        n = n << 8 | byte[i];
    return n;
}

struct client_number client_address_number(struct client_address a)
{
    struct client_number out = {number_of_bytes(a.byte), 0};
    if (!out.high) out.low = number_of_bytes(a.byte + 8); /* IPv4, ::1 */
    return out;
}

bool client_number_equal(struct client_number a, struct client_number b)
{
    return a.high == b.high && a.low == b.low;
}

/* ---- ranges ---- */

bool address_range_read(struct address_range *out, const char *text)
{
    size_t n = strcspn(text, "/");
    char address[64], *end;
    if (n >= sizeof(address)) return false;
    memcpy(address, text, n);
    address[n] = 0;
    if (!read_plain_address(&out->first, address)) return false;
    const int most = 128, before = is_v4(out->first) && strchr(address, '.') ? V4_BITS : 0;
    out->bits = most;
    if (!text[n]) return true;
    if (text[n + 1] < '0' || text[n + 1] > '9') return false;
    long bits = strtol(text + n + 1, &end, 10);
    if (*end || bits > most - before) return false;
    out->bits = (int)bits + before;
    return true;
}

bool address_range_has(const struct address_range *r, struct client_address a)
{
    const int whole = r->bits / 8, rest = r->bits % 8;
    if (memcmp(r->first.byte, a.byte, (size_t)whole) != 0) return false;
    return !rest || (r->first.byte[whole] ^ a.byte[whole]) >> (8 - rest) == 0;
}

bool is_trusted_proxy(const struct trusted_proxies *p, struct client_address a)
{
    for (size_t i = 0; i < p->n; i++)
        if (address_range_has(&p->range[i], a)) return true;
    return false;
}

/* ---- headers of proxies ---- */

/* Reads the address of one trimmed entry: "192.0.2.1", or in Forwarded
 * "proto=https;for=\"[2001:db8::1]:80\"". */
static bool read_forwarded_entry(struct client_address *out, const char *entry, size_t n,
                                 bool plain)
{
    const char *end = entry + n;
    while (!plain && entry < end && !(end - entry > 4 && strncasecmp(entry, "for=", 4) == 0)) {
        const char *next = memchr(entry, ';', (size_t)(end - entry));
        entry = next ? next + 1 : end;
        while (entry < end && *entry == ' ')
            entry++;
    }
    if (!plain) {
        if (entry == end) return false;
        entry += 4;
        const char *next = memchr(entry, ';', (size_t)(end - entry));
        if (next) end = next;
    }
    while (entry < end && (*entry == ' ' || *entry == '"'))
        entry++;
    while (entry < end && (end[-1] == ' ' || end[-1] == '"'))
        end--;
    return client_address_read(out, entry, (size_t)(end - entry));
}

bool client_address_forwarded(struct client_address *address, const char *line, bool plain,
                              const struct trusted_proxies *proxies)
{
    size_t end = strlen(line);
    for (;;) {
        size_t start = end;
        while (start && line[start - 1] != ',')
            start--;
        size_t blanks = strspn(line + start, " \t");
        if (start + blanks > end) blanks = end - start;
        struct client_address before;
        if (!read_forwarded_entry(&before, line + start + blanks, end - start - blanks, plain))
            return false;
        *address = before;
        if (!is_trusted_proxy(proxies, before)) return false;
        if (!start) return true;
        end = start - 1;
    }
}
