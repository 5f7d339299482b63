/* SPDX-License-Identifier: Apache-2.0 */
/* Errors: a code for programs and a sentence for people, in a value on the caller's stack.
 *
 * A function that can fail returns bool and takes an ey_err *, which may be NULL; it fills *err
 * only when it returns false. Nothing has to be freed. Programs look at code and item, never at the
 * text, whose words may change. */
#ifndef EYELET_ERROR_H
#define EYELET_ERROR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "eyelet/api.h"

EY_BEGIN_DECLS

/* X(name, HTTP status, exit status of a command) */
#define EY_CODES(X)                                                                          \
    X(EY_OK, 200, 0)          /* no error */                                                 \
    X(EY_BAD_REQUEST, 400, 2) /* the request is invalid */                                   \
    X(EY_BAD_IMAGE, 400, 1)   /* an image cannot be decoded */                               \
    X(EY_TOO_LONG, 400, 1)    /* prompt and answer do not fit the context */                 \
    X(EY_NOT_FOUND, 404, 1)   /* no such model or file */                                    \
    X(EY_BAD_MODEL, 500, 1)   /* a checkpoint or tokenizer file is damaged or unsupported */ \
    X(EY_NO_MEMORY, 503, 1)   /* an allocation failed, or a plan does not fit */             \
    X(EY_NO_DEVICE, 503, 1)   /* no usable GPU */                                            \
    X(EY_BUSY, 503, 1)        /* the queue is full; the same request may succeed later */    \
    X(EY_CANCELLED, 499, 1)   /* the caller canceled the request */                          \
    X(EY_IO, 500, 1)          /* the system refused to read or write */                      \
    X(EY_INTERNAL, 500, 1)    /* a bug in eyelet */

typedef enum {
#define EY_CODE_ENUM(name, http, status) name,
    EY_CODES(EY_CODE_ENUM)
#undef EY_CODE_ENUM
} ey_code;

/* The kind of item that an error is about, if a request can have several such items. */
typedef enum {
    EY_ITEM_NONE,  /* none of these, or it is not known which */
    EY_ITEM_IMAGE, /* an image; images are counted in the order of messages and parts */
    EY_ITEM_TOOL   /* an element of tools[] of the request or the grammar */
} ey_item_kind;

typedef struct {
    ey_code code;
    ey_item_kind item_kind;
    int item;       /* which one, from 0 */
    int detail;     /* where the words after the item's name begin: text + detail; 0: not named */
    char text[768]; /* what is wrong, with which value, and what to do; if too long, truncated
                       between characters */
} ey_err;

/* Exit status of a command that ends with this code. */
EY_API int ey_code_exit_status(ey_code code);
/* HTTP status of a response that carries this code. */
EY_API int ey_code_http_status(ey_code code);

EY_END_DECLS

#endif
