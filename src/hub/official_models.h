/* SPDX-License-Identifier: Apache-2.0 */
/* The shapes of the official Qwen3-VL checkpoints (2B, 4B, 8B; Instruct and Thinking; BF16 and
 * FP8): enough for a plan before anything is downloaded, without asking anybody. */
#ifndef EY_HUB_OFFICIAL_MODELS_H
#define EY_HUB_OFFICIAL_MODELS_H

#include "base/err.h"

/* "Qwen/Qwen3-VL-4B-Instruct-FP8" and the like, in any case. */
bool official_model_is(const char *repository);
/* Bytes of its tensors, which is the download but for some megabytes; 0: it is none of these. */
uint64_t official_model_bytes(const char *repository);
/* Writes to an existing empty directory what a plan is made from: configuration, and a safetensors
 * file of its size with only the header in it, the rest a hole. hub_remove_header_files() removes
 * the directory. */
bool official_model_write_headers(const char *repository, const char *directory, ey_err *e);

#endif
