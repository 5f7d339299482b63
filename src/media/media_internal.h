/* SPDX-License-Identifier: Apache-2.0 */
/* Internals shared by the files of src/media and its tests. */
#ifndef EY_MEDIA_MEDIA_INTERNAL_H
#define EY_MEDIA_MEDIA_INTERNAL_H

#include <sys/socket.h>

#include "media/media.h"

/* Grows out->bytes to `capacity` bytes. Takes the added bytes from the budget first, and waits some
 * seconds if the budget is full. */
bool media_reserve(struct media *out, size_t capacity, const struct media_policy *policy,
                   ey_err *e);
/* Takes n bytes from the budget for an empty *out. The caller then allocates them. */
bool media_hold(struct media *out, size_t n, const struct media_policy *policy, ey_err *e);
/* Shrinks out->bytes to out->n_bytes and gives the rest back to the budget. */
void media_shrink(struct media *out);
bool media_fail_too_large(const struct media_policy *policy, ey_err *e);
size_t media_max_bytes(const struct media_policy *policy);
bool media_client_gone(const struct media_policy *policy);

/* Fetches url[n], which begins with http:// or https:// in any case. */
bool media_fetch(struct media *out, const char *url, size_t n, const struct media_policy *policy,
                 ey_err *e);
/* Parses and checks a URL like media_fetch(), without resolving or connecting. */
bool media_check_http(const char *url, size_t n, const struct media_policy *policy, ey_err *e);

/* Reads url[n], which begins with file: in any case. */
bool media_read_file(struct media *out, const char *url, size_t n,
                     const struct media_policy *policy, ey_err *e);
/* Writes the percent-decoded path of a file: URL to out[EY_MAX_PATH]. */
bool media_file_path(char *out, const char *url, size_t n, ey_err *e);
/* Opens `path` below the directory `dir`. On failure returns -1 and sets errno, to EXDEV if a
 * link or ".." would leave `dir`. `walk` selects the fallback for kernels without openat2; the
 * fallback follows no links. */
int media_open_below(int dir, const char *path, bool walk);

/* Whether the address is on the public internet, and not one of this machine, of a private network
 * or of a cloud provider's internal service. */
bool address_is_public(const struct sockaddr *address);
bool address_is_loopback(const struct sockaddr *address);

#endif
