/* SPDX-License-Identifier: Apache-2.0 */
/* What the server says at its start and while it works. */
#ifndef EY_SERVER_STARTUP_LOG_H
#define EY_SERVER_STARTUP_LOG_H

#include "server/server_context.h"
#include "server/http/listen.h"

/* "http://127.0.0.1:8000" */
void startup_url(char out[128], const struct server_options *options,
                 const struct server_socket *listener);
/* Where all addresses are listened on: the one to type on another device. */
void log_network_url(const struct server_options *options, const struct server_socket *listener);
/* The models and their memory, when those that are to be loaded at the start have been. */
void log_loaded_models(const struct server *server);

/* vLLM's line about the last ten seconds; nothing where nothing was done. */
struct throughput_log {
    double since;
    ey_stats before;
};
void log_throughput(struct throughput_log *t, struct model_manager *manager, size_t model);

#endif
