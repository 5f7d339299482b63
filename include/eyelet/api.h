/* SPDX-License-Identifier: Apache-2.0 */
/* What libeyelet exports: the functions that are marked EY_API, and nothing else.
 *
 * Structs that a program fills, ey_engine_options and ey_request, begin with their size, so that
 * later versions can add fields to their ends. Everything else in these headers stays
 * unchanged as long as the library's soname does. */
#ifndef EYELET_API_H
#define EYELET_API_H

#define EY_API __attribute__((visibility("default")))

#ifdef __cplusplus
#define EY_BEGIN_DECLS extern "C" {
#define EY_END_DECLS }
#define EY_ZEROS \
    {            \
    }
#else
#define EY_BEGIN_DECLS
#define EY_END_DECLS
#define EY_ZEROS \
    {            \
        0        \
    }
#endif

EY_BEGIN_DECLS

/* Frees memory that a function of eyelet returned to its caller, like free(); accepts NULL. */
EY_API void ey_free(void *memory);

EY_END_DECLS

#endif
