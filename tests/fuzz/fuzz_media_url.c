/* SPDX-License-Identifier: Apache-2.0 */
/* Untrusted URLs. If libcurl's parser finds an allowed host, a simple parser finds the same host,
 * so differences between parsers cannot be exploited. No spelling of a local or private address
 * counts as public. */
#include <arpa/inet.h>
#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "media/media_internal.h"

enum { HOST_BYTES = EY_MAX_URL_BYTES + 1, IPV4_AT = 12 };

static void require(bool what)
{
    if (!what) abort();
}

/* ---- hosts ---- */

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    c = (char)tolower((unsigned char)c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The host: from the last '@' to the port, percent-decoded, without a trailing dot. */
static bool plain_host(char host[HOST_BYTES], const char *url)
{
    const char *at = strchr(url, ':') + 1;
    at += strspn(at, "/");
    size_t length = strcspn(at, "/?#"), n = 0;
    for (const char *p = at + length; p > at; p--)
        if (p[-1] == '@') {
            length -= (size_t)(p - at);
            at = p;
        }
    for (size_t i = 0; i < length && at[i] != ':'; i++) {
        char c = at[i];
        if (c == '%' && i + 2 < length && hex_value(at[i + 1]) >= 0 && hex_value(at[i + 2]) >= 0) {
            c = (char)(hex_value(at[i + 1]) * 16 + hex_value(at[i + 2]));
            i += 2;
        }
        if (n + 1 >= HOST_BYTES) return false;
        host[n++] = c;
    }
    n -= n && host[n - 1] == '.';
    host[n] = 0;
    return true;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n > m && strcasecmp(text + n - m, end) == 0;
}

static void check_url(const char *url, size_t n)
{
    static const char *const domains[] = {"example.com", "*.wild.org"};
    struct media_policy policy = {.domains = domains, .n_domains = 2};
    char host[HOST_BYTES];
    ey_err e = {0};
    if (strncasecmp(url, "http:", 5) != 0 && strncasecmp(url, "https:", 6) != 0) return;
    if (!media_check_http(url, n, &policy, &e)) {
        require(e.code != EY_OK && e.text[0]);
        return;
    }
    require(plain_host(host, url));
    require(strcasecmp(host, "example.com") == 0 || ends_with(host, ".wild.org"));
}

/* ---- addresses ---- */

static void check_inner(const uint8_t bytes[16], bool is_public)
{
    struct sockaddr_in inner = {.sin_family = AF_INET};
    memcpy(&inner.sin_addr, bytes + IPV4_AT, 4);
    bool inner_public = address_is_public((const struct sockaddr *)&inner);
    require(!inner_public || !address_is_loopback((const struct sockaddr *)&inner));
    if (memcmp(bytes, "\0\0\0\0\0\0\0\0\0\0\xff\xff", IPV4_AT) == 0)
        require(is_public == inner_public);
}

static void check_address(const uint8_t bytes[16])
{
    struct sockaddr_in6 to = {.sin6_family = AF_INET6};
    memcpy(&to.sin6_addr, bytes, 16);
    bool is_public = address_is_public((const struct sockaddr *)&to);
    bool own = IN6_IS_ADDR_LOOPBACK(&to.sin6_addr) || IN6_IS_ADDR_LINKLOCAL(&to.sin6_addr) ||
               IN6_IS_ADDR_SITELOCAL(&to.sin6_addr) || IN6_IS_ADDR_UNSPECIFIED(&to.sin6_addr) ||
               IN6_IS_ADDR_MULTICAST(&to.sin6_addr) || (bytes[0] & 0xfe) == 0xfc;
    require(!is_public || !own);
    check_inner(bytes, is_public);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 16) check_address(data);
    char *url = malloc(size + 1);
    if (!url) return 0;
    if (size) memcpy(url, data, size);
    url[size] = 0;
    if (strlen(url) == size) check_url(url, size);
    free(url);
    return 0;
}
