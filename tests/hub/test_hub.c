/* SPDX-License-Identifier: Apache-2.0 */
/* Pulling from a fake hub: the resulting cache, which hosts get the token, and the errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/full_disk.h"
#include "checkpoint/temp_dir.h"
#include "hub/blob.h"
#include "hub/hub.h"
#include "hub/hub_server.h"

#define NAME "Org/Model"
#define FOLDER "models--Org--Model"
#define COMMIT "0123456789abcdef0123456789abcdef01234567"

static const char config[] = "{\"architectures\": [\"X\"]}\n", tokenizer[] = "{}", empty[] = "";
static const char index_json[] = "{\"weight_map\": {\"a\": \"model-00001-of-00002.safetensors\", "
                                 "\"b\": \"model-00002-of-00002.safetensors\"}}";
static uint8_t first[300001], second[70003];

static struct hub_script *script;
static pid_t server;
static int port;
static char cache[256];
static char notices[1000];

/* ---- a fresh cache and a well-behaved hub ---- */

static void fill(uint8_t *bytes, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)(rand_r(&seed) >> 5);
}

static int start_server(void **state)
{
    (void)state;
    fill(first, sizeof(first), 1);
    fill(second, sizeof(second), 2);
    script = hub_script_new(NAME);
    hub_script_add(script, "config.json", config, strlen(config), false);
    hub_script_add(script, "tokenizer.json", tokenizer, strlen(tokenizer), false);
    hub_script_add(script, "merges.txt", empty, 0, false);
    hub_script_add(script, "README.md", config, strlen(config), false);
    hub_script_add(script, "pytorch_model.bin", second, sizeof(second), true);
    hub_script_add(script, "model.safetensors.index.json", index_json, strlen(index_json), false);
    hub_script_add(script, "model-00001-of-00002.safetensors", first, sizeof(first), true);
    hub_script_add(script, "model-00002-of-00002.safetensors", second, sizeof(second), true);
    server = hub_server_start(script, &port);
    return 0;
}

static int stop_server(void **state)
{
    (void)state;
    hub_server_stop(server);
    return 0;
}

static int fresh(void **state)
{
    (void)state;
    static const char *const unset[] = {"HF_TOKEN",
                                        "HUGGING_FACE_HUB_TOKEN",
                                        "HF_TOKEN_PATH",
                                        "HF_HOME",
                                        "XDG_CACHE_HOME",
                                        "HF_HUB_OFFLINE",
                                        "TRANSFORMERS_OFFLINE",
                                        "HF_HUB_DISABLE_IMPLICIT_TOKEN",
                                        "http_proxy",
                                        "https_proxy",
                                        "HTTPS_PROXY",
                                        "all_proxy",
                                        "ALL_PROXY",
                                        "no_proxy",
                                        "NO_PROXY",
                                        "SSL_CERT_FILE"};
    char endpoint[64];
    for (size_t i = 0; i < sizeof(unset) / sizeof(unset[0]); i++)
        unsetenv(unset[i]);
    snprintf(cache, sizeof(cache), "%s", temp_dir_make());
    snprintf(endpoint, sizeof(endpoint), "http://127.0.0.1:%d/", port);
    setenv("HF_ENDPOINT", endpoint, 1);
    setenv("HF_HUB_CACHE", cache, 1);
    setenv("HOME", cache, 1);
    script->misbehaviour = WELL_BEHAVED;
    script->token[0] = 0;
    script->proxy_asks = false;
    script->wrong_once = 0;
    script->bytes_per_ms = 0;
    script->hold_after = 0;
    script->gather = 0;
    strcpy(script->revision, "main");
    hub_server_await_rest(); /* requests of the test before do not count */
    script->requests = script->elsewhere = script->tokens_elsewhere = script->ranges =
        script->proxied = 0;
    script->bytes = 0;
    script->most_at_once = 0;
    notices[0] = 0;
    return 0;
}

static int drop(void **state)
{
    (void)state;
    temp_dir_remove(cache);
    return 0;
}

static double connect_seconds; /* as in hub_options */
static int noted = -1;         /* a pipe that the next notice is written to */

static void note(void *user, const char *text)
{
    (void)user;
    if (noted >= 0) assert_int_equal(write(noted, "", 1), 1);
    noted = -1;
    snprintf(notices + strlen(notices), sizeof(notices) - strlen(notices), "%s\n", text);
}

/* Pulls with hub_options' `stop`, which gets the model, or NULL. */
static bool pull_asking(const char *name, bool (*stop)(void *model), ey_err *e)
{
    struct hub hub;
    struct hub_model model = {.n = 0};
    const struct hub_options options = {.notice = note,
                                        .stop = stop,
                                        .user = &model,
                                        .range_bytes = 65536,
                                        .retry_seconds = 0.01,
                                        .connect_seconds = connect_seconds};
    struct repository repository;
    assert_true(repository_parse(&repository, name));
    bool ok = hub_open(&hub, &options, e) && hub_list_repo(&hub, &repository, &model, e) &&
              hub_download(&hub, &model, e);
    hub_model_free(&model);
    hub_close(&hub);
    return ok;
}

static bool pull_from(const char *name, ey_err *e)
{
    return pull_asking(name, NULL, e);
}

static void pull(void)
{
    ey_err e;
    if (!pull_from(NAME, &e)) fail_msg("%s", e.text);
}

static void expect_failure(const char *name, const char *pattern)
{
    ey_err e = {.text = ""};
    assert_false(pull_from(name, &e));
    if (!strstr(e.text, pattern)) fail_msg("\"%s\" has no \"%s\"", e.text, pattern);
    if (strstr(e.text, "signature") || strstr(e.text, "hf_secret"))
        fail_msg("\"%s\" shows a secret", e.text);
}

/* ---- models in the cache ---- */

static const char *in_cache(const char *path)
{
    return temp_path(cache, path);
}

static void expect_file(const char *path, const void *bytes, size_t n)
{
    char *data;
    size_t size;
    ey_err e;
    if (!file_read(&data, &size, in_cache(path), 1 << 24, &e)) fail_msg("%s", e.text);
    assert_int_equal(size, n);
    if (n) assert_memory_equal(data, bytes, n);
    free(data);
}

static void expect_link(const char *name)
{
    char path[512], target[256] = "", wanted[256] = "?";
    snprintf(path, sizeof(path), FOLDER "/snapshots/" COMMIT "/%s", name);
    for (size_t i = 0; i < script->n; i++)
        if (strcmp(script->file[i].name, name) == 0)
            snprintf(wanted, sizeof(wanted), "../../blobs/%s", script->file[i].etag);
    assert_true(readlink(in_cache(path), target, sizeof(target) - 1) > 0);
    assert_string_equal(target, wanted);
}

static void expect_absent(const char *path)
{
    struct stat st;
    if (lstat(in_cache(path), &st) == 0) fail_msg("%s exists", path);
}

/* Counts a folder's entries. */
static int count(const char *path)
{
    char command[700];
    int n = -1;
    snprintf(command, sizeof(command), "ls -A '%s' | wc -l", in_cache(path));
    FILE *f = popen(command, "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%d", &n), 1);
    pclose(f);
    return n;
}

static void expect_whole(void)
{
    static const char *const names[] = {"config.json",
                                        "tokenizer.json",
                                        "merges.txt",
                                        "model.safetensors.index.json",
                                        "model-00001-of-00002.safetensors",
                                        "model-00002-of-00002.safetensors"};
    for (size_t i = 0; i < 6; i++)
        expect_link(names[i]);
    expect_file(FOLDER "/refs/main", COMMIT, 40);
    expect_file(FOLDER "/snapshots/" COMMIT "/config.json", config, strlen(config));
    expect_file(FOLDER "/snapshots/" COMMIT "/merges.txt", empty, 0);
    expect_file(FOLDER "/snapshots/" COMMIT "/model-00001-of-00002.safetensors", first,
                sizeof(first));
    expect_file(FOLDER "/snapshots/" COMMIT "/model-00002-of-00002.safetensors", second,
                sizeof(second));
    assert_int_equal(count(FOLDER "/snapshots/" COMMIT), 6);
    assert_int_equal(count(FOLDER "/blobs"), 6); /* and no partial file or record */
}

/* ---- the layout ---- */

static void test_layout(void **state)
{
    (void)state;
    pull();
    expect_whole();
    expect_absent(FOLDER "/snapshots/" COMMIT "/README.md");
    assert_true(path_is_file(in_cache("CACHEDIR.TAG")));
    assert_int_equal(count(".locks/" FOLDER), 6);
    assert_true(script->ranges >= 5 && script->most_at_once >= 1);
    /* a second pull needs a listing, one or two HEADs for each of six files and the index, but no
     * byte of a large file */
    unsigned elsewhere = script->elsewhere;
    pull();
    assert_int_equal(script->elsewhere, elsewhere);
}

static void test_found_by_name(void **state)
{
    (void)state;
    char directory[EY_MAX_PATH];
    pull();
    assert_true(model_directory_find(directory, NAME, NULL));
    assert_string_equal(strstr(directory, "snapshots/"), "snapshots/" COMMIT);
}

static void test_parallel_ranges(void **state)
{
    (void)state;
    script->gather = 4;
    pull();
    assert_true(script->most_at_once >= 4);
    expect_whole();
}

static void test_revisions(void **state)
{
    (void)state;
    ey_err e;
    strcpy(script->revision, "refs%2Fpr%2F3");
    if (!pull_from(NAME "@refs/pr/3", &e)) fail_msg("%s", e.text);
    expect_file(FOLDER "/refs/refs/pr/3", COMMIT, 40);
    expect_absent(FOLDER "/refs/main");
    strcpy(script->revision, COMMIT);
    if (!pull_from(NAME "@" COMMIT, &e)) fail_msg("%s", e.text);
    expect_absent(FOLDER "/refs/" COMMIT);
}

/* Other tools' files in the snapshot, and a blob without a link, as huggingface_hub leaves them. */
static void test_files_of_other_tools(void **state)
{
    (void)state;
    char blob[256];
    snprintf(blob, sizeof(blob), FOLDER "/blobs/%s", script->file[6].etag);
    temp_file(cache, blob, first, sizeof(first));
    temp_file(cache, FOLDER "/blobs/abc", "x", 1);
    temp_link(cache, FOLDER "/snapshots/" COMMIT "/README.md", "../../blobs/abc");
    temp_link(cache, FOLDER "/snapshots/" COMMIT "/config.json", "../../blobs/gone");
    pull();
    assert_true(script->bytes < 2 * sizeof(second));
    expect_link("config.json");
    expect_link("model-00001-of-00002.safetensors");
    expect_file(FOLDER "/snapshots/" COMMIT "/README.md", "x", 1);
}

/* Without symbolic links, huggingface_hub stores files directly in the snapshot. */
static void test_snapshot_of_files(void **state)
{
    (void)state;
    temp_file(cache, FOLDER "/snapshots/" COMMIT "/model-00001-of-00002.safetensors", first,
              sizeof(first));
    pull();
    assert_true(script->bytes < 2 * sizeof(second));
    expect_file(FOLDER "/snapshots/" COMMIT "/model-00001-of-00002.safetensors", first,
                sizeof(first));
}

/* Equal files share a blob; without links, each of them needs a copy. */
static void test_equal_files_without_links(void **state)
{
    (void)state;
    ey_err e;
    hub_script_add(script, "generation_config.json", config, strlen(config), false);
    full_disk_refuse_links(true);
    bool ok = pull_from(NAME, &e);
    full_disk_refuse_links(false);
    script->n--;
    if (!ok) fail_msg("%s", e.text);
    expect_file(FOLDER "/snapshots/" COMMIT "/config.json", config, strlen(config));
    expect_file(FOLDER "/snapshots/" COMMIT "/generation_config.json", config, strlen(config));
    expect_file(FOLDER "/snapshots/" COMMIT "/model-00001-of-00002.safetensors", first,
                sizeof(first));
    assert_int_equal(count(FOLDER "/snapshots/" COMMIT), 7);
    assert_int_equal(count(FOLDER "/blobs"), 0);
}

/* A truncated file there is downloaded again and replaced. */
static void test_damaged_snapshot_file(void **state)
{
    (void)state;
    temp_file(cache, FOLDER "/snapshots/" COMMIT "/model-00001-of-00002.safetensors", first, 1000);
    pull();
    expect_whole();
}

static void test_blob_of_wrong_size(void **state)
{
    (void)state;
    char blob[256];
    snprintf(blob, sizeof(blob), FOLDER "/blobs/%s", script->file[6].etag);
    temp_file(cache, blob, first, 1000);
    pull();
    expect_whole();
}

/* ---- the token ---- */

static void test_token_stays_home(void **state)
{
    (void)state;
    strcpy(script->token, "hf_secret");
    expect_failure(NAME, "no such model, or a private one (for which HF_TOKEN");
    setenv("HF_TOKEN", " hf_secret\n", 1);
    pull();
    expect_whole();
    assert_true(script->elsewhere > 0);
    assert_int_equal(script->tokens_elsewhere, 0);
}

static void test_token_file(void **state)
{
    (void)state;
    strcpy(script->token, "hf_secret");
    temp_text(cache, ".cache/huggingface/token", "hf_secret\n");
    pull();
    setenv("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1", 1);
    expect_failure(NAME, "no such model");
    unsetenv("HF_HUB_DISABLE_IMPLICIT_TOKEN");
    temp_text(cache, "home/token", "hf_secret");
    setenv("HF_HOME", in_cache("home"), 1);
    pull();
    setenv("HF_TOKEN_PATH", in_cache("nothing"), 1);
    expect_failure(NAME, "no such model");
}

static void test_odd_tokens(void **state)
{
    (void)state;
    setenv("HF_TOKEN", "a b", 1);
    expect_failure(NAME, "HF_TOKEN has an invalid character");
    setenv("HF_TOKEN", "a\r\nX-Evil: 1", 1);
    expect_failure(NAME, "HF_TOKEN has an invalid character");
    char *token = calloc(1, 5000);
    memset(token, 'a', 4000);
    setenv("HF_TOKEN", token, 1);
    expect_failure(NAME, "longer than");
    free(token);
}

/* ---- errors of the hub ---- */

static void test_complaints(void **state)
{
    (void)state;
    static const struct {
        enum misbehaviour misbehaviour;
        const char *token, *pattern;
    } rows[] = {
        {GATED, NULL, "is gated: accept its terms on its page at http://127.0.0.1"},
        {GATED, "x", "is gated, and the account of the token (HF_TOKEN) has no access"},
        {NO_SUCH_MODEL, NULL, "has no such model, or a private one"},
        {NO_SUCH_MODEL, "x", "that the token's account cannot see"},
        {NO_SUCH_REVISION, NULL, "no such branch, tag or commit"},
        {BAD_TOKEN, "x", "rejects the token (HF_TOKEN)"},
        {FORBIDDEN, NULL, "denies access (HTTP 403: the terms have changed)"},
        {TOO_MANY, NULL, "too many requests"},
        {UNWELL, NULL, "the hub failed (HTTP 503)"},
        {ETAG_CLIMBS, NULL, "is not a hash"},
        {ETAG_LONG, NULL, "is not a hash"},
        {ETAG_NONE, NULL, "is not a hash"},
        {COMMIT_CLIMBS, NULL, "which is not a hash"},
        {OTHER_COMMIT, NULL, "answered with commit"},
        {NO_SIZE, NULL, "does not report the file's size"},
        {HUGE_SIZE, NULL, "the download needs "},
        {WRONG_RANGE, NULL, "were requested,"},
        {OTHER_TOTAL, NULL, "the hub's storage has"},
        {COMPRESSED, NULL, "received compressed (gzip)"},
        {LOGIN_PAGE, NULL, "does this network have a login page?"},
        {REDIRECTS_ROUND, NULL, "redirects more than"},
        {REDIRECTS_NOWHERE, NULL, "leads nowhere"},
        {REDIRECTS_TO_FILE, NULL, "a URL other than http(s)"},
        {WRONG_BYTES, NULL, "its hash is"},
        {LISTING_BROKEN, NULL, "list of files"},
        {LISTING_LONG, NULL, "longer than"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        drop(NULL);
        fresh(NULL);
        script->misbehaviour = rows[i].misbehaviour;
        if (rows[i].token) setenv("HF_TOKEN", rows[i].token, 1);
        expect_failure(NAME, rows[i].pattern);
        expect_absent(FOLDER "/refs/main");
    }
}

static void test_too_much(void **state)
{
    (void)state;
    script->misbehaviour = TOO_MUCH;
    expect_failure(NAME, "received more bytes than requested");
}

static void test_no_network(void **state)
{
    (void)state;
    setenv("HF_ENDPOINT", "http://127.0.0.1:1", 1);
    expect_failure(NAME, "accepts no connection");
    setenv("HF_ENDPOINT", "http://no-such-host.invalid", 1);
    expect_failure(NAME, "is this machine online?");
}

/* Listens on a port of 127.0.0.1 that drops attempts to connect, because the queue is full. Returns
 * the two descriptors to close. */
static void fill_port(int fd[2], char endpoint[64])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(at);
    for (int i = 0; i < 2; i++)
        fd[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd[0], (struct sockaddr *)&at, n), 0);
    assert_int_equal(listen(fd[0], 0), 0);
    assert_int_equal(getsockname(fd[0], (struct sockaddr *)&at, &n), 0);
    assert_int_equal(connect(fd[1], (struct sockaddr *)&at, n), 0);
    snprintf(endpoint, 64, "http://127.0.0.1:%d", ntohs(at.sin_port));
}

/* A host that never answers is not tried again. */
static void test_no_answer(void **state)
{
    (void)state;
    int fd[2];
    char endpoint[64];
    fill_port(fd, endpoint);
    setenv("HF_ENDPOINT", endpoint, 1);
    connect_seconds = 0.3;
    const double began = seconds_now();
    expect_failure(NAME, "accepts no connection");
    assert_true(seconds_now() - began < 5 * connect_seconds);
    connect_seconds = 0;
    close(fd[0]);
    close(fd[1]);
}

/* A host name that only the proxy resolves. */
static void test_proxy(void **state)
{
    (void)state;
    char proxy[64];
    strcpy(script->token, "hf_secret");
    setenv("HF_TOKEN", "hf_secret", 1);
    setenv("HF_ENDPOINT", "http://no-such-host.invalid", 1);
    snprintf(proxy, sizeof(proxy), "http://127.0.0.1:%d", port);
    setenv("http_proxy", proxy, 1);
    pull();
    expect_whole();
    assert_int_equal(script->proxied, script->requests);
    assert_true(script->elsewhere > 0);
    assert_int_equal(script->tokens_elsewhere, 0);
    setenv("no_proxy", "no-such-host.invalid", 1);
    expect_failure(NAME, "is this machine online?");
}

static void test_proxy_with_password(void **state)
{
    (void)state;
    char proxy[64];
    script->proxy_asks = true;
    setenv("HF_ENDPOINT", "http://no-such-host.invalid", 1);
    snprintf(proxy, sizeof(proxy), "http://127.0.0.1:%d", port);
    setenv("http_proxy", proxy, 1);
    expect_failure(NAME, "the proxy requires a password");
    snprintf(proxy, sizeof(proxy), "http://user:hf_secret@127.0.0.1:%d", port);
    setenv("http_proxy", proxy, 1);
    pull();
    expect_whole();
}

static void test_endpoints(void **state)
{
    (void)state;
    static const char *const bad[] = {"127.0.0.1:80", "ftp://x",    "http://user:pass@x",
                                      "http://x?y",   "http://x#y", "http://x y",
                                      "file:///etc",  "http://",    "https://x/\n"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        setenv("HF_ENDPOINT", bad[i], 1);
        expect_failure(NAME, "HF_ENDPOINT is");
    }
}

static void test_names(void **state)
{
    (void)state;
    expect_failure("a--b/c", "is not a repository name");
    expect_failure("Org/Other", "no such model, revision or file (HTTP 404)");
}

/* model.safetensors is complete; a leftover index names missing shards. */
static void test_stale_index(void **state)
{
    (void)state;
    strcpy(script->file[6].name, "model.safetensors");
    strcpy(script->file[7].name, "other");
    pull();
    expect_link("model.safetensors");
    expect_absent(FOLDER "/snapshots/" COMMIT "/model.safetensors.index.json");
    strcpy(script->file[6].name, "model-00001-of-00002.safetensors");
    strcpy(script->file[7].name, "model-00002-of-00002.safetensors");
}

/* A file in a folder (sentence-transformers' layout): its link in the snapshot has one more "..".
 */
static void test_embedding_layout(void **state)
{
    static const char name[] = "1_Pooling/config.json", json[] = "{}";
    char path[512], target[256] = "", wanted[256];
    struct served_file *added = &script->file[script->n];
    (void)state;
    hub_script_add(script, name, (const uint8_t *)json, strlen(json), false);
    pull();
    snprintf(path, sizeof(path), FOLDER "/snapshots/" COMMIT "/%s", name);
    snprintf(wanted, sizeof(wanted), "../../../blobs/%s", added->etag);
    assert_true(readlink(in_cache(path), target, sizeof(target) - 1) > 0);
    assert_string_equal(target, wanted);
    expect_file(path, json, strlen(json));
    pull();
    script->n--;
}

/* Repositories without tokenizer.json. */
static void test_vocab_and_merges(void **state)
{
    (void)state;
    strcpy(script->file[1].name, "other");
    expect_failure(NAME, "has no tokenizer.json, nor vocab.json with merges.txt");
    strcpy(script->file[1].name, "vocab.json");
    pull();
    expect_link("vocab.json");
    strcpy(script->file[1].name, "tokenizer.json");
}

static void test_no_weights(void **state)
{
    (void)state;
    static char name[] = "model.safetensors.index.json";
    strcpy(script->file[5].name, "other");
    expect_failure(NAME, "reads safetensors");
    strcpy(script->file[5].name, name);
    strcpy(script->file[7].name, "other");
    expect_failure(NAME, "its index names model-00002-of-00002.safetensors");
    strcpy(script->file[7].name, "model-00002-of-00002.safetensors");
    strcpy(script->file[0].name, "other");
    expect_failure(NAME, "has no config.json");
    strcpy(script->file[0].name, "config.json");
}

/* ---- going on ---- */

static void test_no_ranges(void **state)
{
    (void)state;
    script->misbehaviour = IGNORES_RANGES;
    pull();
    expect_whole();
}

static void test_cut_without_ranges(void **state)
{
    (void)state;
    script->misbehaviour = IGNORES_RANGES;
    script->cut_one_in = 6;
    ey_err e;
    bool ok = false;
    for (int i = 0; i < 50 && !ok; i++)
        ok = pull_from(NAME, &e);
    script->cut_one_in = 0;
    assert_true(ok);
    expect_whole();
}

/* A download that restarts from 0 must not change bytes whose hash is known already. */
static void test_hashed_bytes_stay(void **state)
{
    (void)state;
    enum { HASHED = 1000 };
    static const char damaged[HASHED];
    struct hub_model model = {.n = 0};
    struct hub_file file = {.name = "x", .size = sizeof(second)};
    struct blob b;
    char blob[256], found[HUB_ETAG_BYTES + 1];
    ey_err e;
    bool ok = true;
    snprintf(model.directory, sizeof(model.directory), "%s", in_cache(FOLDER));
    snprintf(file.etag, sizeof(file.etag), "%s", script->file[7].etag);
    snprintf(blob, sizeof(blob), FOLDER "/blobs/%s", file.etag);
    assert_true(blob_make_directories(&model, &e));
    assert_int_equal(blob_open(&b, &model, &file, &e), BLOB_OPEN);
    assert_true(blob_write(&b, 0, (const char *)second, HASHED, &e));
    assert_true(blob_hash(&b, SIZE_MAX, &e, &ok));
    assert_true(blob_write(&b, 0, damaged, HASHED, &e));
    assert_true(blob_write(&b, HASHED / 2, (const char *)second + HASHED / 2,
                           sizeof(second) - HASHED / 2, &e));
    assert_true(blob_hash(&b, SIZE_MAX, &e, &ok));
    assert_true(ok && blob_is_complete(&b));
    assert_int_equal(blob_finish(&b, found, &e), BLOB_END_STORED);
    expect_file(blob, second, sizeof(second));
}

static void test_wrong_byte_once(void **state)
{
    (void)state;
    script->wrong_once = 1;
    expect_failure(NAME, "its hash is");
    pull();
    expect_whole();
}

/* After a power cut, a record may claim bytes that were never written. */
static void test_damaged_partial(void **state)
{
    (void)state;
    char partial[256], record[256];
    snprintf(partial, sizeof(partial), FOLDER "/blobs/%s.eyelet.incomplete", script->file[6].etag);
    snprintf(record, sizeof(record), FOLDER "/blobs/%s.ranges.incomplete", script->file[6].etag);
    temp_file(cache, partial, "", 0);
    assert_int_equal(truncate(in_cache(partial), sizeof(first)), 0);
    temp_text(cache, record, "eyelet 1 300001\n0 200000\n");
    pull();
    assert_non_null(strstr(notices, "was damaged; downloading it again"));
    expect_whole();
}

static void test_true_partial(void **state)
{
    (void)state;
    char partial[256], record[256];
    snprintf(partial, sizeof(partial), FOLDER "/blobs/%s.eyelet.incomplete", script->file[6].etag);
    snprintf(record, sizeof(record), FOLDER "/blobs/%s.ranges.incomplete", script->file[6].etag);
    temp_file(cache, partial, first, sizeof(first));
    temp_text(cache, record, "eyelet 1 300001\n0 150000\n200000 300000\n");
    pull();
    expect_whole();
    assert_true(script->bytes < sizeof(second) + 50001 + 3000);
}

/* The process was killed after renaming the blob and before removing the record. */
static void test_leftover_record(void **state)
{
    (void)state;
    char record[256], new_record[256];
    snprintf(record, sizeof(record), FOLDER "/blobs/%s.ranges.incomplete", script->file[6].etag);
    snprintf(new_record, sizeof(new_record), FOLDER "/blobs/%s.new.ranges.incomplete",
             script->file[6].etag);
    pull();
    temp_text(cache, record, "eyelet 1 300001\n0 300001\n");
    temp_text(cache, new_record, "");
    pull();
    expect_whole();
}

/* A partial file of huggingface_hub is left alone. */
static void test_foreign_partial(void **state)
{
    (void)state;
    char partial[256];
    snprintf(partial, sizeof(partial), FOLDER "/blobs/%s.incomplete", script->file[6].etag);
    temp_file(cache, partial, "x", 1);
    pull();
    expect_file(partial, "x", 1);
}

/* ---- a full disk ---- */

/* Finished blobs are complete, and no snapshot exists before they are. */
static void expect_nothing_half(void)
{
    bool all = true;
    for (size_t i = 0; i < script->n; i++) {
        char blob[256];
        struct stat st;
        const struct served_file *f = &script->file[i];
        if (strcmp(f->name, "README.md") == 0 || strcmp(f->name, "pytorch_model.bin") == 0)
            continue;
        snprintf(blob, sizeof(blob), FOLDER "/blobs/%s", f->etag);
        if (lstat(in_cache(blob), &st) == 0)
            expect_file(blob, f->data, f->size);
        else
            all = false;
    }
    if (!all) expect_absent(FOLDER "/snapshots/" COMMIT);
    expect_absent(FOLDER "/refs/main");
}

/* Pulls once with this room and, if that fails, again with enough. */
static bool pull_on_a_disk_of(uint64_t room, bool reserves)
{
    ey_err e = {.text = ""};
    full_disk_start(room, reserves);
    bool ok = pull_from(NAME, &e);
    full_disk_stop();
    if (!ok) {
        if (e.code != EY_IO || !strstr(e.text, "the disk is full; make room") ||
            !strstr(e.text, "to resume"))
            fail_msg("room %llu: %s", (unsigned long long)room, e.text);
        expect_nothing_half();
        pull();
    }
    expect_whole();
    return ok;
}

static void test_full_disk(void **state)
{
    (void)state;
    const uint64_t needed = sizeof(first) + sizeof(second) + strlen(config) + strlen(tokenizer) +
                            strlen(index_json) + HUB_COMMIT_BYTES;
    int failed = 0, n = 0;
    for (uint64_t room = 0; room < needed + 1000; n++) {
        bool ok = pull_on_a_disk_of(room, false);
        if (ok && room < needed)
            fail_msg("%llu bytes were enough for %llu", (unsigned long long)room,
                     (unsigned long long)needed);
        failed += !ok;
        if (room < 300)
            room += 41;
        else
            room += room + 24000 < needed ? 23456 : room + 300 < needed ? needed - 300 - room : 41;
        drop(state);
        fresh(state);
    }
    if (failed <= 20 || failed == n) fail_msg("%d of %d failed", failed, n);
}

/* Fails before anything large is requested. */
static void test_full_disk_that_reserves(void **state)
{
    (void)state;
    assert_false(pull_on_a_disk_of(sizeof(first) - 1, true));
    drop(state);
    fresh(state);
    ey_err e;
    full_disk_start(1000, true);
    assert_false(pull_from(NAME, &e));
    full_disk_stop();
    assert_int_equal(script->elsewhere, 0);
}

/* A complete model needs no space. */
static void test_complete_on_a_full_disk(void **state)
{
    (void)state;
    pull();
    assert_true(pull_on_a_disk_of(0, false));
}

enum { RECORDED = 150000, HELD = 160000 }; /* bytes, less than the disk holds */

/* The hub continues once the record has the bytes so far. */
static bool go_on_when_recorded(void *user)
{
    const struct hub_model *model = user;
    uint64_t here = 0;
    for (size_t i = 0; i < model->n; i++)
        here += blob_bytes_present(model, &model->files[i]);
    if (here >= RECORDED) script->hold_after = 0;
    return false;
}

/* Recorded bytes are not requested again. */
static void test_full_disk_goes_on(void **state)
{
    (void)state;
    ey_err e;
    script->begun = 0;
    script->hold_after = HELD;
    full_disk_start(280000, false);
    assert_false(pull_asking(NAME, go_on_when_recorded, &e));
    full_disk_stop();
    assert_int_equal(script->hold_after, 0);
    hub_server_await_rest();
    script->bytes = 0;
    pull();
    expect_whole();
    assert_true(script->bytes < sizeof(first) + sizeof(second) - 65536);
}

/* ---- concurrent downloads ---- */

static void test_concurrent_pulls(void **state)
{
    (void)state;
    pid_t child[3];
    script->bytes_per_ms = 1000;
    for (int i = 0; i < 3; i++) {
        ey_err e;
        child[i] = fork();
        if (child[i] == 0) _exit(pull_from(NAME, &e) ? 0 : 1);
    }
    for (int i = 0; i < 3; i++) {
        int status;
        assert_true(waitpid(child[i], &status, 0) == child[i] && WIFEXITED(status) &&
                    WEXITSTATUS(status) == 0);
    }
    expect_whole();
    assert_true(script->bytes < (sizeof(first) + sizeof(second)) * 3 /
                                    2); /* each byte was sent once, not three times */
}

/* Another program, such as huggingface_hub, holds a blob's lock for a while. */
static void test_waits_for_others(void **state)
{
    (void)state;
    char lock[256];
    snprintf(lock, sizeof(lock), ".locks/" FOLDER "/%s.lock", script->file[6].etag);
    temp_file(cache, lock, "", 0);
    int locked[2], told[2];
    assert_true(pipe(locked) == 0 && pipe(told) == 0);
    pid_t child = fork();
    if (child == 0) {
        char blob[256], byte;
        int fd = open(in_cache(lock), O_RDWR);
        flock(fd, LOCK_EX);
        close(locked[1]);
        close(told[1]);
        if (read(told[0], &byte, 1) != 1) _exit(1); /* until the notice says that eyelet waits */
        snprintf(blob, sizeof(blob), FOLDER "/blobs/%s", script->file[6].etag);
        temp_file(cache, blob, first, sizeof(first));
        _exit(0);
    }
    char byte;
    close(locked[1]);
    close(told[0]);
    assert_int_equal(read(locked[0], &byte, 1), 0);
    noted = told[1];
    pull();
    close(locked[0]);
    close(told[1]);
    waitpid(child, NULL, 0);
    assert_non_null(
        strstr(notices, "another program is downloading model-00001-of-00002.safetensors"));
    expect_whole();
    assert_true(script->bytes < sizeof(second) + 5000);
}

/* ---- removing ---- */

static bool removal(const char *name, struct hub_removal *r, ey_err *e)
{
    struct repository repository;
    assert_true(repository_parse(&repository, name));
    return hub_plan_removal(r, &repository, e) && hub_remove(r, e);
}

static void test_remove_all(void **state)
{
    (void)state;
    struct hub_removal r;
    ey_err e;
    pull();
    temp_text(cache, "outside/kept", "x");
    temp_link(cache, FOLDER "/snapshots/" COMMIT "/out", "../../../outside");
    temp_link(cache, FOLDER "/blobs/out", in_cache("outside/kept"));
    if (!removal(NAME, &r, &e)) fail_msg("%s", e.text);
    assert_true(r.bytes >= sizeof(first) + sizeof(second));
    expect_absent(FOLDER);
    expect_file("outside/kept", "x", 1);
    assert_false(removal(NAME, &r, &e));
    assert_non_null(strstr(e.text, "is not in the Hugging Face cache"));
}

static void test_remove_revision(void **state)
{
    (void)state;
    struct hub_removal r;
    ey_err e;
    char own[256];
    pull();
    snprintf(own, sizeof(own), FOLDER "/blobs/%s", script->file[7].etag);
    char target[128];
    snprintf(target, sizeof(target), "../../blobs/%s", script->file[6].etag);
    temp_link(cache, FOLDER "/snapshots/ffffffffffffffffffffffffffffffffffffffff/model.safetensors",
              target);
    temp_text(cache, FOLDER "/refs/old", "ffffffffffffffffffffffffffffffffffffffff");
    temp_text(cache, FOLDER "/.no_exist/" COMMIT "/x", "");
    temp_link(cache, FOLDER "/snapshots/" COMMIT "/odd", "../../../blobs/..");
    temp_text(cache, FOLDER "/snapshots/.DS_Store", "a file manager's");
    if (!removal(NAME "@main", &r, &e)) fail_msg("%s", e.text);
    assert_true(r.bytes >= sizeof(second) && r.bytes < sizeof(first));
    expect_absent(own);
    expect_absent(FOLDER "/snapshots/" COMMIT);
    expect_absent(FOLDER "/refs/main");
    expect_absent(FOLDER "/.no_exist/" COMMIT);
    expect_file(FOLDER "/snapshots/ffffffffffffffffffffffffffffffffffffffff/model.safetensors",
                first, sizeof(first));
    expect_file(FOLDER "/refs/old", "ffffffffffffffffffffffffffffffffffffffff", 40);
    if (!removal(NAME "@old", &r, &e)) fail_msg("%s", e.text);
    expect_absent(FOLDER);
}

static void test_remove_refuses(void **state)
{
    (void)state;
    struct hub_removal r;
    ey_err e;
    pull();
    assert_int_equal(rename(in_cache(FOLDER), in_cache("elsewhere")), 0);
    temp_link(cache, FOLDER, "elsewhere");
    assert_false(removal(NAME, &r, &e));
    assert_non_null(strstr(e.text, "is a link"));
    unlink(in_cache(FOLDER));
    assert_int_equal(rename(in_cache("elsewhere"), in_cache(FOLDER)), 0);
    char lock[256];
    snprintf(lock, sizeof(lock), ".locks/" FOLDER "/%s.lock", script->file[6].etag);
    int fd = open(in_cache(lock), O_RDWR);
    assert_true(fd >= 0 && flock(fd, LOCK_EX) == 0);
    assert_false(removal(NAME, &r, &e));
    assert_non_null(strstr(e.text, "is being downloaded"));
    close(fd);
    assert_false(removal(NAME "@nothing", &r, &e));
    expect_whole();
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, fresh, drop)
    const struct CMUnitTest tests[] = {
        CASE(test_layout),
        CASE(test_found_by_name),
        CASE(test_parallel_ranges),
        CASE(test_revisions),
        CASE(test_files_of_other_tools),
        CASE(test_snapshot_of_files),
        CASE(test_equal_files_without_links),
        CASE(test_damaged_snapshot_file),
        CASE(test_blob_of_wrong_size),
        CASE(test_token_stays_home),
        CASE(test_token_file),
        CASE(test_odd_tokens),
        CASE(test_complaints),
        CASE(test_too_much),
        CASE(test_no_network),
        CASE(test_no_answer),
        CASE(test_proxy),
        CASE(test_proxy_with_password),
        CASE(test_endpoints),
        CASE(test_names),
        CASE(test_no_weights),
        CASE(test_stale_index),
        CASE(test_embedding_layout),
        CASE(test_vocab_and_merges),
        CASE(test_no_ranges),
        CASE(test_cut_without_ranges),
        CASE(test_hashed_bytes_stay),
        CASE(test_wrong_byte_once),
        CASE(test_damaged_partial),
        CASE(test_true_partial),
        CASE(test_leftover_record),
        CASE(test_foreign_partial),
        CASE(test_full_disk),
        CASE(test_full_disk_that_reserves),
        CASE(test_complete_on_a_full_disk),
        CASE(test_full_disk_goes_on),
        CASE(test_concurrent_pulls),
        CASE(test_waits_for_others),
        CASE(test_remove_all),
        CASE(test_remove_revision),
        CASE(test_remove_refuses),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
