/* SPDX-License-Identifier: Apache-2.0 */
/* Decides the new form of each tensor before anything is written. Private to src/convert. */
#ifndef EY_EXPORT_PLAN_H
#define EY_EXPORT_PLAN_H

#include "convert/stored_tensors.h"
#include "convert/weight_forms.h"

struct planned_tensor {
    const struct stored_tensor *stored;
    struct weight_plan plan;
    size_t size[FORM_PARTS];
    float factor; /* a flag: 1 if a global scale is written, as for NVFP4 blocks, else 0 */
};

enum export_format { EXPORT_SAFETENSORS, EXPORT_GGUF };

struct export_plan {
    const struct convert_source *source;
    struct stored_tensors stored;
    struct planned_tensor *tensor; /* [n] */
    size_t n;
    uint64_t bytes;       /* total size of the converted tensors */
    enum dtype main_type; /* type of plain matrices: BF16, F16 or F32 */
};

/* Makes the plan and fills in the report. Fails if the format cannot hold a matrix and
 * source->to_float32 is not set. */
bool export_plan_make(struct export_plan *p, const struct convert_source *source,
                      enum export_format format, ey_convert_report *report, ey_err *e);
void export_plan_free(struct export_plan *p);
/* Converts tensor i. The caller frees *out, even after a failure. */
bool export_plan_form(struct formed_weight *out, const struct export_plan *p, size_t i, ey_err *e);
void export_progress(const struct export_plan *p, size_t done);

#endif
