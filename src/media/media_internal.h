/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of media share, and what tests look at. Nothing outside includes it. */
#ifndef EY_MEDIA_MEDIA_INTERNAL_H
#define EY_MEDIA_MEDIA_INTERNAL_H

#include <sys/socket.h>

#include "media/media.h"

/* Grows out->bytes to `capacity` bytes, taken from the budget first: waits for it, at most some
 * seconds. */
bool media_reserve(struct media *out, size_t capacity, const struct media_policy *policy,
                   ey_err *e);
/* Gives back what is above out->n_bytes. */
void media_shrink(struct media *out);
bool media_fail_too_large(const struct media_policy *policy, ey_err *e);
size_t media_max_bytes(const struct media_policy *policy);
bool media_client_gone(const struct media_policy *policy);

/* url[n] begins with http:// or https://, in any case. */
bool media_fetch(struct media *out, const char *url, size_t n, const struct media_policy *policy,
                 ey_err *e);
/* Parses it as media_fetch does and checks it without resolving or connecting. */
bool media_check_http(const char *url, size_t n, const struct media_policy *policy, ey_err *e);

/* url[n] begins with file:, in any case. */
bool media_read_file(struct media *out, const char *url, size_t n,
                     const struct media_policy *policy, ey_err *e);
/* The path of a file: URL, percent-decoded, in out[EY_MAX_PATH]. */
bool media_file_path(char *out, const char *url, size_t n, ey_err *e);
/* A descriptor of path, which lies below the directory `dir` however links and ".." go; -1 and
 * errno, EXDEV where it would leave. `walk`: as on kernels without openat2, where links are not
 * followed. */
int media_open_below(int dir, const char *path, bool walk);

/* Whether the address is one of the public internet, none of this machine's, its network's or its
 * cloud's own. */
bool address_is_public(const struct sockaddr *address);
bool address_is_loopback(const struct sockaddr *address);

#endif
