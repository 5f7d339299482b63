/* SPDX-License-Identifier: Apache-2.0 */
/* What is wrong with a request, before a dialect spells it. */
#ifndef EY_SERVER_ERROR_FORM_H
#define EY_SERVER_ERROR_FORM_H

#include "base/buf.h"

/* What clients of some dialects tell apart beyond the status. */
enum api_error_code {
    API_ERROR_OTHER,
    API_ERROR_TOO_LONG,    /* the prompt does not fit the context */
    API_ERROR_IMAGE,       /* an image cannot be read */
    API_ERROR_IMAGE_FETCH, /* or not be fetched */
    API_ERROR_UNSUPPORTED, /* a field that is known asks for what is not there */
    API_ERROR_MODEL        /* no model has that name */
};

struct api_error {
    int status; /* HTTP */
    enum api_error_code code;
    char type[40];   /* vLLM's word: "BadRequestError" …; "": by the status */
    char param[160]; /* path of the field, "messages[0].content[1].image_url.url"; "": null */
    char message[768];
};

/* Writes an error as a dialect has it and returns the status that it is sent with. */
typedef int error_form_fn(struct buf *out, const struct api_error *error);

/* {"error": {"message", "type", "param", "code"}}: OpenAI's and the server's own. */
error_form_fn write_openai_error;

#endif
