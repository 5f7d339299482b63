/* SPDX-License-Identifier: Apache-2.0 */
/* Loads a URL by its scheme, and charges the memory of image files to the budget. */
#include "media/media_internal.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "image/codecs/tiff_pages.h"
#include "image/image.h"

enum { BUDGET_WAIT_MS = 5000, BUDGET_SLICE_MS = 100, SHOWN_BYTES = 40 };

size_t media_max_bytes(const struct media_policy *policy)
{
    return policy->max_bytes ? policy->max_bytes : EY_MAX_IMAGE_BYTES;
}

bool media_client_gone(const struct media_policy *policy)
{
    return policy->gone && policy->gone(policy->user);
}

bool media_fail_too_large(const struct media_policy *policy, ey_err *e)
{
    return ey_fail(e, EY_BAD_IMAGE,
                   "Failed to load image: its file is larger than the limit of %zu bytes",
                   media_max_bytes(policy));
}

/* ---- memory ---- */

/* Takes n bytes from the budget. `held` are the bytes that this image has already taken. */
static bool take_budget(size_t n, size_t held, const struct media_policy *policy, ey_err *e)
{
    if (!policy->budget || !n) return true; /* 0 bytes need not wait */
    uint64_t total = ey_budget_total(policy->budget);
    if (policy->own > total - held || n > total - held - policy->own)
        return ey_fail(e, EY_BAD_IMAGE,
                       "Failed to load image: it needs %zu bytes, which do not fit into the "
                       "server's memory for "
                       "requests (%llu bytes, set by --host-memory)",
                       held + n, (unsigned long long)total);
    for (int waited = 0; waited < BUDGET_WAIT_MS; waited += BUDGET_SLICE_MS) {
        if (ey_budget_acquire(policy->budget, n, BUDGET_SLICE_MS)) return true;
        if (media_client_gone(policy)) return ey_fail(e, EY_CANCELLED, "the client has left");
    }
    return ey_fail(e, EY_BUSY,
                   "the server's memory for requests (--host-memory) is full; try again later");
}

bool media_hold(struct media *out, size_t n, const struct media_policy *policy, ey_err *e)
{
    if (!take_budget(n, 0, policy, e)) return false;
    out->held = n;
    out->budget = policy->budget;
    return true;
}

bool media_reserve(struct media *out, size_t capacity, const struct media_policy *policy, ey_err *e)
{
    if (capacity <= out->held) return true;
    size_t more = capacity - out->held;
    if (!take_budget(more, out->held, policy, e)) return false;
    void *bytes = realloc(out->bytes, capacity);
    if (!bytes) {
        if (policy->budget) ey_budget_release(policy->budget, more);
        return ey_fail_memory(e, "an image file", capacity);
    }
    out->bytes = bytes;
    out->held = capacity;
    out->budget = policy->budget;
    return true;
}

void media_shrink(struct media *out)
{
    void *bytes = out->n_bytes ? realloc(out->bytes, out->n_bytes) : NULL;
    if (!bytes) return; /* keep the larger block */
    if (out->budget) ey_budget_release(out->budget, out->held - out->n_bytes);
    out->bytes = bytes;
    out->held = out->n_bytes;
}

void media_free(struct media *media)
{
    free(media->bytes);
    if (media->budget) ey_budget_release(media->budget, media->held);
    *media = (struct media){0};
}

const char *media_left_out(const void *bytes, size_t n)
{
    if (image_is_animated(bytes, n)) return "frames";
    return tiff_find_pages(NULL, 0, bytes, n) > 1 ? "pages" : NULL;
}

/* ---- kinds ---- */

static bool url_starts_with(const char *url, size_t n, const char *with)
{
    size_t length = strlen(with);
    return n >= length && strncasecmp(url, with, length) == 0;
}

static bool fail_url_kind(const char *url, size_t n, const struct media_policy *policy, ey_err *e)
{
    const char *web = policy->any_domain  ? " or an http(s) URL"
                      : policy->n_domains ? " or an http(s) URL of an allowed host"
                                          : "";
    const char *file = policy->local_path ? " or a file:// URL" : "";
    if (!n) return ey_fail(e, EY_BAD_REQUEST, "the image's URL is empty");
    return ey_fail(
        e, EY_BAD_REQUEST, "an image's URL must be a data:image/…;base64,… URL%s%s, not \"%.*s\"%s",
        web, file, (int)(n < SHOWN_BYTES ? n : SHOWN_BYTES), url, n > SHOWN_BYTES ? " …" : "");
}

static bool get_by_scheme(struct media *out, const char *url, size_t n,
                          const struct media_policy *policy, ey_err *e)
{
    if (url_starts_with(url, n, "data:")) return media_decode_data_url(out, url, n, policy, e);
    if (memchr(url, 0, n))
        return ey_fail(e, EY_BAD_REQUEST, "the image's URL has a NUL byte in it");
    if (url_starts_with(url, n, "http://") || url_starts_with(url, n, "https://"))
        return media_fetch(out, url, n, policy, e);
    if (url_starts_with(url, n, "file:")) return media_read_file(out, url, n, policy, e);
    return fail_url_kind(url, n, policy, e);
}

bool media_get(struct media *out, const char *url, size_t n, const struct media_policy *policy,
               ey_err *e)
{
    *out = (struct media){0};
    size_t blank = 0; /* the URL standard strips leading blanks */
    while (blank < n && (unsigned char)url[blank] <= ' ')
        blank++;
    url += blank;
    n -= blank;
    bool ok = get_by_scheme(out, url, n, policy, e);
    if (!ok) media_free(out);
    return ok;
}
