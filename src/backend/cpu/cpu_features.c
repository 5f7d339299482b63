/* SPDX-License-Identifier: Apache-2.0 */
/* Selects the kernels of this machine: the best that it supports, restricted by a mask from tests
 * or --cpu-mask. */
#include <string.h>

#include "kernels/cpu/cpu_kernels.h"

/* A tier's name without a suffix allows all of its optional instructions that the machine has. */
static const struct isa_name {
    const char *name;
    struct cpu_isa most;
} isa_names[] = {
    {"generic", {CPU_GENERIC, false, false}},
    {"avx2", {CPU_AVX2, true, false}},
    {"avx2-novnni", {CPU_AVX2, false, false}},
    {"avx512", {CPU_AVX512, true, true}},
    {"avx512-nobf16", {CPU_AVX512, true, false}},
    {"amx", {CPU_AMX, true, true}},
    /* older names */
    {"avxvnni", {CPU_AVX2, true, false}},
    {"avx512vbmi", {CPU_AVX512, true, false}},
    {"avx512bf16", {CPU_AVX512, true, true}},
    {"avx512fp16", {CPU_AVX512, true, true}},
};

bool cpu_isa_by_name(const char *name, struct cpu_isa *isa)
{
    for (size_t i = 0; i < sizeof(isa_names) / sizeof(isa_names[0]); i++)
        if (strcmp(name, isa_names[i].name) == 0) return *isa = isa_names[i].most, true;
    return false;
}

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Checks for AVX-512 BF16 with CPUID, since older compilers have no name for it.
 * __builtin_cpu_supports, used for AVX2 and AVX-512, also checks that the operating system saves
 * the registers. */
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

/* Requests the AMX tiles, which Linux grants on request; from then on signal frames are 8 KiB
 * larger. */
static bool has_amx(void)
{
#ifdef EY_MODELLED_TILES /* tests/kernels/tiles_model.h */
    return true;
#endif
    enum {
        REQUEST_PERMISSION = 0x1023,
        TILE_DATA = 18
    }; /* ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA */
    unsigned a, b, c, d;
    bool tiles = __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 22 & 1) && (d >> 24 & 1) &&
                 (d >> 25 & 1); /* BF16, tiles, int8 */
    return tiles && syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

static bool has_avx2(void)
{
    unsigned a, b, c = 0, d;
    bool f16c = __get_cpuid(1, &a, &b, &c, &d) && (c >> 29 & 1);
    return f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

/* Whether the machine is Ice Lake, Zen 4 or later. */
static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vnni") &&
           has_gfni();
}

/* Whether the machine has a tier, given that it has the lower ones. */
static bool machine_has(enum cpu_tier tier)
{
    __builtin_cpu_init();
    switch (tier) {
    case CPU_GENERIC: return true;
    case CPU_AVX2: return has_avx2();
    case CPU_AVX512: return has_avx512();
    default: return has_avx512bf16() && has_amx();
    }
}

const struct cpu_kernels *cpu_kernels_for(struct cpu_isa isa)
{
    switch (isa.tier) {
    case CPU_GENERIC: return &cpu_kernels_generic;
    case CPU_AVX2: return &cpu_kernels_avx2[isa.vnni];
    case CPU_AVX512: return &cpu_kernels_avx512[isa.bf16];
    default: return &cpu_kernels_amx;
    }
}
#else
static bool has_avxvnni(void)
{
    return false;
}

static bool has_avx512bf16(void)
{
    return false;
}

static bool machine_has(enum cpu_tier tier)
{
    return tier == CPU_GENERIC;
}

const struct cpu_kernels *cpu_kernels_for(struct cpu_isa isa)
{
    (void)isa;
    return &cpu_kernels_generic;
}
#endif

struct cpu_isa cpu_isa_usable(struct cpu_isa most)
{
    struct cpu_isa isa = {CPU_GENERIC, false, false};
    while (isa.tier < most.tier && machine_has((enum cpu_tier)(isa.tier + 1)))
        isa.tier = (enum cpu_tier)(isa.tier + 1);
    isa.vnni = isa.tier >= CPU_AVX512 || (isa.tier == CPU_AVX2 && most.vnni && has_avxvnni());
    isa.bf16 = isa.tier == CPU_AMX || (isa.tier == CPU_AVX512 && most.bf16 && has_avx512bf16());
    return isa;
}
