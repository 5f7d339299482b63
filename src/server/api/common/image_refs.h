/* SPDX-License-Identifier: Apache-2.0 */
/* The images that a request's messages name: collected as they are read, fetched when all else in
 * the request was found valid. */
#ifndef EY_SERVER_IMAGE_REFS_H
#define EY_SERVER_IMAGE_REFS_H

#include "server/api/common/api_fields.h"

/* An image that has not been fetched yet. */
struct image_ref {
    ey_part *part;
    /* The object or the array that has the text, which is dropped once the image is there: a data:
     * URL is larger than its image. */
    json_object *holder;
    const char *member; /* of an object */
    size_t index;       /* of an array; member NULL */
    const char *url;    /* a data:, http: or file: URL, or bare base64 */
    size_t n_url;
    bool base64;       /* bare */
    bool detail_given; /* the part's detail is the client's */
    struct field_path path;
};

struct image_refs {
    struct image_ref *ref; /* [n] */
    size_t n, max;
};

/* The request's own budget for its images (mm_processor_kwargs); 0: not said. */
struct pixel_budget {
    uint64_t min_pixels, max_pixels;
};

/* Makes room for as many as the limits allow. */
bool image_refs_open(const struct api_reading *r, struct image_refs *images);
/* For at most so many in the whole request, none where the limits have none. */
bool image_refs_open_for(const struct api_reading *r, struct image_refs *images, size_t max);
/* The next one, whose bytes `part` will have; the caller fills in where it is. NULL: there are more
 * than the limits allow. In the order of messages and parts. */
struct image_ref *image_refs_add(const struct api_reading *r, struct image_refs *images,
                                 const struct field_path *path, ey_part *part);
/* Fetches the images one after the other. */
bool images_load(const struct api_reading *r, const struct image_refs *images,
                 const struct pixel_budget *budget);
/* Writes the path of the image that an error of the engine is about; leaves `param` alone after
 * other errors. The request has its prompts. */
void api_image_param(char param[API_PARAM_BYTES], const struct api_request *request,
                     const ey_err *e);

#endif
