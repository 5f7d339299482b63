/* SPDX-License-Identifier: Apache-2.0 */
/* Brings an index up to what a folder has: images that are new or changed get vectors, those that
 * are gone are forgotten. What was done stays when the program is ended on the way. */
#ifndef EY_CLI_INDEX_UPDATE_H
#define EY_CLI_INDEX_UPDATE_H

#include "cli/search/embedder.h"
#include "cli/search/search_index.h"

struct index_update {
    struct search_index *index;
    struct embedder *embedder; /* its model is loaded when there is something to do */
    const char *folder;
    size_t n_images, n_new, n_failed, n_removed; /* out */
};

bool index_update_run(struct index_update *update, ey_err *e);

#endif
