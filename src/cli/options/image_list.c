/* SPDX-License-Identifier: Apache-2.0 */
/* Expands folders into the images in them. */
#include "cli/options/image_list.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/limits.h"

enum { MAX_DEPTH = 32, MAX_NAMES = 10000000 };

static bool has_image_ending(const char *name)
{
    static const char *const endings[] = {"jpg",  "jpeg", "jpe",  "jfif", "png", "webp", "gif",
                                          "heic", "heif", "avif", "hif",  "tif", "tiff", "bmp",
                                          "dib",  "pdf",  "pnm",  "pbm",  "pgm", "ppm"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof(endings) / sizeof(endings[0]); i++)
        if (strcasecmp(dot + 1, endings[i]) == 0) return true;
    return false;
}

bool image_list_add(struct image_list *list, char *name, ey_err *e)
{
    enum { FIRST = 64 };
    bool full = list->n >= FIRST && (list->n & (list->n - 1)) == 0;
    size_t room = list->n < FIRST ? FIRST : 2 * list->n;
    if (list->n == MAX_NAMES) {
        free(name);
        return ey_fail(e, EY_BAD_REQUEST, "there are more than %d images; name fewer at a time",
                       MAX_NAMES);
    }
    if (name && (!list->n || full)) {
        char **larger = realloc(list->names, room * sizeof(*larger));
        if (larger) list->names = larger;
        if (!larger) {
            free(name);
            name = NULL;
        }
    }
    if (!name) return ey_fail_memory(e, "the list of images", room * sizeof(char *));
    list->names[list->n++] = name;
    return true;
}

/* Returns "FOLDER/NAME" with one slash between, or NULL if memory runs out. */
static char *join_path(const char *folder, const char *name)
{
    size_t n = strlen(folder);
    char *path = NULL;
    while (n > 1 && folder[n - 1] == '/')
        n--;
    bool root = n == 1 && folder[0] == '/';
    if (asprintf(&path, "%.*s%s%s", (int)n, folder, root ? "" : "/", name) < 0) return NULL;
    return path;
}

static void skip_folder(struct image_list *list, const char *path)
{
    if (!list->skipped_folders++) list->first_skipped = strdup(path);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool add_folder(struct image_list *list, const char *folder, bool recursive, int depth,
                       ey_err *e);

/* Adds an image or a folder and takes ownership of `path`. Symbolic links to folders are not
 * followed, because they may form a loop. */
static bool add_entry(struct image_list *list, struct image_list *folders, char *path,
                      const char *name, bool recursive, ey_err *e)
{
    struct stat st;
    bool known = path && lstat(path, &st) == 0, folder = known && S_ISDIR(st.st_mode);
    if (!path) return ey_fail_memory(e, "the list of images", 0);
    if (folder && recursive) return image_list_add(folders, path, e);
    if (folder) skip_folder(list, path);
    if (known && !folder && has_image_ending(name)) return image_list_add(list, path, e);
    free(path);
    return true;
}

static bool read_folder(struct image_list *list, struct image_list *folders, const char *folder,
                        bool recursive, ey_err *e)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    bool ok = dir != NULL || ey_fail(e, EY_IO, "%s: %s", folder, strerror(errno));
    while (ok && (entry = readdir(dir)) != NULL)
        if (entry->d_name[0] != '.')
            ok = add_entry(list, folders, join_path(folder, entry->d_name), entry->d_name,
                           recursive, e);
    if (dir) closedir(dir);
    return ok;
}

static bool add_folder(struct image_list *list, const char *folder, bool recursive, int depth,
                       ey_err *e)
{
    struct image_list folders = {0};
    size_t first = list->n;
    if (depth == MAX_DEPTH)
        return ey_fail(e, EY_BAD_REQUEST, "%s: folders are nested deeper than %d", folder,
                       MAX_DEPTH);
    bool ok = read_folder(list, &folders, folder, recursive, e);
    if (list->n > first) qsort(list->names + first, list->n - first, sizeof(char *), by_name);
    if (folders.n) qsort(folders.names, folders.n, sizeof(char *), by_name);
    for (size_t i = 0; ok && i < folders.n; i++)
        ok = add_folder(list, folders.names[i], recursive, depth + 1, e);
    image_list_free(&folders);
    return ok;
}

static bool add_argument(struct image_list *list, const char *arg, bool enter, bool recursive,
                         ey_err *e)
{
    if (!arg[0]) return ey_fail(e, EY_BAD_REQUEST, "the name of an image is empty");
    if (!path_is_directory(arg)) return image_list_add(list, strdup(arg), e);
    if (!enter) return skip_folder(list, arg), true;
    list->from_folder = true;
    return add_folder(list, arg, recursive, 0, e);
}

static bool check_list(const struct image_list *list, const char *command, const char *first,
                       ey_err *e)
{
    size_t n_stdin = 0;
    for (size_t i = 0; i < list->n; i++)
        n_stdin += strcmp(list->names[i], "-") == 0;
    if (n_stdin > 1) return ey_fail(e, EY_BAD_REQUEST, "- (standard input) can be named only once");
    if (list->n) return true;
    if (list->skipped_folders)
        return ey_fail(e, EY_BAD_REQUEST,
                       "%s has only folders; -r includes the images below them: eyelet %s -r "
                       "%s",
                       first, command, first);
    return ey_fail(
        e, EY_BAD_REQUEST,
        "%s has no images; files count as images if their names end in .jpg, .png, .webp, "
        ".gif, .heic, .avif, .tif, .bmp, .pnm or .pdf",
        first);
}

bool image_list_open(struct image_list *list, char *const *args, size_t n, bool recursive,
                     const char *command, ey_err *e)
{
    bool files = false;
    *list = (struct image_list){0};
    for (size_t i = 0; i < n; i++)
        files |= !path_is_directory(args[i]);
    for (size_t i = 0; i < n; i++)
        if (!add_argument(list, args[i], recursive || !files, recursive, e)) return false;
    return !n || check_list(list, command, args[0], e);
}

bool image_check_output(const char *image, const char *output, ey_err *e)
{
    if (!output || !path_is_same(output, image)) return true;
    return ey_fail(e, EY_BAD_REQUEST, "--output would overwrite the image %s; name another file",
                   output);
}

bool image_list_check_output(const struct image_list *list, const char *output, ey_err *e)
{
    for (size_t i = 0; i < list->n; i++)
        if (!image_check_output(list->names[i], output, e)) return false;
    return true;
}

void image_list_free(struct image_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        free(list->names[i]);
    free(list->names);
    free(list->first_skipped);
    *list = (struct image_list){0};
}
