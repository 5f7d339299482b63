/* SPDX-License-Identifier: Apache-2.0 */
/* Options of the command line that shape an engine, for all commands that open one. */
#ifndef EY_CLI_ENGINE_OPTIONS_H
#define EY_CLI_ENGINE_OPTIONS_H

#include "cli/options/options.h"
#include "eyelet.h"

/* All but the model. *engine has its defaults. */
bool engine_options_set(ey_engine_options *engine, const struct options *options, ey_err *e);

#endif
