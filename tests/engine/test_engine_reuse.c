/* What a request takes from the one before it: the same bits as computing it all, without the vision tower for pictures
 * that are in the KV cache already. */
#include "engine/engine_fixture.h"

static struct backend_ops counting_ops;
static void (*real_patch_embed)(struct backend *be, dev x, const float *pixels, const struct affine *w, const struct weight *table,
                                const struct vision_shape *shape, int rows, int cols, int first, int n);
static int tower_runs;

static void count_patch_embed(struct backend *be, dev x, const float *pixels, const struct affine *w, const struct weight *table,
                              const struct vision_shape *shape, int rows, int cols, int first, int n)
{
    tower_runs += first == 0;
    real_patch_embed(be, x, pixels, w, table, shape, rows, cols, first, n);
}

static void count_towers(ey_engine *engine)
{
    counting_ops = *engine->be->ops;
    real_patch_embed = counting_ops.patch_embed;
    counting_ops.patch_embed = count_patch_embed;
    engine->be->ops = &counting_ops;
}

/* pictures (0: none) then text, in one user turn */
static void build(struct question *q, const unsigned *seeds, const char *text, int max_tokens)
{
    question_start(q, max_tokens);
    question_turn(q, "user");
    for (; *seeds; seeds++) question_part(q, picture(90 + (int)*seeds, 64, *seeds));
    question_text(q, text);
    q->request.fresh = false;
}

static void same_bits_and_fewer_towers(void **state)
{
    (void)state;
    /* each row follows the one before it on the same engine */
    static const struct {
        unsigned seeds[4];
        const char *text;
        int max_tokens, towers;
        bool reuses_all; /* everything but the last token */
    } rows[] = {
        {{1}, "What is this?", 8, 1, false},
        {{1}, "What is this?", 8, 0, true},
        {{1}, "What colour is it?", 8, 0, false},
        {{1, 2}, "And which is larger?", 3, 1, false},
        {{1, 3}, "And which is larger?", 3, 1, false},
        {{3, 1}, "And which is larger?", 3, 2, false},
        {{3}, "x", 1, 0, false},
        {{0}, "no picture at all", 5, 0, false},
        {{0}, "no picture at all", 1, 0, true},
        {{4}, "no picture at all", 1, 1, false},
    };
    static const char *const devices[] = {"ref", "cpu"};
    for (size_t d = 0; d < 2; d++) {
        ey_engine *fresh = engine_open("tiny-gqa4-fp8", devices[d], 2, 1024), *kept = engine_open("tiny-gqa4-fp8", devices[d], 2, 1024);
        count_towers(kept);
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
            static struct question q;
            build(&q, rows[i].seeds, rows[i].text, rows[i].max_tokens);
            tower_runs = 0;
            struct outcome b = outcome_of(kept, &q);
            assert_int_equal(tower_runs, rows[i].towers);
            ey_answer answer = ask(kept, &q); /* once more: all of it is there */
            assert_int_equal(answer.cached_tokens, answer.prompt_tokens - 1);
            ey_answer_free(&answer);
            q.request.fresh = true;
            struct outcome a = outcome_of(fresh, &q);
            char what[64];
            snprintf(what, sizeof(what), "%s, row %zu", devices[d], i);
            assert_same_outcome(&a, &b, what);
            outcome_free(&a), outcome_free(&b);
        }
        ey_engine_close(&fresh);
        ey_engine_close(&kept);
    }
}

static void a_conversation_reuses_its_turns(void **state)
{
    (void)state;
    ey_engine *engine = engine_open("tiny-gqa4-fp8", "cpu", 2, 1024);
    static struct question q;
    const unsigned one[] = {1, 0};
    count_towers(engine);
    build(&q, one, "What is this?", 6);
    ey_answer first = ask(engine, &q);
    question_turn(&q, "assistant");
    question_text(&q, first.text);
    question_turn(&q, "user");
    question_text(&q, "Are you sure?");
    tower_runs = 0;
    ey_answer second = ask(engine, &q);
    assert_int_equal(tower_runs, 0);
    assert_true(second.cached_tokens >= first.prompt_tokens);
    ey_answer_free(&first), ey_answer_free(&second);
    ey_engine_close(&engine);
}

struct quitter {
    const char *phase;
    int after;
};

static bool quit(void *user, const ey_event *event)
{
    struct quitter *quitter = user;
    return event->type != EY_EVENT_PHASE || strcmp(event->phase, quitter->phase) != 0 || quitter->after-- > 0;
}

/* Cancelled anywhere, in small chunks so that a border falls inside of the picture. */
static void what_a_cancelled_request_left_is_right(void **state)
{
    (void)state;
    static const struct quitter rows[] = {{"vision", 0}, {"vision", 3}, {"prefill", 0}, {"prefill", 1}, {"prefill", 9}, {"prefill", 13}, {"decode", 2}};
    ey_engine *fresh = engine_open("tiny-gqa4-fp8", "cpu", 2, 1024), *kept = engine_open("tiny-gqa4-fp8", "cpu", 2, 1024);
    kept->ws.max_rows = 16;
    static struct question q;
    const unsigned two[] = {5, 6, 0};
    build(&q, two, "What is this?", 6);
    struct outcome want = outcome_of(fresh, &q);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct quitter quitter = rows[i];
        static struct question cancelled;
        build(&cancelled, two, "What is this?", 6);
        kept->record.n = 0;
        cancelled.request.on_event = quit, cancelled.request.event_user = &quitter;
        ey_answer answer = ask(kept, &cancelled);
        assert_string_equal(answer.finish_reason, "cancelled");
        ey_answer_free(&answer);
        struct outcome got = outcome_of(kept, &q);
        assert_same_outcome(&want, &got, rows[i].phase);
        outcome_free(&got);
    }
    outcome_free(&want);
    ey_engine_close(&fresh);
    ey_engine_close(&kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_and_fewer_towers),
        cmocka_unit_test(a_conversation_reuses_its_turns),
        cmocka_unit_test(what_a_cancelled_request_left_is_right),
    };
    return cmocka_run_group_tests(tests, engine_fixture_open, engine_fixture_close);
}
