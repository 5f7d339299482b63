/* SPDX-License-Identifier: Apache-2.0 */
#include "server/http_test_client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "server/pace.h"

enum {
    PATIENCE = 300 /* seconds: an answer of 800 tokens, sanitized, on a busy machine */,
    MAX_HEARD = 1 << 20,
    NAP_US = 10000
};

static void fail_with(const char *what, const char *detail)
{
    print_error("%s: %s\n", what, detail);
    fail();
}

/* ---- servers ---- */

struct server_options demo_options(void)
{
    struct server_options o = server_defaults();
    o.models[0].path = "models/demo";
    o.n_models = 1;
    o.engine.kv_tokens = 8192;
    o.engine.max_num_seqs = 4;
    o.models[0].names[o.models[0].n_names++] = "demo";
    o.port = 0;
    o.host_bytes = 256 << 20;
    return o;
}

static void become_server(const struct server_options *options, int log)
{
    ey_err e;
    signal(SIGINT, SIG_DFL); /* background jobs of a shell ignore SIGINT, and so would the server */
    dup2(log, STDERR_FILENO);
    if (server_run(options, &e)) exit(0);
    fprintf(stderr, "eyelet: %s\n", e.text);
    exit(ey_code_exit_status(e.code));
}

char *server_log(const struct running *s)
{
    off_t n = lseek(s->log, 0, SEEK_END);
    char *text = calloc(1, (size_t)n + 1);
    assert_non_null(text);
    assert_int_equal(pread(s->log, text, (size_t)n, 0), n);
    return text;
}

static bool has_ended(const struct running *s)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)s->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == s->pid;
}

void server_await_log(const struct running *s, const char *text)
{
    for (double end = seconds_now() + PATIENCE; seconds_now() < end; usleep(NAP_US)) {
        bool ended = has_ended(s);
        char *log = server_log(s);
        bool found = strstr(log, text) != NULL;
        if (!found && ended) fail_with("the server ended before it said what was awaited", log);
        free(log);
        if (found) return;
    }
    fail_with("the server never said", text);
}

struct running server_start(const struct server_options *options)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    struct running s = {.log = dup(fileno(file))};
    fclose(file);
    fflush(NULL);
    pace_share();
    s.pid = fork();
    assert_true(s.pid >= 0);
    if (!s.pid) become_server(options, s.log);
    server_await_log(&s, "listening on http");
    char *log = server_log(&s), *line = strstr(log, "listening on http");
    assert_non_null(line);
    s.port = atoi(strrchr(strtok(line, "\n"), ':') + 1);
    free(log);
    assert_true(s.port > 0);
    return s;
}

void server_signal(const struct running *s, int number)
{
    assert_int_equal(kill(s->pid, number), 0);
}

int server_wait(struct running *s)
{
    int status = 0;
    double end = seconds_now() + PATIENCE;
    while (!has_ended(s) && seconds_now() < end)
        usleep(NAP_US);
    bool late = !has_ended(s);
    if (late) kill(s->pid, SIGKILL);
    waitpid(s->pid, &status, 0);
    if (late || WIFSIGNALED(status) || (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != 1)) {
        char *log = server_log(s);
        print_error("%s, status %x; its log:\n%s\n",
                    late ? "the server did not end" : "the server ended badly", status, log);
        free(log);
    }
    close(s->log);
    s->log = -1;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void server_stop(struct running *s)
{
    server_signal(s, SIGTERM);
    assert_int_equal(server_wait(s), 0);
}

/* ---- a client ---- */

static int connect_with(int port, int host, int receive_buffer)
{
    struct sockaddr_in from = {.sin_family = AF_INET,
                               .sin_addr = {htonl(INADDR_LOOPBACK - 1 + (unsigned)host)}};
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    if (receive_buffer)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
    assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof(from)), 0);
    if (connect(fd, (struct sockaddr *)&at, sizeof(at))) fail_with("connect", strerror(errno));
    return fd;
}

int web_connect(int port)
{
    return connect_with(port, 1, 0);
}

int web_connect_from(int port, int host)
{
    return connect_with(port, host, 0);
}

int web_connect_narrow(int port)
{
    return connect_with(port, 1, 1);
}

bool web_try_send(int fd, const void *bytes, size_t n)
{
    for (const char *at = bytes; n;) {
        ssize_t sent = send(fd, at, n, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return false;
        at += sent;
        n -= (size_t)sent;
    }
    return true;
}

void web_send(int fd, const void *bytes, size_t n)
{
    if (!web_try_send(fd, bytes, n)) fail_with("send", strerror(errno));
}

void web_say(int fd, const char *text)
{
    web_send(fd, text, strlen(text));
}

/* Appends received bytes to the *n in all[MAX_HEARD]. Returns false when the connection has ended.
 */
static bool hear_more(int fd, char *all, size_t *n)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    if (poll(&p, 1, PATIENCE * 1000) != 1) fail_with("the server said nothing more after", all);
    ssize_t got = *n < MAX_HEARD - 1 ? recv(fd, all + *n, MAX_HEARD - 1 - *n, 0) : -1;
    if (got <= 0) return false;
    *n += (size_t)got;
    all[*n] = 0;
    return true;
}

char *web_hear_until(int fd, const char *text)
{
    char *all = calloc(1, MAX_HEARD);
    size_t n = 0;
    assert_non_null(all);
    while (!(text && strstr(all, text)) && hear_more(fd, all, &n))
        continue;
    return all;
}

char *web_hear_all(int fd)
{
    return web_hear_until(fd, NULL);
}

static const char *header_value(const char *head, const char *name)
{
    size_t n = strlen(name);
    for (const char *line = strstr(head, "\r\n"); line; line = strstr(line, "\r\n")) {
        line += 2;
        if (strncasecmp(line, name, n) == 0 && line[n] == ':')
            return line + n + 1 + strspn(line + n + 1, " ");
    }
    return NULL;
}

/* `bare`: a reply to HEAD, which has a Content-Length but no body. */
static struct reply read_reply(int fd, bool bare)
{
    struct reply r = {0};
    char *all = calloc(1, MAX_HEARD), *end;
    size_t n = 0;
    bool open = true;
    assert_non_null(all);
    while (!(end = strstr(all, "\r\n\r\n")) && open)
        open = hear_more(fd, all, &n);
    r.head = all;
    r.closed = !open;
    if (!end) return r;
    size_t head = (size_t)(end + 4 - all);
    r.head = strndup(all, head);
    r.status = atoi(all + 9);
    const char *length = header_value(r.head, "Content-Length"),
               *coding = header_value(r.head, "Transfer-Encoding");
    bool empty = bare || r.status == 204 || r.status == 304 || r.status < 200;
    size_t want = length && !empty ? strtoul(length, NULL, 10) : 0;
    while (open && (coding ? !strstr(all + head, "\r\n0\r\n\r\n") : n < head + want))
        open = hear_more(fd, all, &n);
    r.body = strdup(all + head);
    r.closed = !open;
    free(all);
    return r;
}

struct reply web_reply(int fd)
{
    return read_reply(fd, false);
}

void reply_free(struct reply *r)
{
    free(r->head);
    free(r->body);
    *r = (struct reply){0};
}

bool reply_has(const struct reply *r, const char *line)
{
    char whole[512];
    snprintf(whole, sizeof(whole), "\r\n%s\r\n", line);
    return r->head && strstr(r->head, whole) != NULL;
}

struct reply web_ask(int port, const char *method, const char *path, const char *more,
                     const char *body)
{
    char head[4096];
    int fd = web_connect(port);
    bool own_host = more && strcasestr(more, "host:");
    snprintf(head, sizeof(head), "%s %s HTTP/1.1\r\n%s%s", method, path,
             own_host ? "" : "Host: 127.0.0.1\r\n", more ? more : "");
    web_say(fd, head);
    if (body) {
        snprintf(head, sizeof(head), "Content-Length: %zu\r\n\r\n", strlen(body));
        web_say(fd, head);
        web_say(fd, body);
    } else {
        web_say(fd, "\r\n");
    }
    struct reply r = read_reply(fd, strcmp(method, "HEAD") == 0);
    close(fd);
    return r;
}

/* The metric's value, or -1 if `body` is NULL or lacks it. */
static double metric_in(const char *body, const char *name)
{
    size_t n = strlen(name);
    for (const char *line = body; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        bool is = strncmp(line, name, n) == 0 && (line[n] == '{' || line[n] == ' ');
        if (is) return atof(strchr(line + n, ' '));
    }
    return -1;
}

double web_metric(int port, const char *name)
{
    struct reply r = web_ask(port, "GET", "/metrics", NULL, NULL);
    assert_int_equal(r.status, 200);
    double value = metric_in(r.body, name);
    reply_free(&r);
    return value;
}

/* A server with short deadlines may close this connection on a slow machine; then it asks again. */
void web_await_metric(int port, const char *name, double value)
{
    double now = -1;
    for (double end = seconds_now() + PATIENCE; seconds_now() < end; usleep(NAP_US)) {
        struct reply r = web_ask(port, "GET", "/metrics", NULL, NULL);
        now = metric_in(r.body, name);
        reply_free(&r);
        if (now == value) return;
    }
    print_error("%s is %g, not %g\n", name, now, value);
    fail();
}
