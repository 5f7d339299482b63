/* SPDX-License-Identifier: Apache-2.0 */
/* BPE merging of words and very long pieces, against the simplest loop. */
#include <stdlib.h>
#include <string.h>

#include "tokenizer/tok_fixture.h"
#include "tokenizer/tokenizer_internal.h"

/* The definition: repeatedly merge the leftmost pair of the lowest rank. */
static size_t merge_plainly(const struct tokenizer *tok, int32_t *id, size_t n)
{
    for (;;) {
        const struct pair_slot *best = NULL;
        size_t at = 0;
        for (size_t i = 0; i + 1 < n; i++) {
            const struct pair_slot *slot = pair_map_find(&tok->merges, (uint32_t)id[i],
                                                         (uint32_t)id[i + 1]);
            if (slot && (!best || slot->value < best->value)) {
                best = slot;
                at = i;
            }
        }
        if (!best) return n;
        id[at] = (int32_t)best->extra;
        memmove(id + at + 1, id + at + 2, (n - at - 2) * sizeof(*id));
        n--;
    }
}

static void check_piece(const struct tokenizer *tok, const char *piece, size_t n)
{
    ey_err e;
    struct ids got = {0};
    struct bpe bpe = {.tok = tok};
    int32_t *want = malloc(n * sizeof(*want));
    assert_non_null(want);
    for (size_t i = 0; i < n; i++)
        want[i] = (int32_t)tok->byte_id[(uint8_t)piece[i]];
    assert_true(bpe_encode(&bpe, piece, n, &got, &e));
    assert_ids("piece", &got, want, merge_plainly(tok, want, n));
    ids_free(&got);
    bpe_finish(&bpe);
    free(want);
}

static void check_random_pieces(const struct tokenizer *tok, const char *alphabet, int rounds)
{
    uint64_t seed = 3;
    for (int round = 0; round < rounds; round++) {
        char piece[400];
        size_t n = 1 + next_random(&seed) % (round % 2 ? 80 : sizeof(piece));
        size_t letters = 1 + next_random(&seed) % strlen(alphabet);
        for (size_t i = 0; i < n; i++)
            piece[i] = alphabet[next_random(&seed) % letters];
        check_piece(tok, piece, n);
    }
}

static void test_random_pieces(void **state)
{
    (void)state;
    check_random_pieces(small_tokenizer(), "a hello\nworldthuse12", 2000);
}

static void test_random_pieces_qwen(void **state)
{
    (void)state;
    if (!qwen_tokenizer()) skip();
    check_random_pieces(qwen_tokenizer(), "a etionsr\n=-hldcu", 2000);
}

/* Around the length from which a heap replaces the array. */
static void test_lengths_at_the_border(void **state)
{
    (void)state;
    char piece[130];
    memset(piece, 'a', sizeof(piece));
    for (size_t n = 1; n <= sizeof(piece); n++)
        check_piece(small_tokenizer(), piece, n);
}

int run_bpe_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_pieces),
        cmocka_unit_test(test_random_pieces_qwen),
        cmocka_unit_test(test_lengths_at_the_border),
    };
    return cmocka_run_group_tests_name("bpe", tests, NULL, NULL);
}
