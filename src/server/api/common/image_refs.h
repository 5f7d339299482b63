/* SPDX-License-Identifier: Apache-2.0 */
/* The images that a request refers to. They are collected while it is read, and fetched once
 * everything else has been found valid. */
#ifndef EY_SERVER_IMAGE_REFS_H
#define EY_SERVER_IMAGE_REFS_H

#include "server/api/common/api_fields.h"

/* The text that stands for an image in prompts of llama.cpp's routes; /props reports it. */
#define API_MEDIA_MARKER "<__media__>"

/* An image that has not been fetched yet. */
struct image_ref {
    ey_part *part;
    /* The object or array that holds the URL text, which is freed once the image is loaded: a data:
     * URL is larger than its image. */
    json_object *holder;
    const char *member; /* if holder is an object */
    size_t index;       /* if holder is an array (member is NULL) */
    const char *url;    /* a data:, http: or file: URL, or bare base64 */
    size_t n_url;
    bool base64;       /* the text is bare base64 */
    bool shared;       /* a later reference reads the same text, which stays until then */
    bool document;     /* it may be a PDF or TIFF, each page of which becomes an image */
    size_t first, n;   /* once loaded: its n images start at media[first] of the request */
    bool detail_given; /* the client set a detail other than "auto" */
    struct field_path path;
};

struct image_refs {
    struct image_ref *ref; /* [n] */
    size_t n, max;
};

/* The request's pixel budget (mm_processor_kwargs); 0: not given. */
struct pixel_budget {
    uint64_t min_pixels, max_pixels;
};

/* Allocates as many entries as the limits allow. */
bool image_refs_open(const struct api_reading *r, struct image_refs *images);
/* Like image_refs_open(), for at most `max` images in the request (0 if the limits allow none). */
bool image_refs_open_for(const struct api_reading *r, struct image_refs *images, size_t max);
/* Appends an image; images must be added in the order of messages and parts. Its bytes will go to
 * `part`; the caller fills in its source. Fails with NULL if the limits allow no more images. */
struct image_ref *image_refs_add(const struct api_reading *r, struct image_refs *images,
                                 const struct field_path *path, ey_part *part);
/* Whether an image's text is a data: URL. Used for fields that accept no other URLs, so any other
 * text is bare base64. */
bool image_text_is_data_url(const char *text, size_t n);
/* Appends the image of array[i], a data: URL or bare base64. */
bool image_refs_add_item(const struct api_reading *r, struct image_refs *images,
                         const struct field_path *path, json_object *array, size_t i,
                         ey_part *part);
/* Reads the document or image of holder[member]: a data: URL, another URL that the media rules
 * allow, or bare base64. */
bool image_ref_read_file(const struct api_reading *r, struct image_ref *ref,
                         const struct field_path *path, json_object *holder, const char *member);
/* Reads "detail", a member of the part at `path`. */
bool image_ref_read_detail(const struct api_reading *r, const struct field_path *path,
                           json_object *value, struct image_ref *ref);
/* Fetches the images one after the other. In the request's messages, a document of several pages
 * becomes one part for each page. */
bool images_load(const struct api_reading *r, const struct image_refs *images,
                 const struct pixel_budget *budget);
/* If the engine's error is about an image, writes that image's path to `param`. The request must
 * still have its prompts. */
void api_image_param(char param[API_PARAM_BYTES], const struct api_request *request,
                     const ey_err *e);

#endif
