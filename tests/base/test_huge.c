/* Maps of files moved into huge pages: the same bytes at the same addresses, also for those who read meanwhile, and nothing beside them; or copies elsewhere. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/huge.h"
#include "checkpoint/temp_dir.h"

enum { SIZE = 88 << 20 }; /* more than two of the pieces that are copied at once */

static uint32_t word_at(size_t i)
{
    return (uint32_t)i * 2654435761u ^ (uint32_t)(i >> 9);
}

static bool all_right(const struct file_map *map)
{
    for (size_t i = 0; i < map->size / 4; i++) {
        uint32_t word;
        memcpy(&word, map->data + 4 * i, sizeof(word));
        if (word != word_at(i)) return false;
    }
    return true;
}

struct reader {
    struct file_map map;
    atomic_bool stop, wrong;
    atomic_int rounds;
};

static void *read_on(void *context)
{
    struct reader *r = context;
    while (!atomic_load(&r->stop)) {
        if (!all_right(&r->map)) atomic_store(&r->wrong, true);
        atomic_fetch_add(&r->rounds, 1);
    }
    return NULL;
}

static struct file_map map_of_words(const char *dir)
{
    struct file_map map;
    ey_err e;
    uint32_t *words = malloc(SIZE);
    assert_non_null(words);
    for (size_t i = 0; i < SIZE / 4; i++) words[i] = word_at(i);
    temp_file(dir, "words", words, SIZE);
    free(words);
    assert_true(file_map_open(&map, temp_path(dir, "words"), &e));
    return map;
}

/* Whole pages that a move of the whole map replaces, at most. */
static size_t most_moved(const struct file_map *map)
{
    uintptr_t begin = ((uintptr_t)map->data + HUGE_PAGE - 1) / HUGE_PAGE, end = ((uintptr_t)map->data + map->size) / HUGE_PAGE;
    return (end - begin) * HUGE_PAGE;
}

static void readers_never_see_anything_else(void **state)
{
    (void)state;
    const char *dir = temp_dir_make();
    struct reader reader = {.map = map_of_words(dir)};
    const struct file_map *map = &reader.map;
    pthread_t thread;
    pthread_create(&thread, NULL, read_on, &reader);
    while (!atomic_load(&reader.rounds)) {}
    struct huge_span spans[] = {{map->data + (40 << 20) + 1000, SIZE - (40 << 20) - 1000}, {map->data, 40 << 20}}; /* a gap of 1000 bytes */
    struct huge_move *move = huge_move_start(&(struct huge_plan){.span = spans, .n_spans = 2});
    size_t moved = huge_move_wait(move);
    int rounds = atomic_load(&reader.rounds);
    while (atomic_load(&reader.rounds) < rounds + 2) {}
    atomic_store(&reader.stop, true);
    pthread_join(thread, NULL);
    assert_false(atomic_load(&reader.wrong));
    if (move) assert_int_equal(moved, most_moved(map));
    else print_message("this machine gives no huge pages: nothing was moved\n");
    huge_move_stop(&move);
    assert_null(move);
    file_map_close(&reader.map);
    temp_dir_remove(dir);
}

static bool busy_at_first(void *user)
{
    return ++*(int *)user < 4;
}

static bool always_busy(void *user)
{
    (void)user;
    return true;
}

static void only_what_is_named_is_moved(void **state)
{
    (void)state;
    const char *dir = temp_dir_make();
    struct file_map map = map_of_words(dir);
    struct huge_span far[] = {{map.data, 5 << 20}, {map.data + (60 << 20), 6 << 20}}, small = {map.data + 100, HUGE_PAGE - 1};
    int asked = 0;
    struct huge_move *move = huge_move_start(&(struct huge_plan){.span = far, .n_spans = 2, .busy = busy_at_first, .user = &asked});
    if (move) assert_in_range(huge_move_wait(move), 6 << 20, 11 << 20);
    if (move) assert_in_range(asked, 4, 10);
    assert_null(huge_move_start(&(struct huge_plan){.span = &small, .n_spans = 1}));
    assert_null(huge_move_start(&(struct huge_plan){0}));
    assert_int_equal(huge_move_wait(NULL), 0);
    assert_true(all_right(&map));
    huge_move_stop(&move);
    file_map_close(&map);
    temp_dir_remove(dir);
}

static void a_move_is_stopped_at_any_time(void **state)
{
    (void)state;
    const char *dir = temp_dir_make();
    for (int i = 0; i < 3; i++) {
        struct file_map map = map_of_words(dir);
        struct huge_span all = {map.data, map.size};
        struct huge_move *move = huge_move_start(&(struct huge_plan){.span = &all, .n_spans = 1, .busy = i ? always_busy : NULL});
        huge_move_stop(&move);
        assert_true(all_right(&map));
        file_map_close(&map);
    }
    temp_dir_remove(dir);
}

struct noted {
    const struct huge_copy *copy;
    size_t n, asked;
    bool wrong;
};

/* Each copy is there when it is told of, which happens again until it is taken note of. */
static bool note_at_second(void *user, size_t n)
{
    struct noted *noted = user;
    const struct huge_copy *c = &noted->copy[n - 1];
    noted->wrong |= n != noted->asked / 2 + 1 || memcmp(c->to, c->from, c->size) != 0;
    noted->n = n;
    return noted->asked++ % 2;
}

static bool never_note(void *user, size_t n)
{
    *(size_t *)user = n;
    return false;
}

static void copies_get_places_of_their_own(void **state)
{
    (void)state;
    const char *dir = temp_dir_make();
    struct file_map map = map_of_words(dir);
    uint8_t *room = huge_room(9 << 20);
    assert_non_null(room);
    assert_int_equal((uintptr_t)room % HUGE_PAGE, 0);
    const struct huge_copy copy[] = {{map.data + 4100, room, 5 << 20}, {map.data + (6 << 20) + 36, room + (5 << 20) + 4096, 3 << 20}};
    struct huge_span rest = {map.data + (32 << 20), 32 << 20};
    struct noted noted = {.copy = copy};
    struct huge_move *move = huge_move_start(&(struct huge_plan){.copy = copy, .n_copies = 2, .span = &rest, .n_spans = 1, .copied = note_at_second, .user = &noted});
    if (move) {
        assert_in_range(huge_move_wait(move), 38 << 20, 40 << 20);
        assert_int_equal(noted.n, 2);
        assert_false(noted.wrong);
    }
    huge_move_stop(&move);
    size_t told = 0;
    move = huge_move_start(&(struct huge_plan){.copy = copy, .n_copies = 2, .copied = never_note, .user = &told});
    huge_move_stop(&move); /* also where nobody takes note */
    assert_in_range(told, 0, 1);
    assert_true(all_right(&map));
    huge_room_free(room, 9 << 20);
    huge_room_free(NULL, 0);
    file_map_close(&map);
    temp_dir_remove(dir);
}

static void asking_keeps_what_is_there(void **state)
{
    (void)state;
    unsigned char *memory = malloc(5 << 20);
    assert_non_null(memory);
    memset(memory, 9, 5 << 20);
    huge_ask(memory, 5 << 20);
    huge_ask(memory, 100);
    for (size_t i = 0; i < 5 << 20; i++) assert_int_equal(memory[i], 9);
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readers_never_see_anything_else),
        cmocka_unit_test(only_what_is_named_is_moved),
        cmocka_unit_test(a_move_is_stopped_at_any_time),
        cmocka_unit_test(copies_get_places_of_their_own),
        cmocka_unit_test(asking_keeps_what_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
