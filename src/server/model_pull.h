/* SPDX-License-Identifier: Apache-2.0 */
/* Downloads and deletes models of the hub for clients (--allow-pull). A downloaded model can be
 * served from the next start on. */
#ifndef EY_SERVER_MODEL_PULL_H
#define EY_SERVER_MODEL_PULL_H

#include "base/err.h"
#include "server/server.h"

struct model_pull;

enum pull_stage { PULL_ASKING, PULL_FETCHING, PULL_DONE, PULL_FAILED };

struct pull_status {
    enum pull_stage stage;
    uint64_t done, total; /* bytes present, bytes in total; from PULL_FETCHING on */
    char digest[65];      /* the hub's SHA-256 of the model's largest file */
    ey_err error;         /* of PULL_FAILED; EY_NOT_FOUND: there is no such model */
};

/* Starts to download owner/name, hf.co/owner/name or a short name (short_names.h) on a thread of
 * its own. Fails with EY_BUSY while another one is being downloaded. */
bool model_pull_open(struct model_pull **pull, const char *name, ey_err *e);
/* Waits up to `ms` for a change. */
struct pull_status model_pull_wait(struct model_pull *pull, int ms);
/* Stops the download unless it is done. A later download resumes it. */
void model_pull_close(struct model_pull **pull);

/* Deletes a model from the Hugging Face cache. Fails with EY_NOT_FOUND if it is not there, and with
 * EY_BAD_REQUEST if the server serves a model from its folder, under whatever name. */
bool model_delete(const struct server_options *options, const char *name, ey_err *e);

#endif
