/* SPDX-License-Identifier: Apache-2.0 */
/* Images from URLs without a network: data: URLs, files, addresses, refusals and the budget. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "checkpoint/temp_dir.h"
#include "media/media_internal.h"

static void expect_text(const ey_err *e, ey_code code, const char *part)
{
    if (!strstr(e->text, part) || e->code != code)
        print_error("code %d, \"%s\"; wanted %d, \"%s\"\n", e->code, e->text, code, part);
    assert_non_null(strstr(e->text, part));
    assert_int_equal(e->code, code);
}

static void expect_bytes(const char *url, const void *bytes, size_t n,
                         const struct media_policy *policy)
{
    struct media m;
    ey_err e = {0};
    if (!media_get(&m, url, strlen(url), policy, &e)) fail_msg("%s: %s", url, e.text);
    assert_int_equal(m.n_bytes, n);
    assert_memory_equal(m.bytes, bytes, n);
    media_free(&m);
}

static void expect_failure(const char *url, size_t n, const struct media_policy *policy,
                           ey_code code, const char *part)
{
    struct media m;
    ey_err e = {0};
    if (media_get(&m, url, n, policy, &e)) fail_msg("%s was accepted", url);
    expect_text(&e, code, part);
    assert_null(m.bytes);
    media_free(&m);
}

/* ---- data: ---- */

static void good_data_urls(void **state)
{
    (void)state;
    static const struct {
        const char *url, *bytes;
        size_t n;
    } rows[] = {
        {"data:image/png;base64,AAEC", "\0\1\2", 3},
        {"data:;base64,AA==", "\0", 1},
        {"data:image;base64,AAE=", "\0\1", 2},
        {"DATA:IMAGE/PNG;BASE64,+/+/", "\xfb\xff\xbf", 3},
        {"data:image/png;charset=utf-8;base64,AAEC", "\0\1\2", 3},
        {"data:application/octet-stream;base64,AAEC", "\0\1\2", 3},
        {"data:image/png;base64,A A\nE\r\nC\t", "\0\1\2", 3},
        {"data:image/png;base64,AAECAAEC\nAAECAAEC\n", "\0\1\2\0\1\2\0\1\2\0\1\2", 12},
        {"data:image/png;base64,%2B%2f+/", "\xfb\xff\xbf", 3},
        {"data:image/png;base64,AA%3D%3D", "\0", 1},
        {"data:image/png;base64,AA%0AE%20=%20", "\0\1", 2},
        {"data:image/png;base64,AA= =\n", "\0", 1},
        /* leading and trailing blanks, stripped as in the URL and Fetch standards */
        {" \n\tdata:image/png;base64,AAEC", "\0\1\2", 3},
        {"\1\x1f data:image/png;base64,AAEC \n", "\0\1\2", 3},
        {"data:image/png; base64,AAEC", "\0\1\2", 3},
        {"data:image/png;   BASE64 ,AAEC", "\0\1\2", 3},
        {"data: image/png ;base64,AAEC", "\0\1\2", 3},
        {"data:\timage/\npng ; charset=utf-8 ;\r\n ba\tse64\f,AAEC", "\0\1\2", 3},
        {"data: ;base64,AA==", "\0", 1},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        expect_bytes(rows[i].url, rows[i].bytes, rows[i].n, &(struct media_policy){0});
}

static void bad_data_urls(void **state)
{
    (void)state;
    static const struct {
        const char *url;
        ey_code code;
        const char *part;
    } rows[] = {
        {"data:", EY_BAD_REQUEST, "no comma"},
        {"data:image/png;base64", EY_BAD_REQUEST, "no comma"},
        {"data:,AAEC", EY_BAD_REQUEST, "not base64"},
        {"data:image/png,AAEC", EY_BAD_REQUEST, "not base64"},
        {"data:image/png;base64;x=y,AAEC", EY_BAD_REQUEST, "not base64"},
        {"data:base64,AAEC", EY_BAD_REQUEST, "not base64"},
        /* only spaces are allowed before "base64" */
        {"data:image/png;\fbase64,AAEC", EY_BAD_REQUEST, "not base64"},
        {"data:image/png;base 64,AAEC", EY_BAD_REQUEST, "not base64"},
        {"data :image/png;base64,AAEC", EY_BAD_REQUEST, "must be a data:"},
        {"data: text/plain ;base64,AAEC", EY_BAD_REQUEST, "of type \"text/plain\""},
        {"data:image/svg+xml;utf8,<svg/>", EY_BAD_REQUEST, "not base64"},
        {"data:text/plain;base64,AAEC", EY_BAD_REQUEST, "of type \"text/plain\""},
        {"data:video/mp4;base64,AAEC", EY_BAD_REQUEST, "video/mp4"},
        {"data:imagery;base64,AAEC", EY_BAD_REQUEST, "imagery"},
        {"data:image/png;base64,", EY_BAD_IMAGE, "empty"},
        {"data:image/png;base64, \n", EY_BAD_IMAGE, "empty"},
        {"data:image/png;base64,A", EY_BAD_REQUEST, "cut off after 1 char"},
        {"data:image/png;base64,AA", EY_BAD_REQUEST, "cut off after 2"},
        {"data:image/png;base64,AAECAAE", EY_BAD_REQUEST, "cut off after 7"},
        {"data:image/png;base64,AA=", EY_BAD_REQUEST, "cut off after 3"},
        {"data:image/png;base64,AA==AAEC", EY_BAD_REQUEST, "malformed at character 4"},
        {"data:image/png;base64,AAE==", EY_BAD_REQUEST, "malformed at character 4"},
        {"data:image/png;base64,A===", EY_BAD_REQUEST, "malformed at character 1"},
        {"data:image/png;base64,AA=A", EY_BAD_REQUEST, "malformed at character 3"},
        {"data:image/png;base64,====", EY_BAD_REQUEST, "malformed at character 0"},
        {"data:image/png;base64,AAEC-_AA", EY_BAD_REQUEST, "has '-' at character 4"},
        {"data:image/png;base64,AAE!", EY_BAD_REQUEST, "malformed at character 3"},
        {"data:image/png;base64,AAE%2", EY_BAD_REQUEST, "malformed at character 3"},
        {"data:image/png;base64,AAE%zz", EY_BAD_REQUEST, "malformed at character 3"},
        {"data:image/png;base64,AAE%25", EY_BAD_REQUEST, "malformed at character 3"},
        {"data:image/png;base64,\xc3\xa4"
         "AAA",
         EY_BAD_REQUEST, "malformed at character 0"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        expect_failure(rows[i].url, strlen(rows[i].url), &(struct media_policy){0}, rows[i].code,
                       rows[i].part);
    expect_failure("data:image/png;base\00064,AAEC", 27, &(struct media_policy){0}, EY_BAD_REQUEST,
                   "not base64");
    expect_failure("data:image/png;base64,AA\0C", 27, &(struct media_policy){0}, EY_BAD_REQUEST,
                   "malformed at character 2");
    char long_head[600] = "data:image/png;x=";
    memset(long_head + 17, 'y', 500);
    strcpy(long_head + 517, ";base64,AAEC");
    expect_failure(long_head, strlen(long_head), &(struct media_policy){0}, EY_BAD_REQUEST,
                   "no comma");
}

static void data_size_is_capped(void **state)
{
    (void)state;
    static const char head[] = "data:image/png;base64,";
    struct media_policy policy = {.max_bytes = 6};
    expect_bytes("data:;base64,AAECAwQF", "\0\1\2\3\4\5", 6, &policy);
    expect_failure("data:;base64,AAECAwQFBg==", 25, &policy, EY_BAD_IMAGE, "limit of 6 bytes");
    expect_failure("data:;base64,AAECAwQFBgcI", 25, &policy, EY_BAD_IMAGE, "limit of 6 bytes");
    expect_failure("data:;base64,AAECAwQFBgcIAAEC", 29, &policy, EY_BAD_IMAGE, "limit of 6 bytes");
    size_t n = 40 << 20;
    char *url = malloc(sizeof(head) + n);
    assert_non_null(url);
    memcpy(url, head, sizeof(head) - 1);
    memset(url + sizeof(head) - 1, 'A', n);
    struct media m;
    ey_err e;
    assert_true(media_get(&m, url, sizeof(head) - 1 + n, &(struct media_policy){0}, &e));
    assert_int_equal(m.n_bytes, n / 4 * 3);
    assert_int_equal(m.held, m.n_bytes);
    media_free(&m);
    free(url);
}

/* ---- other schemes ---- */

static void other_urls(void **state)
{
    (void)state;
    static const struct media_policy none = {0};
    static const char *const domains[] = {"example.com"};
    static const struct media_policy all = {.domains = domains, .n_domains = 1, .local_path = "/"};
    static const struct media_policy any = {.any_domain = true};
    static const struct {
        const char *url, *part;
    } rows[] = {
        {"", "is empty"},
        {"/etc/passwd", "not \"/etc/passwd\""},
        {"photo.jpg", "data:image/"},
        {"ftp://example.com/a.png", "not \"ftp:"},
        {"gopher://example.com/", "not \"gopher:"},
        {"httpx://example.com/", "not \"httpx:"},
        {"http:/example.com/", "not \"http:/e"},
        {"javascript:alert(1)", "not \"javascript:"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        expect_failure(rows[i].url, strlen(rows[i].url), &none, EY_BAD_REQUEST, rows[i].part);
        expect_failure(rows[i].url, strlen(rows[i].url), &all, EY_BAD_REQUEST, rows[i].part);
    }
    expect_failure("ftp:", 4, &all, EY_BAD_REQUEST,
                   "URL or an http(s) URL of an allowed host or a file:// URL, not \"");
    expect_failure("ftp:", 4, &any, EY_BAD_REQUEST, "URL or an http(s) URL, not \"");
    expect_failure("ftp:", 4, &none, EY_BAD_REQUEST, "URL, not \"");
    expect_failure("http://example.com/", 19, &none, EY_BAD_REQUEST, "--allowed-media-domains");
    expect_failure("file:///etc/passwd", 18, &none, EY_BAD_REQUEST, "--allowed-local-media-path");
    expect_failure("http://example.com/\0.png", 24, &all, EY_BAD_REQUEST, "NUL");
    expect_failure("file:///etc\0/passwd", 19, &all, EY_BAD_REQUEST, "NUL");
}

/* ---- http(s) without a connection ---- */

static void web_urls(void **state)
{
    (void)state;
    static const char *const domains[] = {"example.com", "*.wild.org", ".dot.org",
                                          "127.0.0.1",   "::1",        "xn--mnchen-3ya.de"};
    static const struct media_policy policy = {.domains = domains, .n_domains = 6};
    static const struct {
        const char *url, *part; /* NULL: accepted */
    } rows[] = {
        {"http://example.com/a.png", NULL},
        {"https://example.com", NULL},
        {"HTTPS://EXAMPLE.COM:8443/a?b#c", NULL},
        {"http://example.com./a.png", NULL},
        {"http://a.wild.org/", NULL},
        {"http://a.b.wild.org/", NULL},
        {"http://a.dot.org/", NULL},
        {"http://[::1]/", NULL}, /* connecting to it is refused later */
        {"http://127.1/", NULL}, /* libcurl reads it as 127.0.0.1, and so does the check */
        {"http://0x7f000001/", NULL},
        {"http://wild.org/", "host wild.org is not among"},
        {"http://dot.org/", "not among"},
        {"http://xwild.org/", "not among"},
        {"http://.wild.org/", "not among"},
        {"http://example.com.evil.org/", "not among"},
        {"http://evilexample.com/", "not among"},
        {"http://sub.example.com/", "not among"},
        {"http://evil.org/example.com", "not among"},
        {"http://evil.org?example.com", "not among"},
        {"http://evil.org#@example.com/", "not among"},
        {"http://2130706434/", "127.0.0.2 is not among"},
        {"http://user@example.com/", "user name"},
        {"http://user:word@example.com/", "user name"},
        {"http://:word@example.com/", "user name"},
        {"http://@example.com/", "user name"},
        {"http://example.com@evil.org/", "user name"},
        {"http://example.com\\@evil.org/", "user name"},
        {"http://evil.org\\@example.com/", "user name"},
        {"http://evil.org\\.example.com/", "malformed"},
        {"http://example.com%2eevil.org/", "not among"},
        {"http://example.com%00.evil.org/", "malformed"},
        {"http://ex%61mple.com/", NULL}, /* decoded before it is checked and resolved */
        {"http://m\xc3\xbcnchen.de/", "malformed"},
        {"http://xn--mnchen-3ya.de/", NULL},
        {"http://[fe80::1%25eth0]/", "malformed"},
        {"http://", "malformed"},
        {"http:///", "malformed"},
        {"http://example.com:port/", "malformed"},
        {"http://example.com:99999/", "malformed"},
        {"http://exa mple.com/", "malformed"},
        {"http://example.com/a\nb", "malformed"},
        {"http://[::1/", "malformed"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ey_err e = {0};
        bool ok = media_check_http(rows[i].url, strlen(rows[i].url), &policy, &e);
        if (ok != !rows[i].part) fail_msg("%s: %s", rows[i].url, ok ? "taken" : e.text);
        if (!ok) expect_text(&e, EY_BAD_REQUEST, rows[i].part);
    }
    char long_url[EY_MAX_URL_BYTES + 2] = "http://example.com/";
    memset(long_url + 19, 'a', sizeof(long_url) - 20);
    ey_err e = {0};
    assert_true(media_check_http(long_url, EY_MAX_URL_BYTES, &policy, &e));
    assert_false(media_check_http(long_url, EY_MAX_URL_BYTES + 1, &policy, &e));
    expect_text(&e, EY_BAD_REQUEST, "longer than 8192");
}

static bool is_public(const char *text)
{
    struct sockaddr_in a4 = {.sin_family = AF_INET};
    struct sockaddr_in6 a6 = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, text, &a4.sin_addr) == 1)
        return address_is_public((struct sockaddr *)&a4);
    assert_int_equal(inet_pton(AF_INET6, text, &a6.sin6_addr), 1);
    return address_is_public((struct sockaddr *)&a6);
}

static void addresses(void **state)
{
    (void)state;
    static const char *const good[] = {
        "1.1.1.1",          "8.8.8.8",         "9.255.255.255",
        "11.0.0.0",         "100.63.255.255",  "100.128.0.0",
        "126.255.255.255",  "128.0.0.1",       "168.63.129.15",
        "168.63.129.17",    "169.253.255.255", "169.255.0.0",
        "172.15.255.255",   "172.32.0.0",      "192.0.1.0",
        "192.167.255.255",  "192.169.0.0",     "198.17.255.255",
        "198.20.0.0",       "223.255.255.255", "2606:4700:4700::1111",
        "2001:200::",       "2a00::1",         "::ffff:1.1.1.1",
        "64:ff9b::1.1.1.1", "2002:101:101::1", "3ffe::1",
    };
    static const char *const bad[] = {
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.0",
        "10.255.255.255",
        "100.64.0.0",
        "100.127.255.255",
        "100.100.100.200",
        "127.0.0.1",
        "127.255.255.255",
        "168.63.129.16",
        "169.254.169.254",
        "169.254.0.0",
        "172.16.0.0",
        "172.31.255.255",
        "192.0.0.192",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.0.0",
        "192.168.255.255",
        "198.18.0.0",
        "198.19.255.255",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::7f00:1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:169.254.169.254",
        "::ffff:0:1.1.1.1",
        "64:ff9b::127.0.0.1",
        "64:ff9b::192.168.1.1",
        "64:ff9b:1::1.1.1.1",
        "100::1",
        "2001::1",
        "2001:1ff:ffff::1",
        "2001:db8::1",
        "2002:7f00:1::1",
        "2002:a00:1::1",
        "2002:c0a8:101::1",
        "3fff:fff::1",
        "4000::1",
        "5f00::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "febf::1",
        "fec0::1",
        "ff02::1",
        "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        if (!is_public(good[i])) fail_msg("%s is refused", good[i]);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (is_public(bad[i])) fail_msg("%s is accepted", bad[i]);
    assert_false(address_is_public(&(struct sockaddr){.sa_family = AF_UNIX}));
}

/* ---- file:// ---- */

static void file_paths(void **state)
{
    (void)state;
    static const struct {
        const char *url, *path, *part;
    } rows[] = {
        {"file:///a/b.png", "/a/b.png", NULL},
        {"file:/a/b.png", "/a/b.png", NULL},
        {"FILE://LocalHost/a", "/a", NULL},
        {"file:///a%20b%3F%23%25", "/a b?#%", NULL},
        {"file:///%c3%A4", "/\xc3\xa4", NULL},
        {"file:///a/../b", "/a/../b", NULL},
        {"file:", NULL, "absolute path"},
        {"file:a.png", NULL, "absolute path"},
        {"file://", NULL, "absolute path"},
        {"file://localhost", NULL, "absolute path"},
        {"file://localhostess/a", NULL, "absolute path"},
        {"file://evil.org/a", NULL, "absolute path"},
        {"file://127.0.0.1/a", NULL, "absolute path"},
        {"file:///a?b", NULL, "%3F"},
        {"file:///a#b", NULL, "%23"},
        {"file:///a%", NULL, "two hexadecimal digits"},
        {"file:///a%4", NULL, "two hexadecimal digits"},
        {"file:///a%zz", NULL, "two hexadecimal digits"},
        {"file:///a%00b", NULL, "NUL"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char path[EY_MAX_PATH];
        ey_err e = {0};
        bool ok = media_file_path(path, rows[i].url, strlen(rows[i].url), &e);
        if (ok != !rows[i].part) fail_msg("%s: %s", rows[i].url, ok ? path : e.text);
        if (ok)
            assert_string_equal(path, rows[i].path);
        else
            expect_text(&e, EY_BAD_REQUEST, rows[i].part);
    }
    char long_url[EY_MAX_PATH + 20] = "file://";
    memset(long_url + 7, '/', sizeof(long_url) - 8);
    char path[EY_MAX_PATH];
    ey_err e = {0};
    assert_true(media_file_path(path, long_url, 7 + EY_MAX_PATH - 1, &e));
    assert_false(media_file_path(path, long_url, 7 + EY_MAX_PATH, &e));
    expect_text(&e, EY_BAD_REQUEST, "longer than 4095");
}

/* A directory `in` that is allowed, with links out of it, and a sibling that is not. */
static const char *make_tree(void)
{
    const char *dir = temp_dir_make();
    temp_text(dir, "in/a.png", "inside");
    temp_text(dir, "in/sub/b c.png", "below");
    temp_text(dir, "in/..b", "dots");
    temp_text(dir, "in/empty", "");
    temp_text(dir, "out/secret", "outside");
    temp_text(dir, "inside-not/secret", "outside");
    temp_link(dir, "in/sub/up", "../a.png");
    temp_link(dir, "in/folder", "sub");
    temp_link(dir, "in/escape", "../out/secret");
    temp_link(dir, "in/escape-folder", "../out");
    temp_link(dir, "in/absolute", temp_path(dir, "out/secret"));
    temp_link(dir, "in/device", "/dev/zero");
    temp_link(dir, "in/self", "/proc/self/environ");
    temp_link(dir, "in/loop", "loop");
    temp_link(dir, "other-name", "in");
    assert_int_equal(mkfifo(temp_path(dir, "in/pipe"), 0600), 0);
    return dir;
}

static const struct {
    const char *path, *bytes, *part; /* below `in`; bytes NULL: refused */
} file_rows[] = {
    {"a.png", "inside", NULL},
    {"/a.png", "inside", NULL},
    {"./a.png", "inside", NULL},
    {"sub/b%20c.png", "below", NULL},
    {"..b", "dots", NULL},
    {"../out/secret", NULL, "not below"},
    {"%2e%2e/out/secret", NULL, "not below"},
    {"..%2fout/secret", NULL, "not below"},
    {"sub/../../out/secret", NULL, "not below"},
    {"..", NULL, "not below"},
    {"escape", NULL, "not below"},
    {"escape-folder/secret", NULL, NULL},
    {"absolute", NULL, "not below"},
    {"device", NULL, "not below"},
    {"self", NULL, "not below"},
    {"loop", NULL, "not below"},
    {"pipe", NULL, "not a regular file"},
    {"sub", NULL, "not a regular file"},
    {"sub/", NULL, NULL},
    {"", NULL, "not a regular file"},
    {"nothing", NULL, "no file"},
    {"nothing/a.png", NULL, "no file"},
    {"a.png/b", NULL, "no file"},
};

static void files(void **state)
{
    (void)state;
    const char *dir = make_tree();
    struct media_policy policy = {.local_path = temp_path(dir, "in")};
    char url[EY_MAX_PATH + 100];
    for (size_t i = 0; i < sizeof(file_rows) / sizeof(file_rows[0]); i++) {
        snprintf(url, sizeof(url), "file://%s/in/%s", dir, file_rows[i].path);
        if (file_rows[i].bytes)
            expect_bytes(url, file_rows[i].bytes, strlen(file_rows[i].bytes), &policy);
        else
            expect_failure(url, strlen(url), &policy, EY_BAD_REQUEST,
                           file_rows[i].part ? file_rows[i].part : "file:// URL");
    }
    snprintf(url, sizeof(url), "file://%s/in/empty", dir);
    expect_failure(url, strlen(url), &policy, EY_BAD_IMAGE, "empty");
    static const char *const outside[] = {
        "in", "inside-not/secret", "out/secret", "in/../out/secret", "../../etc/passwd", ""};
    for (size_t i = 0; i < sizeof(outside) / sizeof(outside[0]); i++) {
        snprintf(url, sizeof(url), "file://%s/%s", dir, outside[i]);
        expect_failure(url, strlen(url), &policy, EY_BAD_REQUEST, "not below");
    }
    snprintf(url, sizeof(url), "file://%s/in/a.png", dir);
    policy.max_bytes = 6;
    expect_bytes(url, "inside", 6, &policy);
    policy.max_bytes = 5;
    expect_failure(url, strlen(url), &policy, EY_BAD_IMAGE, "limit of 5 bytes");
    temp_dir_remove(dir);
}

/* Links that stay inside are followed. The directory may be given by either name, with or without a
 * slash. */
static void files_by_links(void **state)
{
    (void)state;
    const char *dir = make_tree();
    char url[EY_MAX_PATH + 100], slash[EY_MAX_PATH];
    snprintf(slash, sizeof(slash), "%s/other-name//", dir);
    struct media_policy policy = {.local_path = slash};
    static const char *const names[] = {"other-name/a.png", "in/a.png", "in/sub/up",
                                        "in/folder/up"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(url, sizeof(url), "file://%s/%s", dir, names[i]);
        int there = open(dir, O_PATH | O_CLOEXEC), fd = media_open_below(there, "in/sub/up", false);
        if (fd >= 0)
            expect_bytes(url, "inside", 6, &policy); /* a kernel without openat2 follows no links */
        if (fd >= 0) close(fd);
        close(there);
    }
    policy.local_path = "/";
    snprintf(url, sizeof(url), "file://%s/in/a.png", dir);
    expect_bytes(url, "inside", 6, &policy);
    policy.local_path = "/dev";
    expect_failure("file:///dev/zero", 16, &policy, EY_BAD_REQUEST, "not a regular file");
    policy.local_path = temp_path(dir, "in/nowhere");
    snprintf(url, sizeof(url), "file://%s/in/nowhere/a.png", dir);
    expect_failure(url, strlen(url), &policy, EY_IO, "cannot be opened");
    temp_dir_remove(dir);
}

/* Without openat2 all links are refused, even those that stay inside. */
static void files_by_walking(void **state)
{
    (void)state;
    const char *dir = make_tree();
    int in = open(temp_path(dir, "in"), O_PATH | O_CLOEXEC);
    assert_true(in >= 0);
    static const struct {
        const char *path;
        bool opens;
    } rows[] = {
        {"a.png", true},
        {"./a.png", true},
        {"/a.png", true},
        {"sub//b c.png", true},
        {"..b", true},
        {"sub", true},
        {".", true},
        {"pipe", true},
        {"..", false},
        {"../out/secret", false},
        {"sub/../a.png", false},
        {"escape", false},
        {"escape-folder/secret", false},
        {"absolute", false},
        {"device", false},
        {"loop", false},
        {"sub/up", false},
        {"folder/up", false},
        {"nothing", false},
        {"a.png/b", false},
        {"pipe/b", false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int fd = media_open_below(in, rows[i].path, true);
        if ((fd >= 0) != rows[i].opens)
            fail_msg("%s: %s", rows[i].path, fd >= 0 ? "opened" : "refused");
        if (fd >= 0) close(fd);
    }
    close(in);
    temp_dir_remove(dir);
}

/* ---- budget ---- */

static void budget_is_acquired_and_released(void **state)
{
    (void)state;
    ey_budget *budget = ey_budget_create(100);
    struct media_policy policy = {.budget = budget};
    struct media m;
    ey_err e = {0};
    assert_true(media_get(&m, "data:;base64,AAECAA==", 21, &policy, &e));
    assert_int_equal(ey_budget_used(budget), 4);
    media_free(&m);
    assert_int_equal(ey_budget_used(budget), 0);
    media_free(&m);
    assert_false(media_get(&m, "data:;base64,AAEC!AA=", 21, &policy, &e));
    assert_int_equal(ey_budget_used(budget), 0);
    char url[200] = "data:;base64,";
    memset(url + 13, 'A', 160);
    expect_failure(url, 173, &policy, EY_BAD_IMAGE, "memory for requests (100 bytes");
    assert_int_equal(ey_budget_used(budget), 0);
    ey_budget_free(&budget);
}

static bool say_gone(void *user)
{
    (void)user;
    return true;
}

/* Runs between two waits, so only after the first has failed. Releases the bytes, so that the next
 * succeeds. */
static bool give_it_back(void *user)
{
    ey_budget **held = user;
    if (*held) ey_budget_release(*held, 100);
    *held = NULL;
    return false;
}

static void budget_is_waited_for(void **state)
{
    (void)state;
    ey_budget *budget = ey_budget_create(100);
    struct media_policy policy = {.budget = budget};
    assert_true(ey_budget_acquire(budget, 100, 0));
    policy.gone = say_gone;
    expect_failure("data:;base64,AAEC", 17, &policy, EY_CANCELLED, "has left");
    policy.gone = NULL;
    double start = seconds_now();
    expect_failure("data:;base64,AAEC", 17, &policy, EY_BUSY, "full");
    assert_true(seconds_now() - start > 4);
    ey_budget *held = budget;
    policy.gone = give_it_back;
    policy.user = &held;
    expect_bytes("data:;base64,AAEC", "\0\1\2", 3, &policy);
    assert_null(held); /* it was called, so the budget was waited for */
    assert_int_equal(ey_budget_used(budget), 0);
    ey_budget_free(&budget);
}

/* A GIF of one pixel and this many frames. */
static size_t make_gif(char out[64], int frames)
{
    static const char head[] = "GIF89a\1\0\1\0\0\0", frame[] = ",\0\0\0\0\1\0\1\0\0\2\1\0";
    size_t n = sizeof(head);
    memcpy(out, head, n);
    for (int i = 0; i < frames; i++, n += sizeof(frame))
        memcpy(out + n, frame, sizeof(frame));
    out[n++] = ';';
    return n;
}

static void omitted_frames_and_pages_are_named(void **state)
{
    (void)state;
    static const char webp[] = "RIFF\x30\0\0\0WEBPVP8X\x0a\0\0\0\2\0\0\0";
    static const uint8_t tiff[64] = {'I', 'I', '*', 0, 8, [8] = 1, [22] = 26, [26] = 1};
    char gif[64];
    assert_null(media_left_out(gif, make_gif(gif, 1)));
    assert_string_equal(media_left_out(gif, make_gif(gif, 2)), "frames");
    for (size_t n = make_gif(gif, 2) - 20; n > 0; n--)
        assert_null(media_left_out(gif, n));
    assert_string_equal(media_left_out(webp, sizeof(webp)), "frames");
    assert_string_equal(media_left_out(tiff, sizeof(tiff)), "pages");
    assert_null(media_left_out(tiff, 30));
    assert_null(media_left_out("", 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(omitted_frames_and_pages_are_named),
        cmocka_unit_test(good_data_urls),
        cmocka_unit_test(bad_data_urls),
        cmocka_unit_test(data_size_is_capped),
        cmocka_unit_test(other_urls),
        cmocka_unit_test(web_urls),
        cmocka_unit_test(addresses),
        cmocka_unit_test(file_paths),
        cmocka_unit_test(files),
        cmocka_unit_test(files_by_links),
        cmocka_unit_test(files_by_walking),
        cmocka_unit_test(budget_is_acquired_and_released),
        cmocka_unit_test(budget_is_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
