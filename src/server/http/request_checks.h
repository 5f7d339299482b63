/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of a request's headers: framing, host, origin, API key, content type. No sockets here. */
#ifndef EY_SERVER_REQUEST_CHECKS_H
#define EY_SERVER_REQUEST_CHECKS_H

#include "server/server.h"

struct request_header {
    const char *name, *value; /* NUL-terminated */
    size_t n_name, n_value;
};

/* What a library that reads requests kindly lets through and another program on the way may have
 * read otherwise: two lengths, both framings, two hosts, names that are no token, control
 * characters. NULL: nothing, else a sentence. */
const char *request_headers_fault(const struct request_header *headers, size_t n, bool http_1_1);

/* Whether n bytes are a token: what methods and headers' names are made of. */
bool is_http_token(const char *s, size_t n);

/* The one header of that name; NULL: it is not there. */
const char *request_header_value(const struct request_header *headers, size_t n, const char *name);

/* Whether a Host header names this server, at the socket bound to that address. A page whose own
 * domain is made to point here (DNS rebinding) cannot pass: it needs a name, and only these are
 * known: localhost and what ends in .localhost, the name or address that --host gives,
 * --allowed-hosts, and where the server listens to the network without a key the machine's own name
 * and names that no public DNS has: of one word, .internal, .local, .home.arpa; always those by
 * which containers call their host (host.docker.internal). Addresses are no names, so any is known;
 * so is any port, which ssh -L and containers change. Where the server listens to the network and
 * has keys, every name is: a page that was rebound has no key, and proxies and DNS have names for
 * the server that it cannot know. */
bool is_allowed_host(const struct server_options *options, const char *bound_to, const char *host);

/* Whether a page of this Origin may call: the server's own (http or https at the requested Host, so
 * that it works behind a proxy), one of --allowed-origins, or a program's (app://, tauri://,
 * vscode-webview://, vscode-file://), which is no page. */
bool is_own_origin(const char *origin, const char *host);
bool is_allowed_origin(const struct server_options *options, const char *origin);
/* A page of this machine, which Ollama lets call, whichever its port. */
bool is_loopback_origin(const char *origin);

/* Whether this is an address of the machine itself, as options.host writes it. */
bool is_loopback_host(const char *host);

/* Whether a browser sent this for a page that is not the server's own: it says so with every POST.
 */
bool is_sent_by_page(const struct request_header *headers, size_t n);

/* Whether a Content-Type is JSON. */
bool is_json_type(const char *content_type);

#endif
