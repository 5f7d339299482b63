/* SPDX-License-Identifier: Apache-2.0 */
/* Collects image references and fetches their files. */
#include "server/api/common/image_refs.h"

#include <stdio.h>
#include <string.h>

#include "media/media_pages.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

bool image_refs_open(const struct api_reading *r, struct image_refs *images)
{
    return image_refs_open_for(r, images, (size_t)r->limits->max_images);
}

bool image_refs_open_for(const struct api_reading *r, struct image_refs *images, size_t max)
{
    images->max = r->limits->max_images ? max : 0;
    images->ref = arena_array(r->passing, images->max + 1, sizeof(*images->ref));
    return images->ref || api_fail_memory(r->error);
}

struct image_ref *image_refs_add(const struct api_reading *r, struct image_refs *images,
                                 const struct field_path *path, ey_part *part)
{
    if (images->n == images->max) {
        api_fail(r->error, path->text, "At most %zu image(s) may be provided in one prompt.",
                 images->max);
        return NULL;
    }
    struct image_ref *ref = &images->ref[images->n++];
    *part = (ey_part){.type = EY_PART_IMAGE};
    *ref = (struct image_ref){.part = part, .path = *path};
    return ref;
}

bool image_text_is_data_url(const char *text, size_t n)
{
    return n >= 5 && strncmp(text, "data:", 5) == 0;
}

bool image_refs_add_item(const struct api_reading *r, struct image_refs *images,
                         const struct field_path *path, json_object *array, size_t i, ey_part *part)
{
    const struct field_path item = field_item(path, i);
    struct image_ref *ref = image_refs_add(r, images, &item, part);
    if (!ref || !field_text(r, item.text, json_object_array_get_idx(array, i), EY_MAX_JSON_BYTES,
                            &ref->url, &ref->n_url))
        return false;
    ref->base64 = !image_text_is_data_url(ref->url, ref->n_url);
    ref->holder = array;
    ref->index = i;
    return true;
}

/* A URL has a ':' after its scheme, base64 has none. */
static bool is_bare_base64(const char *text, size_t n)
{
    return !memchr(text, ':', n < 16 ? n : 16);
}

bool image_ref_read_file(const struct api_reading *r, struct image_ref *ref,
                         const struct field_path *path, json_object *holder, const char *member)
{
    json_object *value = json_member(holder, member);
    ref->path = field_member(path, member);
    ref->holder = holder;
    ref->member = member;
    ref->document = true;
    if (!value) return api_fail_value(r->error, ref->path.text, "%s is missing", ref->path.text);
    if (!field_text(r, ref->path.text, value, EY_MAX_JSON_BYTES, &ref->url, &ref->n_url))
        return false;
    ref->base64 = is_bare_base64(ref->url, ref->n_url);
    return true;
}

bool image_ref_read_detail(const struct api_reading *r, const struct field_path *path,
                           json_object *value, struct image_ref *ref)
{
    static const struct {
        const char *name;
        ey_detail detail;
    } details[] = {{"auto", EY_DETAIL_AUTO},
                   {"low", EY_DETAIL_LOW},
                   {"high", EY_DETAIL_HIGH},
                   {"original", EY_DETAIL_NATIVE}};
    for (size_t i = 0; i < COUNT(details); i++)
        if (field_text_is(value, details[i].name)) {
            ref->part->detail = details[i].detail;
            ref->detail_given = details[i].detail != EY_DETAIL_AUTO;
            return true;
        }
    return api_fail_field(r->error, field_member(path, "detail").text,
                          "\"low\", \"high\", \"original\" or \"auto\"", value);
}

/* An image that cannot be fetched is an error of the request, not of the server. */
static bool fail_image(const struct api_reading *r, const struct image_ref *ref, const ey_err *e)
{
    api_fail_status(r->error, e->code == EY_IO ? 422 : ey_code_http_status(e->code), ref->path.text,
                    e->text);
    r->error->code = e->code == EY_IO          ? API_ERROR_IMAGE_FETCH
                     : e->code == EY_BAD_IMAGE ? API_ERROR_IMAGE
                                               : API_ERROR_OTHER;
    return false;
}

static bool get_image(struct media *out, const struct image_ref *ref,
                      const struct media_policy *policy, ey_err *e)
{
    return ref->base64 ? media_decode_base64(out, ref->url, ref->n_url, policy, e)
                       : media_get(out, ref->url, ref->n_url, policy, e);
}

static void drop_image_text(const struct image_ref *ref)
{
    if (ref->shared) return;
    if (ref->member)
        json_object_object_del(ref->holder, ref->member);
    else
        json_object_array_put_idx(ref->holder, ref->index, NULL);
}

static void note_what_is_left_out(const struct api_reading *r, size_t i, const struct media *media)
{
    const char *what = media_left_out(media->bytes, media->n_bytes);
    if (what) api_note(r, "image %zu has several %s, of which the first is used", i + 1, what);
}

/* Sets *part to the image at media[n_media] of the request, which is loaded, and increments
 * n_media. */
static void keep_image(const struct api_reading *r, const struct image_ref *ref, ey_part *part,
                       const struct pixel_budget *budget)
{
    struct api_request *out = r->out;
    const struct media *media = &out->media[out->n_media++];
    *part = *ref->part;
    part->bytes = media->bytes;
    part->n_bytes = media->n_bytes;
    part->min_pixels = budget->min_pixels;
    part->max_pixels = budget->max_pixels  ? budget->max_pixels
                       : ref->detail_given ? 0
                                           : r->limits->max_pixels;
    out->request.budget_held += media->held;
}

/* Draws the pages of a document, at most `room`. */
static bool draw_document(const struct api_reading *r, struct image_ref *ref, size_t room,
                          struct media *file, const struct media_policy *policy, ey_err *e)
{
    bool ok = media_draw_pages(&r->out->media[ref->first], room, &ref->n, file, policy, e);
    if (!ok) r->out->n_media += ref->n; /* the request frees them */
    media_free(file);
    return ok;
}

static bool load_ref(const struct api_reading *r, struct image_ref *ref, size_t room, ey_err *e)
{
    struct media file;
    struct media_policy policy = *r->limits->media;
    policy.own += r->out->request.budget_held;
    ref->first = r->out->n_media;
    ref->n = 1;
    if (!get_image(&file, ref, &policy, e)) return false;
    drop_image_text(ref);
    if (ref->document && media_has_pages(&file))
        return draw_document(r, ref, room, &file, &policy, e);
    r->out->media[ref->first] = file;
    note_what_is_left_out(r, ref->first, &file);
    return true;
}

/* Loads images->ref[i] and makes the parts of its images. */
static bool load_image(const struct api_reading *r, const struct image_refs *images, size_t i,
                       const struct pixel_budget *budget, ey_part *parts)
{
    ey_err e;
    struct image_ref *ref = &images->ref[i];
    size_t later = images->n - i - 1, room = images->max - later - r->out->n_media;
    if (!load_ref(r, ref, room, &e)) return fail_image(r, ref, &e);
    for (size_t image = ref->first; image < ref->first + ref->n; image++) {
        r->out->image_refs[image] = ref;
        keep_image(r, ref, &parts[image], budget);
    }
    return true;
}

/* ---- parts ---- */

/* Returns how many images the message has. Its references begin at images->ref[first], in the order
 * of their parts; *n_refs is their number. */
static size_t images_of_message(const ey_message *message, const struct image_refs *images,
                                size_t first, size_t *n_refs)
{
    size_t n = 0, at = first;
    for (size_t i = 0; i < message->n_parts && at < images->n; i++)
        if (&message->parts[i] == images->ref[at].part) n += images->ref[at++].n;
    *n_refs = at - first;
    return n;
}

/* If the message has documents of several pages, replaces its parts by a list with one part for
 * each page. */
static bool spread_message(const struct api_reading *r, const struct image_refs *images,
                           size_t *first, const ey_part *parts, ey_message *message)
{
    size_t n_refs, to = 0, at = *first;
    size_t n_images = images_of_message(message, images, at, &n_refs);
    *first += n_refs;
    if (n_images == n_refs) return true;
    ey_part *spread = arena_array(r->passing, message->n_parts - n_refs + n_images,
                                  sizeof(*spread));
    if (!spread) return api_fail_memory(r->error);
    for (size_t i = 0; i < message->n_parts; i++) {
        const struct image_ref *ref = at < images->n ? &images->ref[at] : NULL;
        if (!ref || &message->parts[i] != ref->part) {
            spread[to++] = message->parts[i];
            continue;
        }
        for (size_t page = 0; page < ref->n; page++)
            spread[to++] = parts[ref->first + page];
        at++;
    }
    message->parts = spread;
    message->n_parts = to;
    return true;
}

static bool spread_pages(const struct api_reading *r, const struct image_refs *images,
                         const ey_part *parts)
{
    ey_message *messages =
        (ey_message *)(uintptr_t)r->out->request.messages; /* this request's own array */
    size_t first = 0;
    for (size_t i = 0; i < r->out->request.n_messages; i++)
        if (!spread_message(r, images, &first, parts, &messages[i])) return false;
    return true;
}

bool images_load(const struct api_reading *r, const struct image_refs *images,
                 const struct pixel_budget *budget)
{
    struct api_request *out = r->out;
    ey_part *parts = arena_array(r->passing, images->max + 1, sizeof(*parts));
    out->media = arena_array(r->passing, images->max + 1, sizeof(*out->media));
    out->image_refs = arena_array(r->passing, images->max + 1, sizeof(*out->image_refs));
    if (!parts || !out->media || !out->image_refs) return api_fail_memory(r->error);
    for (size_t i = 0; i < images->n; i++)
        if (!load_image(r, images, i, budget, parts)) return false;
    for (size_t i = 0; i < images->n; i++)
        if (images->ref[i].n) *images->ref[i].part = parts[images->ref[i].first];
    return out->n_media == images->n || spread_pages(r, images, parts);
}

void api_image_param(char param[API_PARAM_BYTES], const struct api_request *request,
                     const ey_err *e)
{
    if (e->code != EY_BAD_IMAGE || e->item_kind != EY_ITEM_IMAGE) return;
    size_t item = e->item < 0 ? SIZE_MAX : (size_t)e->item + request->n_dropped_images;
    if (item >= request->n_media) return;
    snprintf(param, API_PARAM_BYTES, "%s", request->image_refs[item]->path.text);
}
