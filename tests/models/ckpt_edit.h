/* SPDX-License-Identifier: Apache-2.0 */
/* Makes checkpoints with mkcheckpoint, copies them and changes single parts. Any failure ends the
 * test program. Compile tests with MKCHECKPOINT, the program's path. */
#ifndef EY_TESTS_MODELS_CKPT_EDIT_H
#define EY_TESTS_MODELS_CKPT_EDIT_H

#include "checkpoint/checkpoint.h"

/* Makes base/KIND (seed 1) unless it exists. Returns its path, which is never freed. */
const char *ckpt_make(const char *base, const char *kind);
/* Makes a directory `to` with links to all files of `from`. */
void ckpt_copy(const char *from, const char *to);

/* Sets the member at `path` ("text_config.rope_scaling.rope_type") of a JSON file to `value` (JSON
 * text), or removes it (value NULL). Path "" replaces the whole file. */
void ckpt_set(const char *dir, const char *file, const char *path, const char *value);
void ckpt_remove_file(const char *dir, const char *file);
void ckpt_write_file(const char *dir, const char *file, const void *bytes, size_t n);

/* All tensors of a checkpoint, for editing and writing to one model.safetensors. */
struct edited_tensor {
    char name[200];
    enum dtype dtype;
    int n_dims;
    int64_t shape[EY_MAX_DIMS];
    uint8_t *data;
    size_t size;
};

struct tensor_list {
    struct edited_tensor *at;
    size_t n;
};

struct tensor_list tensors_read(const char *dir);
struct edited_tensor *tensors_find(struct tensor_list *list, const char *name);
void tensors_drop(struct tensor_list *list, const char *name);
/* Appends a copy of `from`, or an empty tensor if it is NULL. Change the struct to rename or
 * reshape it. */
struct edited_tensor *tensors_add(struct tensor_list *list, const char *name,
                                  const struct edited_tensor *from);
/* Replaces `prefix` with `other` in all names that begin with it. */
void tensors_rename(struct tensor_list *list, const char *prefix, const char *other);
/* Truncates the data, or extends it with zeros, to the size of dtype and shape. */
void tensor_fit(struct edited_tensor *t);
/* Converts the data to another float dtype. */
void tensor_convert(struct edited_tensor *t, enum dtype to);
/* Writes the list to dir in place of shards and index, and frees it. */
void tensors_write(struct tensor_list *list, const char *dir);

#endif
