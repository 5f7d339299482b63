/* SPDX-License-Identifier: Apache-2.0 */
/* Notifications to systemd: datagrams to a path or an abstract name, and nothing without a valid
 * socket. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/systemd_notify.h"

/* Binds a socket to the name and sets $NOTIFY_SOCKET; @ stands for the NUL of an abstract name. */
static int listen_as(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t n = strlen(name);
    memcpy(address.sun_path, name, n);
    if (name[0] == '@') address.sun_path[0] = 0;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)),
                     0);
    setenv("NOTIFY_SOCKET", name, 1);
    return fd;
}

static void assert_told(int fd, const char *expected)
{
    char text[1024];
    ssize_t n = recv(fd, text, sizeof(text) - 1, 0);
    assert_int_equal(n, strlen(expected));
    assert_memory_equal(text, expected, (size_t)n);
}

static void tells_a_path(void **state)
{
    (void)state;
    char name[64];
    snprintf(name, sizeof(name), "/tmp/eyelet-systemd-%d", (int)getpid());
    int fd = listen_as(name);
    systemd_notify("READY=1\nSTATUS=%s\n", "demo");
    assert_told(fd, "READY=1\nSTATUS=demo\n");
    close(fd);
    unlink(name);
}

static void tells_an_abstract_name(void **state)
{
    (void)state;
    char name[64];
    snprintf(name, sizeof(name), "@eyelet-systemd-%d", (int)getpid());
    int fd = listen_as(name);
    systemd_notify("STOPPING=1\n");
    assert_told(fd, "STOPPING=1\n");
    close(fd);
}

/* Does not block, whatever the name is: unset, relative, too long, without a listener, with a
 * listener that does not read. */
static void missing_listeners_do_not_block(void **state)
{
    (void)state;
    char longest[300], name[64];
    memset(longest, 'x', sizeof(longest));
    longest[0] = '/';
    longest[sizeof(longest) - 1] = 0;
    const char *const names[] = {
        "", "@", "/", "relative", longest, "/nonexistent/notify", "vsock:2:1234"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        setenv("NOTIFY_SOCKET", names[i], 1);
        systemd_notify("READY=1\n");
    }
    unsetenv("NOTIFY_SOCKET");
    systemd_notify("READY=1\n");
    snprintf(name, sizeof(name), "@eyelet-deaf-%d", (int)getpid());
    int fd = listen_as(name);
    for (int i = 0; i < 5000; i++)
        systemd_notify("WATCHDOG=1\n");
    assert_told(fd, "WATCHDOG=1\n");
    close(fd);
}

static void is_watched(void **state)
{
    (void)state;
    char pid[32];
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    assert_false(systemd_watchdog_enabled());
    setenv("WATCHDOG_USEC", "0", 1);
    assert_false(systemd_watchdog_enabled());
    setenv("WATCHDOG_USEC", "2000000", 1);
    assert_true(systemd_watchdog_enabled());
    setenv("WATCHDOG_PID", "1", 1);
    assert_false(systemd_watchdog_enabled());
    snprintf(pid, sizeof(pid), "%d", (int)getpid());
    setenv("WATCHDOG_PID", pid, 1);
    assert_true(systemd_watchdog_enabled());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tells_a_path), cmocka_unit_test(tells_an_abstract_name),
        cmocka_unit_test(missing_listeners_do_not_block), cmocka_unit_test(is_watched)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
