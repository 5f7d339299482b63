/* SPDX-License-Identifier: Apache-2.0 */
/* Converts an image that the page cannot show itself (HEIC, AVIF, TIFF, a page of a PDF, an image
 * at a URL) to a JPEG. */
#include "server/preview_route.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "eyelet/image_preview.h"
#include "media/media_pages.h"
#include "server/api/common/completion.h"
#include "server/server.h"

enum { PREVIEW_SIDE = 1600 };

/* Returns the request's "url", borrowed from `root`. */
static const char *requested_url(json_object *root, size_t *n)
{
    json_object *url = NULL;
    if (!json_object_is_type(root, json_type_object)) return NULL;
    json_object_object_get_ex(root, "url", &url);
    if (!json_object_is_type(url, json_type_string)) return NULL;
    *n = (size_t)json_object_get_string_len(url);
    return json_object_get_string(url);
}

/* Returns the requested page, 1 if the request names none, or 0 if it is not a page number. */
static int requested_page(json_object *root)
{
    json_object *page = NULL;
    if (!json_object_object_get_ex(root, "page", &page) || !page) return 1;
    bool sound = json_object_is_type(page, json_type_int) && json_object_get_int(page) > 0;
    return sound ? json_object_get_int(page) : 0;
}

/* n_pages is 0 for an image. */
static void reply_preview(struct exchange *x, ey_preview *preview, int n_pages)
{
    char size[32], pages[16];
    struct buf out = buf_with_max(preview->n_bytes + 1);
    snprintf(size, sizeof(size), "%dx%d", preview->width, preview->height);
    exchange_add_header(x, "Image-Size", size);
    exchange_add_header(x, "Cache-Control", "no-store");
    snprintf(pages, sizeof(pages), "%d", n_pages);
    if (n_pages) exchange_add_header(x, "Document-Pages", pages);
    buf_add(&out, preview->bytes, preview->n_bytes);
    exchange_reply(x, 200, "image/jpeg", &out);
    buf_free(&out);
}

/* Replaces a document by its page number `page`. An image stays as it is and has only page 1;
 * *n_pages is then 0. */
static bool take_page(struct media *media, int page, int *n_pages,
                      const struct media_policy *policy, ey_err *e)
{
    struct media drawn;
    *n_pages = 0;
    if (!media_has_pages(media))
        return page == 1 ||
               ey_fail(e, EY_BAD_REQUEST, "this is a single image; it has no page %d", page);
    if (!media_draw_page(&drawn, page, n_pages, media, policy, e)) return false;
    media_free(media);
    *media = drawn;
    return true;
}

static bool make_preview(ey_preview *out, int *n_pages, const char *url, size_t n, int page,
                         const struct server *server, struct exchange *x, ey_err *e)
{
    struct media_policy policy = media_policy_for(server, x);
    struct media media = {0};
    bool ok = media_get(&media, url, n, &policy, e) && take_page(&media, page, n_pages, &policy, e);
    ey_preview_options options = {.max_side = PREVIEW_SIDE,
                                  .budget = policy.budget,
                                  .held = policy.own + media.held,
                                  .gone = policy.gone,
                                  .user = policy.user};
    ok = ok && ey_make_preview(out, media.bytes, media.n_bytes, &options, e);
    media_free(&media);
    return ok;
}

/* Refuses bodies with many JSON values, which would take far more memory than their bytes. */
static json_object *read_preview_request(const char *body, size_t n, ey_err *e)
{
    enum { MOST_VALUE_BYTES = 16 << 10 };
    if (api_json_bytes(body, n) - 2 * (uint64_t)n > MOST_VALUE_BYTES)
        return ey_fail(e, EY_BAD_REQUEST,
                       "the request has too many values; send only url and page"),
               NULL;
    return json_parse(body, n, "the request", EY_BAD_REQUEST, e);
}

void route_preview(struct server *server, struct exchange *x)
{
    size_t n, n_url = 0;
    int page = 1, n_pages = 0;
    ey_err e = {0};
    ey_preview preview = {0};
    const char *body = exchange_body(x, &n);
    if (!exchange_charge(x, 3 * (uint64_t)n)) return; /* the decoded text and its source */
    json_object *root = read_preview_request(body, n, &e);
    const char *url = requested_url(root, &n_url);
    if (url) page = requested_page(root);
    if (!root)
        exchange_fail(x, 400, NULL, NULL, "%s", e.text);
    else if (!url)
        exchange_fail(x, 400, NULL, "url", "send {\"url\": \"data:image/…;base64,…\"}");
    else if (!page)
        exchange_fail(x, 400, NULL, "page", "page must be a whole number from 1 on");
    else if (make_preview(&preview, &n_pages, url, n_url, page, server, x, &e))
        reply_preview(x, &preview, n_pages);
    else
        exchange_fail(x, ey_code_http_status(e.code), NULL, "url", "%s", e.text);
    free(preview.bytes);
    json_object_put(root);
}
