/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU device against the reference: over the same ids, the distributions of the next token have
 * a small KL divergence, and greedy answers differ only at near-ties, which are printed. */
#include <math.h>

#include "engine/sample/logprobs.h"
#include "engine/engine_fixture.h"
#include "engine/request/prompt.h"
#include "models/ckpt_edit.h"

enum { CONTEXT = 512, N_TOKENS = 24 };
/* KL divergence: mean over an answer's tokens, and maximum. The devices differ only in BF16 keys
 * and values and, with AVX-512, BF16 inputs of matmuls. */
#define MEAN_KL 1e-3
#define WORST_KL 4e-3

static const char *const kinds[] = {"tiny-gqa4-fp8",    "tiny-gqa4-bf16",  "tiny-gqa4-f16",
                                    "tiny-gqa4-f32",    "tiny-ragged-fp8", "tiny-untied-bf16",
                                    "tiny-head72-bf16", "tiny-shards-fp8", "tiny-old-bf16"};

/* A prompt and its answer as one step. */
struct rows {
    int32_t token[CONTEXT], feature[CONTEXT], position[3 * CONTEXT], row_seq[CONTEXT],
        row_slot[CONTEXT], table[CONTEXT / KV_BLOCK];
    int n;
};

/* Lays out the rows of the question and of all but the last of ids[N_TOKENS], with the features
 * that the engine has cached for it. */
static void lay_out_rows(struct rows *r, ey_engine *engine, const struct question *q,
                         const int *ids)
{
    ey_prompt *prompt;
    ey_err e;
    if (!ey_prompt_prepare(engine, &q->request, &prompt, &e)) fail_msg("%s", e.text);
    int n_prompt = (int)prompt->ids.n;
    *r = (struct rows){.n = n_prompt + N_TOKENS - 1};
    assert_true(r->n <= CONTEXT);
    for (int i = 0; i < CONTEXT / KV_BLOCK; i++)
        r->table[i] = i;
    for (int i = 0; i < r->n; i++) {
        bool given = i < n_prompt;
        r->token[i] = given ? prompt->ids.id[i] : ids[i - n_prompt];
        r->feature[i] = -1;
        for (int axis = 0; axis < 3; axis++)
            r->position[3 * i + axis] = given ? prompt->position[3 * i + axis]
                                              : prompt->next_position + i - n_prompt;
    }
    for (size_t k = 0; k < prompt->n_images; k++) {
        const struct image_entry *entry = engine_features(engine, &prompt->images[k].digest);
        assert_non_null(entry);
        for (int i = 0; i < entry->n_tokens; i++)
            r->feature[(int)prompt->images[k].span.first + i] = feature_row(entry, i);
    }
    ey_prompt_free(&prompt);
}

/* Logits [N_TOKENS, vocabulary] along these ids, from an engine that has answered the question. */
static void forced_logits(ey_engine *engine, const struct question *q, const int *ids,
                          float *logits)
{
    static struct rows r;
    int32_t out[N_TOKENS];
    size_t n = (size_t)N_TOKENS * (size_t)engine->devices.model.text.vocab_size;
    ey_err e;
    lay_out_rows(&r, engine, q, ids);
    backend_take(engine);
    float *device = engine->devices.be->ops->memory->alloc(engine->devices.be, n * sizeof(float),
                                                           &e);
    const struct step_seq seq = {0, r.n, 0, STAGE_DECODE};
    const struct step step = {.n_rows = r.n,
                              .n_seqs = 1,
                              .max_blocks = CONTEXT / KV_BLOCK,
                              .n_logits = N_TOKENS,
                              .seq = &seq,
                              .token = r.token,
                              .feature = r.feature,
                              .position = r.position,
                              .row_seq = r.row_seq,
                              .row_slot = r.row_slot,
                              .block_table = r.table,
                              .logits_row = out};
    step_index_rows(&seq, 1, r.row_seq, r.row_slot);
    assert_true(device && r.n <= last_range(&engine->buffers.ws)->chunk.max_rows);
    for (int i = 0; i < N_TOKENS; i++)
        out[i] = r.n - N_TOKENS + i;
    assert_true(
        text_model_enqueue(&engine->devices.model, &engine->buffers.ws, &step, device, NULL, NULL));
    assert_true(engine->devices.be->ops->compute->finish(engine->devices.be, &e));
    engine->devices.be->ops->memory->read_logits(engine->devices.be, logits, device, n);
    engine->devices.be->ops->memory->release(engine->devices.be, device);
    backend_give_back(engine);
}

static double log_total(const float *logits, int n)
{
    double max = (double)logits[logits_argmax(logits, n)], sum = 0;
    for (int i = 0; i < n; i++)
        sum += exp((double)logits[i] - max);
    return max + log(sum);
}

static double kl_divergence(const float *p, const float *q, int n)
{
    double total_p = log_total(p, n), total_q = log_total(q, n), sum = 0;
    for (int i = 0; i < n; i++) {
        double lp = (double)p[i] - total_p, lq = (double)q[i] - total_q;
        sum += exp(lp) * (lp - lq);
    }
    return sum;
}

static double largest_difference(const float *a, const float *b, int n)
{
    double most = 0;
    for (int i = 0; i < n; i++)
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
    return most;
}

/* At the first difference of the answers, the gap must be within the devices' difference. */
static void compare_greedy(const char *kind, const struct outcome *ref, const struct outcome *cpu,
                           const float *logits, double difference)
{
    for (int i = 0; i < N_TOKENS; i++) {
        if (ref->ids[i] == cpu->ids[i]) continue;
        const float *row = logits + (size_t)i * (size_t)ref->vocabulary;
        double gap = (double)row[ref->ids[i]] - (double)row[cpu->ids[i]];
        print_message("%s: near-tie at token %d: %d or %d, %.6f apart (devices differ by %.6f)\n",
                      kind, i, ref->ids[i], cpu->ids[i], gap, difference);
        assert_true(gap <= 2 * difference);
        return;
    }
}

static ey_engine *open_masked(const char *kind, const char *mask)
{
    ey_engine_options options = ey_engine_defaults();
    ey_engine *engine;
    ey_err e;
    options.model = ckpt_make(fixture_dir(), kind);
    options.device = "cpu";
    options.cpu_mask = mask;
    options.threads = 2;
    options.max_model_len = CONTEXT;
    if (!ey_engine_open(&engine, &options, &e)) fail_msg("%s: %s", kind, e.text);
    return engine;
}

static void compare(const char *kind, const char *mask, int n_images)
{
    static struct question q;
    ey_engine *ref = engine_open(kind, "ref", 2, CONTEXT), *cpu = open_masked(kind, mask);
    int vocabulary = ref->devices.model.text.vocab_size;
    size_t n = (size_t)N_TOKENS * (size_t)vocabulary;
    float *p = malloc(n * sizeof(float)), *r = malloc(n * sizeof(float));
    double worst = 0, mean = 0, difference = 0;
    assert_true(p && r);
    question_simple(&q, n_images, "What is in the image, and what is it doing there?", N_TOKENS);
    struct outcome a = outcome_of(ref, &q), b = outcome_of(cpu, &q);
    forced_logits(ref, &q, a.ids, p);
    forced_logits(cpu, &q, a.ids, r); /* along the reference's ids */
    assert_memory_equal(p + n - (size_t)vocabulary, a.logits,
                        (size_t)vocabulary * sizeof(float)); /* equal to the decode loop's */
    for (int i = 0; i < N_TOKENS; i++) {
        const float *x = p + (size_t)i * (size_t)vocabulary,
                    *y = r + (size_t)i * (size_t)vocabulary;
        assert_int_equal(logits_argmax(x, vocabulary), a.ids[i]);
        double kl = kl_divergence(x, y, vocabulary);
        worst = fmax(worst, kl);
        mean += kl / N_TOKENS;
        difference = fmax(difference, largest_difference(x, y, vocabulary));
    }
    print_message("%s, %s, %d images: KL %.2e, at most %.2e; logits differ by %.2e\n", kind,
                  mask ? mask : "all", n_images, mean, worst, difference);
    assert_true(mean >= 0 && mean < MEAN_KL && worst < WORST_KL);
    compare_greedy(kind, &a, &b, p, difference);
    outcome_free(&a);
    outcome_free(&b);
    free(p);
    free(r);
    ey_engine_close(&ref);
    ey_engine_close(&cpu);
}

static void devices_agree(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
        for (int n_images = 0; n_images <= 2; n_images += 2) {
            compare(kinds[k], NULL, n_images);
            compare(kinds[k], "avx512", n_images);
            compare(kinds[k], "generic", n_images);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(devices_agree)};
    return cmocka_run_group_tests(tests, engine_fixture_open, engine_fixture_close);
}
