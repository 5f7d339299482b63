/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a checkpoint besides its weights: tokenizer, template, processors and so on. */
#ifndef EY_SMALL_FILES_H
#define EY_SMALL_FILES_H

#include "base/err.h"

typedef bool small_file_fn(void *user, const char *name, const char *bytes, size_t n, ey_err *e);

/* Calls `write` with each file of the folder that a converted checkpoint keeps. Left out
 * are weights, config.json (which is written anew), descriptions of the old quantization, hidden
 * files, and files of more than 64 MB. */
bool small_files_each(const char *folder, small_file_fn *write, void *user, ey_err *e);

#endif
