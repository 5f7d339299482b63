/* The kernels for AVX2 with FMA and F16C. */
#define LANES 8
#define KERNELS cpu_kernels_avx2
#define LEVEL CPU_AVX2
#define LEVEL_NAME "avx2"
#define PRODUCTS cpu_f32_avx2
#include "backend/cpu/kernels_body.h"
