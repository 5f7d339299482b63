/* SPDX-License-Identifier: Apache-2.0 */
/* In place of compiled kernels: one image, whose kernels are those that are linked in for the
 * emulator. Linked before the backend's library, it stands for the build's own table. */
#include "backend/cuda/images.h"

static const char image[] = "emulated";
const struct cuda_image cuda_images[] = {{"emulated", image, sizeof(image)}, {0}};
const int cuda_images_version = 12000;
const char cuda_images_archs[] = "emulated";
