/* Which kernels this machine gets: the best it has, under a mask that the tests and --cpu-mask set. */
#include <string.h>

#include "backend/cpu/kernels.h"

static const char *const names[CPU_LEVELS] = {"generic", "avx2", "avx512", "avx512bf16"};

bool cpu_level_by_name(const char *name, enum cpu_level *level)
{
    for (int i = 0; i < CPU_LEVELS; i++)
        if (strcmp(name, names[i]) == 0) return *level = (enum cpu_level)i, true;
    return false;
}

#if defined(__x86_64__)
#include <cpuid.h>

/* __builtin_cpu_supports covers what the operating system saves, too; BF16 has no name in older compilers. */
static bool has_avx512bf16(void)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 5 & 1);
}

static bool machine_has(enum cpu_level level)
{
    __builtin_cpu_init();
    switch (level) {
    case CPU_GENERIC: return true;
    case CPU_AVX2: {
        unsigned a, b, c = 0, d;
        bool f16c = __get_cpuid(1, &a, &b, &c, &d) && (c >> 29 & 1);
        return f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    }
    case CPU_AVX512:
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    default: return __builtin_cpu_supports("avx512vbmi") && has_avx512bf16();
    }
}

const struct cpu_kernels *cpu_kernels_for(enum cpu_level level)
{
    static const struct cpu_kernels *const kernels[CPU_LEVELS] = {
        &cpu_kernels_generic, &cpu_kernels_avx2, &cpu_kernels_avx512, &cpu_kernels_avx512bf16};
    return kernels[level];
}
#else
static bool machine_has(enum cpu_level level)
{
    return level == CPU_GENERIC;
}

const struct cpu_kernels *cpu_kernels_for(enum cpu_level level)
{
    (void)level;
    return &cpu_kernels_generic;
}
#endif

enum cpu_level cpu_level_usable(enum cpu_level most)
{
    int level = CPU_GENERIC;
    while (level < (int)most && machine_has((enum cpu_level)(level + 1))) level++;
    return (enum cpu_level)level;
}
