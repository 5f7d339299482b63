/* SPDX-License-Identifier: Apache-2.0 */
/* GPU failures: every driver call fails once while an engine opens and while it answers; and GPUs
 * that cannot be used. Nothing is leaked, each error says what is wrong, and the engine survives a
 * failed step. */
#include "cuda/emulated.h"
#include "cuda/fake_driver.h"
#include "engine/concurrent_requests.h"
#include "models/ckpt_edit.h"
#include "backend/cuda/cuda_backend.h"

enum { A_FAILURE = 700 };

#ifdef EY_SANITIZED /* slow: only the second variant of each test, which covers more code */
enum { FIRST_LEVERS = 1 };
#else
enum { FIRST_LEVERS = 0 };
#endif

static struct question q;

static ey_engine_options gpu_options(void)
{
    ey_engine_options o = ey_engine_defaults();
    o.device = "cuda";
    o.threads = 2;
    o.max_model_len = 256;
    o.max_num_seqs = 2;
    o.max_num_batched_tokens = 64;
    o.model = ckpt_make(fixture_dir(), "tiny-ragged-fp8");
    return o;
}

static void assert_all_is_given_back(const char *what)
{
    struct fake_counts n = fake_driver_counts();
    int live = n.contexts + n.device_allocations + n.host_allocations + n.pinned_ranges +
               n.modules + n.streams + n.events + n.graphs;
    if (live || n.device_bytes)
        fail_msg("%s: %d objects and %zu bytes are leaked on the GPU", what, live, n.device_bytes);
}

/* ---- while opening ---- */

static const char *const members[] = {
#define MEMBER_NAME(member, symbol, args) #member,
    CUDA_FUNCTIONS(MEMBER_NAME)
#undef MEMBER_NAME
};
enum { N_MEMBERS = sizeof(members) / sizeof(members[0]) };

/* Calls that opening can do without, or that the engine's thread repeats. */
static bool is_optional(const char *member)
{
    static const char *const optional[] = {"context_limit", "context_current", "host_register",
                                           "host_address"};
    for (size_t i = 0; i < sizeof(optional) / sizeof(optional[0]); i++)
        if (strcmp(member, optional[i]) == 0) return true;
    return false;
}

/* Failures of these calls are ignored, since nothing can be done about them. */
static bool gives_back(const char *member)
{
    return strcmp(member, "memory_free") == 0 || strcmp(member, "graph_destroy") == 0 ||
           strcmp(member, "host_unregister") == 0;
}

/* Returns false if opening needs fewer than nth calls. */
static bool fails_at(const ey_engine_options *options, const char *member, int nth)
{
    char what[80];
    ey_engine *engine = NULL;
    ey_err e = {0};
    snprintf(what, sizeof(what), "call %d of %s", nth, member);
    fake_open_fail(member, nth, A_FAILURE);
    bool ok = ey_engine_open(&engine, options, &e), failed = fake_driver_failed();
    if (ok && failed && !is_optional(member)) fail_msg("%s failed without an error", what);
    if (!ok && !failed) fail_msg("%s: %s", what, e.text);
    if (!ok && (e.code == EY_OK || !strstr(e.text, "an error of a test")))
        fail_msg("%s: code %d, \"%s\"", what, (int)e.code, e.text);
    fake_driver_fail(NULL, 0, 0);
    ey_engine_close(&engine);
    assert_all_is_given_back(what);
    return failed;
}

static void each_call_fails_while_opening(void **state)
{
    (void)state;
    for (int levers = FIRST_LEVERS; levers < 2; levers++) {
        ey_engine_options o = gpu_options();
        if (levers) {
            o.lm_head = "8bit";
            o.vision_weights = "streamed";
            o.kv_cache_dtype = "fp8";
        }
        int n_failures = 0;
        for (int i = 0; i < N_MEMBERS; i++)
            for (int nth = 1; !gives_back(members[i]) && fails_at(&o, members[i], nth);
                 nth = nth < 4 ? nth + 1 : nth * 2)
                n_failures++;
        assert_true(n_failures > 60);
    }
}

/* ---- while answering ---- */

static void assert_fails(ey_engine *engine, const char *member)
{
    ey_answer answer;
    ey_err e = {0};
    bool ok = ey_ask(engine, &q.request, &answer, &e);
    if (ok) fail_msg("%s failed, and the answer is \"%s\"", member, answer.text);
    assert_int_equal(e.code, EY_INTERNAL);
    if (!strstr(e.text, "an error of a test")) fail_msg("%s: \"%s\"", member, e.text);
    ey_answer_free(&answer);
    assert_at_rest(engine);
}

/* In a sequence of requests one fails; the next is computed from scratch and gets its answer. */
static void a_failed_step_ends_its_requests_alone(void **state)
{
    (void)state;
    static const struct {
        const char *member;
        int nth;
    } rows[] = {
        {"launch", 1},       {"launch", 30},           {"to_device", 2},    {"stream_sync", 1},
        {"stream_sync", 4},  {"event_sync", 1},        {"event_record", 1}, {"graph_launch", 1},
        {"graph_launch", 2}, {"function_attribute", 1}};
    enum { N_ROWS = sizeof(rows) / sizeof(rows[0]), OF_TOWER = 4 };
    for (int streamed = FIRST_LEVERS; streamed < 2; streamed++) {
        ey_engine_options o = gpu_options();
        ey_err e;
        ey_engine *engine;
        o.vision_weights = streamed ? "streamed" : "resident";
        if (!ey_engine_open(&engine, &o, &e)) fail_msg("%s", e.text);
        question_start(&q, 3);
        question_turn(&q, "user");
        question_part(&q, test_image(64, 64, 1));
        question_text(&q, "?");
        ey_answer whole = ask(engine, &q);
        for (size_t i = 0; i < (streamed ? OF_TOWER : N_ROWS); i++) {
            fake_driver_fail(rows[i].member, rows[i].nth, A_FAILURE);
            assert_fails(engine, rows[i].member);
            ey_answer again = ask(engine, &q);
            assert_same_answer(&whole, &again, rows[i].member);
            ey_answer_free(&again);
        }
        ey_answer_free(&whole);
        ey_engine_close(&engine);
        assert_all_is_given_back("after failed steps");
    }
}

/* Both running requests fail; the waiting one gets its answer. */
static void waiting_requests_survive_a_failure(void **state)
{
    (void)state;
    static struct question questions[3];
    ey_generation *generations[3];
    ey_engine_options o = gpu_options();
    ey_err e;
    ey_engine *engine;
    if (!ey_engine_open(&engine, &o, &e)) fail_msg("%s", e.text);
    pthread_mutex_lock(&engine->devices.lock); /* all are queued before the first step */
    for (int i = 0; i < 3; i++) {
        ey_prompt *prompt;
        question_simple(&questions[i], 0, "Count.", 3);
        if (!ey_prompt_prepare(engine, &questions[i].request, &prompt, &e) ||
            !ey_generation_start(engine, prompt, &questions[i].request, &generations[i], &e))
            fail_msg("%s", e.text);
        ey_prompt_free(&prompt);
    }
    fake_driver_fail("graph_launch", 1, A_FAILURE); /* their second step */
    pthread_mutex_unlock(&engine->devices.lock);
    int n_failed = 0;
    for (int i = 0; i < 3; i++) {
        ey_answer answer;
        bool ok = ey_generation_collect(&generations[i], &answer, &e);
        n_failed += !ok;
        if (i == 2) assert_true(ok);
        ey_answer_free(&answer);
    }
    assert_in_range(n_failed, 1, 2); /* the first may have run alone */
    assert_int_equal(ey_engine_stats(engine).failed, n_failed);
    assert_at_rest(engine);
    ey_engine_close(&engine);
    assert_all_is_given_back("after two failed");
}

/* ---- GPUs that cannot be used ---- */

/* Opens `device`: expects a backend with this name, or this error code and text. */
static void expect(const char *device, const char *name, ey_code code, const char *words)
{
    ey_engine_options o = gpu_options();
    ey_engine *engine = NULL;
    ey_err e = {0};
    o.device = device;
    bool ok = ey_engine_open(&engine, &o, &e);
    if (ok != (name != NULL)) fail_msg("%s: %s", device, ok ? "it was opened" : e.text);
    if (ok)
        assert_string_equal(engine->devices.be->ops->name, name);
    else if (e.code != code || !strstr(e.text, words))
        fail_msg("%s: code %d, \"%s\"", device, (int)e.code, e.text);
    ey_engine_close(&engine);
}

static void no_usable_gpu(void **state)
{
    (void)state;
    struct fake_gpu gpu;
    const struct fake_gpu good = fake_small_gpu;
    fake_open_gpu(NULL);
    expect("cuda", NULL, EY_NO_DEVICE, "no NVIDIA driver");
    expect("auto", "cpu", EY_OK, NULL);
    fake_open_gpu(&gpu);
    gpu = good;
    gpu.n_gpus = 0;
    expect("cuda", NULL, EY_NO_DEVICE, "there is no NVIDIA GPU");
    expect("auto", "cpu", EY_OK, NULL);
    gpu = good;
    gpu.major = 7;
    gpu.minor = 5;
    expect("cuda", NULL, EY_NO_DEVICE, "compute capability 7.5; 8.0 or higher is needed");
    expect("auto", "cpu", EY_OK, NULL);
    gpu = good;
    gpu.driver_version = 11080;
    expect("cuda", NULL, EY_NO_DEVICE,
           "the driver knows CUDA 11.8; this build needs 12.0: install a newer driver");
    expect("auto", "cpu", EY_OK, NULL);
    gpu = good;
    static const struct {
        CUresult result;
        const char *words;
    } starts[] = {{CUDA_ERROR_NO_DEVICE, "CUDA_VISIBLE_DEVICES"},
                  {CUDA_ERROR_NOT_PERMITTED, "permissions of /dev/nvidia*"},
                  {CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "restart"},
                  {999, "it cannot be used"}};
    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
        fake_open_fail("init", 1, starts[i].result);
        expect("cuda", NULL, EY_NO_DEVICE, starts[i].words);
        fake_open_fail("init", 1, starts[i].result);
        expect("auto", "cpu", EY_OK, NULL);
    }
    fake_open_fail("module_load", 1, CUDA_ERROR_NO_BINARY_FOR_GPU);
    expect("cuda", NULL, EY_NO_DEVICE,
           "this build has kernels for sm_emulated, and the GPU is sm_120");
    expect("auto", "cuda", EY_OK, NULL);
    assert_all_is_given_back("after GPUs that cannot be used");
    fake_open_gpu(&fake_small_gpu);
}

/* A GPU without free memory is an error; "auto" does not fall back to the CPU. */
static void too_little_memory(void **state)
{
    (void)state;
    struct fake_gpu gpu = fake_small_gpu;
    gpu.used_by_others = gpu.total - gpu.context_bytes - ((size_t)262 << 20);
    fake_open_gpu(&gpu);
    expect("cuda", NULL, EY_NO_MEMORY, "does not fit on cuda:0");
    expect("cuda", NULL, EY_NO_MEMORY, "Alternatives: --");
    expect("cuda", NULL, EY_NO_MEMORY, "--device cpu: ");
    expect("auto", NULL, EY_NO_MEMORY, "does not fit on cuda:0");
    fake_open_gpu(&fake_small_gpu);
    /* another program took the memory meanwhile */
    fake_open_fail("memory_alloc", 1, CUDA_ERROR_OUT_OF_MEMORY);
    expect("cuda", NULL, EY_NO_MEMORY, "another program may have taken the GPU's memory");
    fake_open_fail("context_retain", 1, CUDA_ERROR_OUT_OF_MEMORY);
    expect("auto", NULL, EY_NO_MEMORY, "no context");
    assert_all_is_given_back("after too little memory");
}

/* Shapes that config.json may have but that exceed the kernels' limits. */
static void shapes_that_are_too_large(void **state)
{
    (void)state;
    static const struct {
        struct text_shape text;
        struct vision_shape vision;
        const char *words;
    } rows[] = {
        {{.head_dim = 258, .vocab_size = 2000, .hidden = 64},
         {0},
         "head_dim is 258; on a GPU at most 256"},
        {{.head_dim = 256, .vocab_size = 1 << 20, .hidden = 64}, {0}, "vocab_size is 1048576"},
        {{.head_dim = 256, .vocab_size = 640000, .hidden = 65536}, {0}, "hidden_size is 65536"},
        {{.head_dim = 256, .vocab_size = 640000, .hidden = 32768},
         {.depth = 1, .head_dim = 260},
         "vision head size is 260"},
        {{.head_dim = 256, .vocab_size = 640000, .hidden = 32768},
         {.depth = 1, .head_dim = 256},
         NULL},
    };
    struct backend *be;
    ey_err e;
    assert_true(backend_cuda_create_simulated(&be, &e));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        bool ok = be->ops->compute->check_shapes(&rows[i].text, &rows[i].vision, &e);
        assert_int_equal(ok, rows[i].words == NULL);
        if (!ok && (e.code != EY_BAD_MODEL || !strstr(e.text, rows[i].words)))
            fail_msg("\"%s\"", e.text);
    }
    be->ops->destroy(be);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_call_fails_while_opening),
        cmocka_unit_test(a_failed_step_ends_its_requests_alone),
        cmocka_unit_test(waiting_requests_survive_a_failure),
        cmocka_unit_test(no_usable_gpu),
        cmocka_unit_test(too_little_memory),
        cmocka_unit_test(shapes_that_are_too_large),
    };
    return cmocka_run_group_tests(tests, engine_fixture_open, engine_fixture_close);
}
