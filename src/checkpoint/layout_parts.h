/* SPDX-License-Identifier: Apache-2.0 */
/* What the readers of quantized layouts share: the tensors beside a matrix's codes. */
#ifndef EY_CHECKPOINT_LAYOUT_PARTS_H
#define EY_CHECKPOINT_LAYOUT_PARTS_H

#include "checkpoint/repack.h"

/* The largest that a scale may be: codes times it are numbers. */
#define LARGEST_SCALE 0x1p119f

/* A matrix that is asked for: its name ends with ".weight", mostly. */
struct wanted_matrix {
    const char *name;
    int64_t rows, cols;
};

/* "NAME" + suffix, and "NAME" without ".weight" + suffix; NULL: absent. */
const struct tensor_view *find_beside(const struct tensor_source *s, const struct wanted_matrix *m,
                                      const char *suffix);
const struct tensor_view *find_module_part(const struct tensor_source *s,
                                           const struct wanted_matrix *m, const char *suffix);
/* The same; absent is an error that names `of`. */
const struct tensor_view *need_part(const struct tensor_source *s, const struct wanted_matrix *m,
                                    const char *suffix, const struct tensor_view *of, ey_err *e);

int64_t view_elements(const struct tensor_view *t);
bool is_all_zero(const struct tensor_view *t);
bool check_view_dtype(const struct tensor_view *t, enum dtype dtype, ey_err *e);
/* F32, BF16 or F16. */
bool check_float(const struct tensor_view *t, ey_err *e);
/* [rows, cols] of that type. */
bool check_part(const struct tensor_view *t, enum dtype dtype, int64_t rows, int64_t cols,
                ey_err *e);
/* All are finite and not too large; *negative: one is below 0. */
bool check_scales(const struct tensor_view *t, bool *negative, ey_err *e);
/* The columns of a group by a row's number of scales, which must be those that the configuration
 * names, if it does; 0: *e says why. */
int group_of_scales(const struct tensor_source *s, const struct tensor_view *t,
                    const struct wanted_matrix *m, int64_t groups, ey_err *e);

/* ---- readers: false is an error ---- */

/* Codes called NAME_packed (I32), NAME (I8) or qweight. */
bool read_packed_integers(struct tensor_source *s, struct tensor *out,
                          const struct wanted_matrix *m, const struct tensor_view *packed,
                          ey_err *e);
bool read_signed_bytes(struct tensor_source *s, struct tensor *out, const struct wanted_matrix *m,
                       const struct tensor_view *codes, ey_err *e);
bool read_qweight(struct tensor_source *s, struct tensor *out, const struct wanted_matrix *m,
                  const struct tensor_view *qweight, ey_err *e);
/* FP8 values with scales of any shape. */
bool read_fp8(struct tensor_source *s, struct tensor *out, const struct wanted_matrix *m,
              const struct tensor_view *codes, ey_err *e);
/* Pairs of e2m1 (U8), of NVFP4 or MXFP4. */
bool read_fp4(struct tensor_source *s, struct tensor *out, const struct wanted_matrix *m,
              const struct tensor_view *codes, ey_err *e);

#endif
