/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of requests, header by header. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/http/request_checks.h"

/* ---- framing ---- */

enum { MAX_HEADERS = 8 };

struct fault_case {
    const char *headers; /* "name: value", separated by | */
    bool http_1_0;
    const char *fault; /* part of the message; NULL: valid */
};

static size_t split(struct request_header *h, char *text)
{
    size_t n = 0;
    for (char *at = strtok(text, "|"); at; at = strtok(NULL, "|")) {
        char *colon = strchr(at, ':');
        *colon = 0;
        h[n++] = (struct request_header){at, colon + 2, strlen(at), strlen(colon + 2)};
    }
    return n;
}

static void faults_of_headers(void **state)
{
    (void)state;
    static const struct fault_case cases[] = {
        {"Host: a", false, NULL},
        {"host: a|CONTENT-LENGTH: 0", false, NULL},
        {"Host: a|Content-Length: 12 ", false, NULL},
        {"Host: a|Transfer-Encoding: chunked", false, NULL},
        {"Host: a|Transfer-Encoding: CHUNKED", false, NULL},
        {"Host: a|X: \xc3\xa9 tab\there", false, NULL},
        {"Accept: x", true, NULL},
        {"Accept: x", false, "no Host"},
        {"Host: a|Host: a", false, "more than one Host"},
        {"Host: a|hOST: b", false, "more than one Host"},
        {"Host: a|Content-Length: 1|Content-Length: 1", false, "more than one Content-Length"},
        {"Host: a|Content-Length: 1|Transfer-Encoding: chunked", false, "both"},
        {"Host: a|Transfer-Encoding: chunked|Transfer-Encoding: chunked", false,
         "more than one Transfer-Encoding"},
        {"Host: a|Transfer-Encoding: gzip, chunked", false, "only Transfer-Encoding"},
        {"Host: a|Transfer-Encoding: identity", false, "only Transfer-Encoding"},
        {"Host: a|Transfer-Encoding: chunkedx", false, "only Transfer-Encoding"},
        {"Host: a|Transfer-Encoding: chunked", true, "only Transfer-Encoding"},
        {"Host: a|Content-Length: ", false, "not a number"},
        {"Host: a|Content-Length: -1", false, "not a number"},
        {"Host: a|Content-Length: +1", false, "not a number"},
        {"Host: a|Content-Length: 0x10", false, "not a number"},
        {"Host: a|Content-Length: 1, 1", false, "not a number"},
        {"Host: a|Content-Length: 1 2", false, "not a number"},
        {"Host: a|Content-Length: 9999999999999999999", false, "not a number"},
        {"Host: a|Authorization: Bearer a|authorization: Bearer b", false,
         "more than one Authorization"},
        {"Host: a|Content-Type: a|Content-Type: b", false, "more than one Content-Type"},
        {"Host: a|Origin: a|Origin: b", false, "more than one Origin"},
        {"Host: a|X : b", false, "name"},
        {"Host: a|X\x01: b", false, "name"},
        {"Host: a|(X): b", false, "name"},
        {"Host: a|X\xc3\xa9: b", false, "name"},
        {"Host: a|X: b\x01", false, "control"},
        {"Host: a|X: b\x7f", false, "control"},
        {"Host: a|X: b\rc", false, "control"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct request_header h[MAX_HEADERS];
        char text[256];
        strcpy(text, cases[i].headers);
        const char *fault = request_headers_fault(h, split(h, text), !cases[i].http_1_0);
        if (!fault == !cases[i].fault && (!fault || strstr(fault, cases[i].fault))) continue;
        print_error("%s: %s\n", cases[i].headers, fault ? fault : "let in");
        fail();
    }
}

static void names_that_are_no_token(void **state)
{
    (void)state;
    struct request_header empty = {"", "x", 0, 1}, nul = {"X\0Y", "x", 3, 1};
    assert_non_null(request_headers_fault(&empty, 1, false));
    assert_non_null(request_headers_fault(&nul, 1, false));
}

/* ---- hosts ---- */

static void hosts_that_are_known(void **state)
{
    (void)state;
    static const struct {
        const char *bound, *host;
        bool key, known;
    } cases[] = {
        {"127.0.0.1", "localhost", false, true},
        {"127.0.0.1", "LOCALHOST:8000", false, true},
        {"127.0.0.1", "localhost.:8000", false, true},
        {"127.0.0.1", "a.localhost:1", false, true},
        {"127.0.0.1", "127.0.0.1:8000", false, true},
        {"127.0.0.1", "[::1]:8000", false, true},
        {"127.0.0.1", "[::1]", false, true},
        {"127.0.0.1", "192.168.7.9", false, true},
        {"127.0.0.1", "known.example:8000", false, true},
        {"127.0.0.1", "localhost ", false, true},
        {"127.0.0.1", "evil.example", false, false},
        {"127.0.0.1", "evil.example:8000", false, false},
        {"127.0.0.1", "evil.example", true, false},
        {"127.0.0.1", "localhost.evil.example", false, false},
        {"127.0.0.1", "xlocalhost", false, false},
        {"127.0.0.1", ".localhost.evil", false, false},
        {"127.0.0.1", "127.0.0.1.evil.example", false, false},
        {"127.0.0.1", "[::1].evil.example", false, false},
        {"127.0.0.1", "[::1", false, false},
        {"127.0.0.1", "[evil.example]", false, false},
        {"127.0.0.1", "localhost:80:80", false, false},
        {"127.0.0.1", "localhost:80x", false, false},
        {"127.0.0.1", "localhost/x", false, false},
        {"127.0.0.1", "evil.example@localhost", false, false},
        {"127.0.0.1", "localhost, evil.example", false, false},
        {"127.0.0.1", "", false, false},
        {"127.0.0.1", ":8000", false, false},
        {"127.0.0.1", "[", false, false},
        {"127.0.0.1", "host.docker.internal:8000", false, true},
        {"127.0.0.1", "gateway.docker.internal", false, true},
        {"127.0.0.1", "Host.Containers.Internal:11434", false, true},
        {"127.0.0.1", "eyelet:8000", false, false},
        {"127.0.0.1", "nas.local", false, false},
        {"127.0.0.1", "x.host.docker.internal", false, false},
        {"0.0.0.0", "eyelet:8000", false, true},
        {"0.0.0.0", "nas.local", false, true},
        {"0.0.0.0", "box.home.arpa:8000", false, true},
        {"0.0.0.0", "vm.internal", false, true},
        {"0.0.0.0", "vm.internal.evil.example", false, false},
        {"0.0.0.0", "bad/name", false, false},
        {"my.example", "my.example:8000", false, true},
        {"0.0.0.0", "evil.example", false, false},
        {"0.0.0.0", "server.example", true, true},
        {"0.0.0.0", "192.168.7.9:8000", false, true},
        {"0.0.0.0", "bad/name", true, true}, /* allowed for clients with the key */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct server_options o = {.host = cases[i].bound,
                                   .hosts = {"known.example"},
                                   .n_hosts = 1,
                                   .keys.n = cases[i].key};
        if (is_allowed_host(&o, o.host, cases[i].host) == cases[i].known) continue;
        print_error("bound to %s: \"%s\"\n", cases[i].bound, cases[i].host);
        fail();
    }
}

static void own_name_on_the_network(void **state)
{
    (void)state;
    char name[256] = "", host[300];
    struct server_options loopback = {.host = "127.0.0.1"}, network = {.host = "0.0.0.0"};
    if (gethostname(name, sizeof(name) - 1) || !name[0]) skip();
    snprintf(host, sizeof(host), "%s:8000", name);
    assert_true(is_allowed_host(&network, network.host, host));
    bool plain = !strstr(name, "localhost") && strspn(name, "0123456789.") != strlen(name);
    if (plain) assert_false(is_allowed_host(&loopback, loopback.host, host));
}

static void origins(void **state)
{
    (void)state;
    struct server_options some = {.origins = {"https://a.example", "http://b.example:3000"},
                                  .n_origins = 2};
    struct server_options all = {.origins = {"*"}, .n_origins = 1}, none = {0};
    assert_true(is_own_origin("http://localhost:8000", "localhost:8000"));
    assert_true(is_own_origin("https://LOCALHOST:8000", "localhost:8000"));
    assert_false(is_own_origin("http://localhost:3000", "localhost:8000"));
    assert_false(is_own_origin("http://localhost:80000", "localhost:8000"));
    assert_false(is_own_origin("http://localhost", "localhost:8000"));
    assert_false(is_own_origin("ftp://localhost:8000", "localhost:8000"));
    assert_false(is_own_origin("null", "localhost:8000"));
    assert_false(is_own_origin("http://", ""));
    assert_true(is_allowed_origin(&some, "https://a.example"));
    assert_true(is_allowed_origin(&some, "http://b.example:3000"));
    assert_false(is_allowed_origin(&some, "http://a.example"));
    assert_false(is_allowed_origin(&some, "https://a.example.evil"));
    assert_false(is_allowed_origin(&none, "null"));
    assert_true(is_allowed_origin(&all, "https://anything.example"));
    assert_true(is_allowed_origin(&none, "app://obsidian.md"));
    assert_true(is_allowed_origin(&none, "tauri://localhost"));
    assert_true(is_allowed_origin(&none, "vscode-webview://1a2b"));
    assert_false(is_allowed_origin(&none, "file://"));
    assert_false(is_allowed_origin(&none, "chrome-extension://abc"));
    assert_true(is_loopback_origin("http://localhost:3000"));
    assert_true(is_loopback_origin("https://127.0.0.1"));
    assert_false(is_loopback_origin("http://localhost.evil.example"));
    assert_false(is_loopback_origin("ftp://localhost"));
}

static void loopback_addresses(void **state)
{
    (void)state;
    assert_true(is_loopback_host("127.0.0.1"));
    assert_true(is_loopback_host("127.8.9.1"));
    assert_true(is_loopback_host("::1"));
    assert_true(is_loopback_host("localhost"));
    assert_false(is_loopback_host("0.0.0.0"));
    assert_false(is_loopback_host("::"));
    assert_false(is_loopback_host("10.0.0.1"));
    assert_false(is_loopback_host("127.example"));
}

/* ---- keys and types ---- */

static void keys(void **state)
{
    (void)state;
    struct api_keys k = {.n = 0};
    ey_err e;
    assert_true(api_keys_add(&k, "first-key", &e));
    assert_true(api_keys_add(&k, "second-key", &e));
    assert_true(api_keys_accept(&k, "Bearer first-key"));
    assert_true(api_keys_accept(&k, "bearer second-key"));
    assert_true(api_keys_accept(&k, "BEARER  second-key "));
    assert_false(api_keys_accept(&k, NULL));
    assert_false(api_keys_accept(&k, ""));
    assert_false(api_keys_accept(&k, "Bearer "));
    assert_false(api_keys_accept(&k, "first-key"));
    assert_false(api_keys_accept(&k, "Basic first-key"));
    assert_false(api_keys_accept(&k, "Bearer first-ke"));
    assert_false(api_keys_accept(&k, "Bearer first-keyx"));
    assert_false(api_keys_accept(&k, "Bearer First-key"));
    assert_false(api_keys_accept(&k, "Bearer first-key, second-key"));
    assert_false(api_keys_add(&k, "", &e));
    assert_false(api_keys_add(&k, "a b", &e));
    assert_int_equal(k.n, 2);
}

static void json_types(void **state)
{
    (void)state;
    assert_true(is_json_type("application/json"));
    assert_true(is_json_type("Application/JSON"));
    assert_true(is_json_type("application/json; charset=utf-8"));
    assert_true(is_json_type("application/json ;charset=utf-8"));
    assert_false(is_json_type(NULL));
    assert_false(is_json_type(""));
    assert_false(is_json_type("text/plain"));
    assert_false(is_json_type("application/jsonp"));
    assert_false(is_json_type("application/json-patch+json"));
    assert_false(is_json_type("text/plain; application/json"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults_of_headers),
        cmocka_unit_test(names_that_are_no_token),
        cmocka_unit_test(hosts_that_are_known),
        cmocka_unit_test(own_name_on_the_network),
        cmocka_unit_test(origins),
        cmocka_unit_test(loopback_addresses),
        cmocka_unit_test(keys),
        cmocka_unit_test(json_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
