/* SPDX-License-Identifier: Apache-2.0 */
/* test_pull_faults [PULLS [SEED]]: 200 pulls that are killed at random, over connections that are
 * cut at random, from a hub that sometimes fails. Each is repeated until it reports success and
 * must then have the hub's files. The seed is printed. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "checkpoint/temp_dir.h"
#include "hub/hub.h"
#include "hub/hub_server.h"

#define NAME "Org/Model"
#define SNAPSHOT "models--Org--Model/snapshots/0123456789abcdef0123456789abcdef01234567"

enum { PULLS = 200, MAX_RUNS = 400, LARGE = 3, MOST_BYTES = 1 << 20 };

static const char config[] = "{\"architectures\": [\"X\"]}\n",
                  tokenizer[] = "{\"version\": \"1.0\"}";
static const char index_json[] = "{\"weight_map\": {\"a\": \"m-1.safetensors\", \"b\": "
                                 "\"m-2.safetensors\", \"c\": \"m-3.safetensors\"}}";
static uint8_t weights[LARGE][MOST_BYTES];

struct tally {
    int runs, killed, failed;
};

static void fill_script(struct hub_script *s, unsigned *seed)
{
    static const char *const names[LARGE] = {"m-1.safetensors", "m-2.safetensors",
                                             "m-3.safetensors"};
    static const size_t sizes[LARGE] = {MOST_BYTES, 333333, 65536};
    hub_script_add(s, "config.json", config, strlen(config), false);
    hub_script_add(s, "tokenizer.json", tokenizer, strlen(tokenizer), false);
    hub_script_add(s, "model.safetensors.index.json", index_json, strlen(index_json), false);
    for (int i = 0; i < LARGE; i++) {
        for (size_t k = 0; k < sizes[i]; k++)
            weights[i][k] = (uint8_t)(rand_r(seed) >> 7);
        hub_script_add(s, names[i], weights[i], sizes[i], true);
    }
}

/* Returns 0 for success, 1 for an error, 2 for a wrong hash. */
static int pull(void)
{
    const struct hub_options options = {.range_bytes = 65536, .retry_seconds = 0.002};
    struct hub hub;
    struct hub_model model = {.n = 0};
    struct repository repository;
    ey_err e;
    bool ok = repository_parse(&repository, NAME) && hub_open(&hub, &options, &e) &&
              hub_list_repo(&hub, &repository, &model, &e) && hub_download(&hub, &model, &e);
    hub_model_free(&model);
    hub_close(&hub);
    return ok ? 0 : strstr(e.text, "its hash is") ? 2 : 1;
}

/* Runs pull() in a child that may be killed, and returns its status. */
static int run_once(unsigned *seed, struct tally *tally)
{
    bool kills = rand_r(seed) % 4 != 0;
    struct timespec life = {.tv_nsec = (long)(rand_r(seed) % 30000) * 1000};
    int status;
    pid_t child = fork();
    if (child == 0) _exit(pull());
    if (child < 0) abort();
    if (kills) {
        nanosleep(&life, NULL);
        kill(child, SIGKILL);
    }
    waitpid(child, &status, 0);
    tally->runs++;
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) return tally->killed++, 1;
    if (!WIFEXITED(status)) return 2;
    tally->failed += WEXITSTATUS(status) != 0;
    return WEXITSTATUS(status);
}

static bool is_same(const char *cache, const struct served_file *f)
{
    char path[512], *data = NULL;
    size_t n = 0;
    snprintf(path, sizeof(path), SNAPSHOT "/%s", f->name);
    bool same = file_read(&data, &n, temp_path(cache, path), MOST_BYTES, NULL) && n == f->size &&
                memcmp(data, f->data, n) == 0;
    free(data);
    return same;
}

/* Counts the files in the blobs folder, where pulls also keep partial files and records. */
static int files_left(const char *cache)
{
    char command[600];
    int n = -1;
    snprintf(command, sizeof(command), "ls -A '%s' | wc -l",
             temp_path(cache, "models--Org--Model/blobs"));
    FILE *f = popen(command, "r");
    if (!f || fscanf(f, "%d", &n) != 1) n = -1;
    if (f) pclose(f);
    return n;
}

static bool pull_until_done(const struct hub_script *s, unsigned *seed, struct tally *tally)
{
    /* /dev/shm, as writing to a disk takes a minute and is not the subject */
    char cache[256] = "/dev/shm/eyelet-test-XXXXXX";
    if (!mkdtemp(cache)) snprintf(cache, sizeof(cache), "%s", temp_dir_make());
    setenv("HF_HUB_CACHE", cache, 1);
    int status = 1, runs = 0;
    while (status == 1 && runs++ < MAX_RUNS)
        status = run_once(seed, tally);
    bool ok = status == 0 && files_left(cache) == (int)s->n;
    for (size_t i = 0; i < s->n && ok; i++)
        ok = is_same(cache, &s->file[i]);
    if (!ok)
        printf("# status %d after %d runs, %d files in blobs\n", status, runs, files_left(cache));
    temp_dir_remove(cache);
    return ok;
}

int main(int argc, char **argv)
{
    int pulls = argc > 1 ? atoi(argv[1]) : PULLS;
    unsigned seed = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : (unsigned)time(NULL),
             first = seed;
    struct hub_script *s = hub_script_new(NAME);
    struct tally tally = {0};
    char endpoint[64];
    int port, good = 0;
    double started = seconds_now();
    static const char *const unset[] = {
        "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_HOME", "http_proxy", "all_proxy",
        "ALL_PROXY"};
    for (size_t i = 0; i < sizeof(unset) / sizeof(unset[0]); i++)
        unsetenv(unset[i]);
    fill_script(s, &seed);
    s->seed = first;
    s->cut_one_in = 5;
    s->fail_one_in = 25;
    s->bytes_per_ms = 40000;
    pid_t server = hub_server_start(s, &port);
    snprintf(endpoint, sizeof(endpoint), "http://127.0.0.1:%d", port);
    setenv("HF_ENDPOINT", endpoint, 1);
    setenv("HOME", "/nonexistent", 1);
    libcurl_load(NULL); /* once, not in each child */
    for (int i = 0; i < pulls; i++)
        good += pull_until_done(s, &seed, &tally);
    hub_server_stop(server);
    printf("# seed %u: %d pulls in %d runs, %d of them killed, %d gave up, %u connections cut, "
           "%.1f s\n",
           first, pulls, tally.runs, tally.killed, tally.failed, s->cuts, seconds_now() - started);
    printf("%s 1 %d of %d pulls end with the hub's files\n1..1\n", good == pulls ? "ok" : "not ok",
           good, pulls);
    return good != pulls;
}
