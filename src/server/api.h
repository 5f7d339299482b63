/* The OpenAI API between JSON and the engine's structs. Nothing here knows of HTTP or sockets: text in, structs out, and
 * the other way round, so that all of it can be tested and fuzzed alone. */
#ifndef EY_SERVER_API_H
#define EY_SERVER_API_H

#include "base/buf.h"
#include "server/media.h"

/* What is wrong with a request, as the API says it. */
struct api_error {
    int status;       /* HTTP */
    char type[40];    /* "BadRequestError" … */
    char param[160];  /* path of the field, "messages[0].content[1].image_url.url"; "": null */
    char message[768];
};

enum api_kind { API_CHAT, API_COMPLETION };

struct api_request {
    enum api_kind kind;
    ey_request request;  /* everything it points to lives in this struct's memory */
    char *model;         /* as the client named it; "" when it did not */
    int n;               /* answers */
    bool stream, include_usage, logprobs, echo;
    bool tools_given;    /* tool calls in the answer's text are taken apart */
    bool seed_given;
    size_t n_prompts;    /* completions: how many prompts; 1 otherwise */
    struct buf unknown;  /* names of fields that are not known, comma between; for the Warning header */
    struct media *media; /* [n_media] the pictures' files */
    size_t n_media;
    void *memory;        /* arena and parsed JSON that the above lies in */
};

struct api_limits {
    int max_images;   /* --limit-mm-per-prompt */
    int max_tokens;   /* of an answer at most: the context */
    int vocabulary;
    bool strict;
    ey_sampling sampling; /* the model's defaults */
    const struct media_policy *media;
};

/* Parses body[n]; `kind` says which route it came by. */
bool api_parse(struct api_request *out, enum api_kind kind, const char *body, size_t n, const struct api_limits *limits,
               struct api_error *error);
void api_request_free(struct api_request *request);

#endif
