/* SPDX-License-Identifier: Apache-2.0 */
/* Streamed answers, and their images. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text/json_writer.h"
#include "base/file.h"
#include "image/image.h"
#include "serve.h"

enum { MAX_BODY = 64 << 20, MAX_FILE = 32 << 20, MAX_WAIT_MS = 100 };

/* Smooth colors that differ between images, so that no cache has them. */
static bool draw_image(struct image *image, uint64_t number, int width, int height, ey_err *e)
{
    struct rng rng = {number};
    unsigned red = (unsigned)rng_below(&rng, 256), green = (unsigned)rng_below(&rng, 256),
             blue = (unsigned)rng_below(&rng, 256);
    *image = (struct image){
        .width = width, .height = height, .rgb = malloc((size_t)width * (size_t)height * 3)};
    if (!image->rgb) return ey_fail_memory(e, "an image", (size_t)width * (size_t)height * 3);
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            uint8_t *p = image->rgb + 3 * ((size_t)y * (size_t)width + (size_t)x);
            p[0] = (uint8_t)(red + (unsigned)x / 4);
            p[1] = (uint8_t)(green + (unsigned)y / 3);
            p[2] = (uint8_t)(blue + (unsigned)(x + y) / 7);
        }
    return true;
}

static bool write_image_part(struct json_writer *w, uint64_t number, int width, int height,
                             ey_err *e)
{
    struct image image = {0};
    char path[64], *bytes = NULL;
    size_t n;
    int fd = memfd_create("image", MFD_CLOEXEC);
    if (fd < 0) return ey_fail(e, EY_IO, "no file for an image");
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    bool ok = draw_image(&image, number, width, height, e) && image_write_png(&image, path, e) &&
              file_read(&bytes, &n, path, MAX_FILE, e);
    if (ok) {
        json_open_object(w);
        json_add_string(w, "type", "image_url");
        json_write_key(w, "image_url");
        json_open_object(w);
        json_write_key(w, "url");
        json_write_data_url(w, "image/png", bytes, n);
        json_close_object(w);
        json_close_object(w);
    }
    free(bytes);
    image_free(&image);
    close(fd);
    return ok;
}

struct stream stream_make(void)
{
    return (struct stream){
        .wire = wire_make(), .request = buf_with_max(MAX_BODY), .answer = chat_answer_make()};
}

void stream_free(struct stream *s)
{
    wire_free(&s->wire);
    buf_free(&s->request);
    chat_answer_free(&s->answer);
    samples_free(&s->gaps);
}

static bool write_content(struct json_writer *w, uint64_t number, int width, int height, ey_err *e)
{
    char text[128];
    snprintf(text, sizeof(text),
             "%llu: tell me all about a red circle, a blue square and what is between them.",
             (unsigned long long)number);
    json_open_array(w);
    bool ok = !width || write_image_part(w, number, width, height, e);
    json_open_object(w);
    json_add_string(w, "type", "text");
    json_add_string(w, "text", text);
    json_close_object(w);
    json_close_array(w);
    return ok;
}

static bool write_body(struct json_writer *w, struct serve *b, int width, int height,
                       int max_tokens, ey_err *e)
{
    uint64_t number = ++b->asked * 7919 + (uint64_t)(seconds_now() * 1e3);
    json_open_object(w);
    if (b->settings->name) json_add_string(w, "model", b->settings->name);
    json_write_key(w, "messages");
    json_open_array(w);
    json_open_object(w);
    json_add_string(w, "role", "user");
    json_write_key(w, "content");
    bool ok = write_content(w, number, width, height, e);
    json_close_object(w);
    json_close_array(w);
    json_add_int(w, "temperature", 0);
    json_add_bool(w, "ignore_eos", true);
    json_add_int(w, "max_tokens", max_tokens);
    json_add_bool(w, "stream", true);
    json_write_key(w, "stream_options");
    json_open_object(w);
    json_add_bool(w, "include_usage", true);
    json_close_object(w);
    json_close_object(w);
    return ok;
}

bool stream_write(struct serve *b, struct stream *s, int width, int height, int max_tokens,
                  ey_err *e)
{
    struct buf body = buf_with_max(MAX_BODY);
    struct json_writer w = json_write_to(&body, JSON_SPACED);
    bool ok = write_body(&w, b, width, height, max_tokens, e);
    buf_clear(&s->request);
    if (ok)
        chat_post(&s->request, &b->to, "/v1/chat/completions", body.data ? body.data : "",
                  body.size);
    if (ok && (body.failed || s->request.failed)) ok = ey_fail_memory(e, "a request", MAX_BODY);
    buf_free(&body);
    return ok;
}

bool stream_send(struct serve *b, struct stream *s, ey_err *e)
{
    chat_answer_clear(&s->answer);
    samples_free(&s->gaps);
    s->first = s->last = 0;
    s->sent = seconds_now();
    if (!wire_open(&s->wire, &b->to, false))
        return ey_fail(e, EY_IO, "no connection to %s", b->to.host);
    wire_send(&s->wire, s->request.data, s->request.size);
    return true;
}

bool stream_start(struct serve *b, struct stream *s, int width, int height, int max_tokens,
                  ey_err *e)
{
    return stream_write(b, s, width, height, max_tokens, e) && stream_send(b, s, e);
}

bool stream_is_over(const struct stream *s)
{
    return s->answer.done || s->answer.failed || wire_is_over(&s->wire);
}

static void stream_receive(struct stream *s, short revents)
{
    wire_step(&s->wire, revents);
    double now = seconds_now();
    for (int n = chat_read_stream(&s->answer, &s->wire.reply.body); n > 0; n--) {
        if (s->first <= 0)
            s->first = now;
        else
            samples_add(&s->gaps, now - s->last);
        s->last = now;
    }
    if (s->answer.done && s->first <= 0) s->first = s->last = now; /* an answer without text */
}

void streams_wait(struct stream **all, size_t n)
{
    struct pollfd fds[SERVE_MAX_STREAMS];
    for (size_t i = 0; i < n; i++)
        fds[i] = (struct pollfd){stream_is_over(all[i]) ? -1 : all[i]->wire.fd,
                                 wire_events(&all[i]->wire), 0};
    poll(fds, n, MAX_WAIT_MS);
    for (size_t i = 0; i < n; i++)
        if (fds[i].revents) stream_receive(all[i], fds[i].revents);
}

bool stream_check(const struct stream *s, ey_err *e)
{
    const struct http_reply *r = &s->wire.reply;
    if (r->status == 200 && s->answer.done && !s->answer.failed && s->first > 0) return true;
    return ey_fail(e, EY_IO, "no answer: status %d after %.1f s: %.300s", r->status,
                   seconds_now() - s->sent, r->body.size ? r->body.data : "");
}

int64_t stream_tokens(const struct stream *s)
{
    return s->answer.completion_tokens >= 0 ? s->answer.completion_tokens : s->answer.n_texts;
}
