/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a fuzz target on files and folders of the command line, and on each file's truncations and
 * single-byte changes, so that the corpus is also an ordinary test. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { VARIANTS = 50 }; /* of each kind; `make fuzz` runs millions */

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* Copies the input to a block of exactly its size, so that a sanitizer sees reads past its end. */
static void run_exact(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy) abort();
    if (size) memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static void run_variants(uint8_t *data, size_t size)
{
    uint64_t state = size;
    for (int i = 0; i < VARIANTS && size; i++) {
        size_t at = next_random(&state) % size;
        uint8_t old = data[at];
        data[at] = (uint8_t)next_random(&state);
        run_exact(data, size);
        data[at] = old;
        run_exact(data, next_random(&state) % size);
    }
}

static int run_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) return perror(path), 1;
    fseek(f, 0, SEEK_END);
    long size = ftell(f);
    rewind(f);
    uint8_t *data = malloc(size > 0 ? (size_t)size : 1);
    if (!data || fread(data, 1, (size_t)size, f) != (size_t)size) return perror(path), 1;
    fclose(f);
    run_exact(data, (size_t)size);
    run_variants(data, (size_t)size);
    free(data);
    return 0;
}

static int run_path(const char *path)
{
    DIR *dir = opendir(path);
    if (!dir) return run_file(path);
    int failed = 0;
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (entry->d_name[0] == '.') continue;
        char name[4096];
        snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
        failed |= run_path(name);
    }
    closedir(dir);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = argc < 2;
    for (int i = 1; i < argc; i++)
        failed |= run_path(argv[i]);
    return failed;
}
