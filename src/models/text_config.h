/* SPDX-License-Identifier: Apache-2.0 */
/* What all families read from config.json and generation_config.json. Every number is range-checked
 * here, so later code may multiply without overflow checks. */
#ifndef EY_MODELS_TEXT_CONFIG_H
#define EY_MODELS_TEXT_CONFIG_H

#include "base/file.h"
#include "base/json.h"
#include "models/model.h"

/* A JSON object of a file, with its name for error messages. */
struct config {
    const json_object *object;
    char what[EY_MAX_PATH + 128]; /* "DIR/config.json: text_config" */
};

/* Opens `parent`, or its member `key` if not NULL. */
bool config_open(struct config *s, const json_object *parent, const char *key, const char *path,
                 ey_err *e);
/* Returns a value as written in the file, for errors. */
const char *config_shown(json_object *value);
bool config_int(const struct config *s, const char *key, int lo, int hi, int *out, ey_err *e);
/* Reads a list of *n integers, at most `max`, each from lo to hi. */
bool config_ints(int *out, int *n, int max, const struct config *s, const char *key, int lo, int hi,
                 ey_err *e);
/* Fails unless the key is absent or has the one value that eyelet supports. */
bool config_require(const struct config *s, const char *key, const char *wanted, ey_err *e);
/* Fails if the key is true. */
bool config_refuse(const struct config *s, const char *key, ey_err *e);

/* Reads the text model's shape except its rotary embedding. */
bool config_text(struct text_shape *t, const struct config *s, ey_err *e);
/* Opens the object that configures the rotary embedding, rope_scaling before rope_parameters as in
 * transformers. Fails if it asks for scaling. */
bool config_open_rope(struct config *rope, const struct config *s, ey_err *e);
/* Reads rope_theta from `rope`, else from `s`. If it is in neither, uses `missing`, or fails if
 * that is 0. */
bool config_rope_theta(double *theta, const struct config *rope, const struct config *s,
                       double missing, ey_err *e);
/* Reads rope_theta of a rotary embedding with one-dimensional positions. missing_theta means the
 * same as `missing` above. */
bool config_1d_rope(struct text_shape *t, const struct config *s, double missing_theta, ey_err *e);
/* Reads whether the head is the embedding: the top level takes precedence over `text` (spec
 * 1.1). */
bool config_tied(bool *tied, const json_object *config, const struct config *text, const char *path,
                 ey_err *e);
/* Reads the ids that end an answer, possibly none, from generation_config.json, else from the top
 * of config.json, else from `text`. */
bool config_eos(struct model *m, struct checkpoint *ckpt, const struct config *text, ey_err *e);

#endif
