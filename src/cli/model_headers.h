/* SPDX-License-Identifier: Apache-2.0 */
/* A model's headers for a plan, wherever they come from: the model is here, its shapes are built
 * in, or the hub is asked for some kilobytes. */
#ifndef EY_CLI_MODEL_HEADERS_H
#define EY_CLI_MODEL_HEADERS_H

#include "cli/options/options.h"

struct model_headers {
    char
        directory[EY_MAX_PATH]; /* or a file, or a name that is found in the cache: to be planned */
    bool temporary;             /* the directory is ours */
    bool official;              /* built in, not asked for */
    uint64_t bytes;             /* of the download that was left out; 0: it is here */
};

/* What `name` means, as model_choose() gives it. Remove the headers also after an error. */
bool model_headers_find(struct model_headers *out, const char *name, const struct options *o,
                        ey_err *e);
/* Of an official model, whether it is here or not. */
bool model_headers_official(struct model_headers *out, const char *repository, ey_err *e);
void model_headers_remove(struct model_headers *headers);

/* An empty directory for headers, in out[EY_MAX_PATH]. */
bool temporary_directory_make(char *out, ey_err *e);

#endif
