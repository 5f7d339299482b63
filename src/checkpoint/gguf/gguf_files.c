/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/gguf/gguf_files.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/limits.h"

enum { SHOWN_TAGS = 1024, TAG_BYTES = 64 };
#define ENDING ".gguf"
#define PART_ENDING "-00001-of-00001.gguf" /* only its length is used */

static bool has_gguf_ending(const char *name)
{
    const size_t n = strlen(name), ending = strlen(ENDING);
    return n > ending && strcasecmp(name + n - ending, ENDING) == 0;
}

/* Returns the part number in a split model's file name, or 0. Sets *stem to the length of the name
 * without the part number and ".gguf". */
static int part_number(const char *name, size_t *stem)
{
    const size_t n = strlen(name), ending = strlen(PART_ENDING);
    int part, all, length = 0;
    *stem = n - strlen(ENDING);
    if (n <= ending || sscanf(name + n - ending, "-%5d-of-%5d.gguf%n", &part, &all, &length) != 2 ||
        (size_t)length != ending)
        return 0;
    *stem = n - ending;
    return part;
}

bool gguf_is_mmproj_name(const char *name)
{
    return has_gguf_ending(name) && strstr(name, "mmproj");
}

bool gguf_is_model_name(const char *name)
{
    static const char *const others[] = {"mmproj",  "imatrix", "mtp-",
                                         "eagle3-", "dflash-", "dspark-"};
    size_t stem;
    if (!has_gguf_ending(name)) return false;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (strstr(name, others[i])) return false;
    return part_number(name, &stem) <= 1;
}

bool gguf_is_part_of(const char *name, const char *first)
{
    size_t stem, first_stem;
    if (!has_gguf_ending(name) || !part_number(name, &stem) || !part_number(first, &first_stem))
        return strcmp(name, first) == 0;
    const size_t count = stem + strlen("-00001");
    return stem == first_stem && strncmp(name, first, stem) == 0 &&
           strcmp(name + count, first + count) == 0;
}

int gguf_mmproj_rank(const char *name)
{
    static const char *const kinds[] = {"bf16", "f16", "q8_0", "f32"};
    for (int i = 0; i < 4; i++)
        if (gguf_tag_matches(name, kinds[i])) return i;
    return 4;
}

bool gguf_tag_matches(const char *name, const char *tag)
{
    const size_t n = strlen(tag);
    for (const char *at = name; *at; at++) {
        if (strncasecmp(at, tag, n) != 0) continue;
        if ((at == name || strchr("/-.", at[-1])) && (at[n] == '-' || at[n] == '.')) return true;
    }
    return false;
}

void gguf_tag_of(char *out, size_t size, const char *name)
{
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name, *begin;
    size_t stem;
    part_number(base, &stem);
    for (begin = base + stem; begin > base && begin[-1] != '-' && begin[-1] != '.'; begin--)
        ;
    /* "UD-Q4_K_XL" is one tag */
    if (begin - base > 3 && strncmp(begin - 4, "-UD-", 4) == 0) begin -= 3;
    snprintf(out, size, "%.*s", (int)(base + stem - begin), begin);
}

int gguf_choose_name(const char *const *names, int n, const char *tag)
{
    static const char *const usual[] = {"Q4_K_M", "Q8_0"};
    for (int i = 0; tag && i < n; i++)
        if (gguf_tag_matches(names[i], tag)) return i;
    for (int k = 0; !tag && k < 2; k++)
        for (int i = 0; i < n; i++)
            if (gguf_tag_matches(names[i], usual[k])) return i;
    return !tag && n ? 0 : -1;
}

/* ---- folders ---- */

struct file_names {
    char **name; /* [n], ascending */
    int n;
};

static void free_names(struct file_names *list)
{
    for (int i = 0; i < list->n; i++)
        free(list->name[i]);
    free(list->name);
}

static int compare_file_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool add_name(struct file_names *list, const char *name)
{
    char *copy = strdup(name);
    char **more = copy ? realloc(list->name, (size_t)(list->n + 1) * sizeof(*more)) : NULL;
    if (!more) return free(copy), false;
    list->name = more;
    list->name[list->n++] = copy;
    return true;
}

/* Collects the GGUF files of a folder and of its subfolders ("Q8_0/model.gguf"). Returns false
 * if memory runs out. */
static bool read_names(struct file_names *list, const char *directory, const char *below)
{
    bool ok = true;
    char path[EY_MAX_PATH], name[EY_MAX_PATH];
    if (below ? !path_join(path, directory, below, NULL)
              : snprintf(path, sizeof(path), "%s", directory) >= (int)sizeof(path))
        return true;
    DIR *d = opendir(path);
    if (!d) return true;
    for (struct dirent *entry; ok && (entry = readdir(d));) {
        if (entry->d_name[0] == '.' ||
            snprintf(name, sizeof(name), "%s%s%s", below ? below : "", below ? "/" : "",
                     entry->d_name) >= (int)sizeof(name))
            continue;
        char whole[EY_MAX_PATH];
        if (!path_join(whole, directory, name, NULL)) continue;
        if (!below && path_is_directory(whole))
            ok = read_names(list, directory, entry->d_name);
        else if (gguf_is_model_name(name) && path_is_file(whole))
            ok = add_name(list, name);
    }
    closedir(d);
    return ok;
}

static bool names_in(struct file_names *list, const char *directory, ey_err *e)
{
    *list = (struct file_names){0};
    if (!read_names(list, directory, NULL)) {
        free_names(list);
        return ey_fail_memory(e, "names of files", 0);
    }
    if (list->n) qsort(list->name, (size_t)list->n, sizeof(*list->name), compare_file_names);
    return true;
}

static bool fail_choice(const struct file_names *list, const char *directory, const char *tag,
                        ey_err *e)
{
    char shown[SHOWN_TAGS] = "", one[TAG_BYTES];
    if (!list->n) return ey_fail(e, EY_NOT_FOUND, "%s: the directory has no GGUF model", directory);
    for (int i = 0; i < list->n; i++) {
        const size_t n = strlen(shown);
        gguf_tag_of(one, sizeof(one), list->name[i]);
        snprintf(shown + n, sizeof(shown) - n, "%s%s", i ? ", " : "", one);
    }
    if (tag)
        return ey_fail(e, EY_NOT_FOUND, "%s: no GGUF file has the tag %s; the tags are: %s",
                       directory, tag, shown);
    return ey_fail(e, EY_BAD_REQUEST,
                   "%s: the directory has several GGUF files; give the path of one (tags: %s)",
                   directory, shown);
}

bool gguf_choose_file(char *out, const char *directory, const char *tag, bool usual, ey_err *e)
{
    struct file_names list;
    if (!names_in(&list, directory, e)) return false;
    const int at = tag || usual || list.n == 1
                       ? gguf_choose_name((const char *const *)list.name, list.n, tag)
                       : -1;
    const bool ok = at >= 0 ? path_join(out, directory, list.name[at], e)
                            : fail_choice(&list, directory, tag, e);
    free_names(&list);
    return ok;
}

bool gguf_each_file(const char *directory, bool (*fn)(void *user, const char *path), void *user)
{
    struct file_names list;
    bool ok = true;
    if (!names_in(&list, directory, NULL)) return true;
    for (int i = 0; ok && i < list.n; i++) {
        char path[EY_MAX_PATH];
        if (path_join(path, directory, list.name[i], NULL)) ok = fn(user, path);
    }
    free_names(&list);
    return ok;
}
