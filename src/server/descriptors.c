/* SPDX-License-Identifier: Apache-2.0 */
/* Limits connections so that descriptors do not run out. After a failed accept() the socket stays
 * readable: the accept loop would spin, and /health would go unanswered. */
#include "server/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "server/log.h"

enum {
    ENOUGH = 4096, /* for EY_MAX_CONNECTIONS, image fetches by hundreds of them, and all else */
    OTHERS = 20,   /* besides connections: decoders, fetches, loading a model */
    MIN_CONNECTIONS = 8,
};

static rlim_t raise_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return ENOUGH;
    rlim_t wanted = limit.rlim_max < ENOUGH ? limit.rlim_max : ENOUGH;
    if (limit.rlim_cur >= wanted) return limit.rlim_cur;
    limit.rlim_cur = wanted;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) getrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur;
}

static int count_open_descriptors(rlim_t limit)
{
    int n = 0;
    for (int fd = 0; fd < ENOUGH && (rlim_t)fd < limit; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

int descriptors_for_connections(int wanted)
{
    rlim_t limit = raise_limit();
    if (limit >= ENOUGH) return wanted;
    int room = (int)limit - count_open_descriptors(limit) - OTHERS;
    if (room >= wanted) return wanted;
    if (room < MIN_CONNECTIONS) room = MIN_CONNECTIONS;
    log_line("ulimit -n allows %d descriptors, enough for %d connections; %d connections need %d",
             (int)limit, room, wanted, (int)limit + wanted - room);
    return room;
}

bool descriptors_are_free(int n)
{
    enum { MOST = 16 };
    int fd[MOST], opened = 0;
    while (opened < n && opened < MOST &&
           (fd[opened] = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0)) >= 0)
        opened++;
    bool enough = opened == n || (errno != EMFILE && errno != ENFILE);
    while (opened)
        close(fd[--opened]);
    return enough;
}
