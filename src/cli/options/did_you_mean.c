/* SPDX-License-Identifier: Apache-2.0 */
/* A name is near if the typed text becomes that name by at most n / 3 + 1 changes, where n is the
 * length of the typed text. A change inserts, deletes or replaces a character or swaps two
 * neighbors. A name is also near if it begins with the typed text and three or more characters were
 * typed. */
#include "cli/options/did_you_mean.h"

#include <string.h>

enum { LONGEST = 40 };

struct did_you_mean did_you_mean_start(const char *typed, size_t n)
{
    return (struct did_you_mean){.typed = typed, .n = n, .distance = n / 3 + 2};
}

static size_t min_of_three(size_t a, size_t b, size_t c)
{
    size_t ab = a < b ? a : b;
    return ab < c ? ab : c;
}

/* The optimal string alignment distance, computed with three rolling rows. */
static size_t edit_distance(const char *a, size_t n, const char *b, size_t m)
{
    size_t row[3][LONGEST + 1];
    for (size_t j = 0; j <= m; j++)
        row[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *now = row[i % 3], *before = row[(i + 2) % 3], *two = row[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= m; j++) {
            now[j] = min_of_three(before[j] + 1, now[j - 1] + 1,
                                  before[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                two[j - 2] + 1 < now[j])
                now[j] = two[j - 2] + 1;
        }
    }
    return row[n % 3][m];
}

void did_you_mean_add(struct did_you_mean *suggestion, const char *name)
{
    size_t m = strlen(name), n = suggestion->n;
    if (n > LONGEST || m > LONGEST) return;
    size_t distance = edit_distance(suggestion->typed, n, name, m);
    if (n >= 3 && n < m && memcmp(suggestion->typed, name, n) == 0) distance = 1;
    if (distance < suggestion->distance) {
        suggestion->best = name;
        suggestion->distance = distance;
    }
}
