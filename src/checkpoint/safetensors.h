/* SPDX-License-Identifier: Apache-2.0 */
/* One safetensors file, mapped and checked. Tensor views point into the mapping and live as long as
 * the file is open. */
#ifndef EY_CHECKPOINT_SAFETENSORS_H
#define EY_CHECKPOINT_SAFETENSORS_H

#include "base/err.h"
#include "tensor/tensor_view.h"

struct safetensors;
/* Maps a file and checks that its header ends within the file, is at most 100 MB long and is a JSON
 * object, that dtypes are known, that each tensor's length follows from its shape and dtype, and
 * that the offsets cover the data without gap or overlap. */
bool safetensors_open(struct safetensors **file, const char *path, ey_err *e);
/* Like safetensors_open(), over bytes that the caller keeps alive (tests, fuzzing). `path` is only
 * for messages. */
bool safetensors_open_memory(struct safetensors **file, const uint8_t *data, size_t size,
                             const char *path, ey_err *e);
void safetensors_close(struct safetensors *file);
size_t safetensors_count(const struct safetensors *file);
const struct tensor_view *safetensors_at(const struct safetensors *file, size_t i);
const struct tensor_view *safetensors_find(const struct safetensors *file,
                                           const char *name); /* NULL if absent */

#endif
