/* SPDX-License-Identifier: Apache-2.0 */
/* The hub's URL and access token, read from the environment variables of Hugging Face's own tools.
 */
#ifndef EY_HUB_ENDPOINT_H
#define EY_HUB_ENDPOINT_H

#include "base/err.h"
#include "http/libcurl_dl.h"

enum { ENDPOINT_BYTES = 1024, TOKEN_BYTES = 1024, ORIGIN_BYTES = 320 };

struct endpoint {
    const struct libcurl *lib;
    char url[ENDPOINT_BYTES];  /* HF_ENDPOINT, else https://huggingface.co; no '/' at its end */
    char origin[ORIGIN_BYTES]; /* scheme, host and port that get the token */
    bool secure;               /* https: redirects must not downgrade */
    char token[TOKEN_BYTES];   /* HF_TOKEN, else from the file of `hf auth login`; "" if none */
    char token_source[64];     /* "HF_TOKEN", "the file of HF_TOKEN_PATH" … for messages */
};

/* Reads URL and token, and loads libcurl. */
bool endpoint_read(struct endpoint *ep, ey_err *e);
/* Whether HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE is set. */
bool hub_is_offline(void);
/* Writes "https://host:port" of a URL. Returns false if it is not http(s), has no host or is too
 * long. */
bool url_origin(char out[ORIGIN_BYTES], const struct libcurl *lib, const char *url);

#endif
