/* SPDX-License-Identifier: Apache-2.0 */
/* eyelet scene IMAGE... and eyelet read IMAGE...: the two questions that people put most, ready
 * made. */
#include <string.h>

#include "cli/commands/ask_images.h"
#include "cli/commands/commands.h"
#include "cli/batch/image_batch.h"
#include "cli/options/input.h"
#include "cli/terminal/term.h"
#include "eyelet/tasks.h"

static int ask_ready_made(const struct options *o, const char *command, const char *prompt,
                          bool greedy)
{
    ey_err e;
    const struct image_batch batch = {.command = command,
                                      .prompt = prompt,
                                      .greedy = greedy,
                                      .field = "answer",
                                      .sidecar = "txt"};
    if (!o->n_args) {
        ey_fail(&e, EY_BAD_REQUEST, "%s needs an image: eyelet %s photo.jpg", command, command);
        return term_complain(&e);
    }
    if (batch_wanted(o, o->args, o->n_args)) return image_batch_run(o, o->args, o->n_args, &batch);
    return ask_about_images(o, 1, prompt, greedy, NULL);
}

int cmd_scene(const struct options *o)
{
    return ask_ready_made(o, "scene", ey_scene_prompt(), false);
}

/* Greedy: what is written does not depend on luck. */
int cmd_read(const struct options *o)
{
    return ask_ready_made(o, "read", ey_read_prompt(), true);
}
