/* SPDX-License-Identifier: Apache-2.0 */
/* Image attention for AVX2. */
#define LANES 8
#define VISION_ATTENTION cpu_vision_attention_avx2
#include "kernels/cpu/attention/attention_vision_f32_tmpl.h"
