/* SPDX-License-Identifier: Apache-2.0 */
/* Times rows of the table: median and best time. The best (a shared machine is not always idle)
 * gives bytes and operations a second and their share of the roofline, the best measured so far in
 * this run. Each call takes its matrices from another place of a region that is larger than the
 * caches; keys and values stay in place. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "backend/cpu/cpu_roofline.h"
#include "base/clock.h"
#include "kernels/kernel_tests.h"
#include "backend/cpu/cpu_backend.h"

enum { MAX_SAMPLES = 31 };
static const size_t region_bytes = (size_t)1 << 30;
static const double seconds_a_row = 1.0;

struct bench {
    struct pool *pool;
    uint8_t *region;
    size_t next;
    double read;
    double multiply[KERNEL_SETS][2]; /* [kernel set][F32, BF16] */
    const char *filter;
    uint64_t seed;
};

static void fill_region(void *context, size_t begin, size_t end, int thread)
{
    uint8_t *region = context;
    (void)thread;
    /* bytes 0x30 to 0x3f are ordinary numbers in every dtype */
    for (size_t i = begin; i < end; i++)
        region[i] = (uint8_t)(0x30 | ((i * 2654435761u) >> 13 & 15));
}

static bool open_bench(struct bench *b, int threads)
{
    ey_err e = {0};
    if (!pool_create(&b->pool, threads, &e)) return printf("%s\n", e.text), false;
    b->region = mmap(NULL, region_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                     0);
    if (b->region == MAP_FAILED) return perror("benchmark"), false;
    madvise(b->region, region_bytes, MADV_HUGEPAGE); /* as in cpu_measure_roofline() */
    pool_run(b->pool, region_bytes, 1 << 20, fill_region, b->region);
    printf("%-72s %12s %12s %9s %9s %9s\n", "", "median", "best", "GB/s", "GFLOP/s", "of limit");
    return true;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* Returns the instructions whose limits are measured: tiles in C run on those of AVX-512. */
static struct cpu_isa measurable(struct cpu_isa isa)
{
#ifdef EY_MODELLED_TILES
    if (isa.tier == CPU_AMX) isa.tier = CPU_AVX512;
#endif
    return isa;
}

static void measure_limits(struct bench *b)
{
    b->read = larger(b->read, cpu_measure_bandwidth(b->pool, b->region, region_bytes));
    for (int i = 0; i < KERNEL_SETS; i++) {
        const struct cpu_kernels *k = usable_kernels(i);
        if (!k) continue;
        double *multiply = b->multiply[i];
        const struct cpu_isa isa = measurable(k->isa);
        multiply[0] = larger(multiply[0], cpu_measure_flops(b->pool, isa, false));
        multiply[1] = k->low_precision || k->fp8
                          ? larger(multiply[1], cpu_measure_flops(b->pool, isa, true))
                          : multiply[0];
    }
}

static void print_limits(const struct bench *b)
{
    printf("limits of %d threads: reading %.1f GB/s", pool_threads(b->pool), b->read * 1e-9);
    for (int i = 0; i < KERNEL_SETS; i++)
        if (b->multiply[i][0] > 0)
            printf("; %s %.0f, bf16 %.0f GFLOP/s", kernel_masks[i], b->multiply[i][0] * 1e-9,
                   b->multiply[i][1] * 1e-9);
    printf("\n");
}

static void move_on(struct bench *b, struct run *r, struct problem *p)
{
    for (size_t i = 0; i < sizeof(p->w) / sizeof(p->w[0]); i++) {
        size_t bytes = weight_data_bytes(&p->w[i]);
        if (!bytes) continue;
        if (b->next + bytes > region_bytes) b->next = 0;
        p->w[i].data = b->region + b->next;
        cpu_weight_of(r->w[i])->m.tensor.data = p->w[i].data;
        b->next = (b->next + bytes + 4095) / 4096 * 4096;
    }
}

static int by_time(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Returns the best time; the median goes to *median. */
static double time_calls(struct bench *b, struct run *r, struct problem *p, double *median)
{
    double times[MAX_SAMPLES], start = seconds_now();
    int n = 0;
    p->c->op->call(r, 0, p->n);
    while (n < MAX_SAMPLES && (n < 3 || seconds_now() - start < seconds_a_row)) {
        move_on(b, r, p);
        double before = seconds_now();
        p->c->op->call(r, 0, p->n);
        times[n++] = seconds_now() - before;
    }
    qsort(times, (size_t)n, sizeof(times[0]), by_time);
    *median = times[n / 2];
    return times[0];
}

static void time_variant(struct bench *b, struct problem *p, int set, const char *name)
{
    struct backend *be;
    struct run r;
    ey_err e = {0};
    enum dtype d = p->c->dtype;
    bool attends = p->c->op == &op_attention || p->c->op == &op_vision_attention,
         bf16 = !attends && (d == DTYPE_BF16 || d == DTYPE_F8_E4M3 || d == DTYPE_INT4);
    if (!backend_cpu_create(&be, b->pool, kernel_masks[set], &e)) return;
    run_start(&r, be, p);
    double median, t = time_calls(b, &r, p, &median);
    double reading = p->bytes / b->read, multiplying = p->flops / b->multiply[set][bf16];
    printf("%-72s %9.3f ms %9.3f ms %9.2f %9.1f %6.0f %% %s\n", name, median * 1e3, t * 1e3,
           p->bytes / t * 1e-9, p->flops / t * 1e-9,
           100 * (reading > multiplying ? reading : multiplying) / t,
           reading > multiplying ? "reading" : "multiplying");
    if (!run_stop(&r)) printf("%s wrote outside its output\n", name);
    be->ops->destroy(be);
}

static void time_case(void *context, const struct test_case *c)
{
    struct bench *b = context;
    struct problem p;
    char row[128], name[160];
    bool open = false;
    case_name(row, sizeof(row), c);
    for (int i = 0; i < KERNEL_SETS; i++) {
        if (!usable_kernels(i)) continue;
        snprintf(name, sizeof(name), "%s %s", row, kernel_masks[i]);
        if (b->filter && !strstr(name, b->filter)) continue;
        if (!open) {
            problem_open(&p, c, b->seed);
            measure_limits(b);
            open = true;
        }
        time_variant(b, &p, i, name);
    }
    if (open) problem_close(&p);
}

int bench_main(const char *filter, int threads, uint64_t seed)
{
    struct bench b = {.filter = filter, .seed = seed};
    if (!open_bench(&b, threads)) return 2;
    each_bench_case(time_case, &b);
    print_limits(&b);
    munmap(b.region, region_bytes);
    pool_destroy(&b.pool);
    return 0;
}
