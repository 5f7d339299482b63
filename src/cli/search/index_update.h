/* SPDX-License-Identifier: Apache-2.0 */
/* Updates an index to a folder's contents: new and changed images get vectors, and images that no
 * longer exist are removed. If the program is stopped, vectors that were committed are kept. */
#ifndef EY_CLI_INDEX_UPDATE_H
#define EY_CLI_INDEX_UPDATE_H

#include "cli/search/embedder.h"
#include "cli/search/search_index.h"

struct index_update {
    struct search_index *index;
    struct embedder *embedder; /* its model is loaded only if there is work */
    const char *folder;
    size_t n_images, n_new, n_failed, n_removed; /* results */
};

/* Returns false after an error of the index or the model. An image that cannot be embedded is
 * reported on standard error, counted in n_failed, and does not stop the update. */
bool index_update_run(struct index_update *update, ey_err *e);

#endif
