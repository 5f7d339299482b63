/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/request/loop_guard.h"

#include <string.h>

enum { MAX_PATTERN = 2048, MAX_COUNT = 1000000 };

bool loop_guard_check(const ey_loop_guard *rule, ey_err *e)
{
    if (rule->max_pattern < 0 || rule->max_pattern > MAX_PATTERN)
        return ey_fail(e, EY_BAD_REQUEST, "loop_guard.max_pattern is %d; it must be from 0 to %d",
                       rule->max_pattern, MAX_PATTERN);
    if (!rule->max_pattern) return true;
    if (rule->min_pattern < 0 || rule->min_pattern > rule->max_pattern)
        return ey_fail(e, EY_BAD_REQUEST,
                       "loop_guard.min_pattern is %d; it must be from 0 to max_pattern, which is "
                       "%d",
                       rule->min_pattern, rule->max_pattern);
    return (rule->min_count >= 2 && rule->min_count <= MAX_COUNT) ||
           ey_fail(e, EY_BAD_REQUEST, "loop_guard.min_count is %d; it must be from 2 to %d",
                   rule->min_count, MAX_COUNT);
}

bool loop_guard_open(struct loop_guard *g, const ey_loop_guard *rule, struct arena *arena)
{
    *g = (struct loop_guard){.rule = *rule};
    if (!rule->max_pattern) return true;
    if (!rule->min_pattern) g->rule.min_pattern = 1;
    g->run = arena_array(arena, (size_t)rule->max_pattern + 1, sizeof(*g->run));
    return g->run;
}

void loop_guard_begin(struct loop_guard *g, int first)
{
    g->first = first;
    if (g->run) memset(g->run, 0, ((size_t)g->rule.max_pattern + 1) * sizeof(*g->run));
}

ey_repetition loop_guard_add(struct loop_guard *g, const int32_t *ids, int n)
{
    const ey_loop_guard *rule = &g->rule;
    const int last = n - 1;
    ey_repetition found = {0};
    for (int p = rule->min_pattern; g->run && p <= rule->max_pattern && last - p >= g->first; p++) {
        g->run[p] = ids[last] == ids[last - p] ? g->run[p] + 1 : 0;
        int64_t length = (int64_t)p + g->run[p], wanted = (int64_t)rule->min_count * p;
        if (!found.copies && length >= wanted && length >= rule->min_tokens) {
            found.pattern_tokens = p;
            found.copies = (int)(length / p);
        }
    }
    return found;
}
