/* SPDX-License-Identifier: Apache-2.0 */
/* Resolves model names and lists models. In the cache, models--owner--name/refs/REVISION holds a
 * commit, and snapshots/COMMIT holds the files of that commit, mostly as links into blobs/. */
#include "checkpoint/hf_cache.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/text/short_names.h"
#include "checkpoint/gguf/gguf.h"
#include "checkpoint/gguf/gguf_files.h"
#include "checkpoint/gguf/gguf_arch.h"
#include "checkpoint/gguf/gguf_stores.h"

enum { MAX_REPOSITORY = REPOSITORY_NAME_BYTES, MAX_REVISION = REPOSITORY_REVISION_BYTES };

/* ---- where the cache is ---- */

static const char *hf_cache_getenv(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* Writes prefix + suffix to out, with a leading "~" replaced by the home directory. If that is
 * unknown, writes an empty text. Fails if the result is too long. */
static bool expand_home(char *out, const char *variable, const char *prefix, const char *suffix,
                        ey_err *e)
{
    const char *home = "";
    out[0] = 0;
    if (prefix[0] == '~' && (prefix[1] == '/' || !prefix[1])) {
        home = hf_cache_getenv("HOME");
        prefix++;
    }
    return !home || snprintf(out, EY_MAX_PATH, "%s%s%s", home, prefix, suffix) < EY_MAX_PATH ||
           ey_fail(e, EY_NOT_FOUND,
                   "the path of the Hugging Face cache, from %s, is longer than %d bytes", variable,
                   EY_MAX_PATH);
}

/* Follows huggingface_hub's constants.py, except that $VARIABLES in a value are not expanded. */
bool hf_cache_directory(char *out, ey_err *e)
{
    static const struct {
        const char *variable, *suffix;
    } places[] = {{"HF_HUB_CACHE", ""},
                  {"HUGGINGFACE_HUB_CACHE", ""},
                  {"HF_HOME", "/hub"},
                  {"XDG_CACHE_HOME", "/huggingface/hub"}};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        const char *value = hf_cache_getenv(places[i].variable);
        if (!value) continue;
        if (!expand_home(out, places[i].variable, value, places[i].suffix, e)) return false;
        if (out[0]) return true;
    }
    if (!expand_home(out, "HOME", "~", "/.cache/huggingface/hub", e)) return false;
    if (out[0]) return true;
    return ey_fail(e, EY_NOT_FOUND,
                   "there is no Hugging Face cache: neither HF_HOME nor HOME is set; give --model "
                   "a directory");
}

/* ---- names ---- */

/* Whether a part of a name has only characters that Hugging Face allows. Such a part cannot lead
 * outside the cache. */
static bool is_safe_part(const char *s, size_t n)
{
    if (!n || s[0] == '.' || s[0] == '-') return false;
    for (size_t i = 0; i < n; i++) {
        if (!isascii((unsigned char)s[i]) ||
            (!isalnum((unsigned char)s[i]) && !strchr("-_.", s[i])))
            return false;
        if (s[i] == '.' && i + 1 < n && s[i + 1] == '.') return false;
    }
    return true;
}

/* Revisions may contain slashes: refs/pr/3. */
static bool is_safe_revision(const char *s)
{
    for (;; s++) {
        size_t n = strcspn(s, "/");
        if (!is_safe_part(s, n)) return false;
        s += n;
        if (!*s) return true;
    }
}

/* Skips the host prefixes that llama.cpp and Ollama accept. */
static const char *after_host(const char *name)
{
    static const char *const hosts[] = {"hf.co/", "huggingface.co/"};
    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++)
        if (strncmp(name, hosts[i], strlen(hosts[i])) == 0) return name + strlen(hosts[i]);
    return name;
}

bool repository_parse(struct repository *r, const char *name)
{
    name = after_host(name);
    const char *at = strchr(name, '@'), *revision = at ? at + 1 : "main";
    const size_t all = at ? (size_t)(at - name) : strlen(name);
    const char *colon = memchr(name, ':', all);
    const size_t n = colon ? (size_t)(colon - name) : all, tag = colon ? all - n - 1 : 0;
    if (n > MAX_REPOSITORY || strlen(revision) > MAX_REVISION || tag > REPOSITORY_TAG_BYTES ||
        (colon && !is_safe_part(colon + 1, tag)))
        return false;
    const char *slash = memchr(name, '/', n);
    size_t owner = slash ? (size_t)(slash - name) : 0;
    if (slash && !is_safe_part(name, owner)) return false;
    if (!is_safe_part(slash ? slash + 1 : name, slash ? n - owner - 1 : n)) return false;
    snprintf(r->name, sizeof(r->name), "%.*s", (int)n, name);
    snprintf(r->revision, sizeof(r->revision), "%s", revision);
    snprintf(r->tag, sizeof(r->tag), "%.*s", (int)tag, colon ? colon + 1 : "");
    r->revision_given = at;
    return is_safe_revision(revision);
}

bool repository_directory(char *out, const char *cache, const char *name)
{
    const char *slash = strchr(name, '/');
    int owner = slash ? (int)(slash - name) : 0;
    int n = snprintf(out, EY_MAX_PATH, "%s/models--%.*s%s%s", cache, owner, name, slash ? "--" : "",
                     slash ? slash + 1 : name);
    return n < EY_MAX_PATH;
}

/* ---- snapshots ---- */

/* Reads the commit from a file in refs/. Sets it to "" if there is no such file. */
static void read_reference(char commit[MAX_REVISION + 1], const char *repository,
                           const char *revision)
{
    char path[EY_MAX_PATH], *text = NULL;
    size_t n = 0;
    commit[0] = 0;
    int length = snprintf(path, sizeof(path), "%s/refs/%s", repository, revision);
    if (length >= (int)sizeof(path) || !path_is_file(path) ||
        !file_read_regular(&text, &n, path, MAX_REVISION, NULL))
        return;
    while (n && isspace((unsigned char)text[n - 1]))
        n--;
    if (is_safe_part(text, n)) snprintf(commit, MAX_REVISION + 1, "%.*s", (int)n, text);
    free(text);
}

static bool snapshot_directory(char *out, const char *repository, const char *commit)
{
    return commit[0] &&
           snprintf(out, EY_MAX_PATH, "%s/snapshots/%s", repository, commit) < EY_MAX_PATH &&
           path_is_directory(out);
}

/* Finds the repository's only snapshot. Returns false if it has none or several. */
static bool only_snapshot(char *out, const char *repository)
{
    char path[EY_MAX_PATH], commit[MAX_REVISION + 1] = "";
    int found = 0;
    if (!path_join(path, repository, "snapshots", NULL)) return false;
    DIR *d = opendir(path);
    if (!d) return false;
    for (struct dirent *entry; (entry = readdir(d));) {
        size_t n = strlen(entry->d_name);
        if (n > MAX_REVISION || !is_safe_part(entry->d_name, n)) continue;
        memcpy(commit, entry->d_name, n + 1);
        found++;
    }
    closedir(d);
    return found == 1 && snapshot_directory(out, repository, commit);
}

static bool find_snapshot(char *out, const char *repository, const char *revision,
                          bool revision_given)
{
    char commit[MAX_REVISION + 1];
    read_reference(commit, repository, revision);
    if (snapshot_directory(out, repository, commit) ||
        snapshot_directory(out, repository, revision))
        return true;
    return !revision_given && !commit[0] && only_snapshot(out, repository);
}

/* ---- find ---- */

static bool fail_model_is_file(const char *name, ey_err *e)
{
    return ey_fail(
        e, EY_NOT_FOUND,
        "%.300s is a file but not a GGUF file; give --model the directory of a checkpoint", name);
}

static bool fail_unknown_model(const char *name, ey_err *e)
{
    if (path_is_file(name)) return fail_model_is_file(name, e);
    if (name[0] && strchr("/.~", name[0]))
        return ey_fail(e, EY_NOT_FOUND,
                       "%.300s: no such directory; give --model the directory of a checkpoint",
                       name);
    return ey_fail(e, EY_NOT_FOUND,
                   "\"%.300s\" is neither a directory nor the name of a repository (owner/name or "
                   "owner/name@revision)",
                   name);
}

/* A name without an owner is probably a short name, or one of Ollama's. */
static bool fail_short_name(const struct repository *r, const char *cache, ey_err *e)
{
    return ey_fail(e, EY_NOT_FOUND,
                   "%s%s%s is not a directory, and not in the Hugging Face cache (%.250s), Ollama "
                   "or LM Studio; eyelet list shows the models on this machine, and eyelet pull "
                   "downloads " SHORT_NAMES,
                   r->name, r->tag[0] ? ":" : "", r->tag, cache);
}

static bool fail_model_absent(const struct repository *r, const char *cache, ey_err *e)
{
    if (!strchr(r->name, '/')) return fail_short_name(r, cache, e);
    return ey_fail(
        e, EY_NOT_FOUND,
        "%s is not a directory and not in the Hugging Face cache (%.250s); download it with: "
        "eyelet pull %s%s%s%s%s, or give --model a directory",
        r->name, cache, r->name, r->tag[0] ? ":" : "", r->tag,
        r->revision_given ? " --revision " : "", r->revision_given ? r->revision : "");
}

static bool fail_no_snapshot(const struct repository *r, const char *directory, ey_err *e)
{
    return ey_fail(e, EY_NOT_FOUND,
                   "%s: revision %s is not in the Hugging Face cache (%.250s) or its download was "
                   "interrupted; download it with: eyelet pull %s%s%s --revision %s",
                   r->name, r->revision, directory, r->name, r->tag[0] ? ":" : "", r->tag,
                   r->revision);
}

bool model_snapshot_find(char *out, const struct repository *r, ey_err *e)
{
    char cache[EY_MAX_PATH], directory[EY_MAX_PATH];
    if (!hf_cache_directory(cache, e)) return false;
    if (!repository_directory(directory, cache, r->name) || !path_is_directory(directory))
        return fail_model_absent(r, cache, e);
    return find_snapshot(out, directory, r->revision, r->revision_given) ||
           fail_no_snapshot(r, directory, e);
}

/* Without a tag, writes the directory itself if it has a config.json or no GGUF file. Otherwise
 * writes the GGUF file that gguf_choose_file() chooses by `tag` and `usual`. */
static bool find_in_folder(char *out, const char *directory, const char *tag, bool usual, ey_err *e)
{
    char config[EY_MAX_PATH], file[EY_MAX_PATH];
    ey_err none;
    const bool plain = path_join(config, directory, "config.json", NULL) && path_is_file(config);
    if (!tag && (plain || (!gguf_choose_file(file, directory, NULL, usual, &none) &&
                           none.code == EY_NOT_FOUND)))
        return snprintf(out, EY_MAX_PATH, "%s", directory) < EY_MAX_PATH ||
               ey_fail(e, EY_BAD_REQUEST, "%.200s…: the path is longer than %d bytes", directory,
                       EY_MAX_PATH);
    return gguf_choose_file(out, directory, tag, usual, e);
}

/* Resolves a short name such as "qwen3-vl:4b" to the first of its repositories that is in the
 * cache. */
static bool find_by_short_name(char *out, const char *name)
{
    char repositories[SHORT_NAME_REPOSITORIES][SHORT_NAME_BYTES];
    size_t n = short_name_find(name, repositories);
    for (size_t i = 0; i < n; i++)
        if (model_directory_find(out, repositories[i], NULL)) return true;
    return false;
}

bool model_directory_find(char *out, const char *name, ey_err *e)
{
    char snapshot[EY_MAX_PATH];
    struct repository r;
    ey_err absent;
    if (path_is_directory(name)) return find_in_folder(out, name, NULL, false, e);
    if (gguf_is_file(name) || ollama_is_manifest(name)) {
        if (snprintf(out, EY_MAX_PATH, "%s", name) < EY_MAX_PATH) return true;
        return ey_fail(e, EY_BAD_REQUEST, "%.200s…: the path is longer than %d bytes", name,
                       EY_MAX_PATH);
    }
    const bool parsed = repository_parse(&r, name);
    const char *tag = parsed && r.tag[0] ? r.tag : NULL;
    const bool found = parsed && model_snapshot_find(snapshot, &r, &absent);
    if (found && find_in_folder(out, snapshot, tag, true, &absent)) return true;
    if (find_by_short_name(out, name) || ollama_find(out, name) ||
        (parsed && lmstudio_find(out, r.name, tag)))
        return true;
    if (!parsed) return fail_unknown_model(name, e);
    if (path_is_file(name)) return fail_model_is_file(name, e);
    if (e) *e = absent;
    return false;
}

/* ---- list ---- */

static const char *listing_text(const json_object *object, const char *key)
{
    json_object *value = json_member_of_type(object, key, json_type_string);
    return value ? json_object_get_string(value) : NULL;
}

static const char *listing_architecture(const json_object *config)
{
    json_object *list = json_member_of_type(config, "architectures", json_type_array);
    json_object *first = list ? json_object_array_get_idx(list, 0) : NULL;
    return first && json_object_is_type(first, json_type_string)
               ? json_object_get_string(first)
               : listing_text(config, "model_type");
}

/* Returns the quantization method ("fp8" ...), else the dtype. The key of the dtype depends on the
 * version of transformers. */
static const char *listing_quantization(const json_object *config)
{
    const char *method = listing_text(json_member(config, "quantization_config"), "quant_method");
    const json_object *places[] = {config, json_member(config, "text_config")};
    const char *dtype = NULL;
    for (int i = 0; i < 2 && !dtype; i++) {
        dtype = listing_text(places[i], "dtype");
        if (!dtype) dtype = listing_text(places[i], "torch_dtype");
    }
    if (method || !dtype) return method;
    if (strcmp(dtype, "bfloat16") == 0) return "bf16";
    if (strcmp(dtype, "float16") == 0) return "f16";
    return strcmp(dtype, "float32") == 0 ? "f32" : dtype;
}

static uint64_t weight_bytes(const char *directory)
{
    uint64_t bytes = 0;
    DIR *d = opendir(directory);
    if (!d) return 0;
    for (struct dirent *entry; (entry = readdir(d));) {
        char path[EY_MAX_PATH];
        struct stat st;
        size_t n = strlen(entry->d_name), ending = strlen(".safetensors");
        if (n < ending || strcmp(entry->d_name + n - ending, ".safetensors") != 0) continue;
        if (path_join(path, directory, entry->d_name, NULL) && stat(path, &st) == 0)
            bytes += (uint64_t)st.st_size;
    }
    closedir(d);
    return bytes;
}

static char *copy_or_null(const char *text)
{
    return text ? strdup(text) : NULL;
}

/* Fills in one model of the list. A damaged config.json leaves its fields unknown but does not hide
 * the model. */
static bool listing_describe(struct model_listing *m, const char *name, const char *directory,
                             ey_err *e)
{
    char path[EY_MAX_PATH];
    json_object *config = NULL;
    if (path_join(path, directory, "config.json", NULL) && path_is_file(path))
        config = json_parse_file(path, EY_BAD_MODEL, NULL);
    *m = (struct model_listing){
        .name = strdup(name), .directory = strdup(directory), .bytes = weight_bytes(directory)};
    m->architecture = copy_or_null(listing_architecture(config));
    m->quantization = copy_or_null(listing_quantization(config));
    json_object_put(config);
    return (m->name && m->directory) || ey_fail_memory(e, "the list of models", 0);
}

/* Converts models--owner--name to owner/name. Returns false for another kind of repository. */
static bool repository_name(char out[MAX_REPOSITORY + 1], const char *entry)
{
    size_t prefix = strlen("models--");
    if (strncmp(entry, "models--", prefix) != 0 || strlen(entry + prefix) > MAX_REPOSITORY)
        return false;
    strcpy(out, entry + prefix);
    char *separator = strstr(out, "--");
    if (!separator) return true;
    *separator = '/';
    memmove(separator + 1, separator + 2, strlen(separator + 2) + 1);
    return true;
}

/* The list while it is built. */
struct listing_maker {
    struct model_listing *list;
    size_t n;
    char name[MAX_REPOSITORY + 1]; /* of the current repository */
    ey_err *e;
};

/* Appends an empty entry. Returns NULL on failure. */
static struct model_listing *next_listing(struct listing_maker *m)
{
    struct model_listing *larger = realloc(m->list, (m->n + 1) * sizeof(*larger));
    if (!larger) {
        ey_fail_memory(m->e, "the list of models", (m->n + 1) * sizeof(*larger));
        return NULL;
    }
    m->list = larger;
    return &larger[m->n++];
}

/* Returns the total size of all parts of a split model, or of the file itself. */
static uint64_t gguf_file_bytes(const char *path)
{
    char directory[EY_MAX_PATH];
    const char *slash = strrchr(path, '/');
    uint64_t bytes = 0;
    snprintf(directory, sizeof(directory), "%.*s", slash ? (int)(slash - path) + 1 : 1,
             slash ? path : ".");
    DIR *d = opendir(directory);
    for (struct dirent *entry; d && slash && (entry = readdir(d));) {
        char other[EY_MAX_PATH];
        struct stat st;
        if (gguf_is_part_of(entry->d_name, slash + 1) &&
            path_join(other, directory, entry->d_name, NULL) && stat(other, &st) == 0)
            bytes += (uint64_t)st.st_size;
    }
    if (d) closedir(d);
    return bytes;
}

/* Appends a GGUF file. Fields missing in its header stay unknown. */
static bool list_gguf(void *user, const char *name, const char *path)
{
    struct listing_maker *maker = user;
    struct model_listing *m = next_listing(maker);
    char file[EY_MAX_PATH], projector[EY_MAX_PATH];
    struct gguf *f = NULL;
    int64_t type = -1;
    if (!m) return false;
    const bool manifest = ollama_is_manifest(path);
    if (!manifest || !ollama_read_manifest(path, file, projector, NULL))
        snprintf(file, sizeof(file), "%s", path);
    *m = (struct model_listing){
        .name = strdup(name), .directory = strdup(path), .bytes = gguf_file_bytes(file)};
    if (gguf_open(&f, file, NULL)) {
        const struct gguf_arch *arch = gguf_arch_of(f, NULL);
        m->architecture = copy_or_null(arch ? arch->architecture
                                            : gguf_text(f, "general.architecture"));
        if (gguf_optional_int(f, "general.file_type", 0, INT32_MAX, &type, NULL))
            m->quantization = copy_or_null(gguf_file_type_name(type));
    }
    gguf_close(f);
    return (m->name && m->directory) || ey_fail_memory(maker->e, "the list of models", 0);
}

static bool list_snapshot_file(void *user, const char *path)
{
    struct listing_maker *maker = user;
    char name[MAX_REPOSITORY + REPOSITORY_TAG_BYTES + 2], tag[REPOSITORY_TAG_BYTES];
    gguf_tag_of(tag, sizeof(tag), path);
    if (strlen(tag) == sizeof(tag) - 1) return list_gguf(maker, path, path); /* the tag was cut */
    snprintf(name, sizeof(name), "%s:%s", maker->name, tag);
    return list_gguf(maker, name, path);
}

static bool has_config(const char *directory)
{
    char path[EY_MAX_PATH];
    return path_join(path, directory, "config.json", NULL) && path_is_file(path);
}

static bool add_listing(struct listing_maker *m, const char *cache, const char *entry)
{
    char repository[EY_MAX_PATH], snapshot[EY_MAX_PATH];
    if (!repository_name(m->name, entry) || !path_join(repository, cache, entry, NULL) ||
        !find_snapshot(snapshot, repository, "main", false))
        return true;
    const size_t before = m->n;
    if (!gguf_each_file(snapshot, list_snapshot_file, m)) return false;
    if (m->n > before && !has_config(snapshot)) return true;
    struct model_listing *plain = next_listing(m);
    return plain && listing_describe(plain, m->name, snapshot, m->e);
}

static int compare_listings(const void *a, const void *b)
{
    return strcmp(((const struct model_listing *)a)->name, ((const struct model_listing *)b)->name);
}

static bool list_cache(struct listing_maker *m)
{
    char cache[EY_MAX_PATH];
    bool ok = true;
    DIR *d = hf_cache_directory(cache, NULL) ? opendir(cache) : NULL;
    if (!d) return true;
    for (struct dirent *entry; ok && (entry = readdir(d));)
        ok = add_listing(m, cache, entry->d_name);
    closedir(d);
    return ok;
}

bool model_list(struct model_listing **list, size_t *n, ey_err *e)
{
    struct listing_maker m = {.e = e};
    const bool ok = list_cache(&m) && gguf_stores_each(list_gguf, &m);
    if (ok && m.n) qsort(m.list, m.n, sizeof(*m.list), compare_listings);
    if (!ok) {
        model_list_free(m.list, m.n);
        m = (struct listing_maker){0};
    }
    *list = m.list;
    *n = m.n;
    return ok;
}

void model_list_free(struct model_listing *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(list[i].name);
        free(list[i].directory);
        free(list[i].architecture);
        free(list[i].quantization);
    }
    free(list);
}
