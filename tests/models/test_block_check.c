/* SPDX-License-Identifier: Apache-2.0 */
/* Finds one infinite or NaN scale anywhere in a model's GGUF blocks: the message names the place,
 * with and without threads, and the check can be cancelled. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "models/block_check.h"

enum { BLOCK = 32, BLOCK_BYTES = 34, EMBED_ROWS = 40000, COLS = 1024, ROWS = 5, LAYERS = 3 };

struct made {
    struct model m;
    struct text_layer_tensors layers[LAYERS];
    struct vision_block_tensors blocks[2];
};

static struct tensor blocks_of(int64_t rows)
{
    struct tensor w = {.dtype = DTYPE_Q8_0, .rows = rows, .cols = COLS};
    w.data = calloc((size_t)rows, COLS / BLOCK * BLOCK_BYTES);
    assert_non_null(w.data);
    return w;
}

/* The embedding, which is also the head, has 43 MB, enough to start threads. */
static void make_model(struct made *made)
{
    struct model *m = &made->m;
    *made = (struct made){0};
    m->embed = m->head = blocks_of(EMBED_ROWS);
    m->text.n_layers = LAYERS;
    m->layers = made->layers;
    for (int i = 0; i < LAYERS; i++) {
        m->layers[i].attention.q = blocks_of(ROWS);
        m->layers[i].mlp.down = blocks_of(ROWS);
    }
    m->vision.depth = 2;
    m->vision.n_deepstack = 1;
    m->vision_tensors.blocks = made->blocks;
    made->blocks[1].fc2.w = blocks_of(ROWS);
    m->vision_tensors.merger.fc2.w = blocks_of(ROWS);
    m->vision_tensors.deepstack[0].fc1.w = blocks_of(ROWS);
}

static void free_model(struct made *made)
{
    free((void *)made->m.embed.data);
    for (int i = 0; i < LAYERS; i++) {
        free((void *)made->layers[i].attention.q.data);
        free((void *)made->layers[i].mlp.down.data);
    }
    free((void *)made->blocks[1].fc2.w.data);
    free((void *)made->m.vision_tensors.merger.fc2.w.data);
    free((void *)made->m.vision_tensors.deepstack[0].fc1.w.data);
}

static bool passes(const struct made *made, int threads, ey_err *e)
{
    struct block_check *check;
    *e = (ey_err){0};
    assert_true(block_check_start(&check, &made->m, threads, e));
    const bool ok = block_check_finish(check, e);
    block_check_close(&check);
    assert_null(check);
    return ok;
}

static void expect_named(const struct made *made, const struct tensor *w, int64_t row,
                         const char *where)
{
    ey_err e;
    uint8_t *scale = (uint8_t *)w->data + row * COLS / BLOCK * BLOCK_BYTES;
    scale[1] = 0x7c; /* infinity */
    for (int threads = 0; threads <= 3; threads += 3)
        if (passes(made, threads, &e) || !strstr(e.text, where))
            fail_msg("\"%s\", not \"%s\"", e.text, where);
    scale[1] = 0;
}

static void names_the_place(void **state)
{
    (void)state;
    struct made made;
    ey_err e;
    make_model(&made);
    if (!passes(&made, 0, &e) || !passes(&made, 3, &e)) fail_msg("%s", e.text);
    const struct model *m = &made.m;
    expect_named(&made, &m->embed, 0, "a scale in the embedding or the head is");
    expect_named(&made, &m->embed, EMBED_ROWS - 1, "a scale in the embedding or the head is");
    expect_named(&made, &m->layers[0].attention.q, ROWS - 1, "in the weights of layer 0 is");
    expect_named(&made, &m->layers[2].mlp.down, 2, "in the weights of layer 2 is");
    expect_named(&made, &made.blocks[1].fc2.w, 0, "of the vision encoder's block 1 is");
    expect_named(&made, &m->vision_tensors.merger.fc2.w, 1, "in the vision encoder outside its");
    expect_named(&made, &m->vision_tensors.deepstack[0].fc1.w, 1, "vision encoder outside its");
    free_model(&made);
}

static void names_the_first_of_several(void **state)
{
    (void)state;
    struct made made;
    make_model(&made);
    ((uint8_t *)made.layers[2].attention.q.data)[1] = 0x7c;
    expect_named(&made, &made.layers[1].mlp.down, 0, "in the weights of layer 1 is");
    free_model(&made);
}

static void ends_early(void **state)
{
    (void)state;
    struct made made;
    struct block_check *check = NULL;
    ey_err e;
    block_check_close(&check);
    make_model(&made);
    assert_true(block_check_start(&check, &made.m, 3, &e));
    block_check_close(&check);
    assert_null(check);
    free_model(&made);
}

static void ignores_other_types(void **state)
{
    (void)state;
    struct made made = {0};
    ey_err e;
    const float nan[2] = {NAN, NAN};
    made.m.embed = (struct tensor){.data = nan, .dtype = DTYPE_F32, .rows = 1, .cols = 2};
    if (!passes(&made, 3, &e)) fail_msg("%s", e.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_the_place),
        cmocka_unit_test(names_the_first_of_several),
        cmocka_unit_test(ends_early),
        cmocka_unit_test(ignores_other_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
