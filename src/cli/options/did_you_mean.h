/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the known name that is nearest to a mistyped one, for "did you mean …?". */
#ifndef EY_CLI_OPTIONS_DID_YOU_MEAN_H
#define EY_CLI_OPTIONS_DID_YOU_MEAN_H

#include <stddef.h>

struct did_you_mean {
    const char *typed;
    size_t n;
    const char *best; /* NULL if none of the names is near */
    size_t distance;  /* of `best`; only a smaller one replaces it */
};

struct did_you_mean did_you_mean_start(const char *typed, size_t n);
/* Offers a name, which must live as long as `best` is used. */
void did_you_mean_add(struct did_you_mean *suggestion, const char *name);

#endif
