/* SPDX-License-Identifier: Apache-2.0 */
/* An API error, independent of the dialect that writes it. */
#ifndef EY_SERVER_ERROR_FORM_H
#define EY_SERVER_ERROR_FORM_H

#include "base/buf.h"

/* Error kinds that some dialects distinguish beyond the HTTP status. */
enum api_error_code {
    API_ERROR_OTHER,
    API_ERROR_TOO_LONG,    /* the prompt does not fit the context */
    API_ERROR_IMAGE,       /* an image cannot be read */
    API_ERROR_IMAGE_FETCH, /* an image cannot be fetched */
    API_ERROR_UNSUPPORTED, /* a known field asks for an unsupported feature */
    API_ERROR_MODEL        /* no such model */
};

struct api_error {
    int status; /* HTTP */
    enum api_error_code code;
    char type[40];   /* as vLLM names it, "BadRequestError"; "": by the status */
    char param[160]; /* path of the field, "messages[0].content[1].image_url.url", or "" */
    char message[768];
};

/* Writes an error in a dialect's form. Returns the HTTP status to send. */
typedef int error_form_fn(struct buf *out, const struct api_error *error);

/* {"error": {"message", "type", "param", "code"}}: OpenAI's and the server's own. */
error_form_fn write_openai_error;

#endif
