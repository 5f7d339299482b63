/* SPDX-License-Identifier: Apache-2.0 */
/* Which kernels this machine gets: the best it has, under a mask that the tests and --cpu-mask set.
 */
#include <string.h>

#include "kernels/cpu/cpu_kernels.h"

static const char *const level_names[CPU_LEVELS] = {"generic",    "avx2",   "avxvnni",
                                                    "avx512vbmi", "avx512", "amx"};

/* What levels were called before, and the level that takes their place. */
static const struct old_name {
    const char *name;
    enum cpu_level level;
} old_names[] = {{"avx512bf16", CPU_AVX512}, {"avx512fp16", CPU_AVX512}};

bool cpu_level_by_name(const char *name, enum cpu_level *level)
{
    for (int i = 0; i < CPU_LEVELS; i++)
        if (strcmp(name, level_names[i]) == 0) return *level = (enum cpu_level)i, true;
    for (size_t i = 0; i < sizeof(old_names) / sizeof(old_names[0]); i++)
        if (strcmp(name, old_names[i].name) == 0) return *level = old_names[i].level, true;
    return false;
}

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

/* __builtin_cpu_supports covers what the operating system saves, too; BF16 has no name in older
 * compilers. */
static bool has_avx512bf16(void)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 5 & 1);
}

static bool has_avxvnni(void)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
}

static bool has_gfni(void)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c >> 8 & 1);
}

/* Linux gives a process the tiles when it asks; their state makes signal frames larger by 8 KiB
 * from then on. */
static bool has_amx(void)
{
    enum {
        REQUEST_PERMISSION = 0x1023,
        TILE_DATA = 18
    }; /* ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA */
    unsigned a, b, c, d;
    bool tiles = __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 24 & 1) && (d >> 22 & 1);
    return tiles && syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
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
    case CPU_AVXVNNI: return has_avxvnni();
    case CPU_AVX512VBMI: /* Ice Lake, Zen 4 and later */
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vnni") &&
               has_gfni();
    case CPU_AVX512: return has_avx512bf16();
    default: return has_amx();
    }
}

const struct cpu_kernels *cpu_kernels_for(enum cpu_level level)
{
    static const struct cpu_kernels *const kernels[CPU_LEVELS] = {
        &cpu_kernels_generic,    &cpu_kernels_avx2,   &cpu_kernels_avxvnni,
        &cpu_kernels_avx512vbmi, &cpu_kernels_avx512, &cpu_kernels_amx};
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

/* Whether the machine has a level and those that it implies: all before it but AVX-VNNI. */
static bool is_usable(int level)
{
    bool usable = true;
    for (int i = level; usable && i > CPU_GENERIC; i--)
        usable = (i < level && i == CPU_AVXVNNI) || machine_has((enum cpu_level)i);
    return usable;
}

enum cpu_level cpu_level_usable(enum cpu_level most)
{
    int level = (int)most;
    while (!is_usable(level))
        level--;
    return (enum cpu_level)level;
}
