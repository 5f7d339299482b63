/* SPDX-License-Identifier: Apache-2.0 */
/* Built-in shapes of the official Qwen3-VL checkpoints (2B, 4B, 8B; Instruct and Thinking; BF16 and
 * FP8), for a plan without any download. */
#ifndef EY_HUB_OFFICIAL_MODELS_H
#define EY_HUB_OFFICIAL_MODELS_H

#include "base/err.h"

/* Whether it is an official repository, "Qwen/Qwen3-VL-4B-Instruct-FP8", ignoring case. */
bool official_model_is(const char *repository);
/* Bytes of its tensors, nearly the size of the download; 0 for other repositories. */
uint64_t official_model_bytes(const char *repository);
/* Writes what a plan needs to an existing empty directory: configuration, and a sparse safetensors
 * file of its size with only the header. hub_remove_header_files() removes the directory. */
bool official_model_write_headers(const char *repository, const char *directory, ey_err *e);

#endif
