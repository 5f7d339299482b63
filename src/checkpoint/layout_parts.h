/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that the readers of quantized layouts share. They find and check the tensors that
 * accompany a matrix's quantized values. */
#ifndef EY_CHECKPOINT_LAYOUT_PARTS_H
#define EY_CHECKPOINT_LAYOUT_PARTS_H

#include "checkpoint/repack.h"

/* The largest scale accepted: its product with any quantized value is finite. */
#define LARGEST_SCALE 0x1p119f

/* The matrix to read. Most names end with ".weight". */
struct wanted_matrix {
    const char *name;
    int64_t rows, cols;
};

/* find_beside() looks for the tensor NAME + suffix, find_module_part() first removes ".weight" from
 * the end of NAME. Both return NULL if the tensor is absent. */
const struct tensor_view *find_beside(const struct tensor_source *s, const struct wanted_matrix *m,
                                      const char *suffix);
const struct tensor_view *find_module_part(const struct tensor_source *s,
                                           const struct wanted_matrix *m, const char *suffix);
/* Like find_beside(), but an absent tensor is an error, which says that `of` needs it. */
const struct tensor_view *need_part(const struct tensor_source *s, const struct wanted_matrix *m,
                                    const char *suffix, const struct tensor_view *of, ey_err *e);

int64_t view_elements(const struct tensor_view *t);
bool is_all_zero(const struct tensor_view *t);
bool check_view_dtype(const struct tensor_view *t, enum dtype dtype, ey_err *e);
/* Fails unless the dtype is F32, BF16 or F16. */
bool check_float(const struct tensor_view *t, ey_err *e);
/* Fails unless the tensor is [rows, cols] of that dtype. */
bool check_part(const struct tensor_view *t, enum dtype dtype, int64_t rows, int64_t cols,
                ey_err *e);
/* Fails unless all scales are finite and at most LARGEST_SCALE in magnitude. Sets *negative if any
 * is below 0. */
bool check_scales(const struct tensor_view *t, bool *negative, ey_err *e);
/* Returns the group size in columns, given the number of scales per row. It must match the
 * configuration's group size, if that is given. Returns 0 on failure. */
int group_of_scales(const struct tensor_source *s, const struct tensor_view *t,
                    const struct wanted_matrix *m, int64_t groups, ey_err *e);

/* ---- readers ---- */

/* Integer values in the tensor NAME_packed (I32), NAME (I8) or qweight (I32). */
bool read_packed_integers(struct tensor_source *s, struct tensor *out,
                          const struct wanted_matrix *m, const struct tensor_view *packed,
                          ey_err *e);
bool read_signed_bytes(struct tensor_source *s, struct tensor *out, const struct wanted_matrix *m,
                       const struct tensor_view *codes, ey_err *e);
bool read_qweight(struct tensor_source *s, struct tensor *out, const struct wanted_matrix *m,
                  const struct tensor_view *qweight, ey_err *e);
/* FP8 values with a scale per tensor, row or block, or an exponent per 32 columns (MXFP8). */
bool read_fp8(struct tensor_source *s, struct tensor *out, const struct wanted_matrix *m,
              const struct tensor_view *codes, ey_err *e);
/* Two e2m1 values per byte (U8): NVFP4 or MXFP4. */
bool read_fp4(struct tensor_source *s, struct tensor *out, const struct wanted_matrix *m,
              const struct tensor_view *codes, ey_err *e);

#endif
