/* SPDX-License-Identifier: Apache-2.0 */
/* In place of compiled kernels: one image, whose kernels are those that are linked in for the
 * emulator. Linked before the backend's library, it stands for the build's own table. */
#include "kernels/cuda/cuda_fatbins.h"

static const char image[] = "emulated";
const struct cuda_fatbin cuda_fatbins[] = {{"emulated", image, sizeof(image)}, {0}};
const int cuda_fatbins_version = 12000;
const char cuda_fatbins_archs[] = "emulated";
