/* The kernels for AVX-512 with BF16 dot products and byte permutes (VBMI). */
#define LANES 16
#define KERNELS cpu_kernels_avx512bf16
#define LEVEL CPU_AVX512BF16
#define LEVEL_NAME "avx512bf16"
#define HAVE_BF16
#include "backend/cpu/kernels_body.h"
