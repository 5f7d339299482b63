/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that cgroup limits leave, from a copy of the kernel's file tree. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/memory.h"

static char root[] = "/tmp/eyelet-cgroups-XXXXXX";

static void write_in_root(const char *path, const char *text)
{
    char whole[512];
    snprintf(whole, sizeof(whole), "%s%s", root, path);
    for (char *at = whole + strlen(root) + 1; (at = strchr(at, '/')); *at++ = '/') {
        *at = 0;
        mkdir(whole, 0700);
    }
    FILE *f = fopen(whole, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void nothing_limits_nothing(void **state)
{
    (void)state;
    assert_true(memory_left_in_cgroups("/nonexistent") == UINT64_MAX);
}

static void the_container_limits(void **state)
{
    (void)state;
    write_in_root("/proc/self/cgroup", "0::/\n");
    write_in_root("/sys/fs/cgroup/memory.max", "1000\n");
    write_in_root("/sys/fs/cgroup/memory.current", "400\n");
    assert_int_equal(memory_left_in_cgroups(root), 600);
    write_in_root("/proc/self/cgroup", "0::/docker/of-the-host\n");
    assert_int_equal(memory_left_in_cgroups(root), 600);
    write_in_root("/sys/fs/cgroup/memory.current", "1400\n");
    assert_int_equal(memory_left_in_cgroups(root), 0);
    write_in_root("/sys/fs/cgroup/memory.max", "max\n");
    assert_true(memory_left_in_cgroups(root) == UINT64_MAX);
}

static void nested_groups_limit(void **state)
{
    (void)state;
    write_in_root("/proc/self/cgroup", "1:name=systemd:/x\n0::/user.slice/eyelet.service\n");
    write_in_root("/sys/fs/cgroup/user.slice/memory.max", "9000\n");
    write_in_root("/sys/fs/cgroup/user.slice/memory.current", "100\n");
    assert_int_equal(memory_left_in_cgroups(root), 8900);
    write_in_root("/sys/fs/cgroup/user.slice/eyelet.service/memory.max", "500\n");
    write_in_root("/sys/fs/cgroup/user.slice/eyelet.service/memory.current", "50\n");
    assert_int_equal(memory_left_in_cgroups(root), 450);
    write_in_root("/sys/fs/cgroup/user.slice/memory.current", "8900\n");
    assert_int_equal(memory_left_in_cgroups(root), 100);
}

static void version_1_limits(void **state)
{
    (void)state;
    write_in_root("/proc/self/cgroup", "5:memory_other:/a\n4:cpu,memory:/a/b\n0::/none\n");
    write_in_root("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    write_in_root("/sys/fs/cgroup/memory/memory.usage_in_bytes", "70\n");
    write_in_root("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "80\n");
    write_in_root("/sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", "70\n");
    assert_int_equal(memory_left_in_cgroups(root), 10);
}

/* memory.stat of a cgroup whose model was just downloaded: most of memory.current is page cache. */
static void page_cache_is_free(void **state)
{
    (void)state;
    write_in_root("/proc/self/cgroup", "4:memory:/c\n0::/cached\n");
    write_in_root("/sys/fs/cgroup/cached/memory.max", "1000\n");
    write_in_root("/sys/fs/cgroup/cached/memory.current", "990\n");
    write_in_root("/sys/fs/cgroup/cached/memory.stat",
                  "anon 300\nfile 690\ninactive_file 500\nactive_file 150\nslab 5\n");
    assert_int_equal(memory_left_in_cgroups(root), 660);
    write_in_root("/sys/fs/cgroup/cached/memory.stat", "inactive_file 2000\nactive_file 150\n");
    assert_int_equal(memory_left_in_cgroups(root), 1000);
    write_in_root("/sys/fs/cgroup/memory/c/memory.limit_in_bytes", "80\n");
    write_in_root("/sys/fs/cgroup/memory/c/memory.usage_in_bytes", "70\n");
    write_in_root("/sys/fs/cgroup/memory/c/memory.stat",
                  "inactive_file 1\nactive_file 1\ntotal_inactive_file 30\ntotal_active_file 20\n");
    assert_int_equal(memory_left_in_cgroups(root), 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_limits_nothing), cmocka_unit_test(the_container_limits),
        cmocka_unit_test(nested_groups_limit),    cmocka_unit_test(version_1_limits),
        cmocka_unit_test(page_cache_is_free),
    };
    if (!mkdtemp(root)) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[64];
    snprintf(command, sizeof(command), "rm -r %s", root);
    return system(command) || failed;
}
