/* SPDX-License-Identifier: Apache-2.0 */
#include "convert/small_files.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/limits.h"

enum { MAX_SMALL_FILE = 64 << 20 };

static bool is_kept_file(const char *name)
{
    static const char *const endings[] = {".safetensors", ".index.json", ".bin", ".pt",     ".pth",
                                          ".gguf",        ".onnx",       ".h5",  ".msgpack"},
                             *const names[] = {"config.json", "quantize_config.json",
                                               "quant_config.json", "hf_quant_config.json",
                                               "quantization_config.json"};
    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++)
        if (name_ends_with(name, endings[i])) return false;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(name, names[i]) == 0) return false;
    return name[0] != '.';
}

static bool pass_file(const char *folder, const char *name, small_file_fn *write, void *user,
                      ey_err *e)
{
    char path[EY_MAX_PATH], *bytes = NULL;
    size_t n;
    struct stat st;
    if (!path_join(path, folder, name, e)) return false;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > MAX_SMALL_FILE) return true;
    const bool ok = file_read_regular(&bytes, &n, path, MAX_SMALL_FILE, e) &&
                    write(user, name, bytes, n, e);
    free(bytes);
    return ok;
}

bool small_files_each(const char *folder, small_file_fn *write, void *user, ey_err *e)
{
    DIR *d = opendir(folder);
    bool ok = d || ey_fail(e, EY_IO, "%.500s: %s", folder, strerror(errno));
    for (struct dirent *entry; ok && (entry = readdir(d));)
        if (is_kept_file(entry->d_name)) ok = pass_file(folder, entry->d_name, write, user, e);
    if (d) closedir(d);
    return ok;
}
