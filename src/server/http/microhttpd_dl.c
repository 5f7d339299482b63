/* SPDX-License-Identifier: Apache-2.0 */
/* Forwards the functions of libmicrohttpd that we call to the loaded library. */
#include "server/http/microhttpd_dl.h"

#include <dlfcn.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdarg.h>

/* result, name, parameters, arguments */
#define MICROHTTPD_FUNCTIONS(X)                                                              \
    X(struct MHD_Daemon *, MHD_start_daemon_va,                                              \
      (unsigned flags, uint16_t port, MHD_AcceptPolicyCallback accept, void *accept_user,    \
       MHD_AccessHandlerCallback handler, void *user, va_list options),                      \
      (flags, port, accept, accept_user, handler, user, options))                            \
    X(enum MHD_Result, MHD_is_feature_supported, (enum MHD_FEATURE feature), (feature))      \
    X(const char *, MHD_get_version, (void), ())                                             \
    X(MHD_socket, MHD_quiesce_daemon, (struct MHD_Daemon * daemon), (daemon))                \
    X(int, MHD_get_connection_values_n,                                                      \
      (struct MHD_Connection * connection, enum MHD_ValueKind kind, MHD_KeyValueIteratorN f, \
       void *user),                                                                          \
      (connection, kind, f, user))                                                           \
    X(const char *, MHD_lookup_connection_value,                                             \
      (struct MHD_Connection * connection, enum MHD_ValueKind kind, const char *key),        \
      (connection, kind, key))                                                               \
    X(struct MHD_Response *, MHD_create_response_from_buffer,                                \
      (size_t n, void *bytes, enum MHD_ResponseMemoryMode mode), (n, bytes, mode))           \
    X(struct MHD_Response *, MHD_create_response_from_callback,                              \
      (uint64_t size, size_t block, MHD_ContentReaderCallback read, void *user,              \
       MHD_ContentReaderFreeCallback free_user),                                             \
      (size, block, read, user, free_user))                                                  \
    X(enum MHD_Result, MHD_add_response_header,                                              \
      (struct MHD_Response * response, const char *name, const char *value),                 \
      (response, name, value))                                                               \
    X(enum MHD_Result, MHD_queue_response,                                                   \
      (struct MHD_Connection * connection, unsigned status, struct MHD_Response *response),  \
      (connection, status, response))

/* Functions without a result and variadic ones do not fit the list above. */
static struct {
#define MICROHTTPD_POINTER(result, name, parameters, arguments) result(*name) parameters;
    MICROHTTPD_FUNCTIONS(MICROHTTPD_POINTER)
#undef MICROHTTPD_POINTER
    void (*MHD_stop_daemon)(struct MHD_Daemon *daemon);
    void (*MHD_destroy_response)(struct MHD_Response *response);
    const union MHD_ConnectionInfo *(*MHD_get_connection_info)(struct MHD_Connection *connection,
                                                               enum MHD_ConnectionInfoType type,
                                                               ...);
    const union MHD_DaemonInfo *(*MHD_get_daemon_info)(struct MHD_Daemon *daemon,
                                                       enum MHD_DaemonInfoType type, ...);
} library;
static ey_err problem; /* EY_OK if the library is loaded */

#define MICROHTTPD_FORWARD(result, name, parameters, arguments) \
    result name parameters                                      \
    {                                                           \
        return library.name arguments;                          \
    }
MICROHTTPD_FUNCTIONS(MICROHTTPD_FORWARD)
#undef MICROHTTPD_FORWARD

void MHD_stop_daemon(struct MHD_Daemon *daemon)
{
    library.MHD_stop_daemon(daemon);
}

void MHD_destroy_response(struct MHD_Response *response)
{
    library.MHD_destroy_response(response);
}

const union MHD_ConnectionInfo *MHD_get_connection_info(struct MHD_Connection *connection,
                                                        enum MHD_ConnectionInfoType type, ...)
{
    return library.MHD_get_connection_info(connection, type);
}

const union MHD_DaemonInfo *MHD_get_daemon_info(struct MHD_Daemon *daemon,
                                                enum MHD_DaemonInfoType type, ...)
{
    return library.MHD_get_daemon_info(daemon, type);
}

struct MHD_Daemon *MHD_start_daemon(unsigned flags, uint16_t port, MHD_AcceptPolicyCallback accept,
                                    void *accept_user, MHD_AccessHandlerCallback handler,
                                    void *user, ...)
{
    va_list options;
    va_start(options, user);
    struct MHD_Daemon *daemon = MHD_start_daemon_va(flags, port, accept, accept_user, handler, user,
                                                    options);
    va_end(options);
    return daemon;
}

static bool microhttpd_look_up(void **function, void *handle, const char *name)
{
    *function = dlsym(handle, name);
    return *function ||
           ey_fail(&problem, EY_IO,
                   "the libmicrohttpd installed here lacks %s; version 0.9.75 or newer is needed",
                   name);
}

static void microhttpd_open(void)
{
    void *handle = dlopen("libmicrohttpd.so.12", RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        ey_fail(&problem, EY_IO,
                "serving needs libmicrohttpd, which is not installed; install the package "
                "libmicrohttpd12 (Debian, Ubuntu) or "
                "libmicrohttpd (Fedora, Arch)");
        return;
    }
#define MICROHTTPD_LOOK_UP(result, name, parameters, arguments) \
    microhttpd_look_up((void **)(void *)&library.name, handle, #name) &&
    (void)(MICROHTTPD_FUNCTIONS(MICROHTTPD_LOOK_UP) microhttpd_look_up(
               (void **)(void *)&library.MHD_stop_daemon, handle, "MHD_stop_daemon") &&
           microhttpd_look_up((void **)(void *)&library.MHD_destroy_response, handle,
                              "MHD_destroy_response") &&
           microhttpd_look_up((void **)(void *)&library.MHD_get_connection_info, handle,
                              "MHD_get_connection_info") &&
           microhttpd_look_up((void **)(void *)&library.MHD_get_daemon_info, handle,
                              "MHD_get_daemon_info"));
#undef MICROHTTPD_LOOK_UP
}

bool microhttpd_load(ey_err *e)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, microhttpd_open);
    if (problem.code == EY_OK) return true;
    *e = problem;
    return false;
}
