/* SPDX-License-Identifier: Apache-2.0 */
/* What the server says at its start and while it works. */
#ifndef EY_SERVER_BANNER_H
#define EY_SERVER_BANNER_H

#include "server/context.h"
#include "server/listen.h"

/* "http://127.0.0.1:8000" */
void banner_url(char out[128], const struct server_options *options,
                const struct listener *listener);
/* The models and their memory, when those that are to be loaded at the start have been. */
void banner_models(const struct server *server);

/* vLLM's line about the last ten seconds; nothing where nothing was done. */
struct throughput {
    double since;
    ey_stats before;
};
void throughput_tell(struct throughput *t, struct keeper *keeper, size_t model);

#endif
