/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel table:
 *
 *     test_kernels [--seed N] [FILTER]             every row against ref, cut in every way
 *     test_kernels --cuda [--sample N] [FILTER]    every row, or every Nth, on a GPU, against ref
 *     test_kernels --bench [--threads N] [FILTER]  the timed rows, as a share of what the machine
 *                                                  can do */
#include <float.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/kernel_tests.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/ref/ref_backend.h"

enum { THREAD_COUNTS = 3, MAX_NAME = 160 };
#ifdef EY_MODELLED_TILES
static const enum cpu_tier least_tier = CPU_AMX; /* test_kernels checks the others */
#else
static const enum cpu_tier least_tier = CPU_GENERIC;
#endif

struct variant {
    const struct cpu_kernels *kernels;
    struct backend *be[THREAD_COUNTS]; /* with 1, 2, 3 threads */
};

struct suite {
    struct pool *pool[THREAD_COUNTS];
    struct backend *ref;
    struct variant variant[KERNEL_SETS];
    int n_variants, passed, failed;
    const char *filter;
    uint64_t seed;
};

/* The message of the fault handler: the case that runs now. */
static char running[MAX_NAME + 32];

static void say_running(int signal_number)
{
    (void)signal_number;
    ssize_t written = write(STDOUT_FILENO, running, strlen(running));
    (void)written; /* the signal is raised again and kills the program */
}

static void set_running(const char *name, const char *variant)
{
    snprintf(running, sizeof(running), "FAIL %s, %s: forbidden memory\n", name, variant);
}

static void catch_faults(void)
{
    struct sigaction act = {.sa_handler = say_running, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGSEGV, &act, NULL);
    sigaction(SIGBUS, &act, NULL);
}

static void require_ok(bool ok, const ey_err *e)
{
    if (ok) return;
    fprintf(stderr, "test_kernels: %s\n", e->text);
    exit(2);
}

static void open_suite(struct suite *s)
{
    ey_err e = {0};
    for (int t = 0; t < THREAD_COUNTS; t++)
        require_ok(pool_create(&s->pool[t], t + 1, &e), &e);
    require_ok(backend_ref_create(&s->ref, s->pool[1], &e), &e);
    for (int i = 0; i < KERNEL_SETS; i++) {
        const struct cpu_kernels *kernels = usable_kernels(i);
        if (!kernels) {
            printf("skipped %s: this machine lacks its instructions\n", kernel_masks[i]);
            continue;
        }
        if (kernels->isa.tier < least_tier) continue;
        struct variant *v = &s->variant[s->n_variants++];
        v->kernels = kernels;
        for (int t = 0; t < THREAD_COUNTS; t++)
            require_ok(backend_cpu_create(&v->be[t], s->pool[t], kernels->mask, &e), &e);
    }
}

static void close_suite(struct suite *s)
{
    for (int i = 0; i < s->n_variants; i++)
        for (int t = 0; t < THREAD_COUNTS; t++)
            s->variant[i].be[t]->ops->destroy(s->variant[i].be[t]);
    s->ref->ops->destroy(s->ref);
    for (int t = 0; t < THREAD_COUNTS; t++)
        pool_destroy(&s->pool[t]);
}

/* ---- one row ---- */

static const struct cut whole = {"whole", {0}, 0},
                        many = {"cut in 1 2 3 4 5 7 8 17", {1, 2, 3, 4, 5, 7, 8, 17}, 8},
                        single = {"row by row", {1}, 1}, pieces = {"cut in 5 9", {5, 9}, 2};

static bool canaries(bool live, const char *name, const char *variant, const char *how)
{
    if (!live) printf("FAIL %s, %s, %s: wrote outside its output\n", name, variant, how);
    return live;
}

/* Another cut, number of threads and address of the matrices must give the same bits. */
static bool check_cut(const struct variant *v, const struct problem *p, const char *name,
                      const float *expected, float *got, int threads, const struct cut *cut)
{
    size_t n = (size_t)p->n * (size_t)p->out_width;
    const char *variant = v->kernels->mask;
    memset(got, 0xff, n * sizeof(float));
    bool ok = canaries(run_all(got, v->be[threads - 1], p, cut), name, variant, cut->name);
    return check_same(name, variant, cut->name, got, expected, n, p->out_width) && ok;
}

static bool check_values(const struct variant *v, const struct problem *p, const char *name,
                         const float *want, const float *got, size_t n)
{
    const char *variant = v->kernels->mask;
    double floor = 2 * (double)FLT_MIN *
                   (p->exact ? 1 : p->c->k + 1); /* denormals are 0 in BF16 matmuls */
    if (p->exact && !case_in_int16_groups(p->c, v->kernels))
        return check_near(name, variant, got, want, n, p->out_width, 0, floor);
    size_t plain = p->from_cache ? p->from_cache : n;
    bool ok = check_near(name, variant, got, want, plain, p->out_width,
                         case_bound(p, v->kernels, false), floor);
    return check_near(name, variant, got + plain, want + plain, n - plain, p->out_width,
                      case_bound(p, v->kernels, true), floor) &&
           ok;
}

static bool check_variant(const struct variant *v, struct problem *p, const char *name,
                          const float *want, float *got, float *again)
{
    size_t n = (size_t)p->n * (size_t)p->out_width;
    set_running(name, v->kernels->mask);
    bool ok = canaries(run_all(got, v->be[1], p, &whole), name, v->kernels->mask, "whole");
    ok = check_values(v, p, name, want, got, n) && ok;
    ok = check_cut(v, p, name, got, again, 1, &many) && ok;
    move_matrices(p);
    return check_cut(v, p, name, got, again, 3, p->n <= 80 ? &single : &pieces) && ok;
}

static void check_case(void *context, const struct test_case *c)
{
    struct suite *s = context;
    struct problem p;
    char name[MAX_NAME];
    case_name(name, sizeof(name), c);
    if (s->filter && !strstr(name, s->filter)) return;
    problem_open(&p, c, s->seed);
    size_t bytes = (size_t)p.n * (size_t)p.out_width * sizeof(float);
    float *want = malloc(bytes), *got = malloc(bytes), *again = malloc(bytes);
    set_running(name, "ref");
    bool ok = canaries(run_all(want, s->ref, &p, &whole), name, "ref", "whole");
    for (int i = 0; i < s->n_variants; i++)
        ok = check_variant(&s->variant[i], &p, name, want, got, again) && ok;
    free(want);
    free(got);
    free(again);
    problem_close(&p);
    *(ok ? &s->passed : &s->failed) += 1;
}

static void check_direct(struct suite *s, const struct direct_test *tests)
{
    for (; tests->name; tests++) {
        if (s->filter && !strstr(tests->name, s->filter)) continue;
        for (int i = 0; i < s->n_variants; i++) {
            set_running(tests->name, s->variant[i].kernels->mask);
            bool ok = tests->check(s->variant[i].kernels, s->seed);
            if (!ok) printf("FAIL %s, %s\n", tests->name, s->variant[i].kernels->mask);
            *(ok ? &s->passed : &s->failed) += 1;
        }
    }
}

static bool is_called(const char *name, struct cpu_isa isa)
{
    struct cpu_isa found;
    return cpu_isa_by_name(name, &found) && found.tier == isa.tier && found.vnni == isa.vnni &&
           found.bf16 == isa.bf16;
}

/* Names of --cpu-mask: each kernel set's, and the older ones. */
static void check_mask_names(struct suite *s)
{
    const struct cpu_isa avx2 = {CPU_AVX2, true, false}, avx512 = {CPU_AVX512, true, true},
                         avx512_nobf16 = {CPU_AVX512, true, false};
    struct cpu_isa none;
    if (s->filter && !strstr("mask names", s->filter)) return;
    bool ok = is_called("avxvnni", avx2) && is_called("avx512vbmi", avx512_nobf16) &&
              is_called("avx512bf16", avx512) && is_called("avx512fp16", avx512) &&
              !cpu_isa_by_name("mmx", &none);
    for (int i = 0; i < KERNEL_SETS; i++) {
        const struct cpu_kernels *kernels = usable_kernels(i);
        ok = cpu_isa_by_name(kernel_masks[i], &none) && strstr(CPU_MASK_NAMES, kernel_masks[i]) &&
             (!kernels || is_called(kernels->mask, kernels->isa)) && ok;
    }
    if (!ok) printf("FAIL mask names\n");
    *(ok ? &s->passed : &s->failed) += 1;
}

static int test_main(const char *filter, uint64_t seed)
{
    struct suite s = {.filter = filter, .seed = seed};
    catch_faults();
    open_suite(&s);
    printf("seed %llu\n", (unsigned long long)seed);
    check_mask_names(&s);
    check_direct(&s, direct_tests);
    check_direct(&s, attention_tests);
    check_direct(&s, int16_tests);
    check_direct(&s, groups_tests);
    each_test_case(check_case, &s);
    close_suite(&s);
    printf("%d passed, %d failed\n", s.passed, s.failed);
    return s.failed || !s.passed;
}

/* Runs the table on this machine's GPU. */
static int cuda_main(const char *filter, uint64_t seed, int sample)
{
    ey_err e = {0};
    struct pool *pool;
    struct backend *ref, *gpu;
    require_ok(pool_create(&pool, 0, &e), &e);
    require_ok(backend_ref_create(&ref, pool, &e), &e);
    require_ok(backend_cuda_create(&gpu, pool, false, &e), &e);
    int status = gpu_main(gpu, ref, filter, seed, sample);
    gpu->ops->destroy(gpu);
    ref->ops->destroy(ref);
    pool_destroy(&pool);
    return status;
}

int main(int argc, char **argv)
{
    const char *filter = NULL;
    uint64_t seed = 1;
    int threads = 0, sample = 1;
    bool bench = false, cuda = false;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--bench") == 0)
            bench = true;
        else if (strcmp(argv[i], "--cuda") == 0)
            cuda = true;
        else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            seed = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--sample") == 0 && i + 1 < argc)
            sample = atoi(argv[++i]);
        else if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc)
            threads = atoi(argv[++i]);
        else
            filter = argv[i];
    }
    if (cuda) return cuda_main(filter, seed, sample);
    return bench ? bench_main(filter, threads, seed) : test_main(filter, seed);
}
