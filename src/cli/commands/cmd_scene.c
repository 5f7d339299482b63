/* SPDX-License-Identifier: Apache-2.0 */
/* eyelet scene IMAGE... and eyelet read IMAGE... ask the two most common questions. */
#include <string.h>

#include "cli/commands/ask_images.h"
#include "cli/commands/commands.h"
#include "cli/batch/image_batch.h"
#include "cli/options/input.h"
#include "cli/terminal/term.h"
#include "eyelet/tasks.h"

static int ask_ready_made(const struct options *o, const char *command, const char *prompt,
                          bool greedy, enum batch_pages pages)
{
    ey_err e;
    const struct image_batch batch = {.command = command,
                                      .prompt = prompt,
                                      .greedy = greedy,
                                      .pages = pages,
                                      .field = "answer",
                                      .sidecar = "txt"};
    /* Standard input may be a document. The batch can read its pages one by one. */
    const bool sent = !o->n_args
                          ? input_stdin_is_sent()
                          : pages == PAGES_JOINED && o->n_args == 1 && strcmp(o->args[0], "-") == 0;
    if (sent) return image_batch_run(o, input_from_stdin, 1, &batch);
    if (!o->n_args) {
        ey_fail(&e, EY_BAD_REQUEST, "%s needs an image: eyelet %s photo.jpg", command, command);
        return term_complain(&e);
    }
    if (batch_wanted(o, o->args, o->n_args)) return image_batch_run(o, o->args, o->n_args, &batch);
    return ask_about_images(o, 1, prompt, greedy, NULL);
}

int cmd_scene(const struct options *o)
{
    return ask_ready_made(o, "scene", ey_scene_prompt(), false, PAGES_TOGETHER);
}

/* Returns the question for --as. Models answer the one for Markdown best. */
static const char *prompt_of_form(const char *as)
{
    if (strcmp(as, "markdown") == 0)
        return "Convert the document in the image to Markdown. Keep headings, lists and tables.";
    if (strcmp(as, "csv") == 0)
        return "Write the table in the image as CSV, with a header. Write nothing else.";
    if (strcmp(as, "json") == 0)
        return "Write all the text in the image as JSON: a name and a value for each field. Write "
               "nothing else.";
    return ey_read_prompt();
}

/* Decodes greedily, because the text in an image should not depend on chance. */
int cmd_read(const struct options *o)
{
    return ask_ready_made(o, "read", prompt_of_form(o->as), true, PAGES_JOINED);
}
