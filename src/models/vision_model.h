/* SPDX-License-Identifier: Apache-2.0 */
/* The vision encoder: patch rows of images -> merged features and DeepStack levels, in tiles small
 * enough that other work can go on between them. */
#ifndef EY_MODELS_VISION_H
#define EY_MODELS_VISION_H

#include "models/text_model.h"

enum { FEATURE_BLOCK = 64 }; /* visual tokens of one block of feature rows */

/* Where the vision encoder runs and whose features it makes: usually one backend with one
 * workspace. Where they are two, one is in host memory with float32 features: the vision encoder's,
 * or with layers on the CPU the text model's. */
struct vision_backends {
    struct backend *be;
    const struct workspace *ws, *text_ws;
};

enum { ENCODER_IMAGES = 32 }; /* of one run */

struct encoder_image {
    const struct image *image;    /* borrowed until the last step */
    const int32_t *feature_block; /* tokens 64·i .. 64·i+63 go to rows 64·feature_block[i] .. of the
                                     text model's features */
};

/* Images that are being encoded together, one run at a time. Writes the encoder's ws->vision_*. */
struct encoder_run {
    struct encoder_image image[ENCODER_IMAGES];
    struct vision_segment segment[ENCODER_IMAGES];
    int n_images, n_patches;
    float *pixels;      /* host scratch [max_rows of a tile, patch_width] */
    int32_t *positions; /* host scratch [max_rows of a tile, 3] */
    int block;          /* -1: embedding; depth: the last merger */
    enum { RUN_QKV, RUN_ROWS, RUN_DEEPSTACK } stage; /* of the block */
    int first;                                       /* patch at which the next tile begins */
    int done, total;                                 /* tiles, for progress */
};

/* A run without images. */
struct encoder_run encoder_run_begin(float *pixels, int32_t *positions);
/* Adds an image before the first step. False: the workspace has no room for it beside the others.
 */
bool encoder_run_add(struct encoder_run *run, const struct model *model, const struct workspace *ws,
                     const struct encoder_image *image);
/* Patches of the run with this image, too. */
int encoder_run_patches(const struct encoder_run *run, const struct model *model,
                        const struct image *image);
/* Does the work of one tile. False: it was the last. */
bool encoder_run_step(struct encoder_run *run, const struct model *model,
                      const struct vision_backends *backends);

#endif
