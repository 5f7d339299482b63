/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the output file of an interrupted run, with --resume: all finished images are found,
 * and reading the file again, without its cut-off last line, finds the same. The first byte selects
 * CSV or JSON lines. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "checkpoint/temp_dir.h"
#include "cli/batch/batch_output.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The number of finished images, each of which must be found; SIZE_MAX: the file was refused. */
static size_t count_done(const struct options *o)
{
    struct batch_output b;
    struct term out = {0};
    ey_err e = {0};
    bool ok = batch_output_open(&b, o, &out, NULL, &e);
    size_t n = ok ? b.n_done : SIZE_MAX;
    if (!ok && (e.code == EY_OK || !e.text[0])) abort();
    for (size_t i = 0; ok && i < n; i++)
        if (!batch_is_done(&b, b.done[i])) abort();
    batch_output_close(&b);
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *dir;
    static char path[EY_MAX_PATH];
    if (!size) return 0;
    if (!dir) {
        dir = temp_dir_until_exit();
        path_join(path, dir, "answers", NULL);
    }
    temp_file(dir, "answers", data + 1, size - 1);
    struct options o = {.csv = data[0] == 'c', .jsonl = data[0] != 'c', .resume = true};
    o.output = path;
    size_t first = count_done(&o);
    if (count_done(&o) != first) abort();
    return 0;
}
