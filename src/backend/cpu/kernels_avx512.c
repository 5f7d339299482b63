/* The kernels for AVX-512 (F, BW, DQ, VL). */
#define LANES 16
#define KERNELS cpu_kernels_avx512
#define LEVEL CPU_AVX512
#define LEVEL_NAME "avx512"
#define PRODUCTS cpu_f32_avx512
#include "backend/cpu/kernels_body.h"
