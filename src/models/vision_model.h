/* SPDX-License-Identifier: Apache-2.0 */
/* The vision encoder: turns patch rows of images into merged features and DeepStack levels, in
 * tiles small enough that other work runs between them. */
#ifndef EY_MODELS_VISION_MODEL_H
#define EY_MODELS_VISION_MODEL_H

#include "models/text_model.h"

enum { FEATURE_BLOCK = 64 }; /* visual tokens of a block of feature rows */

/* The vision encoder's backend and workspace, and the text model's workspace, which receives the
 * features; usually both workspaces are the same. If the backends differ, one of them has float32
 * features in host memory: the vision encoder's, or that of the text layers on the CPU. */
struct vision_backends {
    struct backend *be;
    const struct workspace *ws, *text_ws;
};

enum { ENCODER_IMAGES = 32 }; /* most images of a run */

struct encoder_image {
    const struct image *image;    /* borrowed until the last step */
    const int32_t *feature_block; /* tokens 64·i .. 64·i+63 go to the text model's feature rows from
                                     64·feature_block[i] on */
};

/* Images that are encoded together. Only one run exists at a time, because it uses the encoder's
 * ws->vision_*. */
struct encoder_run {
    struct encoder_image image[ENCODER_IMAGES];
    struct vision_segment segment[ENCODER_IMAGES];
    int n_images, n_patches;
    float *pixels;      /* host scratch [max_rows of a tile, patch_width] */
    int32_t *positions; /* host scratch [max_rows of a tile, 3] */
    int block;          /* -1 for the embedding, depth for the last merger */
    enum { RUN_QKV, RUN_ROWS, RUN_DEEPSTACK } stage; /* stage of the block */
    int first;                                       /* first patch of the next tile */
    int done, total;                                 /* tiles, for progress */
};

/* Returns a run without images. */
struct encoder_run encoder_run_begin(float *pixels, int32_t *positions);
/* Adds an image before the first step. Returns false if the workspace has no room for it, or if its
 * first row would not be the first of a visual token. */
bool encoder_run_add(struct encoder_run *run, const struct model *model, const struct workspace *ws,
                     const struct encoder_image *image);
/* Returns the patches of the run including this image. */
int encoder_run_patches(const struct encoder_run *run, const struct model *model,
                        const struct image *image);
/* Enqueues one tile. Returns false if it was the last. */
bool encoder_run_step(struct encoder_run *run, const struct model *model,
                      const struct vision_backends *backends);

#endif
