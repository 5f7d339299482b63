/* SPDX-License-Identifier: Apache-2.0 */
/* libmicrohttpd, loaded by dlopen when a server starts. Linking it would load ten more libraries
 * for every command, and the portable program would need it installed. microhttpd_dl.c defines its
 * functions. */
#ifndef EY_SERVER_MICROHTTPD_DL_H
#define EY_SERVER_MICROHTTPD_DL_H

#include "base/err.h"

/* Loads the library. Call it once, before any of its functions. */
bool microhttpd_load(ey_err *e);

#endif
