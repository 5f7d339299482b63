/* SPDX-License-Identifier: Apache-2.0 */
/* One thread for each connection, blocking sockets, HTTP/1.1 with keep-alive. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "hub/hub_server.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <openssl/sha.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HEAD_BYTES = 16384, CHUNK = 16384 };

struct server {
    struct hub_script *script;
    int hub, cdn; /* listening */
    int hub_port, cdn_port;
};

struct connection {
    const struct server *server;
    struct hub_script *script;
    int fd;
    bool elsewhere; /* requests the second port */
    bool proxied;   /* this request came to a proxy */
    bool is_head, close;
    unsigned random;
    char head[HEAD_BYTES];
    char path[4096];
    long cut; /* bytes until the connection is cut; < 0: never */
};

/* ---- writing, with cuts ---- */

static unsigned draw(struct connection *c, unsigned below)
{
    return (unsigned)rand_r(&c->random) % below;
}

static bool send_all(struct connection *c, const char *bytes, size_t n)
{
    size_t most = c->cut >= 0 && (long)n > c->cut ? (size_t)c->cut : n;
    for (size_t done = 0; done < most;) {
        ssize_t sent = send(c->fd, bytes + done, most - done, MSG_NOSIGNAL);
        if (sent <= 0) return false;
        done += (size_t)sent;
    }
    if (c->cut >= 0) c->cut -= (long)most;
    if (most == n) return true;
    c->script->cuts++;
    return false;
}

static bool say(struct connection *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static bool say(struct connection *c, const char *format, ...)
{
    char text[20000];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return send_all(c, text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1);
}

static bool say_status(struct connection *c, int status, const char *headers)
{
    return say(c, "HTTP/1.1 %d x\r\n%sContent-Length: 0\r\n\r\n", status, headers);
}

/* ---- reading ---- */

static const char *header(const struct connection *c, const char *name)
{
    static _Thread_local char value[2048];
    for (const char *line = strstr(c->head, "\r\n"); line; line = strstr(line, "\r\n")) {
        line += 2;
        size_t n = strlen(name);
        if (strncasecmp(line, name, n) != 0 || line[n] != ':') continue;
        snprintf(value, sizeof(value), "%.*s", (int)strcspn(line + n + 2, "\r\n"), line + n + 2);
        return value;
    }
    return NULL;
}

/* Splits "http://host:port/path": keeps the path, and whether the port is that of large files. */
static void take_proxied(struct connection *c)
{
    static const char scheme[] = "http://";
    const size_t n = sizeof(scheme) - 1;
    c->proxied = strncmp(c->path, scheme, n) == 0;
    if (!c->proxied) return;
    c->script->proxied++;
    const char *port = strchr(c->path + n, ':'), *path = strchr(c->path + n, '/');
    c->elsewhere = port && atoi(port + 1) == c->server->cdn_port;
    memmove(c->path, path ? path : "/", strlen(path ? path : "/") + 1);
}

static bool read_head(struct connection *c)
{
    size_t n = 0;
    while (n + 1 < sizeof(c->head)) {
        ssize_t got = recv(c->fd, c->head + n, 1, 0);
        if (got <= 0) return false;
        c->head[++n] = 0;
        if (n >= 4 && memcmp(c->head + n - 4, "\r\n\r\n", 4) == 0) break;
    }
    char method[16];
    if (sscanf(c->head, "%15s %4095s", method, c->path) != 2) return false;
    c->is_head = strcmp(method, "HEAD") == 0;
    take_proxied(c);
    return true;
}

/* ---- bodies ---- */

enum { NAP_US = 1000 };

/* Waits while the script holds back bodies from byte `at` on. */
static void wait_for_leave(const struct hub_script *s, uint64_t at)
{
    while (s->hold_after && at >= s->hold_after)
        usleep(NAP_US);
}

static bool send_body(struct connection *c, const uint8_t *data, size_t n, bool wrong)
{
    uint8_t *changed = NULL;
    size_t at_wrong = n / 2;
    for (size_t at = 0; at < n; at += CHUNK) {
        size_t part = n - at < CHUNK ? n - at : CHUNK;
        const uint8_t *bytes = data + at;
        wait_for_leave(c->script, atomic_fetch_add(&c->script->begun, part));
        if (wrong && at_wrong >= at && at_wrong < at + part) {
            changed = malloc(part);
            memcpy(changed, bytes, part);
            changed[at_wrong - at] ^= 1;
            bytes = changed;
        }
        bool ok = send_all(c, (const char *)bytes, part);
        free(changed);
        changed = NULL;
        if (!ok) return false;
        c->script->bytes += part;
        if (c->script->bytes_per_ms) usleep((useconds_t)(part * 1000 / c->script->bytes_per_ms));
    }
    return true;
}

static bool send_file(struct connection *c, const struct served_file *f, const char *extra)
{
    enum misbehaviour m = c->script->misbehaviour;
    const char *range = header(c, "Range");
    unsigned long long begin = 0, last = 0;
    bool wrong = false;
    if (m == LOGIN_PAGE && f->large)
        return say(c, "HTTP/1.1 200 x\r\nContent-Type: text/html\r\nContent-Length: "
                      "19\r\n\r\n<html>log in</html>");
    if (f->large && !c->is_head && c->script->wrong_once > 0) wrong = c->script->wrong_once-- > 0;
    wrong = wrong || (m == WRONG_BYTES && f->large);
    if (m == COMPRESSED && f->large) extra = "Content-Encoding: gzip\r\n";
    if (range && m != IGNORES_RANGES && sscanf(range, "bytes=%llu-%llu", &begin, &last) == 2 &&
        begin < f->size) {
        if (last >= f->size) last = f->size - 1;
        size_t n = (size_t)(last - begin + 1);
        unsigned long long told = begin + (m == WRONG_RANGE && f->large),
                           total = f->size + (m == OTHER_TOTAL && f->large);
        c->script->ranges++;
        if (m == TOO_MUCH && f->large && last + 1 < f->size) n++;
        if (!say(c,
                 "HTTP/1.1 206 x\r\nContent-Range: bytes %llu-%llu/%llu\r\nContent-Length: "
                 "%zu\r\n%s\r\n",
                 told, last, total, n, extra))
            return false;
        return c->is_head || send_body(c, f->data + begin, n, wrong);
    }
    if (!say(c, "HTTP/1.1 200 x\r\nContent-Length: %zu\r\n%s\r\n", f->size, extra)) return false;
    return c->is_head || send_body(c, f->data, f->size, wrong);
}

static const struct served_file *find(const struct hub_script *s, const char *name)
{
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->file[i].name, name) == 0) return &s->file[i];
    return NULL;
}

/* ---- the endpoint ---- */

static bool send_listing(struct connection *c)
{
    const struct hub_script *s = c->script;
    char body[16000] = "";
    size_t n = 0;
    if (s->misbehaviour == LISTING_BROKEN)
        return say(c, "HTTP/1.1 200 x\r\nContent-Length: 7\r\n\r\n{\"sha\":");
    if (s->misbehaviour == LISTING_LONG) {
        static char blanks[1 << 20];
        memset(blanks, ' ', sizeof(blanks));
        bool ok = say(c, "HTTP/1.1 200 x\r\nContent-Length: %d\r\n\r\n", 64 << 20);
        for (int i = 0; ok && i < 64; i++)
            ok = send_all(c, blanks, sizeof(blanks));
        return ok;
    }
    n += (size_t)snprintf(
        body, sizeof(body), "{\"id\": \"%s\", \"sha\": \"%s\", \"siblings\": [", s->repository,
        s->misbehaviour == COMMIT_CLIMBS ? "../../../../../../../../../../../evil0000" : s->commit);
    for (size_t i = 0; i < s->n; i++)
        n += (size_t)snprintf(body + n, sizeof(body) - n, "%s{\"rfilename\": \"%s\"}",
                              i ? ", " : "", s->file[i].name);
    n += (size_t)snprintf(body + n, sizeof(body) - n, "]}");
    return say(c,
               "HTTP/1.1 200 x\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
               n, body);
}

static bool refuse(struct connection *c, bool *refused)
{
    const char *key = header(c, "Authorization"), *token = c->script->token;
    bool known = key && strncmp(key, "Bearer ", 7) == 0 && strcmp(key + 7, token) == 0;
    *refused = true;
    switch (c->script->misbehaviour) {
    case GATED:
        if (strstr(c->path, "/api/")) break;
        return say_status(c, key ? 403 : 401,
                          "X-Error-Code: GatedRepo\r\nX-Error-Message: Access is restricted\r\n");
    case NO_SUCH_MODEL: return say_status(c, 401, "X-Error-Code: RepoNotFound\r\n");
    case NO_SUCH_REVISION: return say_status(c, 404, "X-Error-Code: RevisionNotFound\r\n");
    case BAD_TOKEN:
        return say_status(c, 401,
                          "X-Error-Message: Invalid credentials in Authorization header\r\n");
    case FORBIDDEN: return say_status(c, 403, "X-Error-Message: the terms have changed\r\n");
    case TOO_MANY: return say_status(c, 429, "Retry-After: 0\r\n");
    case UNWELL: return say_status(c, 503, "");
    case REDIRECTS_ROUND:
        return say(c, "HTTP/1.1 307 x\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n", c->path);
    case REDIRECTS_NOWHERE: return say_status(c, 302, "");
    case REDIRECTS_TO_FILE: return say_status(c, 302, "Location: file:///etc/passwd\r\n");
    default: break;
    }
    *refused = token[0] && !known;
    return !*refused || say_status(c, 401, "X-Error-Code: RepoNotFound\r\n");
}

static bool send_redirect(struct connection *c, const struct served_file *f)
{
    enum misbehaviour m = c->script->misbehaviour;
    char size[64];
    snprintf(size, sizeof(size), "X-Linked-Size: %llu\r\n",
             m == HUGE_SIZE ? 1ull << 42 : (unsigned long long)f->size);
    return say(c,
               "HTTP/1.1 302 x\r\nLocation: "
               "http://127.0.0.2:%d/store/%s?signature=secret\r\nX-Linked-Etag: "
               "\"%s\"\r\n%sX-Repo-Commit: %s\r\nContent-Length: 0\r\n\r\n",
               c->server->cdn_port, f->name, f->etag, m == NO_SIZE ? "" : size, c->script->commit);
}

static bool send_small(struct connection *c, const struct served_file *f)
{
    char extra[12000], filler[9000] = "";
    enum misbehaviour m = c->script->misbehaviour;
    const char *etag = m == ETAG_CLIMBS ? "../../../../../../tmp/evil"
                       : m == ETAG_LONG ? filler
                       : m == ETAG_NONE ? ""
                                        : f->etag;
    if (m == ETAG_LONG) memset(filler, 'a', sizeof(filler) - 1);
    snprintf(extra, sizeof(extra), "ETag: W/\"%s\"\r\nX-Repo-Commit: %s\r\n", etag,
             m == OTHER_COMMIT ? "ffffffffffffffffffffffffffffffffffffffff" : c->script->commit);
    if (m == HEADERS_LONG)
        snprintf(extra + strlen(extra), sizeof(extra) - strlen(extra), "Location: %s\r\n", filler);
    return send_file(c, f, extra);
}

static bool answer_here(struct connection *c)
{
    char listing[512], files[512];
    const struct hub_script *s = c->script;
    bool refused;
    bool sent = refuse(c, &refused);
    if (refused) return sent;
    snprintf(listing, sizeof(listing), "/api/models/%s/revision/%s", s->repository, s->revision);
    /* requested by branch name, unlike eyelet */
    bool by_name = strstr(c->path, "/resolve/main/") != NULL;
    snprintf(files, sizeof(files), "/%s/resolve/%s/", s->repository, by_name ? "main" : s->commit);
    if (strcmp(c->path, listing) == 0) return send_listing(c);
    /* as the hub: small files are redirected within it */
    const char *moved = "/api/resolve-cache/models/";
    bool cached = strncmp(c->path, moved, strlen(moved)) == 0;
    const struct served_file *f = NULL;
    if (cached)
        f = find(s, c->path + strlen(moved));
    else if (strncmp(c->path, files, strlen(files)) == 0)
        f = find(s, c->path + strlen(files));
    if (!f) return say_status(c, 404, "X-Error-Code: EntryNotFound\r\n");
    if (f->large) return send_redirect(c, f);
    if (!cached)
        return say(c, "HTTP/1.1 307 x\r\nLocation: %s%s\r\nContent-Length: 0\r\n\r\n", moved,
                   f->name);
    return send_small(c, f);
}

/* ---- the store of large files ---- */

static void note_at_once(struct hub_script *s, int now)
{
    int most = s->most_at_once;
    while (now > most && !atomic_compare_exchange_weak(&s->most_at_once, &most, now)) {}
}

static bool answer_elsewhere(struct connection *c)
{
    char name[512] = "";
    struct hub_script *s = c->script;
    s->elsewhere++;
    if (header(c, "Authorization")) s->tokens_elsewhere++;
    sscanf(c->path, "/store/%500[^?]", name);
    const struct served_file *f = find(s, name);
    if (!f) return say_status(c, 404, "");
    note_at_once(s, ++s->at_once);
    while (s->most_at_once < s->gather)
        usleep(NAP_US);
    bool ok = send_file(c, f, "");
    s->at_once--;
    return ok;
}

/* ---- connections ---- */

static bool answer(struct connection *c)
{
    struct hub_script *s = c->script;
    s->requests++;
    c->cut = s->cut_one_in && !draw(c, (unsigned)s->cut_one_in)
                 ? (long)draw(c, draw(c, 2) ? 400 : 150000)
                 : -1;
    if (c->proxied && s->proxy_asks && !header(c, "Proxy-Authorization"))
        return say_status(c, 407, "Proxy-Authenticate: Basic realm=\"x\"\r\n");
    if (s->fail_one_in && !draw(c, (unsigned)s->fail_one_in))
        return say_status(c, 503, "Retry-After: 0\r\n");
    return c->elsewhere ? answer_elsewhere(c) : answer_here(c);
}

/* The connection counts as open until the client sees its end. */
static void end(struct connection *c)
{
    c->script->connections--;
    close(c->fd);
    free(c);
}

static void *serve(void *user)
{
    struct connection *c = user;
    while (read_head(c) && answer(c)) {}
    end(c);
    return NULL;
}

static void *accept_all(void *user)
{
    struct connection *first = user;
    for (unsigned n = 1;; n++) {
        int fd = accept(first->fd, NULL, NULL);
        struct connection *c = fd >= 0 ? malloc(sizeof(*c)) : NULL;
        pthread_t thread;
        if (!c) continue;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1},
                   sizeof(int)); /* sends a body without waiting for the ACK of its head */
        *c = *first;
        c->fd = fd;
        c->random = first->script->seed * 7919u + n * 104729u + c->elsewhere;
        c->script->connections++;
        if (pthread_create(&thread, NULL, serve, c) == 0)
            pthread_detach(thread);
        else
            end(c);
    }
    return NULL;
}

/* 127.0.0.last */
static struct sockaddr_in address_of(unsigned last, int port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr.s_addr = htonl((INADDR_LOOPBACK & ~255u) + last)};
}

static int listen_somewhere(unsigned last, int *port)
{
    struct sockaddr_in at = address_of(last, 0);
    socklen_t n = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, n) != 0 || listen(fd, 128) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &n) != 0)
        abort();
    *port = ntohs(at.sin_port);
    return fd;
}

static void run(const struct server *server)
{
    struct connection here = {.server = server, .script = server->script, .fd = server->hub},
                      elsewhere = here;
    pthread_t thread;
    elsewhere.fd = server->cdn;
    elsewhere.elsewhere = true;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pthread_create(&thread, NULL, accept_all, &elsewhere);
    accept_all(&here);
}

/* ---- for tests ---- */

struct hub_script *hub_script_new(const char *repository)
{
    struct hub_script *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s == MAP_FAILED) abort();
    snprintf(s->repository, sizeof(s->repository), "%s", repository);
    snprintf(s->revision, sizeof(s->revision), "main");
    memcpy(s->commit, "0123456789abcdef0123456789abcdef01234567", sizeof(s->commit));
    return s;
}

static void write_hex(char *out, const unsigned char *digest, size_t n)
{
    for (size_t i = 0; i < n; i++)
        snprintf(out + 2 * i, 3, "%02x", digest[i]);
}

void hub_script_add(struct hub_script *s, const char *name, const void *data, size_t size,
                    bool large)
{
    unsigned char digest[SHA256_DIGEST_LENGTH];
    struct served_file *f = &s->file[s->n++];
    *f = (struct served_file){.data = data, .size = size, .large = large};
    snprintf(f->name, sizeof(f->name), "%s", name);
    if (large) {
        SHA256(data, size, digest);
        write_hex(f->etag, digest, SHA256_DIGEST_LENGTH);
        return;
    }
    char head[32];
    SHA_CTX git;
    SHA1_Init(&git);
    SHA1_Update(&git, head, (size_t)snprintf(head, sizeof(head), "blob %zu", size) + 1);
    SHA1_Update(&git, data, size);
    SHA1_Final(digest, &git);
    write_hex(f->etag, digest, SHA_DIGEST_LENGTH);
}

static struct server running;

pid_t hub_server_start(struct hub_script *s, int *port)
{
    running = (struct server){.script = s};
    running.hub = listen_somewhere(1, &running.hub_port);
    running.cdn = listen_somewhere(2, &running.cdn_port); /* two hosts, like the hub's */
    pid_t child = fork();
    if (child == 0) run(&running);
    if (child < 0) abort();
    close(running.hub);
    close(running.cdn);
    *port = running.hub_port;
    return child;
}

/* Connections are accepted in order, so all earlier ones have been accepted when this one is. */
static void pass_through(unsigned last, int port)
{
    struct sockaddr_in at = address_of(last, port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char byte;
    if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof(at)) != 0) abort();
    shutdown(fd, SHUT_WR);
    if (recv(fd, &byte, 1, 0) > 0) abort();
    close(fd);
}

void hub_server_await_rest(void)
{
    pass_through(1, running.hub_port);
    pass_through(2, running.cdn_port);
    while (running.script->connections)
        usleep(NAP_US);
}

void hub_server_stop(pid_t server)
{
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
}
