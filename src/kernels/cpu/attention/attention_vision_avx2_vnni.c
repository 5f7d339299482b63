/* SPDX-License-Identifier: Apache-2.0 */
/* Image attention for AVX-VNNI. */
#define LANES 8
#define VISION_ATTENTION cpu_vision_attention_avx2_vnni
#include "kernels/cpu/attention/attention_vision_f32_tmpl.h"
