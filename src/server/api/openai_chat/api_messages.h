/* SPDX-License-Identifier: Apache-2.0 */
/* The conversation of a chat request: messages and their parts, tools, and the images that they
 * point to. */
#ifndef EY_SERVER_API_MESSAGES_H
#define EY_SERVER_API_MESSAGES_H

#include "server/api/common/api_fields.h"

/* An image that the messages name and that has not been fetched yet. */
struct image_ref {
    ey_part *part;
    json_object *holder; /* whose member `member` is the URL; dropped once the image is fetched */
    const char *member;
    const char *url;
    size_t n_url;
    bool detail_given;
    struct field_path path;
};

struct image_refs {
    struct image_ref *ref; /* [n] */
    size_t n, max;
};

bool messages_read(const struct api_reading *r, struct image_refs *images, json_object *value);
bool tools_read(const struct api_reading *r, json_object *value);

/* The request's own budget for its images (mm_processor_kwargs); 0: not said. */
struct pixel_budget {
    uint64_t min_pixels, max_pixels;
};
/* Fetches the images one after the other, after all else in the request was found valid. */
bool images_load(const struct api_reading *r, const struct image_refs *images,
                 const struct pixel_budget *budget);

#endif
