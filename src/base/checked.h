/* SPDX-License-Identifier: Apache-2.0 */
/* Overflow-checked arithmetic, for every number that comes from a file, a request or the network.
 */
#ifndef EY_BASE_CHECKED_H
#define EY_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"

static inline bool checked_mul(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

static inline bool checked_add(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

/* Copies an option struct, whose first member is the size that the calling program was compiled
 * with, to out[size]. Members that an older program lacks become zero. Fails if a newer program
 * sets a member that this version does not know. `least` is the size of the first version, `maker`
 * the function that initializes the struct. */
static inline bool checked_struct(void *out, size_t size, const void *in, size_t least,
                                  const char *maker, ey_err *e)
{
    size_t given;
    memcpy(&given, in, sizeof(given));
    if (given < least || given > 16 * size)
        return ey_fail(e, EY_BAD_REQUEST,
                       "a struct's size is %zu, which is invalid; initialize the struct with %s()",
                       given, maker);
    for (size_t i = size; i < given; i++)
        if (((const char *)in)[i])
            return ey_fail(e, EY_BAD_REQUEST,
                           "the program sets an option that this version of libeyelet does not "
                           "know; install the version that it was compiled with");
    memset(out, 0, size);
    memcpy(out, in, given < size ? given : size);
    memcpy(out, &size, sizeof(size));
    return true;
}

#endif
