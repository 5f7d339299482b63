/* SPDX-License-Identifier: Apache-2.0 */
/* eyelet pull MODEL downloads a model from the hub into the Hugging Face cache. */
#include <string.h>

#include "cli/terminal/cancel.h"
#include "cli/terminal/confirm.h"
#include "cli/commands/commands.h"
#include "cli/pull_model.h"
#include "cli/suggest_model.h"
#include "cli/options/repository_option.h"
#include "cli/terminal/term.h"

/* Without a name, suggests the best model for this machine and downloads it if the user agrees or
 * --yes was given. */
static int pull_suggested(const struct options *o)
{
    ey_err e;
    char name[EY_MAX_PATH];
    char *args[] = {name, NULL};
    struct options chosen = *o;
    if (!suggest_model(name, o, &e)) return term_complain(&e);
    bool pulls = !o->dry_run && (o->yes || (confirm_possible() && confirm("Download it?")));
    chosen.args = args;
    chosen.n_args = 1;
    return pulls ? cmd_pull(&chosen) : 0;
}

int cmd_pull(const struct options *o)
{
    ey_err e;
    struct repository repository;
    char directory[EY_MAX_PATH];
    struct term out = term_stdout();
    if (!o->n_args && !o->revision) return pull_suggested(o);
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
