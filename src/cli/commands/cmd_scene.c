/* SPDX-License-Identifier: Apache-2.0 */
/* eyelet scene IMAGE and eyelet read IMAGE: the two questions that people put most, ready made. */
#include <string.h>

#include "cli/commands/ask_images.h"
#include "cli/commands/commands.h"
#include "cli/options/input.h"
#include "cli/terminal/term.h"
#include "eyelet/tasks.h"

static bool scene_check_arguments(const struct options *o, const char *command, ey_err *e)
{
    if (o->n_args == 1) return input_check_images(o->args, 1, command, e);
    return ey_fail(e, EY_BAD_REQUEST, "%s takes one image, not %zu: eyelet %s photo.jpg", command,
                   o->n_args, command);
}

int cmd_scene(const struct options *o)
{
    ey_err e;
    if (!scene_check_arguments(o, "scene", &e)) return term_complain(&e);
    return ask_about_images(o, 1, ey_scene_prompt(), false, NULL);
}

/* Greedy: what is written does not depend on luck. */
int cmd_read(const struct options *o)
{
    ey_err e;
    if (!scene_check_arguments(o, "read", &e)) return term_complain(&e);
    return ask_about_images(o, 1, ey_read_prompt(), true, NULL);
}
