/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of request headers: framing, Host, Origin, Content-Type. Independent of sockets. */
#ifndef EY_SERVER_REQUEST_CHECKS_H
#define EY_SERVER_REQUEST_CHECKS_H

#include "server/server.h"

struct request_header {
    const char *name, *value; /* NUL-terminated */
    size_t n_name, n_value;
};

/* Finds a fault that libmicrohttpd tolerates but a proxy may interpret differently (request
 * smuggling): two lengths, both framings, two hosts, names that are not tokens, control characters.
 * Returns a message, or NULL if there is none. */
const char *request_headers_fault(const struct request_header *headers, size_t n, bool http_1_1);

/* Whether n bytes are a token (RFC 9110), as method and header names must be. */
bool is_http_token(const char *s, size_t n);

/* Returns the value of the header of that name, or NULL. */
const char *request_header_value(const struct request_header *headers, size_t n, const char *name);

/* Whether a Host header names this server, whose socket is bound to the address `bound_to`. This
 * stops DNS rebinding, where an attacker's page points its own domain here. Accepted are
 * - any address and any port, which ssh -L and containers change;
 * - localhost, *.localhost, the value of --host, and --allowed-hosts;
 * - names by which containers reach their host (host.docker.internal);
 * - on a network address without a key, the machine's own name and names that public DNS cannot
 *   have: single labels, .internal, .local, .home.arpa;
 * - on a network address with keys, any name: a rebound page has no key, and proxies have names
 *   that the server cannot know. */
bool is_allowed_host(const struct server_options *options, const char *bound_to, const char *host);

/* Whether the Origin is the server's own: http or https at the requested Host, which works behind
 * a proxy. */
bool is_own_origin(const char *origin, const char *host);
/* Whether a page of another Origin may call: one of --allowed-origins, or an application's (app://,
 * tauri://, vscode-webview://, vscode-file://). */
bool is_allowed_origin(const struct server_options *options, const char *origin);
/* Whether the Origin is a page of this machine, at any port. Ollama lets these pages call. */
bool is_loopback_origin(const char *origin);

/* Whether `host`, as in options.host, is a loopback address. */
bool is_loopback_host(const char *host);

/* Whether a web page sent the request: it has an Origin, or Sec-Fetch-Site names another site.
 * Browsers send these headers with every POST. */
bool is_sent_by_page(const struct request_header *headers, size_t n);

/* Whether a Content-Type is JSON. */
bool is_json_type(const char *content_type);

#endif
