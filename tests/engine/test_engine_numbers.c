/* SPDX-License-Identifier: Apache-2.0 */
/* Results are bit-identical for KV blocks in any order, chunks of any size, any number of threads,
 * and with or without other sequences, on every device. */
#include "backend/cpu/cpu_backend.h"
#include "engine/engine_fixture.h"
#include "models/layers/mrope_positions.h"

static const char *const devices[] = {ENGINE_DEVICES};
enum { N_DEVICES = sizeof(devices) / sizeof(devices[0]), CONTEXT = 640 };
#define EACH_DEVICE(d) for (int d = 0; d < N_DEVICES; d++)

static const char long_text[] = "Describe the image in a few words, then say which of the "
                                "coloured shapes is the largest and where it stands. ";

/* ---- paging ---- */

static void scrambled_blocks(void **state)
{
    (void)state;
    static struct question q;
    EACH_DEVICE(d)
    {
        ey_engine *engine = engine_open("tiny-ragged-fp8", devices[d], 2, CONTEXT);
        assert_true(engine->buffers.plan.kv.n_blocks == 10);
        question_simple(&q, 2, long_text, 70);
        struct outcome straight = outcome_of(engine, &q);
        assert_true(straight.prompt_tokens > KV_BLOCK);
        for (unsigned seed = 1; seed <= 3; seed++) {
            engine_shuffle(engine, seed);
            struct outcome o = outcome_of(engine, &q);
            assert_same_outcome(&straight, &o, devices[d]);
            outcome_free(&o);
        }
        outcome_free(&straight);
        ey_engine_close(&engine);
    }
}

/* A prompt of exactly n tokens, made of control characters, which the tokenizer does not merge. */
static void question_of_length(struct question *q, ey_engine *engine, int n, int max_tokens)
{
    static char text[CONTEXT];
    question_start(q, max_tokens);
    question_turn(q, "user");
    question_text(q, "");
    ey_answer bare = ask(engine, q);
    int missing = n - bare.prompt_tokens;
    ey_answer_free(&bare);
    assert_in_range(missing, 0, CONTEXT);
    for (int i = 0; i < missing; i++)
        text[i] = (char)(1 + i % 2);
    q->parts[0][0] = ey_text_part(text);
    q->parts[0][0].n_bytes = (size_t)missing;
}

static void prompts_at_block_borders(void **state)
{
    (void)state;
    static const int lengths[] = {62, 63, 64, 65, 127, 128, 129};
    static struct question q;
    EACH_DEVICE(d)
    {
        ey_engine *engine = engine_open("tiny-gqa4-bf16", devices[d], 2, CONTEXT);
        ey_engine *other = engine_open("tiny-gqa4-bf16", devices[d], 1, CONTEXT);
        engine_shuffle(other, 5);
        for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
            question_of_length(&q, engine, lengths[i], 5);
            struct outcome a = outcome_of(engine, &q);
            assert_int_equal(a.prompt_tokens, lengths[i]);
            engine_set_rows(other, lengths[i] % 2 ? 64 : 63, 64);
            struct outcome b = outcome_of(other, &q);
            assert_same_outcome(&a, &b, devices[d]);
            outcome_free(&a);
            outcome_free(&b);
        }
        ey_engine_close(&engine);
        ey_engine_close(&other);
    }
}

/* ---- chunks and threads ---- */

static void any_chunk(void **state)
{
    (void)state;
    static const char *const kinds[] = {"tiny-gqa4-fp8", "tiny-untied-bf16", "tiny-ragged-fp8"};
    static const int rows[] = {1, 7, 63, 64, 65};
    static struct question q;
    EACH_DEVICE(d)
    for (int k = 0; k < 3; k++)
        for (int n_images = 0; n_images <= 2; n_images += 2) {
            ey_engine *engine = engine_open(kinds[k], devices[d], 2, CONTEXT);
            question_simple(&q, n_images, long_text, 4);
            struct outcome whole = outcome_of(engine, &q);
            for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                char what[100];
                snprintf(what, sizeof(what), "%s %s, %d images, chunks of %d", devices[d], kinds[k],
                         n_images, rows[i]);
                engine_set_rows(engine, rows[i], 512);
                struct outcome o = outcome_of(engine, &q);
                assert_same_outcome(&whole, &o, what);
                outcome_free(&o);
            }
            outcome_free(&whole);
            ey_engine_close(&engine);
        }
}

static void any_vision_tile(void **state)
{
    (void)state;
    static const int rows[] = {4, 7, 20, 100};
    static struct question q;
    EACH_DEVICE(d)
    {
        ey_engine *engine = engine_open("tiny-head72-bf16", devices[d], 2, CONTEXT);
        question_simple(&q, 2, "What?", 3);
        struct outcome whole = outcome_of(engine, &q);
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
            engine_set_rows(engine, 512, rows[i]);
            struct outcome o = outcome_of(engine, &q);
            assert_same_outcome(&whole, &o, devices[d]);
            outcome_free(&o);
        }
        outcome_free(&whole);
        ey_engine_close(&engine);
    }
}

static void any_threads(void **state)
{
    (void)state;
    static const char *const kinds[] = {"tiny-gqa4-fp8", "tiny-head72-bf16"};
    static struct question q;
    EACH_DEVICE(d)
    for (int k = 0; k < 2; k++) {
        struct outcome first = {0};
        for (int threads = 1; threads <= 3; threads++) {
            ey_engine *engine = engine_open(kinds[k], devices[d], threads, CONTEXT);
            question_simple(&q, 2, long_text, 6);
            struct outcome o = outcome_of(engine, &q);
            if (threads == 1)
                first = o;
            else {
                assert_same_outcome(&first, &o, devices[d]);
                outcome_free(&o);
            }
            ey_engine_close(&engine);
        }
        outcome_free(&first);
    }
}

/* ---- several sequences in a step ---- */

enum { N_SEQS = 3, SEQ_BLOCKS = 3, MAX_LENGTH = SEQ_BLOCKS * KV_BLOCK };
static const int seq_length[N_SEQS] = {1, 70, 129};

struct rows {
    int32_t token[512], feature[512], position[3 * 512], row_seq[512], row_slot[512],
        table[N_SEQS * SEQ_BLOCKS];
    struct step_seq seq[N_SEQS];
    int n, n_seqs;
};

static int32_t made_up_token(int seq, int i)
{
    return (int32_t)((unsigned)(seq * 7919 + i * 104729 + 13) % 1400u);
}

/* Appends rows first to end - 1 of a sequence. */
static void push_rows(struct rows *r, int seq, int first, int end)
{
    /* the middle sequence has an "image" of 3 x 4 with features 5.. */
    struct image_span run = {10, 3, 4};
    static int32_t positions[3 * MAX_LENGTH];
    mrope_positions(positions, MAX_LENGTH, &run, seq == 1);
    r->seq[r->n_seqs++] = (struct step_seq){r->n, end - first, first, STAGE_DECODE};
    for (int i = first; i < end; i++) {
        bool visual = seq == 1 && i >= 10 && i < 22;
        memcpy(r->position + 3 * r->n, positions + 3 * i, 3 * sizeof(*positions));
        r->token[r->n] = visual ? -1 : made_up_token(seq, i);
        r->feature[r->n] = visual ? 5 + i - 10 : -1;
        r->n++;
    }
}

static void clear_rows(struct rows *r)
{
    r->n = 0;
    r->n_seqs = 0;
}

static void run_rows(ey_engine *engine, struct rows *r, const int32_t *out, int n_out,
                     float *logits)
{
    ey_err e;
    size_t n = (size_t)n_out * (size_t)engine->devices.model.text.vocab_size;
    backend_take(engine);
    float *device = engine->devices.be->ops->memory->alloc(engine->devices.be, n * sizeof(float),
                                                           &e);
    assert_non_null(device);
    const struct step step = {.n_rows = r->n,
                              .n_seqs = r->n_seqs,
                              .max_blocks = SEQ_BLOCKS,
                              .n_logits = n_out,
                              .seq = r->seq,
                              .token = r->token,
                              .feature = r->feature,
                              .position = r->position,
                              .row_seq = r->row_seq,
                              .row_slot = r->row_slot,
                              .block_table = r->table,
                              .logits_row = out};
    step_index_rows(r->seq, r->n_seqs, r->row_seq, r->row_slot);
    assert_true(
        text_model_enqueue(&engine->devices.model, &engine->buffers.ws, &step, device, NULL, NULL));
    assert_true(engine->devices.be->ops->compute->finish(engine->devices.be, &e));
    engine->devices.be->ops->memory->read_logits(engine->devices.be, logits, device, n);
    engine->devices.be->ops->memory->release(engine->devices.be, device);
    backend_give_back(engine);
}

static void write_features(ey_engine *engine)
{
    size_t n = (size_t)engine->buffers.ws.feature_rows * (size_t)engine->devices.model.text.hidden;
    float *values = malloc(n * sizeof(float));
    assert_non_null(values);
    backend_take(engine);
    for (int level = 0; level <= engine->devices.model.vision.n_deepstack; level++) {
        for (size_t i = 0; i < n; i++)
            values[i] = (float)((i * 2654435761u + (size_t)level * 977) % 2001) / 1000.0f - 1.0f;
        engine->devices.be->ops->memory->write(engine->devices.be,
                                               engine->buffers.ws.features[level].rows, values,
                                               ELEMENT_FEATURE, n);
    }
    backend_give_back(engine);
    free(values);
}

/* Computes the prompt of each sequence, then a decode step: with all sequences in a step, and with
 * one sequence at a time. */
static void several_sequences(void **state)
{
    (void)state;
    static const char *const kinds[] = {"tiny-gqa4-fp8", "tiny-ragged-fp8", "tiny-untied-bf16"};
    static struct rows r;
    EACH_DEVICE(d)
    for (int k = 0; k < 3; k++) {
        ey_engine *engine = engine_open(kinds[k], devices[d], 2, CONTEXT);
        int vocabulary = engine->devices.model.text.vocab_size;
        size_t row_bytes = (size_t)vocabulary * sizeof(float);
        float *together = malloc(2 * N_SEQS * row_bytes), *alone = malloc(2 * row_bytes);
        assert_true(together && alone);
        write_features(engine);
        /* prefill of all sequences in scattered blocks; logits of each one's last row */
        int32_t out[N_SEQS];
        memset(&r, 0, sizeof(r));
        static const int32_t table[N_SEQS * SEQ_BLOCKS] = {7, 0, 1, 4, 9, 2, 3, 8, 5};
        memcpy(r.table, table, sizeof(table));
        for (int s = 0; s < N_SEQS; s++) {
            push_rows(&r, s, 0, seq_length[s]);
            out[s] = r.n - 1;
        }
        run_rows(engine, &r, out, N_SEQS, together);
        clear_rows(&r);
        for (int s = 0; s < N_SEQS; s++) {
            out[s] = r.n;
            push_rows(&r, s, seq_length[s], seq_length[s] + 1);
        }
        run_rows(engine, &r, out, N_SEQS, together + N_SEQS * (size_t)vocabulary);
        for (int s = 0; s < N_SEQS; s++) {
            memset(&r, 0, sizeof(r));
            for (int i = 0; i < SEQ_BLOCKS; i++)
                r.table[i] = i;
            push_rows(&r, s, 0, seq_length[s]);
            out[0] = r.n - 1;
            run_rows(engine, &r, out, 1, alone);
            clear_rows(&r);
            out[0] = 0;
            push_rows(&r, s, seq_length[s], seq_length[s] + 1);
            run_rows(engine, &r, out, 1, alone + vocabulary);
            for (int step = 0; step < 2; step++)
                if (memcmp(alone + (size_t)step * (size_t)vocabulary,
                           together + (size_t)(step * N_SEQS + s) * (size_t)vocabulary,
                           row_bytes) != 0)
                    fail_msg("%s %s: sequence %d, step %d has other logits when it shares steps",
                             devices[d], kinds[k], s, step);
        }
        free(together);
        free(alone);
        ey_engine_close(&engine);
    }
}

/* ---- DeepStack ---- */

/* Each level matters, for visual rows only and at any chunk border (any_chunk has borders inside
 * images). Zeroing a level changes the logits of a prompt with an image, but not of one without. */
static void deepstack_matters(void **state)
{
    (void)state;
    static struct rows r;
    EACH_DEVICE(d)
    {
        ey_engine *engine = engine_open("tiny-untied-bf16", devices[d], 1, CONTEXT);
        int vocabulary = engine->devices.model.text.vocab_size;
        size_t row_bytes = (size_t)vocabulary * sizeof(float),
               n = (size_t)engine->buffers.ws.feature_rows *
                   (size_t)engine->devices.model.text.hidden;
        float *before = malloc(row_bytes), *after = malloc(row_bytes),
              *zeros = calloc(n, sizeof(float));
        assert_true(before && after && zeros);
        for (int level = 0; level <= 3; level++)
            for (int s = 1; s < N_SEQS; s++) {
                int32_t out = seq_length[s] - 1;
                write_features(engine);
                memset(&r, 0, sizeof(r));
                for (int i = 0; i < SEQ_BLOCKS; i++)
                    r.table[i] = i;
                push_rows(&r, s, 0, seq_length[s]);
                run_rows(engine, &r, &out, 1, before);
                backend_take(engine);
                engine->devices.be->ops->memory->write(engine->devices.be,
                                                       engine->buffers.ws.features[level].rows,
                                                       zeros, ELEMENT_FEATURE, n);
                backend_give_back(engine);
                run_rows(engine, &r, &out, 1, after);
                assert_int_equal(memcmp(before, after, row_bytes) == 0, s != 1);
            }
        free(before);
        free(after);
        free(zeros);
        ey_engine_close(&engine);
    }
}

/* ---- several images in a run of the encoder ---- */

enum { IMAGE_TOKENS = 64, RUN_IMAGES = 3 };

/* Encodes images first to end - 1 in one run; the features of image i go to block i. */
static void encode_images(ey_engine *engine, const struct image *images, int first, int end)
{
    static const int32_t block[RUN_IMAGES] = {0, 1, 2};
    struct host_buffers *h = &engine->buffers.host;
    struct encoder_run run = encoder_run_begin(h->pixels, h->patch_positions);
    ey_err e;
    for (int i = first; i < end; i++)
        assert_true(encoder_run_add(&run, &engine->devices.model,
                                    engine->devices.vision_backends.ws,
                                    &(struct encoder_image){&images[i], &block[i]}));
    while (encoder_run_step(&run, &engine->devices.model, &engine->devices.vision_backends))
        continue;
    assert_true(engine->devices.be->ops->compute->finish(engine->devices.be, &e));
}

static void read_features(ey_engine *engine, int level, float *out)
{
    engine->devices.be->ops->memory->read(
        engine->devices.be, out, engine->buffers.ws.features[level].rows, ELEMENT_FEATURE,
        (size_t)RUN_IMAGES * IMAGE_TOKENS * (size_t)engine->devices.model.text.hidden);
}

/* Images that are encoded in one run have the same features as alone. */
static void images_in_one_run(void **state)
{
    (void)state;
    static const int sides[RUN_IMAGES][2] = {{64, 128}, {96, 32}, {128, 160}};
    struct image images[RUN_IMAGES];
    for (int i = 0; i < RUN_IMAGES; i++) {
        const int n = sides[i][0] * sides[i][1] * 3;
        images[i] = (struct image){
            .rgb = malloc((size_t)n), .height = sides[i][0], .width = sides[i][1]};
        assert_non_null(images[i].rgb);
        for (int k = 0; k < n; k++)
            images[i].rgb[k] = (uint8_t)((unsigned)(k + 1) * 2654435761u >> 24);
    }
    EACH_DEVICE(d)
    {
        ey_engine *engine = engine_open("tiny-untied-bf16", devices[d], 1, CONTEXT);
        const size_t n = (size_t)RUN_IMAGES * IMAGE_TOKENS *
                         (size_t)engine->devices.model.text.hidden;
        float *alone = malloc(n * sizeof(float)), *together = malloc(n * sizeof(float));
        assert_true(alone && together);
        for (int level = 0; level <= engine->devices.model.vision.n_deepstack; level++) {
            write_features(engine);
            backend_take(engine);
            for (int i = 0; i < RUN_IMAGES; i++)
                encode_images(engine, images, i, i + 1);
            read_features(engine, level, alone);
            backend_give_back(engine);
            write_features(engine);
            backend_take(engine);
            encode_images(engine, images, 0, RUN_IMAGES);
            read_features(engine, level, together);
            backend_give_back(engine);
            assert_memory_equal(alone, together, n * sizeof(float));
        }
        free(alone);
        free(together);
        ey_engine_close(&engine);
    }
    for (int i = 0; i < RUN_IMAGES; i++)
        free(images[i].rgb);
}

/* ---- weights in huge pages ---- */

/* Weights that were copied to huge pages give the same results as the file's. */
static void weights_in_huge_pages(void **state)
{
    (void)state;
    static const char *const kinds[] = {"tiny-gqa4-fp8", "tiny-untied-bf16", "tiny-shards-fp8"};
    static struct question q;
    question_simple(&q, 1, long_text, 12);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        ey_engine_options in_file = {.device = "cpu",
                                     .threads = 2,
                                     .max_model_len = CONTEXT,
                                     .no_huge_pages = true},
                          moved = in_file;
        moved.no_huge_pages = false;
        moved.serving = i % 2;
        ey_engine *engine = engine_open_with(kinds[i], in_file),
                  *other = engine_open_with(kinds[i], moved);
        struct outcome straight = outcome_of(engine, &q), meanwhile = outcome_of(other, &q);
        assert_same_outcome(&straight, &meanwhile, kinds[i]);
        assert_int_equal(ey_engine_wait_huge_pages(engine), 0);
        size_t bytes = ey_engine_wait_huge_pages(other);
        const struct placed_model *placed = &other->devices.model.placed;
        const struct cpu_matrix *gate = &cpu_weight_of(placed->layers[0].mlp.gate)->m,
                                *head = &cpu_weight_of(placed->head)->m,
                                *embed = &cpu_weight_of(placed->embed)->m;
        const void *at = gate->bf12 ? gate->bf12 : gate->tensor.data;
        if (bytes)
            assert_true((uintptr_t)at % 4096 == 0 &&
                        at != engine->devices.model.layers[0].mlp.gate.data);
        else
            print_message("%s: no huge pages or no memory on this machine\n", kinds[i]);
        const bool tied = engine->devices.model.embed.data == engine->devices.model.head.data;
        assert_true((embed->tensor.data == head->tensor.data) == tied &&
                    (!tied || embed->bf12 == head->bf12));
        struct outcome then = outcome_of(other, &q);
        assert_same_outcome(&straight, &then, kinds[i]);
        outcome_free(&straight);
        outcome_free(&meanwhile);
        outcome_free(&then);
        ey_engine_close(&engine);
        ey_engine_close(&other);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_in_huge_pages),    cmocka_unit_test(scrambled_blocks),
        cmocka_unit_test(prompts_at_block_borders), cmocka_unit_test(any_chunk),
        cmocka_unit_test(any_vision_tile),          cmocka_unit_test(any_threads),
        cmocka_unit_test(several_sequences),        cmocka_unit_test(deepstack_matters),
        cmocka_unit_test(images_in_one_run),
    };
    return cmocka_run_group_tests(tests, engine_fixture_open, engine_fixture_close);
}
