/* SPDX-License-Identifier: Apache-2.0 */
/* Parses MODEL and --revision into a repository. */
#include "cli/options/repository_option.h"

#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/text/short_names.h"
#include "cli/options/model_default.h"

bool repository_option(struct repository *out, const struct options *o, const char *command,
                       ey_err *e)
{
    char name[REPOSITORY_NAME_BYTES + REPOSITORY_REVISION_BYTES + 2];
    if (o->n_args != 1)
        return ey_fail(e, EY_BAD_REQUEST,
                       "%s takes one model, such as Qwen/Qwen3-VL-2B-Instruct-FP8, not %zu",
                       command, o->n_args);
    char model[EY_MAX_PATH];
    if (!model_name_expand(model, o->args[0], e)) return false;
    if (o->revision && strchr(model, '@'))
        return ey_fail(e, EY_BAD_REQUEST,
                       "the revision is given twice, with @ and with --revision");
    int n = snprintf(name, sizeof(name), "%s%s%s", model, o->revision ? "@" : "",
                     o->revision ? o->revision : "");
    bool parsed = n < (int)sizeof(name) && repository_parse(out, name);
    if (parsed && !strchr(out->name, '/') && strcmp(command, "pull") == 0)
        return ey_fail(e, EY_BAD_REQUEST,
                       "\"%.200s\" is not a short name that eyelet knows; pull takes " SHORT_NAMES,
                       o->args[0]);
    if (parsed) return true;
    return ey_fail(e, EY_BAD_REQUEST,
                   "\"%.200s%s%.100s\" is not the name of a model on the hub; such a name is "
                   "owner/name or owner/name@revision",
                   model, o->revision ? "@" : "", o->revision ? o->revision : "");
}
