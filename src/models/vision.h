/* The vision tower: patch rows of one picture → merged features and DeepStack levels. */
#ifndef EY_MODELS_VISION_H
#define EY_MODELS_VISION_H

#include "models/decoder.h"

/* pixels [rows·cols, patch_width] in merge-block order → ws->features[*] at visual token `first_token` on.
 * `positions` is host scratch of [rows·cols, 3]. False: stopped by the watch. */
bool vision_encode(const struct model *model, struct backend *be, struct workspace *ws, const float *pixels, int rows,
                   int cols, int first_token, int32_t *positions, const struct watch *watch);

#endif
