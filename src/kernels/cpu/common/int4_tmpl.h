/* SPDX-License-Identifier: Apache-2.0 */
/* Reads rows of 4-bit weights group by group. */
#ifndef EY_KERNELS_CPU_INT4_TMPL_H
#define EY_KERNELS_CPU_INT4_TMPL_H

#include "kernels/cpu/common/simd_tmpl.h"

/* A row, with scale and -zero · scale of the current group. With a BF16 or F16 scale, value times
 * scale plus -zero · scale is exact, because few bits are involved. */
struct int4_row {
    const uint8_t *nibbles;
    const uint8_t *scales;
    enum dtype scale_dtype;
    const uint32_t *zeros;
    int shift;
    float scale, offset;
};

INLINE struct int4_row int4_row_at(const struct cpu_matrix *w, int64_t row)
{
    const int64_t groups = weight_groups(&w->tensor);
    return (struct int4_row){(const uint8_t *)w->tensor.data + row * (w->tensor.cols / 2),
                             (const uint8_t *)w->tensor.group_scale +
                                 (size_t)(row * groups) * weight_scale_size(&w->tensor),
                             w->tensor.scale_dtype,
                             (const uint32_t *)w->tensor.group_zero + row / 8 * groups,
                             (int)(row % 8 * 4),
                             0,
                             0};
}

/* Returns a group's scale, stored as BF16, F16 or F32. */
INLINE float int4_group_scale(const struct int4_row *r, size_t group)
{
    uint16_t bits;
    float scale;
    if (r->scale_dtype == DTYPE_F32) {
        memcpy(&scale, r->scales + group * sizeof(scale), sizeof(scale));
        return scale;
    }
    memcpy(&bits, r->scales + group * sizeof(bits), sizeof(bits));
    return r->scale_dtype == DTYPE_F16 ? f16_to_f32(bits) : bf16_to_f32(bits);
}

INLINE void int4_enter_group(struct int4_row *r, size_t group)
{
    uint32_t word;
    memcpy(&word, r->zeros + group, sizeof(word));
    r->scale = int4_group_scale(r, group);
    r->offset = -r->scale * (float)(int)(word >> r->shift & 15);
}

#endif
