/* SPDX-License-Identifier: Apache-2.0 */
/* Counts cores from /sys and CPU quotas from cgroups (cgroups(7): cpu.max in v2, cpu.cfs_quota_us
 * in v1). A file that cannot be read sets no limit. This file also has the
 * scheduling pace of threads and the turns of long computations. */
#include "base/processors.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"

enum { MAX_PROCESSORS = 1 << 14, MAX_CGROUP_DEPTH = 64 };

static FILE *open_under(const char *root, const char *path, const char *name)
{
    char full[EY_MAX_PATH];
    int n = snprintf(full, sizeof(full), "%s%s/%s", root, path, name);
    return n > 0 && n < (int)sizeof(full) ? fopen(full, "r") : NULL;
}

/* ---- cores ---- */

/* Returns the first logical processor of the core, which identifies the core. */
static int core_of(const char *root, int processor)
{
    char path[96];
    int first = processor;
    snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology", processor);
    FILE *f = open_under(root, path, "thread_siblings_list");
    if (!f) return processor;
    if (fscanf(f, "%d", &first) != 1 || first < 0) first = processor;
    fclose(f);
    return first;
}

static int count_cores(const char *root, const int *processor, int n)
{
    int *core = malloc((size_t)n * sizeof(*core) + 1), cores = 0;
    if (!core) return 1;
    for (int i = 0; i < n; i++) {
        int is = core_of(root, processor[i]), known = 0;
        while (known < cores && core[known] != is)
            known++;
        if (known == cores) core[cores++] = is;
    }
    free(core);
    return cores;
}

/* ---- quotas ---- */

/* A cgroup hierarchy: its mount point, the group at its root, and the group of this process. */
struct cgroup_hierarchy {
    bool is_v2;
    char mount[EY_MAX_PATH], top[EY_MAX_PATH];
    char group[EY_MAX_PATH]; /* of this process, as /proc/self/cgroup has it */
};

/* Whether `name` is in a comma-separated list. */
static bool is_in_list(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (const char *p = list; *p; p += strcspn(p, ","), p += *p == ',')
        if (strcspn(p, ",") == length && strncmp(p, name, length) == 0) return true;
    return false;
}

/* Parses a line of /proc/self/mountinfo: fields, optional fields, " - ", type, source, options. */
static bool read_cgroup_mount(const char *line, struct cgroup_hierarchy *h)
{
    char top[EY_MAX_PATH], mount[EY_MAX_PATH], type[32], options[512];
    const char *rest = strstr(line, " - ");
    if (!rest || sscanf(line, "%*s %*s %*s %4095s %4095s", top, mount) != 2 ||
        sscanf(rest, " - %31s %*s %511s", type, options) != 2)
        return false;
    bool is_v2 = strcmp(type, "cgroup2") == 0;
    if (!is_v2 && (strcmp(type, "cgroup") != 0 || !is_in_list(options, "cpu"))) return false;
    h->is_v2 = is_v2;
    snprintf(h->top, sizeof(h->top), "%s", strcmp(top, "/") ? top : "");
    snprintf(h->mount, sizeof(h->mount), "%s", mount);
    return true;
}

/* Parses a line of /proc/self/cgroup: number, controllers, group. */
static bool read_cgroup(char *line, struct cgroup_hierarchy *h)
{
    char *controllers = strchr(line, ':'),
         *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group) return false;
    *group++ = 0;
    group[strcspn(group, "\n")] = 0;
    if (h->is_v2 ? controllers[1] != 0 : !is_in_list(controllers + 1, "cpu")) return false;
    snprintf(h->group, sizeof(h->group), "%s", group);
    return true;
}

static bool find_cgroup(const char *root, struct cgroup_hierarchy *h)
{
    char *line = NULL;
    size_t size = 0;
    bool found = false;
    FILE *f = open_under(root, "/proc/self", "cgroup");
    while (f && !found && getline(&line, &size, f) > 0)
        found = read_cgroup(line, h);
    if (f) fclose(f);
    free(line);
    return found;
}

/* Returns a group's quota in hundredths of a processor, or 0 if it has none. */
static long long cgroup_quota(const char *root, const char *group, bool is_v2)
{
    long long quota = -1, period = 0;
    FILE *f = open_under(root, group, is_v2 ? "cpu.max" : "cpu.cfs_quota_us");
    if (f && fscanf(f, "%lld", &quota) != 1) quota = -1; /* "max" */
    if (f && is_v2 && fscanf(f, "%lld", &period) != 1) period = 0;
    if (f) fclose(f);
    if (!is_v2 && (f = open_under(root, group, "cpu.cfs_period_us"))) {
        if (fscanf(f, "%lld", &period) != 1) period = 0;
        fclose(f);
    }
    if (quota <= 0 || period <= 0 || quota > period * MAX_PROCESSORS) return 0;
    return quota * 100 / period > 0 ? quota * 100 / period : 1;
}

/* Returns the smallest quota of the group and its visible ancestors, or 0 if there is none. */
static long long cgroup_hierarchy_quota(const char *root, const struct cgroup_hierarchy *h)
{
    char path[2 * EY_MAX_PATH];
    size_t top = strlen(h->top), mount = strlen(h->mount);
    bool below = strncmp(h->group, h->top, top) == 0 && (h->group[top] == '/' || !h->group[top]);
    long long min_quota = 0;
    snprintf(path, sizeof(path), "%s%s", h->mount, below ? h->group + top : "");
    for (int depth = 0; depth < MAX_CGROUP_DEPTH; depth++) {
        long long quota = cgroup_quota(root, path, h->is_v2);
        if (quota && (!min_quota || quota < min_quota)) min_quota = quota;
        char *slash = strrchr(path, '/');
        if (!slash || (size_t)(slash - path) < mount) break;
        *slash = 0;
    }
    return min_quota;
}

static int quota_processors(const char *root)
{
    char *line = NULL;
    size_t size = 0;
    long long min_quota = 0;
    FILE *f = open_under(root, "/proc/self", "mountinfo");
    while (f && getline(&line, &size, f) > 0) {
        struct cgroup_hierarchy h;
        if (!read_cgroup_mount(line, &h) || !find_cgroup(root, &h)) continue;
        long long quota = cgroup_hierarchy_quota(root, &h);
        if (quota && (!min_quota || quota < min_quota)) min_quota = quota;
    }
    if (f) fclose(f);
    free(line);
    return (int)((min_quota + 99) / 100);
}

/* ---- usable processors ---- */

int processors_usable_in(const char *root, const int *processor, int n)
{
    int cores = count_cores(root, processor, n), quota = quota_processors(root);
    if (quota > 0 && quota < cores) cores = quota;
    return cores < 1 ? 1 : cores > EY_MAX_THREADS ? EY_MAX_THREADS : cores;
}

/* Lists the processors in this thread's affinity mask. Returns their number. */
static int allowed_processors(int *processor)
{
    const size_t bytes = CPU_ALLOC_SIZE(MAX_PROCESSORS);
    cpu_set_t *set = CPU_ALLOC(MAX_PROCESSORS);
    int n = 0;
    if (set && sched_getaffinity(0, bytes, set) == 0)
        for (int i = 0; i < MAX_PROCESSORS; i++)
            if (CPU_ISSET_S((size_t)i, bytes, set)) processor[n++] = i;
    if (set) CPU_FREE(set);
    return n;
}

int processors_usable(void)
{
    int *processor = malloc(MAX_PROCESSORS * sizeof(*processor));
    int usable = processor ? processors_usable_in("", processor, allowed_processors(processor)) : 1;
    free(processor);
    return usable;
}

/* ---- pace ---- */

enum { PROMPT_SLICE_NS = 100000 /* the shortest slice that Linux accepts */ };

static _Thread_local enum thread_pace thread_pace;

/* The argument of sched_setattr(2) in its first version. Since Linux 6.12 `runtime` is the time
 * slice of an ordinary thread, and a waking thread with a shorter slice runs at once. Earlier
 * kernels ignore it. */
struct scheduling_attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

/* Whether this thread's scheduling policy is one that the user did not choose. */
static bool may_set_pace(void)
{
    const int policy = sched_getscheduler(0);
    return policy == SCHED_OTHER || (policy == SCHED_BATCH && thread_pace == PACE_PATIENT);
}

void thread_set_pace(enum thread_pace pace)
{
    if (pace == thread_pace || !may_set_pace()) return;
    const struct scheduling_attributes a = {
        .size = sizeof(a),
        .policy = pace == PACE_PATIENT ? SCHED_BATCH : SCHED_OTHER,
        .nice = getpriority(PRIO_PROCESS, 0),
        .runtime = pace == PACE_PROMPT ? PROMPT_SLICE_NS : 0,
    };
    if (syscall(SYS_sched_setattr, 0, &a, 0) == 0) thread_pace = pace;
}

/* ---- turns ---- */

struct turn_waiter {
    struct turn_waiter *next;
    const void *client;
    pthread_cond_t chosen;
    bool is_chosen;
};

static struct {
    pthread_mutex_t lock;
    struct turn_waiter *first; /* in order of arrival */
    int running, at_once;      /* at_once 0: not known yet */
} turns = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local struct {
    const void *client;
    bool (*gone)(void *user);
    void *user;
    enum thread_pace pace; /* before the turn began */
} turns_of;

void compute_turns_for(const void *client, bool (*gone)(void *user), void *user)
{
    turns_of.client = client;
    turns_of.gone = gone;
    turns_of.user = user;
}

const void *compute_turns_client(void)
{
    return turns_of.client;
}

static void remove_waiter(const struct turn_waiter *w)
{
    struct turn_waiter **at = &turns.first;
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
}

static int count_waiters(const void *client)
{
    int n = 0;
    for (const struct turn_waiter *w = turns.first; w; w = w->next)
        n += w->client == client;
    return n;
}

static struct turn_waiter *choose_waiter(void)
{
    struct turn_waiter *best = turns.first;
    int least = best ? count_waiters(best->client) : 0;
    for (struct turn_waiter *w = turns.first; w; w = w->next) {
        int n = count_waiters(w->client);
        if (n >= least) continue;
        best = w;
        least = n;
    }
    return best;
}

/* Waits for the turn; the caller holds the lock. Returns false if the client has hung up. */
static bool wait_for_turn(struct turn_waiter *w)
{
    const double check_gone = 0.1; /* seconds */
    struct turn_waiter **last = &turns.first;
    while (*last)
        last = &(*last)->next;
    *last = w;
    while (!w->is_chosen) {
        const struct timespec t = deadline_after(check_gone);
        pthread_cond_timedwait(&w->chosen, &turns.lock, &t);
        if (w->is_chosen || !turns_of.gone || !turns_of.gone(turns_of.user)) continue;
        remove_waiter(w);
        return false;
    }
    return true;
}

bool compute_turn_take(ey_err *e)
{
    struct turn_waiter w = {.client = turns_of.client};
    bool ok = true;
    cond_init_monotonic(&w.chosen);
    pthread_mutex_lock(&turns.lock);
    if (!turns.at_once) turns.at_once = processors_usable();
    if (turns.running < turns.at_once)
        turns.running++;
    else
        ok = wait_for_turn(&w);
    pthread_mutex_unlock(&turns.lock);
    pthread_cond_destroy(&w.chosen);
    if (!ok) return ey_fail(e, EY_CANCELLED, "the client has left");
    turns_of.pace = thread_pace;
    if (turns_of.client) thread_set_pace(PACE_PATIENT);
    return true;
}

void compute_turn_give(void)
{
    if (turns_of.client) thread_set_pace(turns_of.pace);
    pthread_mutex_lock(&turns.lock);
    struct turn_waiter *next = choose_waiter();
    if (next) {
        remove_waiter(next);
        next->is_chosen = true;
        pthread_cond_signal(&next->chosen);
    } else {
        turns.running--;
    }
    pthread_mutex_unlock(&turns.lock);
}
