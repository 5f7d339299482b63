/* SPDX-License-Identifier: Apache-2.0 */
/* eyelet pull MODEL: a model of the hub into the Hugging Face cache. */
#include <string.h>

#include "cli/terminal/cancel.h"
#include "cli/commands/commands.h"
#include "cli/pull_model.h"
#include "cli/options/repository_option.h"
#include "cli/terminal/term.h"

int cmd_pull(const struct options *o)
{
    ey_err e;
    struct repository repository;
    char directory[EY_MAX_PATH];
    struct term out = term_stdout();
    if (!repository_option(&repository, o, "pull", &e) ||
        !pull_model(directory, &repository, o, &e)) {
        int status = term_complain(&e);
        return cancel_requested() ? EXIT_INTERRUPTED : status;
    }
    if (directory[0]) {
        term_write(&out, directory, strlen(directory));
        term_write(&out, "\n", 1);
    }
    return term_finish(&out, 0);
}
