/* SPDX-License-Identifier: Apache-2.0 */
/* A model's name → its files in the Hugging Face cache, in the layout that huggingface_hub keeps:
 * blobs/ETAG, snapshots/COMMIT/NAME as links to them, refs/REVISION with the commit. Knows nothing
 * of engines. */
#ifndef EY_HUB_HUB_H
#define EY_HUB_HUB_H

#include "checkpoint/hf_cache.h"
#include "hub/endpoint.h"
#include "hub/hub_response.h"

struct hub_options {
    /* Asked all the time; true: stop. NULL: never. */
    bool (*stop)(void *user);
    /* How far the download is, several times a second: bytes present, bytes in total. */
    void (*progress)(void *user, uint64_t done, uint64_t total);
    /* Something worth a line: "waiting for another download of …". */
    void (*notice)(void *user, const char *text);
    void *user;
    uint64_t range_bytes; /* bytes of one range; 0: 16 MiB */
    double retry_seconds; /* the first pause after a failure that brought nothing; each further one
                             is twice as long; 0: 1 */
};

struct hub {
    struct endpoint endpoint;
    struct curl_slist *plain_headers,
        *token_headers; /* headers of requests to others, and to the endpoint */
    struct hub_options options;
};

bool hub_open(struct hub *hub, const struct hub_options *options, ey_err *e);
void hub_close(struct hub *hub);

/* What a pull would bring: the files that eyelet and transformers read, and no others. */
struct hub_model {
    struct repository repository;
    char commit[HUB_COMMIT_BYTES + 1];
    struct hub_file *files; /* [n] */
    size_t n;
    uint64_t bytes;              /* of all of them … */
    uint64_t missing_bytes;      /* … and what the cache does not have of them */
    char directory[EY_MAX_PATH]; /* models--owner--name in the cache; it need not exist */
};

/* Asks the hub what the repository has: its listing, and the headers of each file; no file is
 * downloaded but the index of shards. */
bool hub_list_repo(struct hub *hub, const struct repository *repository, struct hub_model *model,
                   ey_err *e);
void hub_model_free(struct hub_model *model);

/* Writes to an existing empty directory what a plan is made from: config.json and such, and for
 * each safetensors file one of its size with only the header in it, the rest a hole. The headers
 * come by range requests. */
bool hub_fetch_headers(struct hub *hub, const struct hub_model *model, const char *directory,
                       ey_err *e);
/* Removes such a directory. */
void hub_remove_header_files(const char *directory);

/* Downloads what is missing and writes snapshot and reference. Parts that come are kept, with a
 * record of which, so that a later call goes on where this one was stopped, killed or cut off. Each
 * file's hash is checked before it gets its name. */
bool hub_download(struct hub *hub, const struct hub_model *model, ey_err *e);

/* What removing would take away, and doing it. With a revision: its snapshot, the references to it,
 * and the blobs that no other snapshot has. Links are never followed. */
struct hub_removal {
    char directory[EY_MAX_PATH];                /* of the repository */
    char commit[REPOSITORY_REVISION_BYTES + 1]; /* "": all of it */
    uint64_t bytes;                             /* of the disk */
};
bool hub_plan_removal(struct hub_removal *out, const struct repository *repository, ey_err *e);
bool hub_remove(const struct hub_removal *removal, ey_err *e);

#endif
