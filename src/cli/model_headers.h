/* SPDX-License-Identifier: Apache-2.0 */
/* Finds a model's headers for a plan: in the model itself if it is here, among the shapes that are
 * built in, or by downloading some kilobytes from the hub. */
#ifndef EY_CLI_MODEL_HEADERS_H
#define EY_CLI_MODEL_HEADERS_H

#include "cli/options/options.h"

struct model_headers {
    char directory[EY_MAX_PATH]; /* what to plan: a directory, a file, or a name in the cache */
    bool temporary;              /* the directory is ours and will be removed */
    bool official;               /* built in, not downloaded */
    uint64_t bytes;              /* of the whole model's download; 0 if the model is here */
};

/* Finds the headers of `name`, as model_choose() returns it. The caller removes the headers, also
 * after an error. */
bool model_headers_find(struct model_headers *out, const char *name, const struct options *o,
                        ey_err *e);
/* Finds the built-in headers of an official model, whether or not the model is here. */
bool model_headers_official(struct model_headers *out, const char *repository, ey_err *e);
/* Unless the model is here or --quiet is given, prints a note that it is not downloaded and which
 * headers were used instead. `done` says for what: "planned from" or "judged by". */
void model_headers_say(const struct model_headers *headers, const char *name, const char *done,
                       const struct options *o);
void model_headers_remove(struct model_headers *headers);

/* Makes an empty directory for headers and writes its path to out[EY_MAX_PATH]. */
bool temporary_directory_make(char *out, ey_err *e);

#endif
