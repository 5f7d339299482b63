/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic that says when it overflows; for every number that came from outside. */
#ifndef EY_BASE_CHECKED_H
#define EY_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool checked_mul(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

static inline bool checked_add(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

#endif
