/* SPDX-License-Identifier: Apache-2.0 */
/* The known name that a mistyped one is nearest to: "did you mean …?". */
#ifndef EY_CLI_NEAREST_H
#define EY_CLI_NEAREST_H

#include <stddef.h>

struct did_you_mean {
    const char *typed;
    size_t n;
    const char *best; /* NULL: nothing offered is near */
    size_t distance;  /* only nearer ones are taken */
};

struct did_you_mean did_you_mean_start(const char *typed, size_t n);
/* `name` lives as long as the answer is used. */
void did_you_mean_add(struct did_you_mean *suggestion, const char *name);

#endif
