/* SPDX-License-Identifier: Apache-2.0 */
/* Image attention for AVX-512 with VNNI. */
#define LANES 16
#define VISION_ATTENTION cpu_vision_attention_avx512
#include "kernels/cpu/attention/attention_vision_f32_tmpl.h"
