/* SPDX-License-Identifier: Apache-2.0 */
/* Collects image references and fetches their files. */
#include "server/api/common/image_refs.h"

#include <stdio.h>

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

/* What could not be fetched is the client's affair, not a fault of this machine. */
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

bool images_load(const struct api_reading *r, const struct image_refs *images,
                 const struct pixel_budget *budget)
{
    struct api_request *out = r->out;
    ey_err e;
    out->media = arena_array(r->passing, images->n + 1, sizeof(*out->media));
    if (!out->media) return api_fail_memory(r->error);
    out->image_refs = images->ref;
    for (size_t i = 0; i < images->n; i++) {
        const struct image_ref *ref = &images->ref[i];
        struct media *media = &out->media[i];
        if (!get_image(media, ref, r->limits->media, &e)) return fail_image(r, ref, &e);
        out->n_media++;
        note_what_is_left_out(r, i, media);
        out->request.budget_held += media->held;
        ref->part->bytes = media->bytes;
        ref->part->n_bytes = media->n_bytes;
        ref->part->min_pixels = budget->min_pixels;
        ref->part->max_pixels = budget->max_pixels  ? budget->max_pixels
                                : ref->detail_given ? 0
                                                    : r->limits->max_pixels;
        drop_image_text(ref);
    }
    return true;
}

void api_image_param(char param[API_PARAM_BYTES], const struct api_request *request,
                     const ey_err *e)
{
    if (e->code != EY_BAD_IMAGE || e->item_kind != EY_ITEM_IMAGE) return;
    size_t item = e->item < 0 ? SIZE_MAX : (size_t)e->item + request->n_dropped_images;
    if (item >= request->n_media) return;
    snprintf(param, API_PARAM_BYTES, "%s", request->image_refs[item].path.text);
}
