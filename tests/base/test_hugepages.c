/* SPDX-License-Identifier: Apache-2.0 */
/* Memory in huge pages: its alignment, and that advising the kernel keeps its contents. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hugepages.h"

static void memory_begins_at_a_huge_page(void **state)
{
    (void)state;
    const size_t size = (5 << 20) + 100;
    for (int i = 0; i < 3; i++) {
        unsigned char *room = hugepages_alloc(size);
        assert_non_null(room);
        assert_int_equal((uintptr_t)room % HUGEPAGE_BYTES, 0);
        for (size_t at = 0; at < size; at++)
            assert_int_equal(room[at], 0);
        memset(room, 7, size);
        hugepages_free(room, size);
    }
    hugepages_free(NULL, 0);
    assert_null(hugepages_alloc(SIZE_MAX / 4));
}

static void advising_keeps_the_contents(void **state)
{
    (void)state;
    unsigned char *memory = malloc(5 << 20);
    assert_non_null(memory);
    memset(memory, 9, 5 << 20);
    hugepages_advise(memory, 5 << 20);
    hugepages_advise(memory, 100);
    for (size_t i = 0; i < 5 << 20; i++)
        assert_int_equal(memory[i], 9);
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_begins_at_a_huge_page),
        cmocka_unit_test(advising_keeps_the_contents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
