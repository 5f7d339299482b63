/* SPDX-License-Identifier: Apache-2.0 */
/* serve_folder REPOSITORY DIR: a fake hub that serves a folder, for tests of the program. It prints
 * its URL. Commands on standard input change its behaviour ("cut 5", "misbehave 1", "hold 9000",
 * "count"); it ends at the end of its input. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/limits.h"
#include "hub/hub_server.h"

static int compare(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void add_file(struct hub_script *s, const char *directory, const char *name)
{
    char path[EY_MAX_PATH];
    struct file_map map;
    size_t n = strlen(name);
    bool large = n > 12 && strcmp(name + n - 12, ".safetensors") == 0;
    if (!path_join(path, directory, name, NULL) || !path_is_file(path) ||
        !file_map_open(&map, path, NULL))
        return;
    hub_script_add(s, name, map.data, map.size, large);
}

static void command(struct hub_script *s, const char *line)
{
    int number = 0;
    if (sscanf(line, "cut %d", &number) == 1)
        s->cut_one_in = number;
    else if (sscanf(line, "misbehave %d", &number) == 1)
        s->misbehaviour = (enum misbehaviour)number;
    else if (sscanf(line, "rate %d", &number) == 1)
        s->bytes_per_ms = (uint32_t)number;
    else if (sscanf(line, "hold %d", &number) == 1) {
        s->begun = 0;
        s->hold_after = (uint64_t)number;
    } else if (strcmp(line, "count\n") == 0) {
        s->requests = 0;
        s->bytes = 0;
    }
    printf("%u requests, %llu bytes\n", s->requests, (unsigned long long)s->bytes);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct dirent **names;
    char line[256];
    int port, n = argc == 3 ? scandir(argv[2], &names, NULL, compare) : -1;
    if (n < 0) return fprintf(stderr, "serve_folder REPOSITORY DIR\n"), 2;
    struct hub_script *s = hub_script_new(argv[1]);
    for (int i = 0; i < n; i++) {
        if (s->n < SERVED_FILES) add_file(s, argv[2], names[i]->d_name);
        free(names[i]);
    }
    free(names);
    pid_t server = hub_server_start(s, &port);
    printf("http://127.0.0.1:%d\n", port);
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin))
        command(s, line);
    hub_server_stop(server);
    return 0;
}
