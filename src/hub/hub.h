/* SPDX-License-Identifier: Apache-2.0 */
/* Downloads models into the Hugging Face cache, in huggingface_hub's layout: blobs/ETAG,
 * snapshots/COMMIT/NAME linking to them, refs/REVISION with the commit. Independent of engines. */
#ifndef EY_HUB_HUB_H
#define EY_HUB_HUB_H

#include "checkpoint/hf_cache.h"
#include "hub/endpoint.h"
#include "hub/hub_response.h"

struct hub_options {
    /* Polled; if it returns true, the download stops. NULL: never stops. */
    bool (*stop)(void *user);
    /* Progress, several times a second: bytes present, bytes in total. */
    void (*progress)(void *user, uint64_t done, uint64_t total);
    /* Remarks, such as "waiting for another download of …". */
    void (*notice)(void *user, const char *text);
    void *user;
    uint64_t range_bytes; /* bytes per range; 0: 16 MiB */
    /* First pause after a request that failed before a byte arrived, doubled each time; 0: 1. */
    double retry_seconds;
    double connect_seconds; /* limit for making a connection; 0: 20 */
};

struct hub {
    struct endpoint endpoint;
    struct curl_slist *plain_headers;
    struct curl_slist *token_headers; /* with the token; sent only to the endpoint */
    struct hub_options options;
};

bool hub_open(struct hub *hub, const struct hub_options *options, ey_err *e);
void hub_close(struct hub *hub);

/* The files that a pull downloads: those that eyelet and transformers read. */
struct hub_model {
    struct repository repository;
    char commit[HUB_COMMIT_BYTES + 1];
    struct hub_file *files; /* [n] */
    size_t n;
    uint64_t bytes;              /* total size */
    uint64_t missing_bytes;      /* of `bytes`, those not in the cache */
    char directory[EY_MAX_PATH]; /* models--owner--name in the cache; it need not exist */
};

/* Queries the repository's listing and the size and hash of each file. Downloads no file but the
 * index of shards. */
bool hub_list_repo(struct hub *hub, const struct repository *repository, struct hub_model *model,
                   ey_err *e);
void hub_model_free(struct hub_model *model);

/* Writes the files that a plan needs to an existing empty directory: config.json and other small
 * files, and for each weights file a sparse file of its size that has only the header, fetched by
 * range requests. */
bool hub_fetch_headers(struct hub *hub, const struct hub_model *model, const char *directory,
                       ey_err *e);
/* Removes a directory written by hub_fetch_headers. */
void hub_remove_header_files(const char *directory);

/* Downloads the missing bytes and writes snapshot and reference. Partial files are kept with a
 * record of their ranges, so that a later call resumes after a stop, a kill or a lost connection.
 * Each file's hash is checked before the file gets its final name. */
bool hub_download(struct hub *hub, const struct hub_model *model, ey_err *e);

/* A removal deletes a repository. If a revision is given, it deletes only the snapshot, the
 * references to it, and the blobs that no other snapshot uses. Links are never followed. */
struct hub_removal {
    char directory[EY_MAX_PATH];                /* of the repository */
    char commit[REPOSITORY_REVISION_BYTES + 1]; /* "": the whole repository */
    uint64_t bytes;                             /* disk space that it frees */
};
bool hub_plan_removal(struct hub_removal *out, const struct repository *repository, ey_err *e);
bool hub_remove(const struct hub_removal *removal, ey_err *e);

#endif
