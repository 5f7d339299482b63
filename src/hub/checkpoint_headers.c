/* SPDX-License-Identifier: Apache-2.0 */
/* Fetches a checkpoint's headers without its weights, as sparse files of the right sizes that the
 * usual loaders can read: some kilobytes instead of gigabytes. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "hub/hub_request.h"
#include "hub/sparse_file.h"

enum {
    LENGTH_BYTES = 8,
    FIRST_BYTES = 64 << 10,
    MAX_SMALL_BYTES = 16 << 20,
    GGUF_HEADER_BYTES = 24 << 20 /* a vocabulary of 150,000 tokens and its merges take 6 MB */
};

static uint64_t safetensors_header_bytes(const struct buf *b)
{
    uint64_t length = 0;
    for (int i = LENGTH_BYTES - 1; i >= 0; i--)
        length = length << 8 | (uint8_t)b->data[i];
    return length;
}

/* Fetches a header. If it claims to be longer than the file or the limit, stores only its
 * beginning; the loader then reports the error. */
static bool fetch_safetensors_header(struct hub_request *r, const struct hub_model *model,
                                     const struct hub_file *file, const char *url, struct buf *out,
                                     ey_err *e)
{
    size_t first = file->size < FIRST_BYTES ? (size_t)file->size : FIRST_BYTES;
    if (!first) return true;
    if (!hub_request_get(r, model->repository.name, url, first, out, e)) return false;
    if (out->size < LENGTH_BYTES) return true;
    uint64_t length = safetensors_header_bytes(out);
    if (length <= out->size - LENGTH_BYTES || length > EY_MAX_SAFETENSORS_HEADER ||
        length > file->size - LENGTH_BYTES)
        return true;
    return hub_request_get(r, model->repository.name, url, LENGTH_BYTES + (size_t)length, out, e);
}

/* Fetches as many bytes as any header may have, because the length is known only after parsing. */
static bool fetch_gguf_header(struct hub_request *r, const struct hub_model *model,
                              const struct hub_file *file, const char *url, struct buf *out,
                              ey_err *e)
{
    const size_t n = file->size < GGUF_HEADER_BYTES ? (size_t)file->size : GGUF_HEADER_BYTES;
    return !n || hub_request_get(r, model->repository.name, url, n, out, e);
}

static bool is_plan_input(const char *name)
{
    if (strchr(name, '/')) return false;
    return name_ends_with(name, "config.json") || name_ends_with(name, ".index.json");
}

static bool fetch_header_file(struct hub_request *r, const struct hub_model *model,
                              const struct hub_file *file, const char *directory, ey_err *e)
{
    const bool gguf = name_ends_with(file->name, ".gguf"),
               weights = gguf || name_ends_with(file->name, ".safetensors");
    if (!weights && !is_plan_input(file->name)) return true;
    struct buf bytes = buf_with_max(weights ? EY_MAX_SAFETENSORS_HEADER + LENGTH_BYTES
                                            : MAX_SMALL_BYTES);
    char *url = hub_file_url(r->hub, model, file->name);
    bool ok = gguf      ? fetch_gguf_header(r, model, file, url, &bytes, e)
              : weights ? fetch_safetensors_header(r, model, file, url, &bytes, e)
                        : hub_request_get(r, model->repository.name, url, 0, &bytes, e);
    ok = ok &&
         sparse_file_write(directory, file->name, &bytes, weights ? file->size : bytes.size, e);
    free(url);
    buf_free(&bytes);
    return ok;
}

bool hub_fetch_headers(struct hub *hub, const struct hub_model *model, const char *directory,
                       ey_err *e)
{
    struct hub_request r;
    bool ok = hub_request_open(&r, hub, e);
    for (size_t i = 0; ok && i < model->n; i++)
        ok = fetch_header_file(&r, model, &model->files[i], directory, e);
    hub_request_close(&r);
    return ok;
}

void hub_remove_header_files(const char *directory)
{
    DIR *d = opendir(directory);
    for (struct dirent *entry; d && (entry = readdir(d));)
        if (entry->d_name[0] != '.') unlinkat(dirfd(d), entry->d_name, 0);
    if (d) closedir(d);
    rmdir(directory);
}
