/* SPDX-License-Identifier: Apache-2.0 */
/* One safetensors file, mapped and checked. Views of its tensors point into the map. */
#ifndef EY_CHECKPOINT_SAFETENSORS_H
#define EY_CHECKPOINT_SAFETENSORS_H

#include "base/err.h"
#include "tensor/tensor_view.h"

struct safetensors;
/* Maps and checks a file: header within the file and within 100 MB, JSON object, known dtypes,
 * shapes whose product times the element size equals the length, offsets without holes or overlap
 * that end with the file. */
bool safetensors_open(struct safetensors **file, const char *path, ey_err *e);
/* The same over bytes that the caller keeps alive (tests, fuzzing); `path` is for messages. */
bool safetensors_open_memory(struct safetensors **file, const uint8_t *data, size_t size,
                             const char *path, ey_err *e);
void safetensors_close(struct safetensors *file);
size_t safetensors_count(const struct safetensors *file);
const struct tensor_view *safetensors_at(const struct safetensors *file, size_t i);
const struct tensor_view *safetensors_find(const struct safetensors *file,
                                           const char *name); /* NULL: not there */

#endif
