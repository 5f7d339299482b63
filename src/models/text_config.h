/* SPDX-License-Identifier: Apache-2.0 */
/* What all families read of config.json and generation_config.json. Every number is checked here,
 * once: later code may multiply them without looking. */
#ifndef EY_MODELS_TEXT_CONFIG_H
#define EY_MODELS_TEXT_CONFIG_H

#include "base/file.h"
#include "base/json.h"
#include "models/model.h"

/* An object of a file, and its name for errors. */
struct config {
    const json_object *object;
    char what[EY_MAX_PATH + 128]; /* "DIR/config.json: text_config" */
};

/* `parent` itself, or its member `key`. */
bool config_open(struct config *s, const json_object *parent, const char *key, const char *path,
                 ey_err *e);
/* A value as the file has it, for errors. */
const char *config_shown(json_object *value);
bool config_int(const struct config *s, const char *key, int lo, int hi, int *out, ey_err *e);
/* At most `max` integers, *n of them. */
bool config_ints(int *out, int *n, int max, const struct config *s, const char *key, int lo, int hi,
                 ey_err *e);
/* A key that must have one of the values this program computes; absent is accepted. */
bool config_require(const struct config *s, const char *key, const char *wanted, ey_err *e);
/* The same of a key that must not be true. */
bool config_refuse(const struct config *s, const char *key, ey_err *e);

/* The text model's numbers but its rotary embedding. */
bool config_text(struct text_shape *t, const struct config *s, ey_err *e);
/* The object that says how the rotary embedding is scaled, which must be not at all: rope_scaling
 * before rope_parameters, as in transformers. */
bool config_open_rope(struct config *rope, const struct config *s, ey_err *e);
/* rope_theta in that object, else beside it; `missing`: what it is where it is in neither, 0: that
 * is an error. */
bool config_rope_theta(double *theta, const struct config *rope, const struct config *s,
                       double missing, ey_err *e);
/* rope_theta, of a rotary embedding by place in the sequence alone; missing_theta: what it is where
 * the file has none, 0: that is an error. */
bool config_1d_rope(struct text_shape *t, const struct config *s, double missing_theta, ey_err *e);
/* Whether the head is the embedding: the top level wins, else `text` (spec 1.1). */
bool config_tied(bool *tied, const json_object *config, const struct config *text, const char *path,
                 ey_err *e);
/* The ids that end an answer, from generation_config.json, else config.json's top, else `text`;
 * maybe none. */
bool config_eos(struct model *m, struct checkpoint *ckpt, const struct config *text, ey_err *e);

#endif
