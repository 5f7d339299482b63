/* SPDX-License-Identifier: Apache-2.0 */
/* Expands the files and folders of a command line into a list of images. */
#ifndef EY_CLI_IMAGE_LIST_H
#define EY_CLI_IMAGE_LIST_H

#include "base/err.h"

struct image_list {
    char **names; /* [n], owned by the list; each as typed, or FOLDER/FILE */
    size_t n;
    bool from_folder;       /* a folder was named, so there may be many images */
    size_t skipped_folders; /* folders that were left out because `recursive` was not set */
    char *first_skipped;    /* one of them, for a message, or NULL */
};

/* Lists the images that args[n] of `command` name. A folder stands for the files in it with the
 * extension of an image, sorted, and with `recursive` also for those in its subfolders. Without
 * `recursive`, folders among files are skipped, because a shell's * lists both. Fails if no image
 * is left or if standard input ("-") is named twice. The caller frees the list, also after an
 * error. */
bool image_list_open(struct image_list *list, char *const *args, size_t n, bool recursive,
                     const char *command, ey_err *e);
/* Appends `name` and takes ownership of it; NULL means that its allocation failed. */
bool image_list_add(struct image_list *list, char *name, ey_err *e);
/* Fails if writing the file `output` would overwrite this image. `output` may be NULL. */
bool image_check_output(const char *image, const char *output, ey_err *e);
/* Like image_check_output() for all images of the list. */
bool image_list_check_output(const struct image_list *list, const char *output, ey_err *e);
void image_list_free(struct image_list *list);

#endif
