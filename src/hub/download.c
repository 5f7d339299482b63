/* SPDX-License-Identifier: Apache-2.0 */
/* Downloads several ranges of several files concurrently, on one thread with libcurl's multi
 * interface.
 *
 * Ranges are assigned in order, so files grow from the front, and hashing follows while the bytes
 * are in the page cache. If a connection breaks, its bytes are kept and the rest is assigned again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/system.h"
#include "hub/blob.h"
#include "hub/hub_request.h"
#include "hub/snapshot.h"

enum {
    SLOTS = 8,
    DEFAULT_RANGE_BYTES = 16 << 20,
    MAX_FAILURES = 7,
    MAX_PAUSE = 30,
    POLL_MS = 100,
    HASH_SLICE = 4 << 20,
    SPARE_BYTES = 64 << 20
};
#define RECORD_SECONDS 0.5
#define LOCK_SECONDS 0.5
#define DOWNLOAD_PROGRESS_SECONDS 0.1

enum download_item_state { ITEM_NEW, ITEM_OPEN, ITEM_DONE };

struct download_item {
    const struct hub_file *file;
    struct blob blob;
    enum download_item_state state;
    bool one_stream;      /* the server ignores ranges, so one request gets the whole file */
    bool restarted;       /* its partial file was damaged: restarted from 0 */
    bool notified;        /* the user was told that another process downloads it */
    double retry_lock_at; /* when to try its lock again */
};

struct download_slot {
    struct download *download;
    struct hub_request request;
    struct download_item *item; /* NULL: unused slot */
    uint64_t begin, at, end;    /* the requested range; at: offset of the next byte */
    bool checked;               /* the reply's headers match the request */
    bool no_ranges;             /* the server sent the whole file instead */
    int failures;               /* consecutive ones, without a byte received */
    double first_failure, retry_at;
};

struct download {
    struct hub *hub;
    const struct hub_model *model;
    CURLM *multi;
    struct download_item *items; /* [model->n] */
    struct download_slot slots[SLOTS];
    double last_byte, last_progress;
};

/* ---- replies ---- */

static bool check_range(struct download_slot *s, ey_err *e)
{
    uint64_t begin, end, total;
    const struct hub_response *r = &s->request.reply;
    if (!hub_response_range(r, &begin, &end, &total))
        return ey_fail(e, EY_IO,
                       "%s: the hub answered a range request with \"Content-Range: %.80s\"",
                       s->item->file->name, r->content_range);
    if (total != s->item->file->size)
        return ey_fail(e, EY_IO,
                       "%s: it should have %llu bytes, but the hub's storage has %llu; run the "
                       "same command again later",
                       s->item->file->name, (unsigned long long)s->item->file->size,
                       (unsigned long long)total);
    if (begin != s->begin || end > s->end)
        return ey_fail(
            e, EY_IO,
            "%s: bytes %llu-%llu were requested, but %llu-%llu received; is a proxy in between?",
            s->item->file->name, (unsigned long long)s->begin, (unsigned long long)s->end - 1,
            (unsigned long long)begin, (unsigned long long)end - 1);
    return true;
}

/* Handles a reply with the whole file instead of a range. It is accepted if the range began at 0.
 * Otherwise the transfer ends, and the whole file is requested again in one stream. */
static bool check_whole(struct download_slot *s, ey_err *e)
{
    const struct hub_response *r = &s->request.reply;
    uint64_t size = s->item->file->size;
    if (r->content_length[0] && strtoull(r->content_length, NULL, 10) != size)
        return ey_fail(e, EY_IO,
                       "%s: it should have %llu bytes, but the reply has %.31s; does this network "
                       "have a login page?",
                       s->item->file->name, (unsigned long long)size, r->content_length);
    if (s->begin || s->end < size) s->item->one_stream = true;
    s->no_ranges = s->begin != 0;
    s->end = size;
    return !s->no_ranges || ey_fail(e, EY_IO, "%s: no ranges", s->item->file->name);
}

static bool check_reply(struct download_slot *s, ey_err *e)
{
    const struct hub_response *r = &s->request.reply;
    s->checked = true;
    if (r->content_encoding[0] && strcmp(r->content_encoding, "identity") != 0)
        return ey_fail(
            e, EY_IO,
            "%s: received compressed (%.31s), which was not requested; is a proxy in between?",
            s->item->file->name, r->content_encoding);
    return r->status == 206 ? check_range(s, e) : check_whole(s, e);
}

static bool take_range_bytes(void *user, const char *bytes, size_t n, ey_err *e)
{
    struct download_slot *s = user;
    if (!s->checked && !check_reply(s, e)) return false;
    if (n > s->end - s->at)
        return ey_fail(e, EY_IO, "%s: received more bytes than requested; is a proxy in between?",
                       s->item->file->name);
    if (!blob_write(&s->item->blob, s->at, bytes, n, e)) return false;
    s->at += n;
    s->download->last_byte = seconds_now();
    return true;
}

/* ---- assigning ranges ---- */

/* Finds the first bytes that are neither present nor requested, at most one range of them. */
static bool next_range(const struct download *d, const struct download_item *item, uint64_t *begin,
                       uint64_t *end)
{
    struct byte_ranges busy = item->blob.ranges;
    uint64_t range_bytes = d->hub->options.range_bytes ? d->hub->options.range_bytes
                                                       : DEFAULT_RANGE_BYTES;
    bool requested = false;
    for (int i = 0; i < SLOTS; i++) {
        if (d->slots[i].item != item) continue;
        requested = true;
        if (!byte_ranges_add(&busy, d->slots[i].at, d->slots[i].end)) return false;
    }
    if (item->one_stream)
        return *begin = 0, *end = item->file->size,
               !requested && byte_ranges_prefix(&item->blob.ranges) < item->file->size;
    if (!byte_ranges_first_gap(&busy, item->file->size, begin, end)) return false;
    if (*end - *begin > range_bytes) *end = *begin + range_bytes;
    return true;
}

static void notify(const struct download *d, const char *format, const char *name)
{
    char text[HUB_FILE_NAME_BYTES + 128];
    snprintf(text, sizeof(text), format, name);
    if (d->hub->options.notice) d->hub->options.notice(d->hub->options.user, text);
}

static bool has_open_blob(const struct download *d, const struct download_item *item)
{
    for (size_t i = 0; i < d->model->n; i++)
        if (d->items[i].state == ITEM_OPEN && strcmp(d->items[i].file->etag, item->file->etag) == 0)
            return true;
    return false;
}

static bool open_item(const struct download *d, struct download_item *item, ey_err *e)
{
    if (seconds_now() < item->retry_lock_at) return true;
    switch (blob_open(&item->blob, d->model, item->file, e)) {
    case BLOB_FAILED: return false;
    case BLOB_OPEN: item->state = ITEM_OPEN; return true;
    case BLOB_COMPLETE: item->state = ITEM_DONE; return true;
    case BLOB_BUSY: break;
    }
    item->retry_lock_at = seconds_now() + LOCK_SECONDS;
    if (!item->notified && !has_open_blob(d, item))
        notify(d, "another program is downloading %s; waiting for it", item->file->name);
    item->notified = true;
    return true;
}

/* Returns the first item that has bytes to request, or NULL if none has any now. Sets *ok to false
 * if opening a blob failed. */
static struct download_item *next_item(struct download *d, uint64_t *begin, uint64_t *end, bool *ok,
                                       ey_err *e)
{
    *ok = true;
    for (size_t i = 0; i < d->model->n; i++) {
        struct download_item *item = &d->items[i];
        if (item->state == ITEM_NEW && !(*ok = open_item(d, item, e))) return NULL;
        if (item->state == ITEM_OPEN && next_range(d, item, begin, end)) return item;
    }
    return NULL;
}

static bool start_range(struct download_slot *s, struct download_item *item, uint64_t begin,
                        uint64_t end, ey_err *e)
{
    struct download *d = s->download;
    bool all = begin == 0 && end == item->file->size;
    char *url = hub_file_url(d->hub, d->model, item->file->name);
    s->item = item;
    s->begin = s->at = begin;
    s->end = end;
    s->checked = s->no_ranges = false;
    if (!url) return ey_fail_memory(e, "a URL", 0);
    if (!hub_request_aim(&s->request, url, begin, all ? 0 : end, e)) return false;
    if (d->hub->endpoint.lib->curl_multi_add_handle(d->multi, s->request.curl) != CURLM_OK)
        return ey_fail_memory(e, "an HTTP request", 0);
    return true;
}

static bool start_ranges(struct download *d, ey_err *e)
{
    double now = seconds_now();
    for (int i = 0; i < SLOTS; i++) {
        uint64_t begin, end;
        bool ok;
        struct download_slot *s = &d->slots[i];
        if (s->item || now < s->retry_at) continue;
        struct download_item *item = next_item(d, &begin, &end, &ok, e);
        if (!ok) return false;
        if (!item) break;
        if (!start_range(s, item, begin, end, e)) return false;
    }
    return true;
}

/* ---- ended transfers ---- */

/* Schedules a retry. Fails if no byte has arrived for too long. */
static bool back_off(struct download_slot *s, CURLcode code, ey_err *e)
{
    const struct hub *hub = s->download->hub;
    double now = seconds_now(),
           pause = hub->options.retry_seconds > 0 ? hub->options.retry_seconds : 1;
    if (!s->failures++) s->first_failure = now;
    for (int i = 1; i < s->failures && pause < MAX_PAUSE; i++)
        pause *= 2;
    s->retry_at = now + hub_response_retry_after(&s->request.reply, pause);
    bool others_go_on = !s->item->one_stream && s->download->last_byte > s->first_failure;
    if (s->failures < MAX_FAILURES || others_go_on) return true;
    return hub_request_fail(&s->request, code, s->item->file->name, e);
}

/* Decides what follows a finished transfer. A broken stream of a whole file restarts, because it
 * cannot be resumed, so its bytes do not count as progress. */
static bool finish_transfer(struct download_slot *s, CURLcode code, ey_err *e)
{
    struct hub_request *r = &s->request;
    bool answered = code == CURLE_OK && (r->reply.status == 200 || r->reply.status == 206),
         whole = answered && s->at == s->end;
    bool progressed = s->at > s->begin && (whole || !s->item->one_stream);
    if (s->no_ranges) return true;
    if (progressed || whole) s->failures = 0;
    if (whole) return true;
    if (!answered && !hub_request_may_retry(r, code))
        return hub_request_fail(r, code, s->item->file->name, e);
    return progressed || back_off(s, answered ? CURLE_PARTIAL_FILE : code, e);
}

static bool finish_slot(struct download *d, CURL *curl, CURLcode code, ey_err *e)
{
    const struct libcurl *lib = d->hub->endpoint.lib;
    char *data = NULL;
    lib->curl_easy_getinfo(curl, CURLINFO_PRIVATE, &data);
    lib->curl_multi_remove_handle(d->multi, curl);
    struct download_slot *s = d->slots;
    while ((char *)&s->request != data)
        s++;
    enum redirect_result redirect = code == CURLE_OK ? hub_request_follow_redirect(&s->request, e)
                                                     : REDIRECT_NONE;
    if (redirect == REDIRECT_FOLLOWED && lib->curl_multi_add_handle(d->multi, curl) == CURLM_OK)
        return true;
    if (redirect == REDIRECT_FOLLOWED) ey_fail_memory(e, "an HTTP request", 0);
    bool ok = redirect == REDIRECT_NONE && finish_transfer(s, code, e);
    s->item = NULL;
    return ok;
}

static bool finish_ended(struct download *d, ey_err *e)
{
    int left;
    for (CURLMsg *m; (m = d->hub->endpoint.lib->curl_multi_info_read(d->multi, &left));)
        if (m->msg == CURLMSG_DONE && !finish_slot(d, m->easy_handle, m->data.result, e))
            return false;
    return true;
}

/* ---- hashes ---- */

static bool fail_hash_mismatch(const struct download_item *item, const char *found, ey_err *e)
{
    return ey_fail(e, EY_IO,
                   "%s: its hash is %s, but the hub says %s; the file was deleted. Run the same "
                   "command again; if that does not help, something between "
                   "this machine and the hub changes files",
                   item->file->name, found, item->file->etag);
}

/* If a resumed file has the wrong hash, its old part may be damaged: downloads it once more from
 * the beginning. */
static bool finish_item(const struct download *d, struct download_item *item, ey_err *e)
{
    char found[HUB_ETAG_BYTES + 1];
    bool resumed = item->blob.resumed;
    switch (blob_finish(&item->blob, found, e)) {
    case BLOB_END_FAILED: return false;
    case BLOB_END_STORED: item->state = ITEM_DONE; return true;
    case BLOB_END_MISMATCH: break;
    }
    item->state = ITEM_NEW;
    if (!resumed || item->restarted) return fail_hash_mismatch(item, found, e);
    item->restarted = true;
    notify(d, "the partial download of %s was damaged; downloading it again", item->file->name);
    return true;
}

static bool is_in_flight(const struct download *d, const struct download_item *item)
{
    for (int i = 0; i < SLOTS; i++)
        if (d->slots[i].item == item) return true;
    return false;
}

/* Hashes the bytes that have arrived. Sets *worked if it hashed any. */
static bool hash_all(struct download *d, bool *worked, ey_err *e)
{
    *worked = false;
    for (size_t i = 0; i < d->model->n; i++) {
        struct download_item *item = &d->items[i];
        bool ok = true;
        if (item->state != ITEM_OPEN) continue;
        if (blob_hash(&item->blob, HASH_SLICE, e, &ok)) *worked = true;
        if (!ok) return false;
        if (!blob_is_complete(&item->blob) || is_in_flight(d, item))
            blob_record(&item->blob, RECORD_SECONDS);
        else if (!finish_item(d, item, e))
            return false;
    }
    return true;
}

/* ---- the loop ---- */

static bool is_download_done(const struct download *d)
{
    for (size_t i = 0; i < d->model->n; i++)
        if (d->items[i].state != ITEM_DONE) return false;
    return true;
}

static uint64_t bytes_present(const struct download *d)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < d->model->n; i++) {
        const struct download_item *item = &d->items[i];
        if (item->state == ITEM_DONE)
            bytes += item->file->size;
        else
            bytes += item->state == ITEM_OPEN ? byte_ranges_total(&item->blob.ranges)
                                              : blob_bytes_present(d->model, item->file);
    }
    return bytes;
}

static bool report_and_check_stop(struct download *d)
{
    const struct hub_options *o = &d->hub->options;
    double now = seconds_now();
    if (o->progress && now - d->last_progress >= DOWNLOAD_PROGRESS_SECONDS) {
        d->last_progress = now;
        o->progress(o->user, bytes_present(d), d->model->bytes);
    }
    return o->stop && o->stop(o->user);
}

/* Returns the milliseconds until a paused connection may retry, at most POLL_MS. */
static int milliseconds_to_wait(const struct download *d)
{
    double now = seconds_now(), wait = POLL_MS / 1000.0;
    for (int i = 0; i < SLOTS; i++)
        if (d->slots[i].retry_at > now && d->slots[i].retry_at - now < wait)
            wait = d->slots[i].retry_at - now;
    return (int)(wait * 1000) + 1;
}

static bool download_step(struct download *d, ey_err *e)
{
    const struct libcurl *lib = d->hub->endpoint.lib;
    int running;
    bool worked;
    if (report_and_check_stop(d))
        return ey_fail(
            e, EY_CANCELLED,
            "stopped; the partial download is kept: run the same command again to resume");
    if (!start_ranges(d, e)) return false;
    if (lib->curl_multi_perform(d->multi, &running) != CURLM_OK)
        return ey_fail(e, EY_INTERNAL, "libcurl failed");
    if (!finish_ended(d, e) || !hash_all(d, &worked, e)) return false;
    if (!worked && !is_download_done(d))
        lib->curl_multi_poll(d->multi, NULL, 0, milliseconds_to_wait(d), NULL);
    return true;
}

static bool check_disk_space(const struct hub_model *model, ey_err *e)
{
    uint64_t there, needed = 0;
    for (size_t i = 0; i < model->n; i++)
        needed += blob_disk_needed(model, &model->files[i]);
    if (!needed || !system_free_space(model->directory, &there) || there >= needed + SPARE_BYTES)
        return true;
    return ey_fail(
        e, EY_IO,
        "the download needs %.2f GB more, but %.300s has only %.2f GB free; make room (eyelet "
        "list, eyelet rm) or set HF_HOME to a larger disk",
        (double)needed / 1e9, model->directory, (double)there / 1e9);
}

static bool download_open(struct download *d, ey_err *e)
{
    d->items = calloc(d->model->n, sizeof(*d->items));
    d->multi = d->hub->endpoint.lib->curl_multi_init();
    if (!d->items || !d->multi)
        return ey_fail_memory(e, "a download", d->model->n * sizeof(*d->items));
    for (size_t i = 0; i < d->model->n; i++) {
        d->items[i].file = &d->model->files[i];
        d->items[i].blob.fd = d->items[i].blob.lock = -1;
    }
    for (int i = 0; i < SLOTS; i++) {
        struct download_slot *s = &d->slots[i];
        s->download = d;
        if (!hub_request_open(&s->request, d->hub, e)) return false;
        s->request.take = take_range_bytes;
        s->request.user = s;
    }
    return true;
}

static void download_close(struct download *d)
{
    for (int i = 0; i < SLOTS; i++) {
        struct download_slot *s = &d->slots[i];
        if (s->item && d->multi)
            d->hub->endpoint.lib->curl_multi_remove_handle(d->multi, s->request.curl);
        hub_request_close(&s->request);
    }
    for (size_t i = 0; d->items && i < d->model->n; i++)
        if (d->items[i].state == ITEM_OPEN) blob_close(&d->items[i].blob);
    if (d->multi) d->hub->endpoint.lib->curl_multi_cleanup(d->multi);
    free(d->items);
}

/* Files with equal contents share a blob and its lock: the second one waits until the blob is
 * complete. */
bool hub_download(struct hub *hub, const struct hub_model *model, ey_err *e)
{
    struct download *d = calloc(1, sizeof(*d));
    if (!d) return ey_fail_memory(e, "a download", sizeof(*d));
    d->hub = hub;
    d->model = model;
    d->last_byte = seconds_now();
    bool ok = check_disk_space(model, e) && blob_make_directories(model, e) && download_open(d, e);
    while (ok && !is_download_done(d))
        ok = download_step(d, e);
    download_close(d);
    free(d);
    return ok && snapshot_write(model, e);
}
