/* SPDX-License-Identifier: Apache-2.0 */
/* What the server logs when it starts and while it works. */
#ifndef EY_SERVER_STARTUP_LOG_H
#define EY_SERVER_STARTUP_LOG_H

#include "server/server_context.h"
#include "server/http/listen.h"

/* "http://127.0.0.1:8000" */
void startup_url(char out[128], const struct server_options *options,
                 const struct server_socket *listener);
/* Logs the address to type on another device, if the server listens on all addresses. */
void log_network_url(const struct server_options *options, const struct server_socket *listener);
/* Logs the models and their memory, after the start has loaded its models. */
void log_loaded_models(const struct server *server);

/* Logs vLLM's throughput line every ten seconds, unless the server was idle. */
struct throughput_log {
    double since;
    ey_stats before;
};
void log_throughput(struct throughput_log *t, struct model_manager *manager, size_t model);

#endif
