/* SPDX-License-Identifier: Apache-2.0 */
/* Measures the machine's limits by loops that only read, or only multiply and add. */
#include "backend/cpu/cpu_roofline.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum {
    READ_PIECE = 1 << 20,
    ACCUMULATORS = 12, /* in CHAINS() */
    STEPS = 1 << 18,
    ROUNDS = 3,
    AMX_STEP_DIVISOR = 32,
    SHORT_STEPS = 1 << 10,
    SHORT_ROUNDS = 32
};

/* ---- reading ---- */

typedef uint64_t words __attribute__((vector_size(64)));

/* Some processors read fastest in one stream, others in several; without prefetching, cores wait on
 * memory latency. */
enum { MAX_STREAMS = 8 };
static const struct stream_pattern {
    size_t streams, prefetch_distance; /* bytes ahead that are prefetched */
} READ_PATTERNS[] = {
    {1, 4 * CPU_PREFETCH_BYTES}, {4, 4 * CPU_PREFETCH_BYTES}, {MAX_STREAMS, CPU_PREFETCH_BYTES}};

struct read_job {
    const char *data;
    struct stream_pattern pattern;
    volatile uint64_t seen;
};

static inline __attribute__((always_inline)) void read_in_streams(struct read_job *j,
                                                                  const char *from,
                                                                  const size_t streams)
{
    words all[MAX_STREAMS] = {{0}};
    const size_t part = READ_PIECE / streams;
    for (size_t i = 0; i < part; i += sizeof(words))
        for (size_t s = 0; s < streams; s++) {
            words w;
            const char *at = from + s * part + i;
            __builtin_prefetch(at + j->pattern.prefetch_distance);
            memcpy(&w, at, sizeof(w));
            all[s] |= w;
        }
    for (size_t s = 1; s < streams; s++)
        all[0] |= all[s];
    if (all[0][0] == 1) j->seen = all[0][1];
}

static void read_pieces(void *context, size_t begin, size_t end, int thread)
{
    struct read_job *j = context;
    (void)thread;
    for (const char *from = j->data + begin * READ_PIECE; begin < end;
         begin++, from += READ_PIECE) {
        if (j->pattern.streams == 1)
            read_in_streams(j, from, 1);
        else if (j->pattern.streams == 4)
            read_in_streams(j, from, 4);
        else
            read_in_streams(j, from, MAX_STREAMS);
    }
}

double cpu_measure_bandwidth(struct pool *pool, const void *data, size_t bytes)
{
    const size_t n_patterns = sizeof(READ_PATTERNS) / sizeof(READ_PATTERNS[0]),
                 pieces = bytes / READ_PIECE;
    double best = 0;
    for (size_t i = 0; i < ROUNDS * n_patterns; i++) {
        struct read_job job = {data, READ_PATTERNS[i % n_patterns], 0};
        double start = seconds_now();
        pool_run_ranges(pool, pieces, pieces, 1, read_pieces, &job);
        double rate = (double)(pieces * READ_PIECE) / (seconds_now() - start);
        best = rate > best ? rate : best;
    }
    return best;
}

/* ---- multiplying ---- */

/* Independent chains of multiply-adds, each in a register; the empty asm keeps the compiler from
 * merging or removing them. */
#define CHAINS(one) \
    one(0) one(1) one(2) one(3) one(4) one(5) one(6) one(7) one(8) one(9) one(10) one(11)
#define DECLARE(u) chain acc##u = {0};
#define ADVANCE(u)         \
    acc##u = STEP(acc##u); \
    __asm__ volatile("" : "+" CONSTRAINT(acc##u));
#define FMA_LOOP(name, instructions, type, factor_value)                                \
    __attribute__((target(instructions))) static void name(void *context, size_t begin, \
                                                           size_t end, int thread)      \
    {                                                                                   \
        typedef type chain;                                                             \
        chain factor = factor_value;                                                    \
        const size_t steps = *(const size_t *)context;                                  \
        CHAINS(DECLARE)                                                                 \
        (void)thread;                                                                   \
        for (size_t i = begin * steps; i < end * steps; i++) {                          \
            CHAINS(ADVANCE)                                                             \
        }                                                                               \
    }

#if defined(__x86_64__)
#define CONSTRAINT "x"
#define STEP(acc) _mm_add_ps(_mm_mul_ps(acc, factor), factor)
FMA_LOOP(fma_loop_generic, "sse2", __m128, _mm_set1_ps(0.5f))
#undef STEP
#define STEP(acc) _mm256_fmadd_ps(acc, factor, factor)
FMA_LOOP(fma_loop_avx2, "avx2,fma", __m256, _mm256_set1_ps(0.5f))
#undef STEP
/* A multiply-add by two instructions on machines without VNNI. */
__attribute__((target("avx2"))) static inline __m256 advance_madd(__m256 acc, __m256 factor)
{
    __m256 product;
    __asm__("vpmaddwd %2, %2, %1\n\tvpaddd %1, %0, %0" : "+x"(acc), "=&x"(product) : "x"(factor));
    return acc;
}
#define STEP(acc) advance_madd(acc, factor)
FMA_LOOP(fma_loop_madd, "avx2", __m256, _mm256_setzero_ps())
#undef STEP
__attribute__((target("avx2,avxvnni"))) static inline __m256 advance_avxvnni(__m256 acc,
                                                                             __m256 factor)
{
    __asm__("%{vex%} vpdpwssd %1, %1, %0" : "+x"(acc) : "x"(factor));
    return acc;
}
#define STEP(acc) advance_avxvnni(acc, factor)
FMA_LOOP(fma_loop_avxvnni, "avx2,avxvnni", __m256, _mm256_setzero_ps())
#undef STEP
#undef CONSTRAINT
#define CONSTRAINT "v"
#define STEP(acc) _mm512_fmadd_ps(acc, factor, factor)
FMA_LOOP(fma_loop_avx512, "avx512f", __m512, _mm512_set1_ps(0.5f))
#undef STEP
#define STEP(acc) _mm512_dpbf16_ps(acc, (__m512bh)factor, (__m512bh)factor)
FMA_LOOP(fma_loop_bf16, "avx512f,avx512bf16", __m512, _mm512_set1_ps(0.5f))

#undef STEP
#define STEP(acc) (__m512) _mm512_dpwssd_epi32((__m512i)acc, (__m512i)factor, (__m512i)factor)
FMA_LOOP(fma_loop_int16, "avx512f,avx512vnni", __m512, _mm512_setzero_ps())

/* Uses four tiles of sums and four of factors. */
__attribute__((target("amx-tile,amx-bf16"))) static void fma_loop_amx(void *context, size_t begin,
                                                                      size_t end, int thread)
{
    struct {
        uint8_t palette, start, zero[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    const size_t steps = *(const size_t *)context;
    (void)thread;
    for (int i = 0; i < 8; i++) {
        config.rows[i] = 16;
        config.bytes[i] = 64;
    }
    __asm__ volatile("" : : "r"(&config) : "memory");
    _tile_loadconfig(&config);
    _tile_zero(4);
    _tile_zero(5);
    _tile_zero(6);
    _tile_zero(7);
    for (size_t i = begin * steps / AMX_STEP_DIVISOR; i < end * steps / AMX_STEP_DIVISOR; i++) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 5, 6);
        _tile_dpbf16ps(2, 4, 7);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_release();
}
#else
typedef float lanes __attribute__((vector_size(16)));
#define CONSTRAINT "w"
#define STEP(acc) acc *factor + factor
FMA_LOOP(fma_loop_generic, "", lanes, ((lanes){0.5f}))
#endif

static pool_fn *fma_loop_for(struct cpu_isa isa, bool low_precision, double *flops)
{
#if defined(__x86_64__)
    if (low_precision && isa.tier == CPU_AMX)
        return *flops = 4 * 16384.0 / ACCUMULATORS / AMX_STEP_DIVISOR, fma_loop_amx;
    if (low_precision && isa.bf16) return *flops = 64, fma_loop_bf16;
    if (low_precision && isa.tier == CPU_AVX512) return *flops = 64, fma_loop_int16;
    if (low_precision && isa.vnni) return *flops = 32, fma_loop_avxvnni;
    if (low_precision) return *flops = 32, fma_loop_madd;
    if (isa.tier >= CPU_AVX512) return *flops = 32, fma_loop_avx512;
    if (isa.tier >= CPU_AVX2) return *flops = 16, fma_loop_avx2;
#endif
    (void)isa;
    (void)low_precision;
    return *flops = 8, fma_loop_generic;
}

double cpu_measure_flops(struct pool *pool, struct cpu_isa isa, bool low_precision)
{
    double flops, best = 0;
    size_t pieces = 16 * (size_t)pool_threads(pool), steps = STEPS;
    pool_fn *fn = fma_loop_for(isa, low_precision, &flops);
    for (int i = 0; i < ROUNDS; i++) {
        double start = seconds_now();
        pool_run(pool, pieces, 1, fn, &steps);
        double rate = flops * ACCUMULATORS * STEPS * (double)pieces / (seconds_now() - start);
        best = rate > best ? rate : best;
    }
    return best;
}

/* Times a short loop on the caller's core. Returns its seconds divided by the FLOPs of a step, or
 * `best` if that is less. */
static double time_short_loop(struct cpu_isa isa, bool low_precision, double best)
{
    double flops;
    size_t steps = SHORT_STEPS;
    pool_fn *fn = fma_loop_for(isa, low_precision, &flops);
    double start = seconds_now();
    fn(&steps, 0, 1, 0);
    double seconds = (seconds_now() - start) / flops;
    return seconds < best ? seconds : best;
}

/* Whether BF16 pairs are faster than float32. Processors do them at half or twice the rate, so a
 * rough measurement suffices. The two are measured in turn, because clock rates vary. */
static bool bf16_is_faster(struct cpu_isa isa)
{
    double f32 = 1, bf16 = 1;
    for (int i = 0; i < SHORT_ROUNDS; i++) {
        f32 = time_short_loop(isa, false, f32);
        bf16 = time_short_loop(isa, true, bf16);
    }
    return bf16 < f32;
}

static struct cpu_isa fastest_isa;

static void find_fastest_isa(void)
{
    fastest_isa = cpu_isa_usable(cpu_isa_best());
    if (fastest_isa.tier == CPU_AVX512 && fastest_isa.bf16)
        fastest_isa.bf16 = bf16_is_faster(fastest_isa);
}

struct cpu_isa cpu_fastest_isa(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_fastest_isa);
    return fastest_isa;
}

bool cpu_measure_roofline(struct pool *pool, struct cpu_isa isa, bool low_precision,
                          struct device_roofline *roofline, ey_err *e)
{
    const size_t bytes = (size_t)1 << 30;
    void *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) return ey_fail_memory(e, "measuring how fast memory is read", bytes);
    madvise(data, bytes, MADV_HUGEPAGE); /* otherwise address translation is measured */
    memset(data, 1, bytes); /* allocates real pages: the zero page would be read from the cache */
    roofline->bandwidth = cpu_measure_bandwidth(pool, data, bytes);
    munmap(data, bytes);
    roofline->flops = cpu_measure_flops(pool, isa, low_precision);
    const struct cpu_isa vectors = {CPU_AVX512, true, true};
    roofline->vector_flops = low_precision && isa.tier == CPU_AMX
                                 ? cpu_measure_flops(pool, vectors, true)
                                 : 0;
    return true;
}
