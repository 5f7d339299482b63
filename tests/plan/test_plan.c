/* SPDX-License-Identifier: Apache-2.0 */
/* Memory plans for simulated GPUs and the official models' headers. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/cuda/cuda_sizes.h"
#include "checkpoint/temp_dir.h"
#include "plan/plan_internal.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cpu/cpu_backend.h"

#define MIB ((uint64_t)1 << 20)

enum model_name { M2B, M4B, MODELS };

static struct checkpoint *files[MODELS];
static struct model models[MODELS];
static struct backend *gpu_backend, *cpu;
static struct pool *pool;
static char directory[512];

static int open_models(void **state)
{
    static const char *const kinds[] = {"qwen3-vl-2b-fp8", "qwen3-vl-4b-fp8"};
    ey_err e;
    (void)state;
    snprintf(directory, sizeof(directory), "%s", temp_dir_make());
    for (int i = 0; i < MODELS; i++) {
        char command[1400], path[600];
        snprintf(path, sizeof(path), "%s/%s", directory, kinds[i]);
        snprintf(command, sizeof(command), "'%s' --like %s --sparse '%s' > /dev/null", MKCHECKPOINT,
                 kinds[i], path);
        if (system(command) != 0 || !checkpoint_open(&files[i], path, &e) ||
            !model_open(&models[i], files[i], NULL, &e))
            return -1;
    }
    return backend_cuda_create_simulated(&gpu_backend, &e) && pool_create(&pool, 4, &e) &&
                   backend_cpu_create(&cpu, pool, NULL, &e)
               ? 0
               : -1;
}

static int close_models(void **state)
{
    (void)state;
    for (int i = 0; i < MODELS; i++) {
        model_close(&models[i]);
        checkpoint_close(files[i]);
    }
    gpu_backend->ops->destroy(gpu_backend);
    cpu->ops->destroy(cpu);
    pool_destroy(&pool);
    temp_dir_remove(directory);
    return 0;
}

/* ---- GPUs ---- */

static struct device_info gpu_info(int total, int used, int sm_count)
{
    return (struct device_info){.name = "cuda:0",
                                .is_gpu = true,
                                .sm_count = sm_count,
                                .total = (uint64_t)total * MIB,
                                .free = (uint64_t)(total - used) * MIB,
                                .context = gpu_context_bytes(sm_count)};
}

/* An RTX 5060 whose desktop holds 1,151 MiB. */
static struct device_info desktop_gpu(void)
{
    return gpu_info(8151, 1151, 30);
}

/* An H200 with all but this many MiB taken by another process. */
static struct device_info ballast_gpu(int free)
{
    return gpu_info(143771, 143771 - free, 132);
}

static struct plan plan_of(enum model_name name, const struct device_info *info,
                           const struct plan_limits *limits)
{
    struct plan p;
    ey_err e;
    if (!plan_make(&p, &models[name], gpu_backend, info, limits, &e)) fail_msg("%s", e.text);
    return p;
}

static void print_plan(const struct plan *p)
{
    ey_plan_item items[PLAN_ROWS];
    int n = plan_items(p, items);
    char rule[160];
    plan_budget_text(&p->budget, rule, sizeof(rule));
    for (int i = 0; i < n; i++)
        printf("  %-28s %-6s %8.1f MiB\n", items[i].name, items[i].device,
               (double)items[i].bytes / (double)MIB);
    printf("  in all %.1f of %s\n  context %d, pool %d, rows %d, %s\n",
           (double)p->allocated / (double)MIB, rule, p->max_model_len, p->kv_tokens, p->max_rows,
           p->fits ? "fits" : "does not fit");
    for (int i = 0; i < p->n_choices; i++)
        printf("  %s\n", p->choice[i]);
}

static void must_fit(const struct plan *p, const char *what)
{
    if (p->fits) return;
    print_plan(p);
    fail_msg("%s does not fit", what);
}

/* ---- settings that must fit on a desktop's GPU ---- */

struct setting {
    const char *what;
    enum model_name model;
    double utilization;
    int context;
    bool short_head; /* whether it needs an 8-bit head */
};

static const struct setting settings[] = {
    {"2B at 0.40, 2,048 tokens", M2B, 0.40, 2048, false},
    {"2B at 0.70", M2B, 0.70, 0, false},
    {"2B at 0.75", M2B, 0.75, 0, false},
    {"4B at 0.80, 4,096 tokens", M4B, 0.80, 4096, false},
    {"4B at 0.75, 512 tokens", M4B, 0.75, 512, false},
    {"4B at 0.70, 2,048 tokens", M4B, 0.70, 2048, false},
    {"4B at 0.65, 1,024 tokens", M4B, 0.65, 1024, true},
};

static void desktop_settings_fit(void **state)
{
    (void)state;
    struct device_info info = desktop_gpu();
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        const struct setting *s = &settings[i];
        struct plan_limits limits = {.utilization = s->utilization, .max_model_len = s->context};
        struct plan p = plan_of(s->model, &info, &limits);
        must_fit(&p, s->what);
        assert_int_equal(p.max_num_seqs, p.kv_tokens < 4096 ? 4 : p.kv_tokens / 1024);
        if (s->context)
            assert_int_equal(p.max_model_len, s->context);
        else
            assert_int_equal(p.kv_tokens, 16384);
        assert_int_equal(p.knobs.lm_head, s->short_head ? LM_HEAD_8BIT : LM_HEAD_BF16);
        assert_int_equal(p.knobs.vision, VISION_RESIDENT);
        assert_int_equal(p.knobs.kv, PLAN_KV_BF16);
        assert_true(p.kv_tokens >= p.max_model_len && p.kv_tokens <= 16384);
    }
}

/* ---- limits that the project set itself, on an H200 ---- */

static void totals(void **state)
{
    (void)state;
    static const struct {
        enum model_name model;
        struct plan_knobs knobs;
        int most;
    } rows[] = {
        {M2B, {PLAN_KV_BF16, LM_HEAD_BF16, VISION_RESIDENT, HEAD_ROWS_AUTO}, 3650},
        {M2B, {PLAN_KV_FP8, LM_HEAD_8BIT, VISION_STREAMED, HEAD_ROWS_AUTO}, 2700},
        {M4B, {PLAN_KV_BF16, LM_HEAD_BF16, VISION_RESIDENT, HEAD_ROWS_AUTO}, 6000},
        {M4B, {PLAN_KV_FP8, LM_HEAD_8BIT, VISION_STREAMED, HEAD_ROWS_AUTO}, 4900},
    };
    struct device_info info = ballast_gpu(143771);
    info.context = 527 * MIB;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct plan_limits limits = {
            .max_model_len = 2048, .max_num_seqs = 1, .knobs = rows[i].knobs};
        struct plan p = plan_of(rows[i].model, &info, &limits);
        if (p.allocated <= (uint64_t)rows[i].most * MIB) continue;
        print_plan(&p);
        fail_msg("more than %d MiB", rows[i].most);
    }
}

/* ---- 8 GiB and less, as tests/gpu/eight_gb.sh leaves ---- */

static void seven_thousand(void **state)
{
    (void)state;
    struct device_info info = ballast_gpu(7000);
    struct plan_limits limits = {0};
    struct plan p = plan_of(M2B, &info, &limits);
    must_fit(&p, "2B");
    assert_int_equal(p.kv_tokens, 16384);
    assert_int_equal(p.max_num_seqs, 16);
    assert_int_equal(p.knobs.kv, PLAN_KV_BF16);
    limits.max_model_len = 4096;
    p = plan_of(M4B, &info, &limits);
    must_fit(&p, "4B with 4,096 tokens");
    assert_true(p.kv_tokens >= 4096);
    limits.max_model_len = 0;
    p = plan_of(M4B, &info, &limits);
    must_fit(&p, "4B");
    assert_int_equal(p.max_model_len, 16384);
    assert_int_equal(p.knobs.kv, PLAN_KV_FP8);
}

static void choices_make_models_fit(void **state)
{
    (void)state;
    struct device_info info = ballast_gpu(3500);
    struct plan_limits limits = {0};
    struct plan p = plan_of(M2B, &info, &limits);
    must_fit(&p, "2B in 3,500 MiB");
    assert_int_equal(p.knobs.lm_head, LM_HEAD_8BIT);
    assert_int_equal(p.knobs.vision, VISION_STREAMED);
    assert_int_equal(p.knobs.kv, PLAN_KV_FP8);
    assert_true(p.max_model_len >= 2048 && p.max_model_len < 16384);
    assert_int_equal(p.n_choices, 7); /* including --head-rows and --max-num-seqs */
    /* the context is the longest that fits */
    limits.knobs = p.knobs;
    limits.max_model_len = p.max_model_len + KV_BLOCK;
    struct plan q = plan_of(M2B, &info, &limits);
    assert_false(q.fits);
}

static bool has_choice(const struct plan *p, const char *words)
{
    bool has = false;
    for (int i = 0; i < p->n_choices; i++)
        has |= strstr(p->choice[i], words) != NULL;
    return has;
}

/* BF16 rows of an 8-bit head are pinned unless pinning is known to fail. GPU memory is the same
 * either way. */
static void head_rows_are_pinned_if_possible(void **state)
{
    (void)state;
    const uint64_t rows = (uint64_t)151936 * 2048 * 2;
    struct device_info info = ballast_gpu(7000);
    struct plan_limits limits = {.knobs.lm_head = LM_HEAD_8BIT};
    const struct plan unknown = plan_of(M2B, &info, &limits);
    assert_int_equal(unknown.knobs.lm_head_rows, HEAD_ROWS_PINNED);
    assert_true(unknown.limits.read_pinned_rows);
    assert_int_equal(unknown.bytes[PLAN_PINNED_ROWS], rows);
    assert_int_equal(unknown.bytes[PLAN_FILE_WEIGHTS], 0);
    assert_true(has_choice(&unknown,
                           "--head-rows pinned: 593 MiB of the file stay in memory for the GPU to "
                           "read, if the system allows it; else host"));
    info.pinned_reads = PINNED_READS_ALLOWED;
    info.host_free = 2 * rows;
    struct plan p = plan_of(M2B, &info, &limits);
    assert_int_equal(p.knobs.lm_head_rows, HEAD_ROWS_PINNED);
    assert_false(has_choice(&p, "if the system allows it"));
    info.host_free = 2 * rows - 1;
    p = plan_of(M2B, &info, &limits);
    assert_int_equal(p.knobs.lm_head_rows, HEAD_ROWS_HOST);
    assert_true(has_choice(&p, "--head-rows host: pinned rows would take more than half"));
    limits.knobs.lm_head_rows = HEAD_ROWS_PINNED; /* given by the user */
    p = plan_of(M2B, &info, &limits);
    assert_int_equal(p.knobs.lm_head_rows, HEAD_ROWS_PINNED);
    assert_false(has_choice(&p, "--head-rows"));
    info.pinned_reads = PINNED_READS_DENIED;
    limits.knobs.lm_head_rows = HEAD_ROWS_AUTO;
    p = plan_of(M2B, &info, &limits);
    assert_int_equal(p.knobs.lm_head_rows, HEAD_ROWS_HOST);
    assert_false(p.limits.read_pinned_rows);
    assert_int_equal(p.bytes[PLAN_PINNED_ROWS], 0);
    assert_int_equal(p.bytes[PLAN_FILE_WEIGHTS], rows);
    assert_int_equal(p.allocated, unknown.allocated);
    assert_true(has_choice(&p, "--head-rows host: this system does not let the GPU read"));
    limits.knobs.lm_head_rows = HEAD_ROWS_PINNED;
    ey_err e;
    assert_false(plan_make(&p, &models[M2B], gpu_backend, &info, &limits, &e));
    assert_non_null(strstr(
        e.text, "--head-rows pinned: this system does not let the GPU read the model's file"));
    limits.knobs = (struct plan_knobs){.lm_head = LM_HEAD_BF16};
    info.pinned_reads = PINNED_READS_ALLOWED;
    p = plan_of(M2B, &info, &limits);
    assert_int_equal(p.knobs.lm_head_rows, HEAD_ROWS_AUTO);
    assert_int_equal(p.bytes[PLAN_PINNED_ROWS] + p.bytes[PLAN_FILE_WEIGHTS], 0);
}

static const struct plan_suggestion *find_change(const struct plan_suggestion *changes, int n,
                                                 const char *options)
{
    for (int i = 0; i < n; i++)
        if (strstr(changes[i].options, options)) return &changes[i];
    fail_msg("no change %s", options);
    return NULL;
}

static void refusal(void **state)
{
    (void)state;
    struct device_info info = ballast_gpu(2000);
    struct plan_limits limits = {0};
    struct plan_suggestion changes[PLAN_SUGGESTIONS];
    struct plan p = plan_of(M2B, &info, &limits);
    assert_false(p.fits);
    assert_int_equal(p.budget.bytes, 1744 * MIB);
    info = desktop_gpu();
    limits.max_model_len = 65536;
    p = plan_of(M4B, &info, &limits);
    assert_false(p.fits);
    int n = plan_suggestions(changes, &p, &models[M4B], gpu_backend, &limits);
    assert_true(find_change(changes, n, "--max-model-len 2048")->fits);
    assert_non_null(find_change(changes, n, "--model Qwen/Qwen3-VL-2B-Instruct-FP8"));
    for (int i = 0; i < n; i++)
        assert_true(changes[i].fits == (changes[i].total <= p.budget.bytes) ||
                    strstr(changes[i].options, "utilization"));
}

/* A caller who follows a suggestion must get a plan that fits, with the KV pool that was given or
 * that serving implies. */
static void suggested_contexts_fit(void **state)
{
    (void)state;
    struct device_info gpu = desktop_gpu(), host = {.name = "host"};
    struct plan_limits limits = {.max_model_len = 65536, .kv_tokens = 65536};
    struct plan_suggestion changes[PLAN_SUGGESTIONS];
    struct plan p = plan_of(M4B, &gpu, &limits), small, large;
    ey_err e;
    assert_false(p.fits);
    int n = plan_suggestions(changes, &p, &models[M4B], gpu_backend, &limits);
    assert_true(find_change(changes, n, "--max-model-len 2048 --kv-tokens 2048")->fits);

    limits = (struct plan_limits){.max_model_len = 4096, .serving = true};
    assert_true(plan_make(&large, &models[M2B], cpu, &host, &limits, &e));
    limits.kv_tokens = 4096;
    assert_true(plan_make(&small, &models[M2B], cpu, &host, &limits, &e));
    assert_true(small.allocated < large.allocated);
    host.free = small.allocated + (large.allocated - small.allocated) / 2;
    limits = (struct plan_limits){.max_model_len = 4096, .serving = true};
    limits.max_model_len = plan_longest_context(&models[M2B], cpu, &host, &limits);
    assert_true(!limits.max_model_len ||
                (plan_make(&p, &models[M2B], cpu, &host, &limits, &e) && p.fits));
}

/* ---- budget ---- */

static void budgets(void **state)
{
    (void)state;
    static const struct {
        int free, used; /* of 8,151 */
        bool wsl2;
        double utilization;
        int given, budget; /* MiB */
        bool by_share;
    } rows[] = {
        {7000, 1151, false, 0, 0, 6720, false},   {7000, 1151, true, 0, 0, 6580, false},
        {7000, 1151, false, 0.4, 0, 3260, true},  {7000, 1151, false, 0.97, 0, 6720, false},
        {7000, 1151, false, 0, 5000, 5000, true}, {3500, 4651, false, 0, 0, 3244, false},
        {8151, 0, false, 0, 0, 7498, true},       {200, 7951, false, 0, 0, 0, false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct device_info info = gpu_info(8151, rows[i].used, 30);
        struct plan_limits limits = {.utilization = rows[i].utilization,
                                     .device_bytes = (uint64_t)rows[i].given * MIB};
        info.wsl2 = rows[i].wsl2;
        struct plan p = plan_of(M2B, &info, &limits);
        char text[160];
        plan_budget_text(&p.budget, text, sizeof(text));
        assert_int_equal(p.budget.bytes / MIB, rows[i].budget);
        assert_int_equal(p.budget.by == BUDGET_BY_SHARE, rows[i].by_share);
        assert_non_null(strstr(text, "is more"));
    }
}

/* A given option is kept, whatever it costs. */
static void given_options_are_kept(void **state)
{
    (void)state;
    struct device_info info = ballast_gpu(3500);
    struct plan_limits limits = {.knobs = {.kv = PLAN_KV_BF16}};
    struct plan p = plan_of(M2B, &info, &limits);
    assert_int_equal(p.knobs.kv, PLAN_KV_BF16);
    limits.knobs = (struct plan_knobs){.lm_head = LM_HEAD_BF16, .vision = VISION_RESIDENT};
    p = plan_of(M2B, &info, &limits);
    assert_false(p.fits);
    struct plan_suggestion changes[PLAN_SUGGESTIONS];
    int n = plan_suggestions(changes, &p, &models[M2B], gpu_backend, &limits);
    assert_true(find_change(changes, n, "--vision-weights streamed")->fits);
    limits = (struct plan_limits){.max_num_batched_tokens = 1500, .max_model_len = 2048};
    info = desktop_gpu();
    p = plan_of(M4B, &info, &limits);
    assert_int_equal(p.max_rows, 1500);
    assert_int_equal(p.n_choices, 0);
}

/* ---- the sums ---- */

static void arena_holds_all(void **state)
{
    (void)state;
    struct device_info info = desktop_gpu();
    struct plan_limits limits = {0};
    struct plan p = plan_of(M4B, &info, &limits);
    ey_plan_item items[PLAN_ROWS];
    uint64_t sum = 0;
    int n = plan_items(&p, items);
    for (int i = 0; i < n; i++)
        if (strcmp(items[i].device, "cuda:0") == 0) {
            assert_int_equal(items[i].bytes % CUDA_ALIGN, 0);
            sum += items[i].bytes;
        }
    assert_int_equal(sum, p.allocated);
    assert_int_equal(p.arena_bytes + p.bytes[PLAN_CONTEXT], p.allocated);
    assert_int_equal(PLAN_UPLOAD_RING_BYTES, LOAD_STAGING);
}

static uint64_t bytes_on(const struct plan *p, const char *device)
{
    ey_plan_item items[PLAN_ROWS];
    uint64_t sum = 0;
    int n = plan_items(p, items);
    for (int i = 0; i < n; i++)
        if (strcmp(items[i].device, device) == 0) sum += items[i].bytes;
    return sum;
}

/* All of the vision encoder moves to the host. */
static void encoder_on_the_cpu(void **state)
{
    (void)state;
    struct device_info info = desktop_gpu();
    struct plan_limits limits = {.max_model_len = 4096, .kv_tokens = 4096}, with = limits;
    info.cpu = cpu;
    with.knobs.vision = VISION_HOST;
    struct plan p = plan_of(M2B, &info, &limits), q = plan_of(M2B, &info, &with);
    struct weight_sizes w = weight_sizes(&models[M2B], gpu_backend);
    assert_int_equal(p.allocated - p.bytes[PLAN_VISION_WEIGHTS] -
                         (p.bytes[PLAN_SHARED_WORKSPACE] - q.bytes[PLAN_SHARED_WORKSPACE]) -
                         (p.bytes[PLAN_SCRATCH] - q.bytes[PLAN_SCRATCH]),
                     q.allocated);
    assert_int_equal(bytes_on(&q, "cuda:0"), q.allocated);
    assert_true(p.bytes[PLAN_SHARED_WORKSPACE] > q.bytes[PLAN_SHARED_WORKSPACE] &&
                p.bytes[PLAN_SCRATCH] >= q.bytes[PLAN_SCRATCH]);
    assert_int_equal(bytes_on(&q, "file") - bytes_on(&p, "file"), w.vision_file);
    assert_int_equal(bytes_on(&q, "host") - bytes_on(&p, "host"),
                     q.bytes[PLAN_CPU_VISION_WORKSPACE] + q.bytes[PLAN_CPU_SCRATCH]);
    assert_int_equal(p.vision_rows, 2048);
    assert_int_equal(q.vision_rows, 512);
    assert_int_equal(q.cpu_limits.max_patches, q.max_patches);
    assert_int_equal(q.limits.max_patches, 0);
    /* F32: x, queries, keys, values and angles of each patch; attention output and MLP of each row
     * of a tile; a block of features */
    assert_int_equal(q.bytes[PLAN_CPU_VISION_WORKSPACE],
                     sizeof(float) * ((uint64_t)q.max_patches * (4 * 1024 + 64) +
                                      512 * (1024 + 4096) + FEATURE_BLOCK * 2048));
    assert_int_equal(q.bytes[PLAN_CPU_SCRATCH],
                     cpu->ops->memory->scratch_bytes(cpu, &q.cpu_limits));
}

static void encoder_on_the_cpu_as_a_suggestion(void **state)
{
    (void)state;
    ey_err e;
    struct plan q;
    struct device_info info = ballast_gpu(2000);
    struct plan_limits limits = {.max_model_len = 1024, .max_num_seqs = 1};
    struct plan_suggestion changes[PLAN_SUGGESTIONS];
    struct plan p = plan_of(M2B, &info, &limits);
    assert_false(p.fits);
    info.cpu = cpu;
    int n = plan_suggestions(changes, &p, &models[M2B], gpu_backend, &limits);
    assert_true(find_change(changes, n, "--vision-weights host")->total < p.allocated);
    info.cpu = NULL;
    limits.knobs.vision = VISION_HOST;
    assert_false(plan_make(&q, &models[M2B], gpu_backend, &info, &limits, &e));
    assert_int_equal(e.code, EY_BAD_REQUEST);
}

/* Compares with the shape in the checkpoint's own headers. */
static void smaller_model_is_right(void *user, const struct model *m)
{
    struct weight_sizes known = weight_sizes(m, gpu_backend),
                        read = weight_sizes(&models[M2B], gpu_backend);
    (void)user;
    assert_memory_equal(&known, &read, sizeof(known));
}

static void known_shapes(void **state)
{
    (void)state;
    with_smaller_model(smaller_model_is_right, NULL);
}

static void images(void **state)
{
    (void)state;
    struct device_info info = ballast_gpu(140000);
    struct plan_limits limits = {0};
    struct plan p = plan_of(M2B, &info, &limits);
    assert_int_equal(p.max_tokens_per_image, 4096);
    limits.max_pixels = UINT64_MAX;
    p = plan_of(M2B, &info, &limits);
    assert_int_equal(p.max_tokens_per_image, 8192);
    limits = (struct plan_limits){.max_model_len = 2048};
    p = plan_of(M2B, &info, &limits);
    assert_int_equal(p.max_tokens_per_image, 1024);
}

/* ---- layers on the CPU ---- */

static void some_layers_on_the_cpu(void **state)
{
    (void)state;
    struct device_info info = desktop_gpu();
    info.cpu = cpu;
    info.bandwidth = 400e9;
    info.cpu_bandwidth = 40e9;
    struct plan_limits whole = {.max_model_len = 4096, .kv_tokens = 4096}, half = whole;
    half.gpu_layers = 14;
    struct plan p = plan_of(M2B, &info, &whole), q = plan_of(M2B, &info, &half);
    struct weight_sizes w = weight_sizes(&models[M2B], gpu_backend);
    assert_int_equal(p.cpu_layers, 0);
    assert_int_equal(q.cpu_layers, 14);
    assert_int_equal(q.kv.n_layers + q.cpu_kv.n_layers, 28);
    assert_int_equal(q.kv.n_blocks, q.cpu_kv.n_blocks);
    assert_int_equal(2 * q.bytes[PLAN_KV], p.bytes[PLAN_KV]);
    assert_int_equal(q.bytes[PLAN_TEXT_WEIGHTS], p.bytes[PLAN_TEXT_WEIGHTS] - w.cpu_layers[14]);
    assert_int_equal(bytes_on(&q, "cuda:0"), q.allocated);
    assert_int_equal(bytes_on(&q, "host") - bytes_on(&p, "host"),
                     q.bytes[PLAN_CPU_KV] + q.bytes[PLAN_CPU_WORKSPACE] +
                         q.bytes[PLAN_CPU_SCRATCH] + q.bytes[PLAN_IMAGE_CACHE]);
    assert_int_equal(bytes_on(&q, "file") - bytes_on(&p, "file"), w.cpu_layers_file[14]);
    assert_int_equal(q.cpu_layers_bytes,
                     w.cpu_layers_file[14] + q.bytes[PLAN_CPU_KV] + q.bytes[PLAN_CPU_WORKSPACE]);
    double seconds = (double)(q.bytes[PLAN_TEXT_WEIGHTS] + q.bytes[PLAN_LM_HEAD]) / 400e9 +
                     (double)w.cpu_layers_file[14] / 40e9;
    assert_true(fabs(q.tokens_per_second * seconds - PLAN_BANDWIDTH_SHARE) < 1e-6);
}

/* With one layer more on the GPU, the plan would not fit. */
static void as_many_layers_as_fit(void **state)
{
    (void)state;
    struct device_info info = gpu_info(3072, 256, 30);
    struct plan_limits limits = {.max_model_len = 4096, .gpu_layers = PLAN_LAYERS_AUTO};
    info.cpu = cpu;
    struct plan p = plan_of(M4B, &info, &limits);
    must_fit(&p, "4B with as many layers as fit");
    assert_true(p.cpu_layers > 3 && p.cpu_layers < 36);
    limits.gpu_layers = 36 - p.cpu_layers + 1;
    struct plan more = plan_of(M4B, &info, &limits);
    assert_false(more.fits);
    limits.gpu_layers = PLAN_LAYERS_AUTO;
    limits.cpu_bytes = p.cpu_layers_bytes / 2; /* the CPU cannot hold them, either */
    assert_false(plan_of(M4B, &info, &limits).fits);
    struct device_info large = gpu_info(24564, 600, 82);
    large.cpu = cpu;
    limits.cpu_bytes = 0;
    assert_int_equal(plan_of(M4B, &large, &limits).cpu_layers, 0);
}

/* If one layer on the GPU leaves too little for a context of 4,096, a shorter one is found. */
static void short_contexts_with_few_layers(void **state)
{
    (void)state;
    struct plan_limits limits = {.gpu_layers = PLAN_LAYERS_AUTO};
    int n_short = 0;
    for (int mib = 1024; mib < 4096; mib += 32) {
        struct device_info info = gpu_info(mib, 256, 30);
        info.cpu = cpu;
        struct plan p = plan_of(M4B, &info, &limits);
        if (p.fits && p.max_model_len < 4096) n_short++;
    }
    assert_true(n_short > 0);
}

static void layers_that_stay_together(void **state)
{
    (void)state;
    struct device_info info = desktop_gpu();
    struct plan_limits limits = {.gpu_layers = 26};
    struct plan p;
    ey_err e;
    info.cpu = cpu;
    assert_false(plan_make(&p, &models[M2B], gpu_backend, &info, &limits, &e));
    assert_non_null(strstr(e.text, "use 1 to 25, or 28"));
}

/* ---- several models ---- */

/* An engine with this much of the GPU gets the same plan as the member. */
static void must_be_reproduced(const struct plan_member *m, const struct device_info *info)
{
    struct plan_limits limits = *m->limits;
    struct plan again;
    ey_err e;
    limits.utilization = 0;
    limits.device_bytes = m->plan.allocated;
    assert_true(plan_make(&again, m->model, gpu_backend, info, &limits, &e));
    assert_true(again.fits && again.allocated == m->plan.allocated &&
                again.max_model_len == m->plan.max_model_len &&
                again.kv_tokens == m->plan.kv_tokens);
}

static void two_of(struct plan_member member[2], enum model_name first, enum model_name second,
                   const struct device_info *info, const struct plan_limits *limits)
{
    ey_err e;
    member[0] = (struct plan_member){.name = "first", .model = &models[first], .limits = limits};
    member[1] = (struct plan_member){.name = "second", .model = &models[second], .limits = limits};
    if (!plan_multi_model(member, 2, gpu_backend, info, &e)) fail_msg("%s", e.text);
    for (int i = 0; i < 2; i++) {
        must_fit(&member[i].plan, member[i].name);
        must_be_reproduced(&member[i], info);
    }
}

static void models_that_share_a_gpu(void **state)
{
    (void)state;
    struct plan_member m[2];
    struct plan_limits limits = {0}, short_context = {.max_model_len = 1024};
    struct device_info large = gpu_info(24564, 600, 82), desktop = desktop_gpu();
    /* room for both */
    two_of(m, M2B, M4B, &large, &limits);
    for (int i = 0; i < 2; i++) {
        struct plan alone = plan_of(i ? M4B : M2B, &large, &limits);
        assert_true(m[i].resident && m[i].plan.allocated == alone.allocated &&
                    m[i].plan.max_model_len == 16384);
    }
    /* too little for both defaults: both shrink, but keep a useful context */
    two_of(m, M2B, M2B, &desktop, &limits);
    assert_true(m[0].resident && m[1].resident);
    assert_true(plan_member_bytes(&m[0]) + plan_member_bytes(&m[1]) + desktop.context <=
                m[0].plan.budget.free - m[0].plan.budget.margin);
    assert_true(m[0].plan.max_model_len >= 4096 && m[1].plan.max_model_len >= 4096);
    assert_true(m[0].plan.allocated == m[1].plan.allocated);
    /* too little for both: they take turns, each with the whole GPU */
    two_of(m, M2B, M4B, &desktop, &limits);
    assert_true(m[0].resident && !m[1].resident);
    for (int i = 0; i < 2; i++)
        assert_true(m[i].plan.allocated == plan_of(i ? M4B : M2B, &desktop, &limits).allocated);
    /* given options are kept */
    two_of(m, M2B, M2B, &desktop, &short_context);
    assert_true(m[0].resident && m[1].resident && m[0].plan.max_model_len == 1024);
}

static void a_model_that_never_fits(void **state)
{
    (void)state;
    struct device_info small = gpu_info(4096, 600, 30);
    struct plan_limits limits = {0};
    struct plan_member m[2] = {{.name = "first", .model = &models[M4B], .limits = &limits},
                               {.name = "second", .model = &models[M2B], .limits = &limits}};
    ey_err e;
    assert_true(plan_multi_model(m, 2, gpu_backend, &small, &e));
    assert_true(!m[0].plan.fits && !m[0].resident && m[1].plan.fits && m[1].resident);
}

static void models_that_share_a_host(void **state)
{
    (void)state;
    const uint64_t both = models[M2B].weight_bytes + models[M4B].weight_bytes;
    struct device_info host = {.name = "host",
                               .total = both + 8192 * MIB,
                               .free = both + 8192 * MIB},
                       tight = {.name = "host", .total = both, .free = both};
    struct plan_limits limits = {0};
    struct plan_member m[2] = {{.name = "first", .model = &models[M2B], .limits = &limits},
                               {.name = "second", .model = &models[M4B], .limits = &limits}};
    ey_err e;
    assert_true(plan_multi_model(m, 2, cpu, &host, &e));
    assert_true(m[0].resident && m[1].resident);
    /* their weights would exceed the memory */
    assert_true(plan_multi_model(m, 2, cpu, &tight, &e));
    assert_true(m[0].resident && !m[1].resident && m[1].plan.fits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(desktop_settings_fit),
        cmocka_unit_test(totals),
        cmocka_unit_test(seven_thousand),
        cmocka_unit_test(choices_make_models_fit),
        cmocka_unit_test(head_rows_are_pinned_if_possible),
        cmocka_unit_test(refusal),
        cmocka_unit_test(suggested_contexts_fit),
        cmocka_unit_test(budgets),
        cmocka_unit_test(given_options_are_kept),
        cmocka_unit_test(arena_holds_all),
        cmocka_unit_test(known_shapes),
        cmocka_unit_test(images),
        cmocka_unit_test(encoder_on_the_cpu),
        cmocka_unit_test(encoder_on_the_cpu_as_a_suggestion),
        cmocka_unit_test(models_that_share_a_gpu),
        cmocka_unit_test(a_model_that_never_fits),
        cmocka_unit_test(models_that_share_a_host),
        cmocka_unit_test(some_layers_on_the_cpu),
        cmocka_unit_test(as_many_layers_as_fit),
        cmocka_unit_test(short_contexts_with_few_layers),
        cmocka_unit_test(layers_that_stay_together),
    };
    return cmocka_run_group_tests(tests, open_models, close_models);
}
