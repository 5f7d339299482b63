/* SPDX-License-Identifier: Apache-2.0 */
/* Makes malformed requests. */
#include "load/malformed_requests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "client/dialects.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { MAX_IMAGE = 1 << 20, MAX_BODY = 8 << 20 };

static const char path[] = "/v1/chat/completions";
static const char hello[] =
    "{\"messages\": [{\"role\": \"user\", \"content\": \"Say hello.\"}], \"max_tokens\": 2}";

/* The inputs for making a request. */
struct making {
    struct malformed *m;
    const struct wire_target *to;
    const struct sample *sample;
    struct rng *dice;
};

bool sample_read(struct sample *out, ey_err *e)
{
    *out = (struct sample){.png = NULL};
    return file_read(&out->png, &out->n_png, "examples/shapes-1.png", MAX_IMAGE, e) &&
           file_read(&out->jpeg, &out->n_jpeg, "examples/shapes-2.jpg", MAX_IMAGE, e);
}

void sample_free(struct sample *s)
{
    free(s->png);
    free(s->jpeg);
}

static void post(const struct making *k, const char *body, size_t n)
{
    chat_post(&k->m->bytes, k->to, path, body, n);
}

static void post_buf(const struct making *k, struct buf *body)
{
    post(k, body->data ? body->data : "", body->size);
    buf_free(body);
}

static const char *one_of(const struct making *k, const char *const *choices, size_t n)
{
    return choices[rng_below(k->dice, n)];
}

/* A valid request with an additional member or other messages. */
static void post_with(const struct making *k, const char *member)
{
    static const char messages[] =
        "\"messages\": [{\"role\": \"user\", \"content\": \"Say hello.\"}], ";
    struct buf body = buf_with_max(MAX_BODY);
    bool others = strncmp(member, messages, strlen("\"messages\"")) == 0;
    buf_printf(&body, "{%s%s}", others ? "" : messages, member);
    post_buf(k, &body);
}

static void post_with_url(const struct making *k, const char *url)
{
    struct buf body = buf_with_max(MAX_BODY);
    buf_printf(&body,
               "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\", "
               "\"image_url\": {\"url\": \"%s\"}}, "
               "{\"type\": \"text\", \"text\": \"What is this?\"}]}], \"max_tokens\": 2, "
               "\"temperature\": 0}",
               url);
    post_buf(k, &body);
}

static void post_with_image(const struct making *k, const char *type, const void *bytes, size_t n)
{
    struct buf url = buf_with_max(MAX_BODY);
    chat_add_data_url(&url, type, bytes, n);
    post_with_url(k, url.data);
    buf_free(&url);
}

/* ---- JSON ---- */

static void cut_json(const struct making *k)
{
    post(k, hello, 1 + rng_below(k->dice, strlen(hello) - 1));
}

static void empty_body(const struct making *k)
{
    post(k, "", 0);
}

static void random_body(const struct making *k)
{
    char body[512];
    for (size_t i = 0; i < sizeof(body); i++)
        body[i] = (char)rng_next(k->dice);
    body[0] = '!'; /* no JSON begins with it */
    post(k, body, 1 + rng_below(k->dice, sizeof(body) - 1));
}

static void other_json(const struct making *k)
{
    static const char *const bodies[] = {"[]",
                                         "null",
                                         "7",
                                         "\"text\"",
                                         "{}",
                                         "{\"messages\": []}",
                                         "{\"messages\": [{}]}",
                                         "{\"messages\": {}} x"};
    const char *body = one_of(k, bodies, COUNT(bodies));
    post(k, body, strlen(body));
}

static void wrong_type(const struct making *k)
{
    static const char *const members[] = {
        "\"model\": 5",
        "\"temperature\": \"hot\"",
        "\"temperature\": []",
        "\"max_tokens\": \"many\"",
        "\"max_tokens\": 1.5",
        "\"n\": true",
        "\"stream\": \"yes\"",
        "\"stop\": {\"a\": 1}",
        "\"stop\": [1, 2]",
        "\"seed\": \"s\"",
        "\"seed\": 1.25",
        "\"logit_bias\": []",
        "\"logit_bias\": {\"a\": 1}",
        "\"tools\": \"x\"",
        "\"tools\": [1]",
        "\"logprobs\": \"3\"",
        "\"top_k\": {}",
        "\"top_p\": \"all\"",
        "\"stream\": true, \"stream_options\": 7",
        "\"stop_token_ids\": [\"a\"]",
        "\"ignore_eos\": 3",
        "\"messages\": \"hello\"",
        "\"messages\": [{\"role\": 7, \"content\": \"a\"}]",
        "\"messages\": [{\"role\": \"user\", \"content\": 5}]",
        "\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": 5}]}]",
        ("\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\", "
         "\"image_url\": 5}]}]"),
        "\"messages\": [{\"role\": \"king\", \"content\": \"a\"}]",
        "\"messages\": [[]]",
        "\"mm_processor_kwargs\": 5"};
    post_with(k, one_of(k, members, COUNT(members)));
}

static void out_of_range(const struct making *k)
{
    static const char *const members[] = {"\"temperature\": 3",
                                          "\"temperature\": -1",
                                          "\"temperature\": 1e309",
                                          "\"top_p\": 2",
                                          "\"top_p\": -0.5",
                                          "\"n\": 0",
                                          "\"n\": 9",
                                          "\"n\": 100000",
                                          "\"max_tokens\": 0",
                                          "\"max_tokens\": -5",
                                          "\"max_tokens\": 1000000000000000000",
                                          "\"max_tokens\": 9223372036854775808",
                                          "\"max_tokens\": -9223372036854775809",
                                          "\"logprobs\": true, \"top_logprobs\": 21",
                                          "\"logprobs\": true, \"top_logprobs\": -1",
                                          "\"presence_penalty\": 5",
                                          "\"frequency_penalty\": -3",
                                          "\"min_p\": -1",
                                          "\"min_p\": 1.5",
                                          "\"repetition_penalty\": 0",
                                          "\"repetition_penalty\": -1",
                                          "\"logit_bias\": {\"999999999\": 1}",
                                          "\"logit_bias\": {\"-1\": 1}",
                                          "\"stop_token_ids\": [-1]",
                                          "\"stop_token_ids\": [99999999999]",
                                          "\"top_k\": -7",
                                          "\"mm_processor_kwargs\": {\"max_pixels\": 0}",
                                          "\"mm_processor_kwargs\": {\"min_pixels\": -4}"};
    post_with(k, one_of(k, members, COUNT(members)));
}

static void too_many(const struct making *k)
{
    static const char *const names[] = {"stop", "tools", "stop_token_ids", "content", "images"};
    static const char *const items[] = {
        "\"%zu\"", "{\"type\": \"function\", \"function\": {\"name\": \"f%zu\"}}", "%zu",
        "{\"type\": \"text\", \"text\": \"%zu\"}",
        "{\"type\": \"image_url\", \"image_url\": {\"url\": \"data:,%zu\"}}"};
    static const size_t counts[] = {17, 129, 65, 4097, 17};
    size_t what = rng_below(k->dice, COUNT(names));
    bool in_message = what >= 3;
    struct buf member = buf_with_max(MAX_BODY);
    if (in_message)
        buf_add_text(&member, "\"messages\": [{\"role\": \"user\", \"content\": [");
    else
        buf_printf(&member, "\"%s\": [", names[what]);
    for (size_t i = 0; i < counts[what]; i++) {
        char item[128];
        snprintf(item, sizeof(item), "%zu", i);
        const char *at = strstr(items[what], "%zu");
        buf_printf(&member, "%s%.*s%s%s", i ? ", " : "", (int)(at - items[what]), items[what], item,
                   at + 3);
    }
    buf_add_text(&member, in_message ? "]}]" : "]");
    post_with(k, member.data);
    buf_free(&member);
}

static void post_repeated(const struct making *k, const char *before, const char *what, size_t n,
                          const char *after)
{
    struct buf body = buf_with_max(MAX_BODY);
    buf_add_text(&body, before);
    for (size_t i = 0; i < n; i++)
        buf_add_text(&body, what);
    buf_add_text(&body, after);
    post_buf(k, &body);
}

static void deep_arrays(const struct making *k)
{
    post_repeated(k, "", "[", 1000 + rng_below(k->dice, 100000), "");
}

static void deep_objects(const struct making *k)
{
    post_repeated(k, "{\"unknown\": ", "{\"a\":", 100 + rng_below(k->dice, 20000), "1");
}

static void many_values(const struct making *k)
{
    post_repeated(k, "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], \"unknown\": [0",
                  ",{}", 40000, "]}");
}

static void huge_numbers(const struct making *k)
{
    static const char *const befores[] = {"\"temperature\": ", "\"max_tokens\": ", "\"seed\": -",
                                          "\"unknown\": 1e", "\"top_p\": 0."};
    struct buf member = buf_with_max(MAX_BODY);
    size_t which = rng_below(k->dice, COUNT(befores)), n = 400 + rng_below(k->dice, 50000);
    buf_add_text(&member, befores[which]);
    for (size_t i = 0; i < n; i++)
        buf_add_text(&member, "9");
    if (which != 1) buf_add_text(&member, ", \"max_tokens\": 2");
    post_with(k, member.data);
    buf_free(&member);
}

static void bad_text(const struct making *k)
{
    static const char *const texts[] = {"\xff\xfe", "\xc3", "\xed\xa0\x80", "\xf5\x80\x80\x80",
                                        "\xc0\x80"};
    struct buf body = buf_with_max(MAX_BODY);
    buf_printf(&body,
               "{\"messages\": [{\"role\": \"user\", \"content\": \"%s\"}], \"max_tokens\": 1}",
               one_of(k, texts, COUNT(texts)));
    post_buf(k, &body);
}

static void odd_characters(const struct making *k)
{
    static const char *const texts[] = {"\\ud800", "\\udc00\\ud800", "\\u0000", "\\uD83D",
                                        "\\ufffe", "\x01",           "\t\n"};
    struct buf body = buf_with_max(MAX_BODY);
    buf_printf(&body,
               "{\"messages\": [{\"role\": \"user\", \"content\": \"a%sb\"}], \"max_tokens\": 1}",
               one_of(k, texts, COUNT(texts)));
    post_buf(k, &body);
}

static void nul_in_body(const struct making *k)
{
    char body[sizeof(hello)];
    memcpy(body, hello, sizeof(hello));
    body[rng_below(k->dice, strlen(hello))] = 0;
    post(k, body, strlen(hello));
}

static void not_offered(const struct making *k)
{
    static const char *const members[] = {
        "\"response_format\": {\"type\": \"xml\"}",
        "\"tool_choice\": \"required\"",
        "\"model\": \"gpt-99\"",
        "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\"}}], \"tool_choice\": "
        "{\"type\": \"function\", \"function\": {\"name\": \"g\"}}",
        "\"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"name\": \"n\", "
        "\"schema\": {\"not\": {}}}}",
        "\"structured_outputs\": {\"grammar\": \"root ::= a\"}",
        "\"guided_regex\": \"(?=a)\"",
        "\"guided_json\": {}, \"guided_choice\": [\"a\"]",
        "\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"video_url\", "
        "\"video_url\": {\"url\": \"data:,\"}}]}]",
        "\"stream_options\": {\"include_usage\": true}"};
    post_with(k, one_of(k, members, COUNT(members)));
}

static void too_long(const struct making *k)
{
    post_repeated(k, "{\"messages\": [{\"role\": \"user\", \"content\": \"", "another word and ",
                  20000 + rng_below(k->dice, 60000), "\"}]}");
}

/* ---- images ---- */

static void bad_url(const struct making *k)
{
    static const char *const urls[] = {"data:image/png;base64,****",
                                       "data:image/png;base64,",
                                       "data:image/png;base64,iVBORw0KGgo",
                                       "data:image/png;base64,AAAA====",
                                       "data:image/png;base64",
                                       "data:",
                                       "",
                                       "ftp://example.com/a.png",
                                       "/etc/passwd",
                                       "file:///etc/passwd",
                                       "http://127.0.0.1:1/a.png",
                                       "http://169.254.169.254/latest",
                                       "https://localhost/a.png",
                                       "gopher://x",
                                       "data:text/html;base64,PGI+",
                                       "javascript:1",
                                       "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAAB"};
    post_with_url(k, one_of(k, urls, COUNT(urls)));
}

static void plain_data_url(const struct making *k)
{
    post_with_url(k, "data:image/svg+xml,%3Csvg/%3E");
}

static void cut_png(const struct making *k)
{
    post_with_image(k, "image/png", k->sample->png, 1 + rng_below(k->dice, k->sample->n_png - 64));
}

static void cut_jpeg(const struct making *k)
{
    post_with_image(k, "image/jpeg", k->sample->jpeg,
                    1 + rng_below(k->dice, k->sample->n_jpeg - 1));
}

static void flipped_bytes(const struct making *k)
{
    bool png = rng_below(k->dice, 2);
    const char *from = png ? k->sample->png : k->sample->jpeg;
    size_t n = png ? k->sample->n_png : k->sample->n_jpeg, times = 1 + rng_below(k->dice, 20);
    char *bytes = malloc(n);
    if (!bytes) abort();
    memcpy(bytes, from, n);
    while (times--)
        bytes[rng_below(k->dice, n)] ^= (char)(1 + rng_below(k->dice, 255));
    post_with_image(k, png ? "image/png" : "image/jpeg", bytes, n);
    free(bytes);
}

static uint32_t png_checksum(const unsigned char *bytes, size_t n)
{
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < n; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
    }
    return ~crc;
}

static void put_u32(unsigned char *at, size_t value)
{
    at[0] = (unsigned char)(value >> 24);
    at[1] = (unsigned char)(value >> 16);
    at[2] = (unsigned char)(value >> 8);
    at[3] = (unsigned char)value;
}

/* Changes the size in the image's header and corrects the checksum. */
static void png_bomb(const struct making *k)
{
    unsigned char bytes[64];
    memcpy(bytes, k->sample->png, sizeof(bytes));
    put_u32(bytes + 16, 20000 + rng_below(k->dice, 2000000000));
    put_u32(bytes + 20, 20000 + rng_below(k->dice, 2000000000));
    put_u32(bytes + 29, png_checksum(bytes + 12, 17));
    post_with_image(k, "image/png", bytes, sizeof(bytes));
}

static void gif_bomb(const struct making *k)
{
    static const unsigned char gif[] = "GIF89a\xff\xff\xff\xff\x80\x00\x00\x00\x00\x00\xff\xff\xff,"
                                       "\x00\x00\x00\x00\xff\xff\xff\xff\x00\x02\x02L\x01\x00;";
    post_with_image(k, "image/gif", gif, sizeof(gif) - 1);
}

static void jpeg_bomb(const struct making *k)
{
    static const unsigned char jpeg[] =
        "\xff\xd8\xff\xc0\x00\x11\x08\xff\xdc\xff\xdc\x03\x01\x22\x00\x02\x11\x00\x03\x11\x00\xff"
        "\xda\x00\x0c\x03\x01\x00\x02"
        "\x11\x03\x11\x00\x3f\x00\xff\xd9";
    post_with_image(k, "image/jpeg", jpeg, sizeof(jpeg) - 1);
}

static void webp_bomb(const struct making *k)
{
    static const unsigned char webp[] =
        "RIFF\x16\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff";
    post_with_image(k, "image/webp", webp, sizeof(webp) - 1);
}

/* ---- HTTP ---- */

static void raw(const struct making *k, const char *request_line, const char *headers,
                const char *body)
{
    buf_printf(&k->m->bytes, "%s\r\nHost: %s\r\n%s\r\n%s", request_line, k->to->host, headers,
               body);
}

static void raw_post(const struct making *k, const char *headers, const char *body)
{
    struct buf all = buf_with_max(MAX_BODY);
    buf_printf(&all, "Content-Type: application/json\r\n%s", headers);
    raw(k, "POST /v1/chat/completions HTTP/1.1", all.data, body);
    buf_free(&all);
}

static void length_too_short(const struct making *k)
{
    char length[64];
    snprintf(length, sizeof(length), "Content-Length: %zu\r\n",
             1 + rng_below(k->dice, strlen(hello) - 1));
    raw_post(k, length, hello);
}

static void length_too_long(const struct making *k)
{
    char length[64];
    snprintf(length, sizeof(length), "Content-Length: %zu\r\n",
             strlen(hello) + 1 + rng_below(k->dice, 10000));
    raw_post(k, length, hello);
}

static void bad_length(const struct making *k)
{
    static const char *const lengths[] = {"Content-Length: -5\r\n",
                                          "Content-Length: 1e3\r\n",
                                          "Content-Length: 99999999999999999999\r\n",
                                          "Content-Length: 0x20\r\n",
                                          "Content-Length: \r\n",
                                          "Content-Length: 5, 5\r\n",
                                          "Content-Length: +5\r\n",
                                          "Content-Length: 70000000\r\n"};
    raw_post(k, one_of(k, lengths, COUNT(lengths)), "");
}

static void two_lengths(const struct making *k)
{
    char length[128];
    size_t n = strlen(hello);
    snprintf(length, sizeof(length), "Content-Length: %zu\r\nContent-Length: %zu\r\n", n,
             n - rng_below(k->dice, 20) - 1);
    raw_post(k, length, hello);
}

static void both_framings(const struct making *k)
{
    char headers[128], body[256];
    snprintf(headers, sizeof(headers), "Content-Length: %zu\r\nTransfer-Encoding: chunked\r\n",
             strlen(hello));
    snprintf(body, sizeof(body), "%zx\r\n%s\r\n0\r\n\r\n", strlen(hello), hello);
    raw_post(k, headers, body);
}

static void bad_chunks(const struct making *k)
{
    static const char *const bodies[] = {"ZZZ\r\n{}\r\n0\r\n\r\n", "FFFFFFFFFFFFFFFFF\r\n{}",
                                         "-2\r\n{}\r\n0\r\n\r\n", "2\r\n{}X\r\n0\r\n\r\n",
                                         "\r\n\r\n"};
    raw_post(k, "Transfer-Encoding: chunked\r\n", one_of(k, bodies, COUNT(bodies)));
}

static void unknown_coding(const struct making *k)
{
    static const char *const headers[] = {
        "Transfer-Encoding: gzip\r\n", "Transfer-Encoding: chunked, gzip\r\n",
        "Content-Encoding: gzip\r\nContent-Length: 2\r\n", "Transfer-Encoding: xchunked\r\n"};
    raw_post(k, one_of(k, headers, COUNT(headers)), "{}");
}

static void no_host(const struct making *k)
{
    buf_printf(
        &k->m->bytes,
        "POST %s HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s", path,
        strlen(hello), hello);
}

static void two_hosts(const struct making *k)
{
    char headers[128];
    snprintf(headers, sizeof(headers), "Host: elsewhere.example\r\nContent-Length: %zu\r\n",
             strlen(hello));
    raw_post(k, headers, hello);
}

static void foreign_host(const struct making *k)
{
    buf_printf(&k->m->bytes,
               "POST %s HTTP/1.1\r\nHost: elsewhere.example\r\nContent-Type: "
               "application/json\r\nContent-Length: %zu\r\n\r\n%s",
               path, strlen(hello), hello);
}

static void foreign_origin(const struct making *k)
{
    char headers[128];
    snprintf(headers, sizeof(headers),
             "Origin: https://elsewhere.example\r\nContent-Length: %zu\r\n", strlen(hello));
    raw_post(k, headers, hello);
}

static void other_type(const struct making *k)
{
    static const char *const types[] = {"Content-Type: text/plain\r\n",
                                        "Content-Type: application/x-www-form-urlencoded\r\n", "",
                                        "Content-Type: multipart/form-data; boundary=x\r\n"};
    char headers[160];
    snprintf(headers, sizeof(headers), "%sContent-Length: %zu\r\n", one_of(k, types, COUNT(types)),
             strlen(hello));
    raw(k, "POST /v1/chat/completions HTTP/1.1", headers, hello);
}

static void other_route(const struct making *k)
{
    static const char *const lines[] = {"GET /v1/chat/completions HTTP/1.1",
                                        "DELETE /v1/models HTTP/1.1",
                                        "GET /v1/nothing HTTP/1.1",
                                        "GET /../../etc/passwd HTTP/1.1",
                                        "GET /%2e%2e/%2e%2e/etc/passwd HTTP/1.1",
                                        "PUT / HTTP/1.1",
                                        "GET /v1/models/nobody HTTP/1.1",
                                        "PATCH /health HTTP/1.1"};
    raw(k, one_of(k, lines, COUNT(lines)), "", "");
}

static void huge_header(const struct making *k)
{
    size_t n = (40 + rng_below(k->dice, 200)) << 10;
    raw_post(k, "X-Long: ", "");
    k->m->bytes.size -= 4; /* removes the two line ends */
    for (size_t i = 0; i < n; i += 16)
        buf_add_text(&k->m->bytes, "0123456789abcdef");
    buf_add_text(&k->m->bytes, "\r\n\r\n");
}

static void many_headers(const struct making *k)
{
    struct buf headers = buf_with_max(MAX_BODY);
    size_t n = 101 + rng_below(k->dice, 2000);
    for (size_t i = 0; i < n; i++)
        buf_printf(&headers, "X-%zu: a\r\n", i);
    buf_printf(&headers, "Content-Length: %zu\r\n", strlen(hello));
    raw_post(k, headers.data, hello);
    buf_free(&headers);
}

static void nul_in_headers(const struct making *k)
{
    char headers[64];
    snprintf(headers, sizeof(headers), "X-Nul: a?b\r\nContent-Length: %zu\r\n", strlen(hello));
    raw_post(k, headers, hello);
    *strchr(k->m->bytes.data, '?') = 0;
}

static void bad_headers(const struct making *k)
{
    static const char *const headers[] = {
        ": nothing\r\n",         "no colon\r\n",    "X Y: a\r\n",
        "X-Fold: a\r\n b\r\n",   "X-Ctl: \x01\r\n", "X-Cr: a\rb\r\n",
        "Content-Length : 5\r\n"};
    char all[128];
    snprintf(all, sizeof(all), "%sContent-Length: %zu\r\n", one_of(k, headers, COUNT(headers)),
             strlen(hello));
    raw_post(k, all, hello);
}

static void no_http(const struct making *k)
{
    static const char *const lines[] = {"GET / HTTP/9.9\r\n\r\n",
                                        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                                        "GET\r\n\r\n",
                                        "\x16\x03\x01\x02\x05\x01\x05\r\n\r\n",
                                        "HELO you\r\n\r\n",
                                        "GET  /health  HTTP/1.1\r\n\r\n",
                                        "GET http://elsewhere.example/ HTTP/1.1\r\n\r\n"};
    const char *line = one_of(k, lines, COUNT(lines));
    buf_add_text(&k->m->bytes, line);
}

static void garbage(const struct making *k)
{
    size_t n = 16 + rng_below(k->dice, 5000);
    for (size_t i = 0; i < n; i++) {
        char c = (char)rng_next(k->dice);
        buf_add(&k->m->bytes, &c, 1);
    }
}

static void garbage_behind(const struct making *k)
{
    raw(k, "GET /version HTTP/1.1", "", "");
    garbage(k);
}

/* ---- other dialects ---- */

static const struct wrong {
    const char *path, *body;
} ollama_wrongs[] = {{"/api/chat", "{\"model\": \"demo\", \"messages\": \"hello\"}"},
                     {"/api/chat", "{\"model\": \"no-such-model\", \"messages\": []}"},
                     {"/api/chat", "{\"model\": \"demo\", \"messages\": [{\"role\": \"user\", "
                                   "\"content\": \"a\", \"images\": [\"!\"]}]}"},
                     {"/api/generate", "{\"model\": \"demo\", \"prompt\": [1]}"},
                     {"/api/generate", "{\"model\": \"demo\", \"prompt\": \"a\", \"options\": "
                                       "{\"num_predict\": \"many\"}}"},
                     {"/api/show", "{\"model\": \"no-such-model\"}"},
                     {"/api/chat", "{\"model\": \"demo\", \"messages\": [{"}},
  embedding_wrongs[] = {{"/api/embed", "{\"model\": \"demo\", \"input\": \"hello\"}"},
                        {"/v1/embeddings", "{\"model\": \"demo\", \"input\": \"hello\"}"},
                        {"/v1/rerank", "{\"model\": \"demo\", \"query\": \"a\", \"documents\": "
                                       "[\"b\"]}"}},
  responses_wrongs[] = {{"/v1/responses", "{\"model\": \"demo\"}"},
                        {"/v1/responses", "{\"model\": \"demo\", \"input\": 7}"},
                        {"/v1/responses", "{\"model\": \"demo\", \"input\": \"a\", "
                                          "\"previous_response_id\": \"resp_of_nobody\"}"},
                        {"/v1/responses",
                         "{\"model\": \"demo\", \"input\": [{\"role\": \"user\", "
                         "\"content\": [{\"type\": \"input_image\", \"image_url\": "
                         "\"data:image/png;base64,AAAA\"}]}]}"},
                        {"/v1/responses", "{\"model\": \"demo\", \"input\": \"a\", "}},
  messages_wrongs[] =
      {{"/v1/messages",
        "{\"model\": \"demo\", \"max_tokens\": 0, \"messages\": [{\"role\": \"user\", "
        "\"content\": \"a\"}]}"},
       {"/v1/messages", "{\"model\": \"demo\", \"max_tokens\": 2, \"messages\": "
                        "[{\"role\": \"user\", \"content\": [{\"type\": \"image\", "
                        "\"source\": {\"type\": \"base64\", \"media_type\": "
                        "\"image/png\", \"data\": \"AAAA\"}}]}]}"},
       {"/v1/messages", "{\"model\": \"no-such-model\", \"max_tokens\": 2, \"messages\": "
                        "[{\"role\": \"user\", \"content\": \"a\"}]}"},
       {"/v1/messages/count_tokens", "{\"model\": \"demo\"}"}},
  llamacpp_wrongs[] = {{"/completion", "{\"prompt\": {}}"},
                       {"/completion", "{\"prompt\": \"a\", \"n_predict\": \"many\"}"},
                       {"/completion", "{\"prompt\": {\"prompt_string\": \"<__media__>\", "
                                       "\"multimodal_data\": []}}"},
                       {"/completion", "{}"}};

static void post_one_of(const struct making *k, const struct wrong *wrongs, size_t n)
{
    const struct wrong *one = &wrongs[rng_below(k->dice, n)];
    chat_post(&k->m->bytes, k->to, one->path, one->body, strlen(one->body));
}

static void wrong_ollama(const struct making *k)
{
    post_one_of(k, ollama_wrongs, COUNT(ollama_wrongs));
}

static void wrong_embedding(const struct making *k)
{
    post_one_of(k, embedding_wrongs, COUNT(embedding_wrongs));
}

static void wrong_response(const struct making *k)
{
    post_one_of(k, responses_wrongs, COUNT(responses_wrongs));
}

static void wrong_message(const struct making *k)
{
    post_one_of(k, messages_wrongs, COUNT(messages_wrongs));
}

static void wrong_llamacpp(const struct making *k)
{
    post_one_of(k, llamacpp_wrongs, COUNT(llamacpp_wrongs));
}

/* The first half of a valid request in any dialect. */
static void leave_in_dialect(const struct making *k)
{
    enum dialect d = (enum dialect)rng_below(k->dice, N_DIALECTS);
    struct question q = {.text = "Describe the image.", .max_tokens = 64};
    struct buf body = buf_with_max(MAX_BODY);
    dialect_begin_body(&body, d, &q);
    dialect_end_body(&body, d, "demo", rng_below(k->dice, 2));
    chat_post(&k->m->bytes, k->to, dialect_path(d), body.data, body.size);
    k->m->bytes.size -= 1 + rng_below(k->dice, body.size - 1);
    k->m->leave_after = rng_below(k->dice, 2) ? 0 : rng_between(k->dice, 0.02, 0.6);
    buf_free(&body);
}

/* ---- disconnecting ---- */

static void leave_after(const struct making *k, size_t bytes)
{
    k->m->bytes.size = bytes;
    k->m->leave_after = rng_below(k->dice, 2) ? 0 : rng_between(k->dice, 0.02, 0.6);
}

static void leave_in_headers(const struct making *k)
{
    post(k, hello, strlen(hello));
    leave_after(k, rng_below(k->dice, k->m->bytes.size - strlen(hello)));
}

static void leave_in_body(const struct making *k)
{
    post_with_image(k, "image/png", k->sample->png, k->sample->n_png);
    leave_after(k, k->m->bytes.size - 1 - rng_below(k->dice, k->sample->n_png));
}

static void leave_before_answer(const struct making *k)
{
    post_with_image(k, "image/png", k->sample->png, k->sample->n_png);
    leave_after(k, k->m->bytes.size);
}

/* ---- all kinds ---- */

static const struct kind {
    const char *name;
    void (*make)(const struct making *k);
    unsigned may;
    int then;
} kinds[] = {
    {"JSON cut off", cut_json, MAY_BE_REFUSED, THEN_READ},
    {"empty body", empty_body, MAY_BE_REFUSED, THEN_READ},
    {"random bytes as a body", random_body, MAY_BE_REFUSED, THEN_READ},
    {"JSON of another shape", other_json, MAY_BE_REFUSED, THEN_READ},
    {"wrong type", wrong_type, MAY_BE_REFUSED, THEN_READ},
    {"out of range", out_of_range, MAY_BE_REFUSED, THEN_READ},
    {"too many items", too_many, MAY_BE_REFUSED, THEN_READ},
    {"deep arrays", deep_arrays, MAY_BE_REFUSED, THEN_READ},
    {"deep objects", deep_objects, MAY_BE_REFUSED, THEN_READ},
    {"40,000 objects", many_values, MAY_BE_REFUSED, THEN_READ},
    {"numbers of many digits", huge_numbers, MAY_BE_REFUSED | MAY_BE_ANSWERED, THEN_READ},
    {"text that is no UTF-8", bad_text, MAY_BE_REFUSED, THEN_READ},
    {"odd characters", odd_characters, MAY_BE_REFUSED | MAY_BE_ANSWERED, THEN_READ},
    {"NUL in the body", nul_in_body, MAY_BE_REFUSED, THEN_READ},
    {"not offered", not_offered, MAY_BE_REFUSED, THEN_READ},
    {"prompt too long", too_long, MAY_BE_REFUSED, THEN_READ},
    {"bad image URL", bad_url, MAY_BE_REFUSED, THEN_READ},
    {"data: URL without base64", plain_data_url, MAY_BE_REFUSED | MAY_BE_UNKNOWN, THEN_READ},
    {"PNG cut off", cut_png, MAY_BE_REFUSED, THEN_READ},
    {"JPEG cut off", cut_jpeg, MAY_BE_REFUSED | MAY_BE_ANSWERED, THEN_READ},
    {"image with flipped bytes", flipped_bytes, MAY_BE_REFUSED | MAY_BE_ANSWERED, THEN_READ},
    {"PNG bomb", png_bomb, MAY_BE_REFUSED, THEN_READ},
    {"GIF bomb", gif_bomb, MAY_BE_REFUSED, THEN_READ},
    {"JPEG bomb", jpeg_bomb, MAY_BE_REFUSED, THEN_READ},
    {"WebP bomb", webp_bomb, MAY_BE_REFUSED, THEN_READ},
    {"Content-Length too short", length_too_short, MAY_BE_REFUSED, THEN_READ_LAST},
    {"Content-Length too long", length_too_long, MAY_BE_REFUSED | MAY_BE_CUT, THEN_HALF_CLOSE},
    {"bad Content-Length", bad_length, MAY_BE_REFUSED | MAY_BE_CUT, THEN_HALF_CLOSE},
    {"two Content-Length", two_lengths, MAY_BE_REFUSED, THEN_READ_LAST},
    {"Content-Length and chunks", both_framings, MAY_BE_REFUSED, THEN_READ_LAST},
    {"bad chunks", bad_chunks, MAY_BE_REFUSED | MAY_BE_CUT, THEN_HALF_CLOSE},
    {"unknown coding", unknown_coding, MAY_BE_REFUSED | MAY_BE_CUT, THEN_HALF_CLOSE},
    {"no Host", no_host, MAY_BE_REFUSED, THEN_READ_LAST},
    {"two Hosts", two_hosts, MAY_BE_REFUSED, THEN_READ_LAST},
    {"unknown Host", foreign_host, MAY_BE_REFUSED, THEN_READ_LAST},
    {"foreign Origin", foreign_origin, MAY_BE_REFUSED, THEN_READ},
    {"other Content-Type", other_type, MAY_BE_REFUSED, THEN_READ},
    {"other route or method", other_route, MAY_BE_REFUSED, THEN_READ},
    {"huge header", huge_header, MAY_BE_REFUSED | MAY_BE_CUT, THEN_HALF_CLOSE},
    {"many headers", many_headers, MAY_BE_REFUSED | MAY_BE_CUT, THEN_HALF_CLOSE},
    {"NUL in a header", nul_in_headers, MAY_BE_REFUSED, THEN_READ_LAST},
    {"bad headers", bad_headers, MAY_BE_REFUSED | MAY_BE_CUT, THEN_HALF_CLOSE},
    {"no HTTP", no_http, MAY_BE_REFUSED | MAY_BE_CUT, THEN_HALF_CLOSE},
    {"garbage", garbage, MAY_BE_REFUSED | MAY_BE_CUT, THEN_HALF_CLOSE},
    {"garbage behind a request", garbage_behind, MAY_BE_REFUSED | MAY_BE_CUT, THEN_READ_TWO},
    {"wrong in Ollama's API", wrong_ollama, MAY_BE_REFUSED, THEN_READ},
    {"vectors of a model that chats", wrong_embedding, MAY_BE_REFUSED, THEN_READ},
    {"wrong in Responses", wrong_response, MAY_BE_REFUSED, THEN_READ},
    {"wrong in Messages", wrong_message, MAY_BE_REFUSED, THEN_READ},
    {"wrong in llama.cpp's API", wrong_llamacpp, MAY_BE_REFUSED, THEN_READ},
    {"left in a dialect's body", leave_in_dialect, MAY_BE_CUT, THEN_LEAVE},
    {"left in the headers", leave_in_headers, MAY_BE_CUT, THEN_LEAVE},
    {"left in the body", leave_in_body, MAY_BE_CUT, THEN_LEAVE},
    {"left before the answer", leave_before_answer, MAY_BE_CUT | MAY_BE_ANSWERED, THEN_LEAVE},
};

size_t malformed_kinds(void)
{
    return COUNT(kinds);
}

void malformed_make(struct malformed *m, size_t kind, const struct wire_target *to,
                    const struct sample *sample, struct rng *dice)
{
    struct making k = {m, to, sample, dice};
    buf_clear(&m->bytes);
    m->name = kinds[kind].name;
    m->may = kinds[kind].may;
    m->then = kinds[kind].then;
    m->leave_after = 0;
    kinds[kind].make(&k);
}
