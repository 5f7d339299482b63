/* SPDX-License-Identifier: Apache-2.0 */
/* Which threads a process may use: trees of /proc and /sys as on machines with SMT, in containers
 * and in nested control groups. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/limits.h"
#include "base/processors.h"
#include "checkpoint/temp_dir.h"

enum { PROCESSORS = 8 };

static const int all[PROCESSORS] = {0, 1, 2, 3, 4, 5, 6, 7};

static const char *v2_mount =
    "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";

/* Processors i and i + 4 share a core. */
static const char *tree_with_cores(void)
{
    const char *dir = temp_dir_make();
    for (int i = 0; i < PROCESSORS; i++) {
        char path[96], list[16];
        snprintf(path, sizeof(path), "sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
                 i);
        snprintf(list, sizeof(list), "%d,%d\n", i % 4, i % 4 + 4);
        temp_text(dir, path, list);
    }
    return dir;
}

static int usable_of_all(const char *dir)
{
    int n = processors_usable_in(dir, all, PROCESSORS);
    temp_dir_remove(dir);
    return n;
}

static void threads_of_a_core_count_once(void **state)
{
    (void)state;
    static const int pair[] = {1, 5}, apart[] = {1, 6}, odd[] = {0, 4, 7};
    const char *dir = tree_with_cores();
    assert_int_equal(processors_usable_in(dir, all, PROCESSORS), 4);
    assert_int_equal(processors_usable_in(dir, pair, 2), 1);
    assert_int_equal(processors_usable_in(dir, apart, 2), 2);
    assert_int_equal(processors_usable_in(dir, odd, 3), 2);
    assert_int_equal(processors_usable_in(dir, all, 0), 1);
    temp_dir_remove(dir);
}

static void siblings_are_also_written_as_a_range(void **state)
{
    (void)state;
    static const int four[] = {0, 1, 2, 3};
    const char *dir = temp_dir_make();
    for (int i = 0; i < 4; i++) {
        char path[96];
        snprintf(path, sizeof(path), "sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
                 i);
        temp_text(dir, path, i < 2 ? "0-1\n" : "2-3\n");
    }
    assert_int_equal(processors_usable_in(dir, four, 4), 2);
    temp_dir_remove(dir);
}

static void without_topology_each_is_a_core(void **state)
{
    (void)state;
    assert_int_equal(usable_of_all(temp_dir_make()), PROCESSORS);
}

static void counts_are_bounded_by_the_pool(void **state)
{
    (void)state;
    static int many[2 * EY_MAX_THREADS];
    for (int i = 0; i < 2 * EY_MAX_THREADS; i++)
        many[i] = i;
    const char *dir = temp_dir_make();
    assert_int_equal(processors_usable_in(dir, many, 2 * EY_MAX_THREADS), EY_MAX_THREADS);
    temp_dir_remove(dir);
}

/* In a container the process's own group is the root. */
static void quota_of_a_container(void **state)
{
    (void)state;
    static const struct {
        const char *max;
        int processors;
    } rows[] = {{"max 100000\n", 8},
                {"200000 100000\n", 2},
                {"150000 100000\n", 2},
                {"10000 100000\n", 1},
                {"50000 10000\n", 5},
                {"900000 100000\n", 8},
                {"0 100000\n", 8},
                {"200000\n", 8},
                {"200000 0\n", 8},
                {"", 8},
                {"9223372036854775807 1\n", 8}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *dir = temp_dir_make();
        temp_text(dir, "proc/self/mountinfo", v2_mount);
        temp_text(dir, "proc/self/cgroup", "0::/\n");
        temp_text(dir, "sys/fs/cgroup/cpu.max", rows[i].max);
        assert_int_equal(usable_of_all(dir), rows[i].processors);
    }
}

/* The smallest quota of all ancestors counts. */
static void quota_of_a_group_above(void **state)
{
    (void)state;
    const char *dir = temp_dir_make();
    temp_text(dir, "proc/self/mountinfo", v2_mount);
    temp_text(dir, "proc/self/cgroup", "0::/user.slice/user-1000.slice/eyelet.service\n");
    temp_text(dir, "sys/fs/cgroup/user.slice/user-1000.slice/eyelet.service/cpu.max",
              "max 100000\n");
    temp_text(dir, "sys/fs/cgroup/user.slice/user-1000.slice/cpu.max", "300000 100000\n");
    temp_text(dir, "sys/fs/cgroup/user.slice/cpu.max", "600000 100000\n");
    assert_int_equal(processors_usable_in(dir, all, PROCESSORS), 3);
    temp_text(dir, "sys/fs/cgroup/user.slice/cpu.max", "200000 100000\n");
    assert_int_equal(processors_usable_in(dir, all, PROCESSORS), 2);
    temp_text(dir, "sys/fs/cgroup/user.slice/user-1000.slice/eyelet.service/cpu.max",
              "100000 100000\n");
    assert_int_equal(usable_of_all(dir), 1);
}

static void quota_and_cores_limit_each_other(void **state)
{
    (void)state;
    const char *dir = tree_with_cores();
    temp_text(dir, "proc/self/mountinfo", v2_mount);
    temp_text(dir, "proc/self/cgroup", "0::/a\n");
    temp_text(dir, "sys/fs/cgroup/a/cpu.max", "600000 100000\n");
    assert_int_equal(processors_usable_in(dir, all, PROCESSORS), 4);
    temp_text(dir, "sys/fs/cgroup/a/cpu.max", "300000 100000\n");
    assert_int_equal(usable_of_all(dir), 3);
}

/* cgroup v1 with cpu and cpuacct together. The mount shows a part of the hierarchy, as in a
 * container without a cgroup namespace. */
static void quota_of_version_one(void **state)
{
    (void)state;
    const char *dir = temp_dir_make();
    temp_text(dir, "proc/self/mountinfo",
              "33 32 0:28 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
              "34 32 0:29 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro,nosuid master:11 - cgroup "
              "cgroup rw,cpu,cpuacct\n");
    temp_text(dir, "proc/self/cgroup",
              "5:memory:/docker/abc\n4:cpuset:/\n3:cpu,cpuacct:/docker/abc/inner\n0::/else\n");
    temp_text(dir, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "400000\n");
    temp_text(dir, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    assert_int_equal(processors_usable_in(dir, all, PROCESSORS), 4);
    temp_text(dir, "sys/fs/cgroup/cpu,cpuacct/inner/cpu.cfs_quota_us", "-1\n");
    temp_text(dir, "sys/fs/cgroup/cpu,cpuacct/inner/cpu.cfs_period_us", "100000\n");
    assert_int_equal(processors_usable_in(dir, all, PROCESSORS), 4);
    temp_text(dir, "sys/fs/cgroup/cpu,cpuacct/inner/cpu.cfs_quota_us", "250000\n");
    assert_int_equal(usable_of_all(dir), 3);
}

/* v1 has the cpu controller; v2 is mounted, too, but controls nothing. */
static void both_cgroup_versions(void **state)
{
    (void)state;
    const char *dir = temp_dir_make();
    temp_text(dir, "proc/self/mountinfo",
              "31 25 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
              "34 32 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n");
    temp_text(dir, "proc/self/cgroup", "3:cpu:/jobs\n1:name=systemd:/init.scope\n0::/init.scope\n");
    temp_text(dir, "sys/fs/cgroup/cpu/jobs/cpu.cfs_quota_us", "200000\n");
    temp_text(dir, "sys/fs/cgroup/cpu/jobs/cpu.cfs_period_us", "100000\n");
    assert_int_equal(usable_of_all(dir), 2);
}

static void invalid_limits_are_ignored(void **state)
{
    (void)state;
    static const char *const mounts[] = {"",
                                         "\n",
                                         " - \n",
                                         "a b c\n",
                                         "1 2 3 / /sys/fs/cgroup rw - \n",
                                         "1 2 3 / /sys/fs/cgroup rw\n"};
    for (size_t i = 0; i < sizeof(mounts) / sizeof(mounts[0]); i++) {
        const char *dir = temp_dir_make();
        temp_text(dir, "proc/self/mountinfo", mounts[i]);
        temp_text(dir, "proc/self/cgroup", "0::/\n");
        temp_text(dir, "sys/fs/cgroup/cpu.max", "100000 100000\n");
        assert_int_equal(usable_of_all(dir), PROCESSORS);
    }
    static const char *const groups[] = {"", "0\n", "0:\n", ":::\n", "x"};
    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
        const char *dir = temp_dir_make();
        temp_text(dir, "proc/self/mountinfo", v2_mount);
        temp_text(dir, "proc/self/cgroup", groups[i]);
        assert_int_equal(usable_of_all(dir), PROCESSORS);
    }
}

static void this_machine_has_a_processor(void **state)
{
    (void)state;
    assert_in_range(processors_usable(), 1, EY_MAX_THREADS);
}

/* ---- turns ---- */

struct turn_thread {
    pthread_t thread;
    const void *client;
    atomic_bool waits, leaves;
    atomic_int *order;
    int place; /* in the order of turns, from 1; 0: had none */
};

static bool ask_thread(void *user)
{
    struct turn_thread *t = user;
    atomic_store(&t->waits, true);
    return atomic_load(&t->leaves);
}

static void *take_turn(void *user)
{
    struct turn_thread *t = user;
    ey_err e;
    compute_turns_for(t->client, ask_thread, t);
    if (!compute_turn_take(&e)) return NULL;
    t->place = atomic_fetch_add(t->order, 1) + 1;
    compute_turn_give();
    return NULL;
}

/* A client with one thread is served before another's three; a thread that leaves gets no turn. */
static void turns_are_fair(void **state)
{
    (void)state;
    static const char busy, rare;
    const void *clients[] = {&busy, &busy, &busy, &rare};
    enum { N = 4 };
    struct turn_thread t[N] = {0};
    atomic_int order = 0;
    const int at_once = processors_usable();
    for (int i = 0; i < at_once; i++)
        assert_true(compute_turn_take(NULL));
    for (int i = 0; i < N; i++) {
        t[i].client = clients[i];
        t[i].order = &order;
        assert_int_equal(pthread_create(&t[i].thread, NULL, take_turn, &t[i]), 0);
        while (!atomic_load(&t[i].waits))
            sched_yield();
    }
    atomic_store(&t[1].leaves, true);
    pthread_join(t[1].thread, NULL);
    compute_turn_give();
    for (int i = 0; i < N; i++)
        if (i != 1) pthread_join(t[i].thread, NULL);
    for (int i = 1; i < at_once; i++)
        compute_turn_give();
    assert_int_equal(t[3].place, 1);
    assert_int_equal(t[0].place, 2);
    assert_int_equal(t[2].place, 3);
    assert_int_equal(t[1].place, 0);
}

/* ---- pace ---- */

static void *see_paces(void *policies)
{
    static const enum thread_pace paces[] = {PACE_PATIENT, PACE_PROMPT, PACE_PLAIN};
    int *policy = policies;
    for (int i = 0; i < 3; i++) {
        thread_set_pace(paces[i]);
        policy[i] = sched_getscheduler(0);
    }
    compute_turns_for(policies, NULL, NULL);
    if (!compute_turn_take(NULL)) return NULL;
    policy[3] = sched_getscheduler(0);
    compute_turn_give();
    policy[4] = sched_getscheduler(0);
    return NULL;
}

static void *choose_batch(void *policies)
{
    const struct sched_param none = {.sched_priority = 0};
    int *policy = policies;
    sched_setscheduler(0, SCHED_BATCH, &none);
    thread_set_pace(PACE_PROMPT);
    policy[0] = sched_getscheduler(0);
    return NULL;
}

static void run_in_thread(void *(*run)(void *), void *user)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run, user), 0);
    pthread_join(thread, NULL);
}

static void computing_threads_use_batch_scheduling(void **state)
{
    (void)state;
    int policy[5] = {0};
    if (sched_getscheduler(0) != SCHED_OTHER) skip();
    run_in_thread(see_paces, policy);
    if (policy[0] == SCHED_OTHER) skip(); /* the sandbox refuses the call */
    const int expected[] = {SCHED_BATCH, SCHED_OTHER, SCHED_OTHER, SCHED_BATCH, SCHED_OTHER};
    assert_memory_equal(policy, expected, sizeof(expected));
}

static void a_policy_of_the_user_stays(void **state)
{
    (void)state;
    int policy = -1;
    run_in_thread(choose_batch, &policy);
    assert_int_equal(policy, SCHED_BATCH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(computing_threads_use_batch_scheduling),
        cmocka_unit_test(a_policy_of_the_user_stays),
        cmocka_unit_test(turns_are_fair),
        cmocka_unit_test(threads_of_a_core_count_once),
        cmocka_unit_test(siblings_are_also_written_as_a_range),
        cmocka_unit_test(without_topology_each_is_a_core),
        cmocka_unit_test(counts_are_bounded_by_the_pool),
        cmocka_unit_test(quota_of_a_container),
        cmocka_unit_test(quota_of_a_group_above),
        cmocka_unit_test(quota_and_cores_limit_each_other),
        cmocka_unit_test(quota_of_version_one),
        cmocka_unit_test(both_cgroup_versions),
        cmocka_unit_test(invalid_limits_are_ignored),
        cmocka_unit_test(this_machine_has_a_processor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
