/* SPDX-License-Identifier: Apache-2.0 */
/* The engine on the fake GPU, with kernels in the emulator and a driver that counts calls: memory
 * equals the plan, answers equal the CPU's, and concurrent, captured, cached or preempted requests
 * give the same answers as alone. */
#include "base/allocations.h"
#include "cuda/emulated.h"
#include "cuda/fake_driver.h"
#include "engine/concurrent_requests.h"
#include "engine/decode_allocations.h"
#include "models/ckpt_edit.h"

enum { SLOTS = 4 };

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
    o.max_model_len = 512;
    o.kv_tokens = 1024;
    o.max_num_seqs = SLOTS;
    o.max_num_batched_tokens = 128;
    return o;
}

static ey_engine *open_gpu(void)
{
    return engine_open_with("tiny-ragged-fp8", gpu_options());
}

static void close_gpu(ey_engine **engine)
{
    ey_engine_close(engine);
    struct fake_counts n = fake_driver_counts();
    assert_int_equal(n.device_bytes, 0);
    assert_int_equal(n.contexts + n.device_allocations + n.host_allocations + n.pinned_ranges +
                         n.modules + n.streams + n.events + n.graphs,
                     0);
}

/* ---- memory ---- */

static void device_memory_is_the_plan(void **state)
{
    (void)state;
    static const char *const levers[][3] = {{"bf16", "bf16", "resident"},
                                            {"fp8", "8bit", "streamed"}};
    static const char *const kinds[] = {"tiny-ragged-fp8", "tiny-head72-bf16", "tiny-head72-bf16",
                                        "tiny-head72-bf16"},
                             *const quantize[] = {NULL, NULL, "fp8", "int4"};
    for (size_t k = 0; k < 4; k++)
        for (size_t i = 0; i < 2; i++) {
            ey_engine_options o = gpu_options();
            o.prefill_math = i ? "fp8" : NULL;
            o.kv_cache_dtype = levers[i][0];
            o.lm_head = levers[i][1];
            o.vision_weights = levers[i][2];
            o.quantize = quantize[k];
            o.group_size = k == 3 ? 64 : 0;
            ey_engine *engine = engine_open_with(kinds[k], o);
            struct fake_counts n = fake_driver_counts();
            struct gpu_info facts;
            ey_err e;
            assert_int_equal(n.device_bytes, engine->buffers.plan.arena_bytes);
            assert_int_equal(n.device_allocations, 1);
            assert_int_equal(n.lazy_functions, 0);
            assert_int_equal(n.graphs, SLOTS);
            size_t pinned = (size_t)engine->buffers.plan.bytes[PLAN_PINNED_ROWS],
                   page = 4096; /* whole pages, plus partial ones at the ends */
            assert_true(i ? pinned && n.pinned_bytes >= pinned &&
                                n.pinned_bytes <= pinned + 4 * page
                          : !pinned && !n.pinned_ranges);
            assert_true(engine->devices.be->ops->device->info(engine->devices.be, &facts, &e));
            assert_int_equal(facts.total - facts.free, fake_small_gpu.used_by_others +
                                                           fake_small_gpu.context_bytes +
                                                           engine->buffers.plan.arena_bytes);
            close_gpu(&engine);
        }
}

/* ---- requests of all kinds ---- */

enum { MIXED = 8 };
static struct question mixed[MIXED];
static struct concurrent_request members[MIXED];
static const ey_sampling drawn = {.temperature = 0.9f,
                                  .top_k = 20,
                                  .top_p = 0.95f,
                                  .repetition_penalty = 1.1f,
                                  .presence_penalty = 0.4f,
                                  .frequency_penalty = 0.2f,
                                  .seed = 7};
static const char long_text[] =
    "Here is a list of things that may be in an image: a tree, a house, a river with two boats, a "
    "bridge of stone, a hill, clouds, a dog that "
    "runs after a ball, a road, and far behind them the sea. Say which of them you like best, and "
    "why.";

static void build_mixed(ey_grammar *grammar, bool fresh)
{
    static const ey_logit_bias bias[] = {{300, 4.5f}, {301, -100}};
    question_simple(&mixed[0], 1, "What is this?", 6);
    question_simple(&mixed[1], 2, "Which is larger?", 5);
    question_simple(&mixed[2], 0, long_text, 9);
    question_simple(&mixed[3], 0, "Count.", 12);
    mixed[3].request.sampling = drawn;
    mixed[3].request.top_logprobs = 5;
    question_simple(&mixed[4], 0, "One of them:", 8);
    mixed[4].request.grammar = grammar;
    mixed[4].request.ignore_eos = false;
    question_simple(&mixed[5], 1, "Name it.", 4);
    mixed[5].request.logit_bias = bias;
    mixed[5].request.n_logit_bias = 2;
    mixed[5].request.top_logprobs = 20;
    question_simple(&mixed[6], 0, "Anything.", 5);
    mixed[6].request.sampling.temperature = 1.2f;
    mixed[6].request.sampling.seed = 3;              /* sampled from the whole vocabulary */
    question_simple(&mixed[7], 3, "And these?", 40); /* cancelled midway */
    for (int i = 0; i < MIXED; i++) {
        mixed[i].request.no_prefix_cache = fresh;
        members[i].request = mixed[i].request;
    }
}

static void run_mixed(ey_engine *engine)
{
    engine->limits.max_unread =
        20; /* so the last answer, of 40 tokens, is not complete when it is cancelled */
    for (int i = 0; i < MIXED; i++)
        concurrent_request_start(&members[i], engine);
    while (!members[7].n_tokens && !members[7].done)
        concurrent_request_poll(&members[7], 1000);
    ey_generation_cancel(members[7].gen);
    for (int i = 0; i < MIXED; i++)
        concurrent_request_collect(&members[i]);
    assert_int_equal(members[7].answer.finish_reason, EY_FINISH_CANCELLED);
    assert_true(strcmp(members[4].answer.text, "yellow") == 0 ||
                strcmp(members[4].answer.text, "blue") == 0);
    assert_at_rest(engine);
}

static void nothing_is_allocated_after_the_start(void **state)
{
    (void)state;
    static const char *const colours[] = {"yellow", "blue"};
    ey_grammar *grammar;
    ey_err e;
    assert_true(ey_grammar_of_choices(&grammar, colours, 2, &e));
    for (int levers = FIRST_LEVERS; levers < 2; levers++) {
        ey_engine_options o = gpu_options();
        if (levers) {
            o.lm_head = "8bit";
            o.vision_weights = "streamed";
            o.kv_cache_dtype = "fp8";
        }
        ey_engine *engine = engine_open_with("tiny-ragged-fp8", o);
        struct fake_counts before = fake_driver_counts();
        build_mixed(grammar, levers);
        run_mixed(engine);
        concurrent_requests_free(members, MIXED);
        struct fake_counts after = fake_driver_counts();
        assert_int_equal(after.calls_that_allocate, before.calls_that_allocate);
        assert_int_equal(after.device_peak, before.device_peak);
        assert_int_equal(after.device_bytes, engine->buffers.plan.arena_bytes);
        assert_int_equal(after.lazy_functions, 0);
        assert_true(after.graph_launches > 0);
        close_gpu(&engine);
    }
    ey_grammar_free(&grammar);
}

/* Crosses a block border. The fake driver's own allocations are not counted. */
static void decode_allocates_nothing_on_the_host(void **state)
{
    (void)state;
    emulator_use_threads(1);
    for (int i = FIRST_LEVERS; i < 2; i++) {
        struct decode_allocations heard = {.ignored = fake_driver_is_inside};
        ey_engine_options o = gpu_options();
        o.lm_head = i ? "8bit" : "bf16";
        ey_engine *engine = engine_open_with("tiny-ragged-fp8", o);
        engine->limits.max_unread = 1; /* decodes nothing before the first text event */
        question_simple(&q, 0, long_text, 24);
        if (i) q.request.sampling = drawn;
        q.request.on_event = decode_allocations_hear;
        q.request.event_user = &heard;
        q.request.top_logprobs = 3;
        ey_answer answer = ask(engine, &q);
        allocations_stop();
        assert_true(heard.n_texts >= 8);
        if (heard.n) fail_msg("%d allocations while decoding", heard.n);
        ey_answer_free(&answer);
        close_gpu(&engine);
    }
    emulator_use_threads(2);
}

/* ---- answers equal those of single requests ---- */

enum { GREEDY = 5 };

static void build_greedy(int i)
{
    static const char *const texts[GREEDY] = {"What is this?", "Which is larger?", long_text,
                                              "Count.", "And what is that?"};
    static const int n_images[GREEDY] = {1, 2, 0, 0, 1};
    question_simple(&q, n_images[i], texts[i], 6);
    q.request.top_logprobs = 2;
}

static void answer_alone(ey_answer out[GREEDY], ey_engine *engine)
{
    for (int i = 0; i < GREEDY; i++) {
        build_greedy(i);
        out[i] = ask(engine, &q);
    }
}

static void free_answers(ey_answer *answers)
{
    for (int i = 0; i < GREEDY; i++)
        ey_answer_free(&answers[i]);
}

static void answers_are_those_of_the_cpu(void **state)
{
    (void)state;
    ey_answer cpu[GREEDY], gpu[GREEDY], again;
    ey_engine_options o = gpu_options();
    o.device = "cpu";
    ey_engine *engine = engine_open_with("tiny-ragged-fp8", o);
    answer_alone(cpu, engine);
    ey_engine_close(&engine);
    engine = open_gpu();
    answer_alone(gpu, engine);
    for (int i = 0; i < GREEDY; i++)
        assert_near_answer(&cpu[i], &gpu[i], "CPU and GPU");
    build_greedy(0);
    again = ask(engine, &q);
    assert_same_answer(&gpu[0], &again, "the same once more");
    ey_answer_free(&again);
    close_gpu(&engine);
    free_answers(cpu);
    free_answers(gpu);
}

static void concurrent_gpu_answers_equal_single_ones(void **state)
{
    (void)state;
    static struct question questions[GREEDY];
    ey_answer alone[GREEDY];
    ey_engine *engine = open_gpu();
    answer_alone(alone, engine);
    for (int i = 0; i < GREEDY; i++) {
        build_greedy(i);
        questions[i] = q;
        questions[i].request.messages = questions[i].messages; /* the struct was copied */
        for (size_t m = 0; m < q.request.n_messages; m++)
            questions[i].messages[m].parts = questions[i].parts[m];
        members[i].request = questions[i].request;
    }
    concurrent_requests_run(members, GREEDY, engine);
    for (int i = 0; i < GREEDY; i++)
        assert_near_answer(&alone[i], &members[i].answer, "alone and at once");
    concurrent_requests_free(members, GREEDY);
    assert_at_rest(engine);
    free_answers(alone);
    close_gpu(&engine);
}

/* FP8 prefill in chunks that share steps with other answers, and with cached blocks: rows of
 * prompts use FP8 and rows of answers do not, whatever else is in the step. */
static void fp8_prompts_do_not_depend_on_others(void **state)
{
    (void)state;
    enum { N = 3 };
    static struct question questions[N];
    ey_answer alone[N];
    ey_engine_options o = gpu_options();
    o.prefill_math = "fp8";
    ey_engine *engine = engine_open_with("tiny-gqa4-fp8", o);
    assert_true(engine->buffers.plan.limits.fp8_prompts);
    for (int i = 0; i < N; i++) {
        question_simple(&questions[i], i == 1, i == 2 ? long_text : "What is this?", 6);
        questions[i].request.top_logprobs = 2;
        alone[i] = ask(engine, &questions[i]);
        members[i].request = questions[i].request;
    }
    engine->limits.slice_seconds = 1e-3; /* the smallest chunks */
    concurrent_requests_run(members, N, engine);
    for (int i = 0; i < N; i++)
        assert_near_answer(&alone[i], &members[i].answer, "prompts in FP8, alone and at once");
    concurrent_requests_free(members, N);
    questions[2].request.no_prefix_cache =
        false; /* all but the last rows are cached the second time */
    for (int i = 0; i < 2; i++) {
        ey_answer again = ask(engine, &questions[2]);
        assert_near_answer(&alone[2], &again, "prompts in FP8, cached");
        ey_answer_free(&again);
    }
    for (int i = 0; i < N; i++)
        ey_answer_free(&alone[i]);
    close_gpu(&engine);
}

/* Two answers fit the pool of five blocks at their start, but not at their end. */
static void preempted_answers_are_unchanged(void **state)
{
    (void)state;
    static struct question questions[2];
    ey_answer alone[2];
    ey_engine_options o = gpu_options();
    o.max_model_len = 256;
    o.kv_tokens = 320;
    ey_engine *engine = engine_open_with("tiny-ragged-fp8", o);
    for (int i = 0; i < 2; i++) {
        question_simple(&questions[i], 0, long_text,
                        i ? 13 : 18); /* from 118 tokens into the third block */
        questions[i].request.top_logprobs = 2;
        alone[i] = ask(engine, &questions[i]);
        members[i].request = questions[i].request;
    }
    engine->limits.slice_seconds = 10;         /* a prompt in one step on slow machines, too */
    pthread_mutex_lock(&engine->devices.lock); /* both begin together */
    for (int i = 0; i < 2; i++)
        concurrent_request_start(&members[i], engine);
    pthread_mutex_unlock(&engine->devices.lock);
    for (int i = 0; i < 2; i++)
        concurrent_request_collect(&members[i]);
    assert_true(ey_engine_stats(engine).preemptions > 0);
    for (int i = 0; i < 2; i++)
        assert_near_answer(&alone[i], &members[i].answer, "alone and preempted");
    concurrent_requests_free(members, 2);
    for (int i = 0; i < 2; i++)
        ey_answer_free(&alone[i]);
    close_gpu(&engine);
}

/* The second time, all whole blocks and the image's features are cached. */
static void caches_are_used(void **state)
{
    (void)state;
    ey_engine *engine = open_gpu();
    for (int n_images = 0; n_images < 2; n_images++) {
        question_simple(&q, n_images, long_text, 5);
        q.request.no_prefix_cache = false;
        q.request.top_logprobs = 2;
        ey_answer first = ask(engine, &q), second = ask(engine, &q);
        assert_int_equal(first.cached_tokens, 0);
        assert_int_equal(second.cached_tokens, (second.prompt_tokens - 1) / KV_BLOCK * KV_BLOCK);
        assert_true(second.cached_tokens > 0);
        assert_near_answer(&first, &second, "a prefix that was there");
        ey_answer_free(&first);
        ey_answer_free(&second);
    }
    question_simple(&q, 1, "Another question about it.", 4); /* the prefix ends inside the image */
    q.request.no_prefix_cache = false;
    q.request.top_logprobs = 2;
    ey_answer cached = ask(engine, &q);
    q.request.no_prefix_cache = true;
    ey_answer fresh = ask(engine, &q);
    assert_true(cached.images[0].cached && !fresh.images[0].cached);
    assert_int_equal(ey_engine_stats(engine).encoder_runs, 2);
    assert_near_answer(&fresh, &cached, "features that were there");
    ey_answer_free(&cached);
    ey_answer_free(&fresh);
    close_gpu(&engine);
}

/* Ids and last logits from the GPU. */
static void outcomes(struct outcome out[2], bool eager, const char *head)
{
    ey_engine_options o = gpu_options();
    o.enforce_eager = eager;
    o.lm_head = head;
    ey_engine *engine = engine_open_with("tiny-ragged-fp8", o);
    for (int i = 0; i < 2; i++) {
        question_simple(&q, i, "What is this?", 5);
        out[i] = outcome_of(engine, &q);
        engine->devices.be->ops->memory->read_logits(
            engine->devices.be, out[i].logits, engine->buffers.logits, (size_t)out[i].vocabulary);
    }
    assert_int_equal(fake_driver_counts().graphs, eager ? 0 : SLOTS);
    assert_true((fake_driver_counts().graph_launches > 0) == !eager);
    close_gpu(&engine);
}

static void captured_steps_are_the_eager_ones(void **state)
{
    (void)state;
    static const char *const heads[] = {"bf16", "8bit"};
    for (int h = FIRST_LEVERS; h < 2; h++) {
        struct outcome recorded[2], eager[2];
        outcomes(recorded, false, heads[h]);
        outcomes(eager, true, heads[h]);
        for (int i = 0; i < 2; i++) {
            assert_same_outcome(&recorded[i], &eager[i], heads[h]);
            outcome_free(&recorded[i]);
            outcome_free(&eager[i]);
        }
    }
}

/* ---- head rows in the file ---- */

enum { ROWS_ASKED = 4 };

/* Greedy, sampled from fewer and from more tokens than are rescored, and with logit biases. */
static void build_for_rows(int i)
{
    static const ey_logit_bias bias[] = {{300, 4.5f}, {301, -100}};
    question_simple(&q, i == 0, "What is this?", 14);
    q.request.top_logprobs = 5;
    if (i == 1)
        q.request.sampling = (ey_sampling){
            .temperature = 1.3f, .top_k = 32, .top_p = 1, .repetition_penalty = 1, .seed = 5};
    if (i == 2)
        q.request.sampling = (ey_sampling){
            .temperature = 1.3f, .top_k = 40, .top_p = 1, .repetition_penalty = 1, .seed = 5};
    if (i == 3) {
        q.request.logit_bias = bias;
        q.request.n_logit_bias = 2;
    }
}

static void note_text(void *user, const char *text)
{
    snprintf(user, 400, "%s", text);
}

/* The engine stays open, because answers point to its tokens. */
static ey_engine *answer_for_rows(ey_answer out[ROWS_ASKED], const char *kind, const char *rows,
                                  const char *expected, char notice[400])
{
    ey_engine_options o = gpu_options();
    o.lm_head = "8bit";
    o.lm_head_rows = rows;
    o.notice = note_text;
    o.notice_user = notice;
    ey_engine *engine = engine_open_with(kind, o);
    bool pinned = strcmp(expected, "pinned") == 0;
    assert_string_equal(ey_engine_describe(engine).lm_head_rows, expected);
    for (int i = 0; i < ROWS_ASKED; i++) {
        ey_stats before = ey_engine_stats(engine);
        build_for_rows(i);
        out[i] = ask(engine, &q);
        ey_stats after = ey_engine_stats(engine);
        assert_int_equal(out[i].approximate, i == 2);
        uint64_t ahead = after.async_steps - before.async_steps;
        if (pinned && i < 2)
            assert_true(ahead + 4 >= after.steps - before.steps);
        else
            assert_int_equal(ahead, 0);
    }
    return engine;
}

/* Pinned and host rows give bit-identical answers; with pinned rows, steps are enqueued
 * asynchronously. */
static void pinned_and_host_rows_agree(void **state)
{
    (void)state;
    static const char *const kinds[] = {"tiny-head72-bf16",
                                        "tiny-untied-bf16"}; /* tied: one range of the file */
    for (int k = FIRST_LEVERS; k < 2; k++) {
        ey_answer pinned[ROWS_ASKED], host[ROWS_ASKED];
        char notice[400] = "";
        ey_engine *first = answer_for_rows(pinned, kinds[k], NULL, "pinned", notice);
        int registered = fake_driver_counts().pinned_ranges;
        ey_engine *second = answer_for_rows(host, kinds[k], "host", "host", notice);
        assert_true(registered > 0);
        assert_int_equal(fake_driver_counts().pinned_ranges, registered);
        assert_string_equal(notice, "");
        for (int i = 0; i < ROWS_ASKED; i++) {
            assert_same_answer(&pinned[i], &host[i], kinds[k]);
            ey_answer_free(&pinned[i]);
            ey_answer_free(&host[i]);
        }
        ey_engine_close(&first);
        close_gpu(&second);
    }
}

/* If the first page cannot be pinned, the plan says so; if only later ones cannot, a notice does.
 * With --head-rows pinned it is an error. */
static void files_that_are_not_pinned(void **state)
{
    (void)state;
    ey_answer answers[ROWS_ASKED];
    ey_engine_options o = gpu_options();
    ey_engine *engine;
    char notice[400] = "";
    ey_err e;
    struct fake_gpu stubborn = fake_small_gpu;
    stubborn.pins_no_files = true;
    o.lm_head = "8bit";
    o.model = ckpt_make(fixture_dir(), "tiny-head72-bf16");
    for (int call = 0; call < 3;
         /* 0: no page can be pinned; 1: pinning the head fails after the probe's page; 2: getting
            the head's address fails */
         call++) {
        if (!call)
            fake_open_gpu(&stubborn);
        else
            fake_open_fail(call == 1 ? "host_register" : "host_address", call == 1 ? 2 : 1,
                           CUDA_ERROR_OUT_OF_MEMORY);
        engine = answer_for_rows(answers, "tiny-head72-bf16", NULL, "host", notice);
        assert_int_equal(fake_driver_counts().pinned_ranges, 0);
        if (call)
            assert_non_null(
                strstr(notice, "using --head-rows host: the driver does not pin the file's pages"));
        else
            assert_string_equal(notice, "");
        for (int i = 0; i < ROWS_ASKED; i++)
            ey_answer_free(&answers[i]);
        close_gpu(&engine);
        if (call)
            fake_open_fail(call == 1 ? "host_register" : "host_address", call == 1 ? 2 : 1,
                           CUDA_ERROR_OUT_OF_MEMORY);
        o.lm_head_rows = "pinned";
        assert_false(ey_engine_open(&engine, &o, &e));
        assert_non_null(strstr(e.text, "--head-rows pinned: "));
        assert_int_equal(fake_driver_counts().pinned_ranges + fake_driver_counts().contexts, 0);
        if (!call) {
            ey_plan plan;
            o.lm_head_rows = NULL;
            assert_true(ey_plan_make(&o, &plan, &e));
            assert_int_equal(plan.n_choices, 1);
            assert_non_null(
                strstr(plan.choices[0], "--head-rows host: this system does not let the GPU read"));
        }
        fake_open_gpu(&fake_small_gpu);
    }
}

/* The widest allowed image, in the smallest tiles. */
static void the_widest_image(void **state)
{
    (void)state;
    ey_answer gpu, cpu;
    ey_engine_options o = gpu_options();
    o.max_num_batched_tokens = 64;
    question_start(&q, 4);
    question_turn(&q, "user");
    question_part(&q, test_image(6400, 32, 1));
    question_text(&q, "What is this?");
    q.request.top_logprobs = 2;
    ey_engine *engine = engine_open_with("tiny-ragged-fp8", o);
    gpu = ask(engine, &q);
    close_gpu(&engine);
    o.device = "cpu";
    engine = engine_open_with("tiny-ragged-fp8", o);
    cpu = ask(engine, &q);
    ey_engine_close(&engine);
    assert_near_answer(&cpu, &gpu, "the widest image");
    ey_answer_free(&gpu);
    ey_answer_free(&cpu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(device_memory_is_the_plan),
        cmocka_unit_test(nothing_is_allocated_after_the_start),
        cmocka_unit_test(decode_allocates_nothing_on_the_host),
        cmocka_unit_test(answers_are_those_of_the_cpu),
        cmocka_unit_test(concurrent_gpu_answers_equal_single_ones),
        cmocka_unit_test(fp8_prompts_do_not_depend_on_others),
        cmocka_unit_test(preempted_answers_are_unchanged),
        cmocka_unit_test(caches_are_used),
        cmocka_unit_test(captured_steps_are_the_eager_ones),
        cmocka_unit_test(pinned_and_host_rows_agree),
        cmocka_unit_test(files_that_are_not_pinned),
        cmocka_unit_test(the_widest_image),
    };
    return cmocka_run_group_tests(tests, engine_fixture_open, engine_fixture_close);
}
