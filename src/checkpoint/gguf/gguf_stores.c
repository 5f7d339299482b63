/* SPDX-License-Identifier: Apache-2.0 */
/* Ollama's store has a manifest for each model, manifests/HOST/NAMESPACE/MODEL/TAG, whose JSON
 * names blobs by their hashes. LM Studio's has models/PUBLISHER/MODEL/FILE.gguf. */
#include "checkpoint/gguf/gguf_stores.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/json.h"
#include "base/limits.h"
#include "checkpoint/gguf/gguf_files.h"

enum { MAX_PART_BYTES = 80, MAX_HOST_BYTES = 350, NAME_PARTS = 4, DIGEST_HEX = 64 };
#define LIBRARY_HOST "registry.ollama.ai"
#define LIBRARY "library"
#define MANIFESTS "/manifests/"
#define LAYER "application/vnd.ollama.image."

static bool home_folder(char *out, const char *below)
{
    const char *home = getenv("HOME");
    return home && home[0] && snprintf(out, EY_MAX_PATH, "%s%s", home, below) < EY_MAX_PATH;
}

/* ---- Ollama ---- */

/* Writes the path of the store: OLLAMA_MODELS, else the folder in the user's home, else that of the
 * Linux service. */
static bool ollama_root(char *out)
{
    const char *set = getenv("OLLAMA_MODELS");
    if (set && set[0]) return snprintf(out, EY_MAX_PATH, "%s", set) < EY_MAX_PATH;
    if (home_folder(out, "/.ollama/models") && path_is_directory(out)) return true;
    snprintf(out, EY_MAX_PATH, "/usr/share/ollama/.ollama/models");
    return path_is_directory(out);
}

/* Returns whether a part of a name has only letters, digits and '_', and after the first character
 * also '-' and single dots. Such a name cannot lead outside the store. */
static bool is_store_name(const char *text, size_t n, size_t most)
{
    if (!n || n > most) return false;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)text[i]) && text[i] != '_' &&
            (!i || !strchr("-.", text[i]) || (text[i] == '.' && text[i - 1] == '.')))
            return false;
    return true;
}

/* Converts [HOST/][NAMESPACE/]MODEL[:TAG] to the path manifests/HOST/NAMESPACE/MODEL/TAG. */
static bool manifest_path(char *out, const char *root, const char *name)
{
    const char *part[3], *at = name, *slash = strrchr(name, '/'),
                         *colon = strchr(slash ? slash : name, ':');
    size_t length[3], n = 0;
    const size_t end = colon ? (size_t)(colon - name) : strlen(name);
    const char *tag = colon ? colon + 1 : "latest";
    for (; at <= name + end; at += length[n++] + 1) {
        if (n == 3) return false;
        part[n] = at;
        const char *next = memchr(at, '/', (size_t)(name + end - at));
        length[n] = next ? (size_t)(next - at) : (size_t)(name + end - at);
        if (!is_store_name(part[n], length[n], n ? MAX_PART_BYTES : MAX_HOST_BYTES)) return false;
    }
    if (!is_store_name(tag, strlen(tag), MAX_PART_BYTES)) return false;
    const bool host = n == 3, folder = n >= 2;
    return snprintf(
               out, EY_MAX_PATH, "%s/manifests/%.*s/%.*s/%.*s/%s", root,
               host ? (int)length[0] : (int)strlen(LIBRARY_HOST), host ? part[0] : LIBRARY_HOST,
               folder ? (int)length[n - 2] : (int)strlen(LIBRARY), folder ? part[n - 2] : LIBRARY,
               (int)length[n - 1], part[n - 1], tag) < EY_MAX_PATH;
}

bool ollama_find(char *out, const char *name)
{
    char root[EY_MAX_PATH];
    return ollama_root(root) && manifest_path(out, root, name) && path_is_file(out);
}

/* Returns where "/manifests/HOST/NAMESPACE/MODEL/TAG" begins in the path of a manifest, or NULL.
 * Searches from the end of the path, because a folder above the store, or a model, may also be
 * named "manifests". */
static const char *manifests_in(const char *path)
{
    int slashes = 0;
    for (const char *at = path + strlen(path); at > path;)
        if (*--at == '/' && ++slashes > NAME_PARTS &&
            strncmp(at, MANIFESTS, strlen(MANIFESTS)) == 0)
            return at;
    return NULL;
}

/* Checks the first bytes, because a GGUF file may be in a folder that is named "manifests". */
bool ollama_is_manifest(const char *path)
{
    char magic[4];
    if (!manifests_in(path) || !path_is_file(path)) return false;
    FILE *file = fopen(path, "rb");
    if (!file) return true; /* its reader reports why it cannot be opened */
    const bool is_gguf = fread(magic, 1, sizeof(magic), file) == sizeof(magic) &&
                         memcmp(magic, "GGUF", sizeof(magic)) == 0;
    fclose(file);
    return !is_gguf;
}

/* Converts "sha256:HEX" or "sha256-HEX" to ROOT/blobs/sha256-HEX. */
static bool ollama_blob_path(char *out, const char *manifest, const char *digest)
{
    const char *end = manifests_in(manifest);
    char hex[DIGEST_HEX + 1];
    if (!end || strncmp(digest, "sha256", 6) != 0 || !strchr(":-", digest[6]) || !digest[6] ||
        strlen(digest + 7) != DIGEST_HEX)
        return false;
    for (int i = 0; i <= DIGEST_HEX; i++)
        hex[i] = (char)tolower((unsigned char)digest[7 + i]);
    return strspn(hex, "0123456789abcdef") == DIGEST_HEX &&
           snprintf(out, EY_MAX_PATH, "%.*s/blobs/sha256-%s", (int)(end - manifest), manifest,
                    hex) < EY_MAX_PATH;
}

static const char *metadata_text(const json_object *object, const char *key)
{
    json_object *value = json_member_of_type(object, key, json_type_string);
    return value ? json_object_get_string(value) : "";
}

/* Finds a layer's blob and checks its size against the manifest. */
static bool layer_blob(char *out, const char *path, const json_object *layer, ey_err *e)
{
    struct stat st;
    int64_t size = 0;
    if (!ollama_blob_path(out, path, metadata_text(layer, "digest")))
        return ey_fail(e, EY_BAD_MODEL, "%s: \"%.100s\" is not the digest of a blob", path,
                       metadata_text(layer, "digest"));
    if (!json_int(layer, "size", 0, INT64_MAX - 1, &size, path, e)) return false;
    if (stat(out, &st) != 0)
        return ey_fail(e, EY_NOT_FOUND, "%s: its blob %s is missing or not readable", path, out);
    return st.st_size == size ||
           ey_fail(e, EY_BAD_MODEL, "%s: its blob %s has %lld bytes, but the manifest says %lld",
                   path, out, (long long)st.st_size, (long long)size);
}

static bool read_layer(const char *path, const json_object *layer, char *model, char *projector,
                       ey_err *e)
{
    const char *type = metadata_text(layer, "mediaType"),
               *kind = strncmp(type, LAYER, strlen(LAYER)) == 0 ? type + strlen(LAYER) : "";
    if (strcmp(kind, "adapter") == 0 || strcmp(kind, "tensor") == 0)
        return ey_fail(e, EY_BAD_MODEL, "%s: models with %s are not supported", path,
                       strcmp(kind, "adapter") == 0 ? "an adapter" : "safetensors layers (MLX)");
    if (strcmp(kind, "projector") == 0) return layer_blob(projector, path, layer, e);
    if (strcmp(kind, "model") != 0) return true;
    if (model[0])
        return ey_fail(e, EY_BAD_MODEL, "%s: models in several blobs are not supported", path);
    return layer_blob(model, path, layer, e);
}

bool ollama_read_manifest(const char *path, char *model, char *projector, ey_err *e)
{
    model[0] = projector[0] = 0;
    json_object *manifest = json_parse_file(path, EY_BAD_MODEL, e);
    json_object *layers = json_member_of_type(manifest, "layers", json_type_array);
    bool ok = layers ||
              (manifest && ey_fail(e, EY_BAD_MODEL, "%s: the manifest has no layers", path));
    for (size_t i = 0; ok && i < json_object_array_length(layers); i++)
        ok = read_layer(path, json_object_array_get_idx(layers, i), model, projector, e);
    if (ok && !model[0]) ok = ey_fail(e, EY_BAD_MODEL, "%s: none of its layers is a model", path);
    json_object_put(manifest);
    return ok;
}

/* ---- LM Studio ---- */

static bool lmstudio_root(char *out)
{
    return (home_folder(out, "/.lmstudio/models") && path_is_directory(out)) ||
           (home_folder(out, "/.cache/lm-studio/models") && path_is_directory(out));
}

bool lmstudio_find(char *out, const char *name, const char *tag)
{
    char root[EY_MAX_PATH], folder[EY_MAX_PATH];
    const char *slash = strchr(name, '/');
    if (!slash || !is_store_name(name, (size_t)(slash - name), MAX_PART_BYTES) ||
        !is_store_name(slash + 1, strlen(slash + 1), 2 * MAX_PART_BYTES))
        return false;
    return lmstudio_root(root) && path_join(folder, root, name, NULL) &&
           path_is_directory(folder) && gguf_choose_file(out, folder, tag, true, NULL);
}

/* ---- lists ---- */

/* Walks folders down to a fixed depth. Calls `found` with the path of each entry there; part[] has
 * the names of the folders on the way. */
struct store_walk {
    int depth;
    const char *part[NAME_PARTS];
    bool (*found)(struct store_walk *w, const char *path);
    gguf_store_fn *fn;
    void *user;
};

static bool walk_store(struct store_walk *w, const char *directory, int level)
{
    bool ok = true;
    DIR *d = level < NAME_PARTS ? opendir(directory) : NULL;
    if (!d) return true;
    for (struct dirent *entry; ok && (entry = readdir(d));) {
        char path[EY_MAX_PATH];
        if (entry->d_name[0] == '.' || !path_join(path, directory, entry->d_name, NULL)) continue;
        w->part[level] = entry->d_name;
        ok = level + 1 >= w->depth ? w->found(w, path) : walk_store(w, path, level + 1);
    }
    closedir(d);
    return ok;
}

static bool found_manifest(struct store_walk *w, const char *path)
{
    char name[EY_MAX_PATH];
    const bool own = strcmp(w->part[0], LIBRARY_HOST) == 0,
               library = own && strcmp(w->part[1], LIBRARY) == 0;
    if (!path_is_file(path)) return true;
    const int n = snprintf(name, sizeof(name), "%s%s%s%s%s:%s", own ? "" : w->part[0],
                           own ? "" : "/", library ? "" : w->part[1], library ? "" : "/",
                           w->part[2], w->part[3]);
    return n >= (int)sizeof(name) || w->fn(w->user, name, path);
}

static bool found_studio_file(void *user, const char *path)
{
    struct store_walk *w = user;
    char name[EY_MAX_PATH], tag[MAX_PART_BYTES];
    gguf_tag_of(tag, sizeof(tag), path);
    const int n = snprintf(name, sizeof(name), "%s/%s:%s", w->part[0], w->part[1], tag);
    return n >= (int)sizeof(name) || w->fn(w->user, name, path);
}

static bool found_studio_folder(struct store_walk *w, const char *path)
{
    return !path_is_directory(path) || gguf_each_file(path, found_studio_file, w);
}

bool gguf_stores_each(gguf_store_fn *fn, void *user)
{
    char root[EY_MAX_PATH], manifests[EY_MAX_PATH];
    struct store_walk ollama = {.depth = 4, .found = found_manifest, .fn = fn, .user = user},
                      studio = {.depth = 2, .found = found_studio_folder, .fn = fn, .user = user};
    if (ollama_root(root) && path_join(manifests, root, "manifests", NULL) &&
        !walk_store(&ollama, manifests, 0))
        return false;
    return !lmstudio_root(root) || walk_store(&studio, root, 0);
}
