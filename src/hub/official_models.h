/* SPDX-License-Identifier: Apache-2.0 */
/* The built-in shapes of the official Qwen3-VL checkpoints (2B, 4B, 8B; Instruct and Thinking; BF16
 * and FP8), so that a plan needs no download. */
#ifndef EY_HUB_OFFICIAL_MODELS_H
#define EY_HUB_OFFICIAL_MODELS_H

#include "base/err.h"

/* Returns whether the name is that of an official repository, such as
 * "Qwen/Qwen3-VL-4B-Instruct-FP8", ignoring case. */
bool official_model_is(const char *repository);
/* Returns the size of the tensors in bytes, which is nearly the size of the download. Returns 0 for
 * other repositories. */
uint64_t official_model_bytes(const char *repository);
/* Writes the files that a plan needs to an existing empty directory: the configuration, and a
 * sparse safetensors file of the real size that has only the header. hub_remove_header_files()
 * removes the directory. */
bool official_model_write_headers(const char *repository, const char *directory, ey_err *e);

#endif
