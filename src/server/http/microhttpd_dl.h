/* SPDX-License-Identifier: Apache-2.0 */
/* libmicrohttpd, opened when a server is started: a program that is linked with it would start
 * later, for every command, by the ten libraries that it brings, and could not be carried to where
 * it is missing. web_library.c defines its functions. */
#ifndef EY_SERVER_MICROHTTPD_DL_H
#define EY_SERVER_MICROHTTPD_DL_H

#include "base/err.h"

/* Opens the library, once; to be called before any of its functions. */
bool microhttpd_load(ey_err *e);

#endif
