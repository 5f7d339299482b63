/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces the table of compiled kernels: one image, whose kernels are those of the emulator. Link
 * it before the backend. */
#include "kernels/cuda/cuda_fatbins.h"

static const char image[] = "emulated";
const struct cuda_fatbin cuda_fatbins[] = {{"emulated", image, sizeof(image)}, {0}};
const int cuda_fatbins_version = 12000;
const char cuda_fatbins_archs[] = "emulated";
