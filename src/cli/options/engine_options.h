/* SPDX-License-Identifier: Apache-2.0 */
/* Fills the engine's options from the command line, for all commands that open an engine. */
#ifndef EY_CLI_ENGINE_OPTIONS_H
#define EY_CLI_ENGINE_OPTIONS_H

#include "cli/options/options.h"
#include "eyelet.h"

/* Sets all fields of *engine that options determine, except the model. The caller has initialized
 * it with ey_engine_defaults(). */
bool engine_options_set(ey_engine_options *engine, const struct options *options, ey_err *e);

#endif
