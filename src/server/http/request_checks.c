/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of request headers. */
#include "server/http/request_checks.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* ---- framing ---- */

bool is_http_token(const char *s, size_t n)
{
    static const char others[] = "!#$%&'*+-.^_`|~";
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i], lower = c | 0x20;
        if (!(c >= '0' && c <= '9') && !(lower >= 'a' && lower <= 'z') && !(c && strchr(others, c)))
            return false;
    }
    return n > 0;
}

static bool has_control(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f) return true;
    }
    return false;
}

static size_t count_headers(const struct request_header *h, size_t n, const char *name)
{
    size_t found = 0;
    for (size_t i = 0; i < n; i++)
        found += strcasecmp(h[i].name, name) == 0;
    return found;
}

const char *request_header_value(const struct request_header *h, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcasecmp(h[i].name, name) == 0) return h[i].value;
    return NULL;
}

/* Length of s without trailing blanks. */
static size_t header_trimmed_length(const char *s)
{
    size_t n = strlen(s);
    while (n && (s[n - 1] == ' ' || s[n - 1] == '\t'))
        n--;
    return n;
}

static const char *framing_fault(const char *length, const char *encoding, bool http_1_1)
{
    enum { MAX_DIGITS = 18 };
    if (length && encoding) return "the request has both a Content-Length and a Transfer-Encoding";
    if (encoding && (!http_1_1 || header_trimmed_length(encoding) != 7 ||
                     strncasecmp(encoding, "chunked", 7) != 0))
        return "the only Transfer-Encoding supported is chunked, with HTTP/1.1";
    if (!length) return NULL;
    size_t n = header_trimmed_length(length);
    return n && n <= MAX_DIGITS && strspn(length, "0123456789") == n
               ? NULL
               : "the Content-Length is not a number";
}

const char *request_headers_fault(const struct request_header *h, size_t n, bool http_1_1)
{
    static const char *const single[] = {"Content-Length", "Transfer-Encoding", "Host",
                                         "Authorization",  "Content-Type",      "Origin",
                                         "X-Api-Key"};
    static const char *const twice[] = {"the request has more than one Content-Length",
                                        "the request has more than one Transfer-Encoding",
                                        "the request has more than one Host",
                                        "the request has more than one Authorization",
                                        "the request has more than one Content-Type",
                                        "the request has more than one Origin",
                                        "the request has more than one X-Api-Key"};
    for (size_t i = 0; i < n; i++) {
        if (!is_http_token(h[i].name, h[i].n_name))
            return "a header's name has characters that are not allowed in names";
        if (has_control(h[i].value, h[i].n_value)) return "a header's value has control characters";
    }
    for (size_t i = 0; i < sizeof(single) / sizeof(single[0]); i++)
        if (count_headers(h, n, single[i]) > 1) return twice[i];
    if (http_1_1 && !request_header_value(h, n, "Host")) return "the request has no Host";
    return framing_fault(request_header_value(h, n, "Content-Length"),
                         request_header_value(h, n, "Transfer-Encoding"), http_1_1);
}

/* ---- hosts and origins ---- */

enum { MAX_NAME = 255 };

/* Extracts the lower-case name or address of "name:port", "address" or "[address]:port". Returns
 * false if it is malformed. */
static bool parse_host_name(char out[MAX_NAME + 1], const char *host)
{
    bool bracketed = host[0] == '[';
    if (bracketed) host++;
    size_t n = strcspn(host, bracketed ? "]" : ": \t");
    if (!n || n > MAX_NAME || (bracketed && host[n] != ']')) return false;
    const char *rest = host + n + (bracketed && host[n] == ']');
    if (rest[0] == ':' && rest[1]) rest += 1 + strspn(rest + 1, "0123456789");
    if (*rest && header_trimmed_length(rest)) return false;
    for (size_t i = 0; i < n; i++)
        out[i] = (char)(host[i] >= 'A' && host[i] <= 'Z' ? host[i] | 0x20 : host[i]);
    if (!bracketed && n > 1 && out[n - 1] == '.') n--;
    out[n] = 0;
    return true;
}

static bool is_address(const char *name)
{
    unsigned char address[16];
    return inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1;
}

static bool host_ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n > m && strcmp(text + n - m, end) == 0;
}

static bool is_machine_name(const char *name)
{
    char machine[MAX_NAME + 1] = "";
    if (gethostname(machine, sizeof(machine) - 1) || !machine[0]) return false;
    size_t n = strcspn(machine, ".");
    return strcasecmp(name, machine) == 0 ||
           (strncasecmp(name, machine, n) == 0 && (!name[n] || strcmp(name + n, ".local") == 0));
}

bool is_loopback_host(const char *host)
{
    unsigned char v6[16], v4[4];
    static const unsigned char one[16] = {[15] = 1};
    if (strcasecmp(host, "localhost") == 0) return true;
    if (inet_pton(AF_INET, host, v4) == 1) return v4[0] == 127;
    return inet_pton(AF_INET6, host, v6) == 1 && memcmp(v6, one, sizeof(one)) == 0;
}

/* Whether it is a name by which containers reach their host; nobody can register these. */
static bool is_container_host(const char *name)
{
    static const char *const names[] = {"host.docker.internal", "gateway.docker.internal",
                                        "host.containers.internal"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}

/* Whether public DNS cannot have the name: a single label, as containers use among themselves, or a
 * domain reserved for home networks. */
static bool is_private_name(const char *name)
{
    if (strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != strlen(name)) return false;
    return !strchr(name, '.') || host_ends_with(name, ".internal") ||
           host_ends_with(name, ".local") || host_ends_with(name, ".home.arpa");
}

bool is_allowed_host(const struct server_options *o, const char *bound_to, const char *host)
{
    char name[MAX_NAME + 1];
    bool network = !is_loopback_host(bound_to);
    if (!parse_host_name(name, host)) return false;
    if ((network && o->keys.n) || is_address(name)) return true;
    if (strcmp(name, "localhost") == 0 || host_ends_with(name, ".localhost") ||
        strcasecmp(name, o->host) == 0 || is_container_host(name))
        return true;
    for (size_t i = 0; i < o->n_hosts; i++)
        if (strcasecmp(name, o->hosts[i]) == 0) return true;
    return network && (is_private_name(name) || is_machine_name(name));
}

bool is_own_origin(const char *origin, const char *host)
{
    const char *rest = strncasecmp(origin, "http://", 7) == 0    ? origin + 7
                       : strncasecmp(origin, "https://", 8) == 0 ? origin + 8
                                                                 : NULL;
    size_t n = rest ? header_trimmed_length(rest) : 0;
    return n && header_trimmed_length(host) == n && strncasecmp(rest, host, n) == 0;
}

static bool is_program_origin(const char *origin)
{
    static const char *const schemes[] = {"app://", "tauri://", "vscode-webview://",
                                          "vscode-file://"};
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
        if (strncasecmp(origin, schemes[i], strlen(schemes[i])) == 0) return true;
    return false;
}

bool is_loopback_origin(const char *origin)
{
    char name[MAX_NAME + 1];
    const char *rest = strncasecmp(origin, "http://", 7) == 0    ? origin + 7
                       : strncasecmp(origin, "https://", 8) == 0 ? origin + 8
                                                                 : "";
    return parse_host_name(name, rest) &&
           (strcmp(name, "localhost") == 0 || strcmp(name, "127.0.0.1") == 0 ||
            strcmp(name, "0.0.0.0") == 0);
}

bool is_allowed_origin(const struct server_options *o, const char *origin)
{
    if (is_program_origin(origin)) return true;
    for (size_t i = 0; i < o->n_origins; i++)
        if (strcmp(o->origins[i], "*") == 0 || strcasecmp(o->origins[i], origin) == 0) return true;
    return false;
}

/* ---- bodies ---- */

bool is_sent_by_page(const struct request_header *h, size_t n)
{
    const char *site = request_header_value(h, n, "Sec-Fetch-Site");
    bool own = site && (strcmp(site, "same-origin") == 0 || strcmp(site, "none") == 0);
    return request_header_value(h, n, "Origin") || (site && !own);
}

bool is_json_type(const char *type)
{
    static const char json[] = "application/json";
    size_t n = sizeof(json) - 1;
    return type && strncasecmp(type, json, n) == 0 && (!type[n] || strchr("; \t", type[n]));
}
