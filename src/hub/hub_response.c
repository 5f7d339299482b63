/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the hub's headers and JSON. They are untrusted: text that becomes a path passes
 * name_checks.h, and numbers that become lengths pass a range check. */
#include "hub/hub_response.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MAX_LISTED_FILES = 20000 };
static const uint64_t max_file_bytes = (uint64_t)1 << 42;

/* ---- headers ---- */

static bool read_status_line(struct hub_response *r, const char *line, size_t n)
{
    const char *space = n > 5 && memcmp(line, "HTTP/", 5) == 0 ? memchr(line, ' ', n) : NULL;
    if (!space) return false;
    *r = (struct hub_response){0};
    const char *end = line + n;
    for (const char *p = space + 1; p < end && p < space + 4 && isdigit((unsigned char)*p); p++)
        r->status = r->status * 10 + (*p - '0');
    return true;
}

static void store_header_value(struct hub_response *r, char *out, size_t size, const char *value,
                               size_t n)
{
    out[0] = 0;
    if (n >= size || memchr(value, 0, n)) {
        r->too_long = true;
        return;
    }
    memcpy(out, value, n);
    out[n] = 0;
}

void hub_response_header(struct hub_response *r, const char *line, size_t n)
{
    const struct {
        const char *name;
        char *out;
        size_t size;
    } wanted[] = {
        {"location", r->location, sizeof(r->location)},
        {"etag", r->etag, sizeof(r->etag)},
        {"x-linked-etag", r->linked_etag, sizeof(r->linked_etag)},
        {"x-linked-size", r->linked_size, sizeof(r->linked_size)},
        {"x-repo-commit", r->commit, sizeof(r->commit)},
        {"content-range", r->content_range, sizeof(r->content_range)},
        {"content-length", r->content_length, sizeof(r->content_length)},
        {"content-encoding", r->content_encoding, sizeof(r->content_encoding)},
        {"x-error-code", r->error_code, sizeof(r->error_code)},
        {"x-error-message", r->error_message, sizeof(r->error_message)},
        {"retry-after", r->retry_after, sizeof(r->retry_after)},
    };
    const char *colon = memchr(line, ':', n);
    if (read_status_line(r, line, n) || !colon) return;
    const char *value = colon + 1, *end = line + n;
    while (end > value && isspace((unsigned char)end[-1]))
        end--;
    while (value < end && isspace((unsigned char)*value))
        value++;
    size_t n_name = (size_t)(colon - line);
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
        if (strlen(wanted[i].name) == n_name && strncasecmp(wanted[i].name, line, n_name) == 0)
            store_header_value(r, wanted[i].out, wanted[i].size, value, (size_t)(end - value));
}

/* Parses a number of at most max_file_bytes. *end is set to the text after its digits. */
static bool read_byte_count(const char *text, uint64_t *out, const char **end)
{
    enum { MOST_DIGITS = 18 };
    size_t n = strspn(text, "0123456789");
    if (!n || n > MOST_DIGITS) return false;
    *out = strtoull(text, NULL, 10);
    *end = text + n;
    return *out <= max_file_bytes;
}

static bool read_file_size(const struct hub_response *r, uint64_t *out)
{
    const char *end = "";
    bool redirect = r->status >= 300 && r->status < 400;
    const char *text = r->linked_size[0] ? r->linked_size : redirect ? "" : r->content_length;
    return read_byte_count(text, out, &end) && !*end;
}

bool hub_response_metadata(const struct hub_response *r, const char *commit, struct hub_file *file,
                           ey_err *e)
{
    static const char advice[] =
        "check that HF_ENDPOINT is a Hugging Face hub and that no proxy changes its headers";
    const char *etag = r->linked_etag[0] ? r->linked_etag : r->etag;
    bool ok = etag_unquote(file->etag, sizeof(file->etag), etag) && is_etag_hash(file->etag);
    if (!ok)
        return ey_fail(e, EY_IO, "%s: the hub's etag \"%.80s\" is not a hash; %s", file->name, etag,
                       advice);
    if (!read_file_size(r, &file->size))
        return ey_fail(e, EY_IO, "%s: the hub does not report the file's size; %s", file->name,
                       advice);
    if (r->commit[0] && strcmp(r->commit, commit) != 0)
        return ey_fail(e, EY_IO, "%s: the hub answered with commit %.64s instead of %s; %s",
                       file->name, r->commit, commit, advice);
    return true;
}

bool hub_response_range(const struct hub_response *r, uint64_t *begin, uint64_t *end,
                        uint64_t *total)
{
    uint64_t last = 0;
    const char *at = r->content_range;
    if (strncmp(at, "bytes ", 6) != 0) return false;
    bool ok = read_byte_count(at + 6, begin, &at) && *at == '-' &&
              read_byte_count(at + 1, &last, &at) && *at == '/' &&
              read_byte_count(at + 1, total, &at) && !*at;
    *end = last + 1;
    return ok && *begin <= last && last < *total;
}

double hub_response_retry_after(const struct hub_response *r, double otherwise)
{
    enum { LONGEST = 60 };
    uint64_t seconds;
    const char *end;
    if (!read_byte_count(r->retry_after, &seconds, &end) || *end) return otherwise;
    return seconds < LONGEST ? (double)seconds : LONGEST;
}

/* ---- the listing ---- */

bool repo_listing_read(struct repo_listing *out, const char *text, size_t n, ey_err *e)
{
    *out = (struct repo_listing){.json = json_parse(text, n, "the hub's list of files", EY_IO, e)};
    if (!out->json) return false;
    json_object *sha = json_member_of_type(out->json, "sha", json_type_string),
                *files = json_member_of_type(out->json, "siblings", json_type_array);
    const char *commit = sha ? json_object_get_string(sha) : "";
    bool ok = is_commit_hash(commit) && files &&
              json_object_array_length(files) <= MAX_LISTED_FILES;
    if (ok) return memcpy(out->commit, commit, HUB_COMMIT_BYTES + 1), true;
    if (!is_commit_hash(commit))
        ey_fail(e, EY_IO,
                "the hub's list of files names the commit \"%.80s\", which is not a hash; is "
                "HF_ENDPOINT a Hugging Face hub?",
                commit);
    else
        ey_fail(e, EY_IO, "the hub's list of files has %s", files ? "too many files" : "no files");
    repo_listing_free(out);
    return false;
}

size_t repo_listing_count(const struct repo_listing *listing)
{
    json_object *files = json_member_of_type(listing->json, "siblings", json_type_array);
    return files ? json_object_array_length(files) : 0;
}

const char *repo_listing_at(const struct repo_listing *listing, size_t i)
{
    json_object *files = json_member_of_type(listing->json, "siblings", json_type_array),
                *name = json_member_of_type(json_object_array_get_idx(files, i), "rfilename",
                                            json_type_string);
    return name ? json_object_get_string(name) : NULL;
}

bool repo_listing_has(const struct repo_listing *listing, const char *file)
{
    for (size_t i = 0; i < repo_listing_count(listing); i++) {
        const char *name = repo_listing_at(listing, i);
        if (name && strcmp(name, file) == 0) return true;
    }
    return false;
}

void repo_listing_free(struct repo_listing *listing)
{
    json_object_put(listing->json);
    *listing = (struct repo_listing){0};
}

/* ---- the index of shards ---- */

static int compare_names(const void *a, const void *b)
{
    return strcmp(a, b);
}

static bool has_shard_name(const struct shard_names *names, const char *name)
{
    for (size_t i = names->n; i-- > 0;) /* tensors of a shard are mostly adjacent */
        if (strcmp(names->item[i], name) == 0) return true;
    return false;
}

static bool add_shard_name(struct shard_names *out, json_object *value, ey_err *e)
{
    static const char ending[] = ".safetensors";
    const char *name = json_object_is_type(value, json_type_string) ? json_object_get_string(value)
                                                                    : "";
    size_t n = strlen(name);
    if (!is_safe_file_name(name) || n < sizeof(ending) ||
        strcmp(name + n - strlen(ending), ending) != 0)
        return ey_fail(
            e, EY_BAD_MODEL,
            "model.safetensors.index.json: \"%.200s\" is not the name of a safetensors file", name);
    if (has_shard_name(out, name)) return true;
    if (out->n == EY_MAX_SHARDS)
        return ey_fail(e, EY_BAD_MODEL, "model.safetensors.index.json names more than %d files",
                       EY_MAX_SHARDS);
    memcpy(out->item[out->n++], name, n + 1);
    return true;
}

bool shard_names_read(struct shard_names *out, const char *text, size_t n, ey_err *e)
{
    *out = (struct shard_names){.item = calloc(EY_MAX_SHARDS, sizeof(*out->item))};
    if (!out->item) return ey_fail_memory(e, "names of files", EY_MAX_SHARDS * sizeof(*out->item));
    json_object *index = json_parse(text, n, "model.safetensors.index.json", EY_BAD_MODEL, e);
    json_object *map = json_member_of_type(index, "weight_map", json_type_object);
    bool ok = index &&
              (map ||
               ey_fail(e, EY_BAD_MODEL,
                       "model.safetensors.index.json: weight_map is absent or not an object"));
    if (ok) {
        json_object_object_foreach(map, tensor, file)
        {
            (void)tensor;
            if (ok) ok = add_shard_name(out, file, e);
        }
    }
    if (ok && !out->n) ok = ey_fail(e, EY_BAD_MODEL, "model.safetensors.index.json names no file");
    if (ok)
        qsort(out->item, out->n, sizeof(*out->item), compare_names);
    else
        shard_names_free(out);
    json_object_put(index);
    return ok;
}

void shard_names_free(struct shard_names *names)
{
    free(names->item);
    *names = (struct shard_names){0};
}
