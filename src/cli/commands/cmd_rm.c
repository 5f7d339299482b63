/* SPDX-License-Identifier: Apache-2.0 */
/* eyelet rm MODEL removes a model from the Hugging Face cache. */
#include <string.h>

#include "cli/commands/commands.h"
#include "cli/terminal/confirm.h"
#include "cli/options/repository_option.h"
#include "cli/terminal/term.h"
#include "hub/hub.h"

static bool confirm_removal(const struct hub_removal *r, const struct repository *repository,
                            const struct options *o, ey_err *e)
{
    if (o->yes) return true;
    if (!confirm_possible())
        return ey_fail(e, EY_BAD_REQUEST,
                       "rm asks for confirmation, which needs a terminal; without one, add --yes");
    return confirm("Remove %s%s%.8s (%.2f GB) from %s?", repository->name,
                   r->commit[0] ? ", commit " : "", r->commit, (double)r->bytes / 1e9,
                   r->directory) ||
           ey_fail(e, EY_CANCELLED, "nothing was removed");
}

int cmd_rm(const struct options *o)
{
    ey_err e;
    struct repository repository;
    struct hub_removal removal;
    struct term out = term_stdout();
    if (!repository_option(&repository, o, "rm", &e) ||
        !hub_plan_removal(&removal, &repository, &e) ||
        !confirm_removal(&removal, &repository, o, &e) || !hub_remove(&removal, &e))
        return term_complain(&e);
    if (!o->quiet)
        fprintf(stderr, "eyelet: %.2f GB (%llu bytes) freed\n", (double)removal.bytes / 1e9,
                (unsigned long long)removal.bytes);
    return term_finish(&out, 0);
}
