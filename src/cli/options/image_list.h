/* SPDX-License-Identifier: Apache-2.0 */
/* What a command line names → the images that are meant: files, the images of folders. */
#ifndef EY_CLI_IMAGE_LIST_H
#define EY_CLI_IMAGE_LIST_H

#include "base/err.h"

struct image_list {
    char **names; /* [n], ours; as typed, or FOLDER/FILE */
    size_t n;
    bool from_folder;       /* a folder was named: there may be many */
    size_t skipped_folders; /* folders beside files, or inside folders, without `recursive` */
    char *first_skipped;    /* one of them, for a message; NULL: none */
};

/* args[n] of `command`: a folder stands for the images in it, by their names' endings, sorted; with
 * `recursive` also for those below its folders. Folders among files, as * gives them, are skipped
 * without it. Fails when nothing is left or standard input ("-") is named twice. Free the list also
 * after an error. */
bool image_list_open(struct image_list *list, char *const *args, size_t n, bool recursive,
                     const char *command, ey_err *e);
/* Adds a name, which it takes; NULL: no memory. */
bool image_list_add(struct image_list *list, char *name, ey_err *e);
void image_list_free(struct image_list *list);

#endif
