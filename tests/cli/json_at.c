/* SPDX-License-Identifier: Apache-2.0 */
/* json_at KEY..., for shell tests: reads one JSON value a line from standard input and prints, for
 * each line, the values at the keys (a.b.0.c), separated by tabs. A last part "keys" lists the
 * members. Exit status 1: not JSON, or no such key. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/text/json_writer.h"

static const json_object *child(const json_object *value, const char *key)
{
    if (json_object_get_type(value) != json_type_array)
        return json_object_object_get((json_object *)value, key);
    return json_object_array_get_idx((json_object *)value, (size_t)atoi(key));
}

static void print_keys(const json_object *value)
{
    const char *separator = "";
    json_object_object_foreach((json_object *)value, key, member)
    {
        (void)member;
        printf("%s%s", separator, key);
        separator = ",";
    }
}

static void print_value(const json_object *value)
{
    struct buf text = buf_with_max(1 << 26);
    json_dump(&text, value);
    fputs(text.data, stdout);
    buf_free(&text);
}

static bool print_at(const json_object *value, const char *path)
{
    char copy[256];
    snprintf(copy, sizeof(copy), "%s", path);
    for (char *key = strtok(copy, "."); key; key = strtok(NULL, ".")) {
        if (strcmp(key, "keys") == 0) return print_keys(value), true;
        if (strcmp(key, "length") == 0) return printf("%zu", json_object_array_length(value)) > 0;
        json_object *found = NULL;
        if (json_object_is_type(value, json_type_object) &&
            !json_object_object_get_ex((json_object *)value, key, &found))
            return false;
        value = child(value, key);
    }
    print_value(value);
    return true;
}

static bool print_line(const char *line, size_t n, int argc, char **argv)
{
    ey_err e;
    json_object *value = json_parse(line, n, "standard input", EY_BAD_REQUEST, &e);
    bool ok = value != NULL;
    if (!ok) fprintf(stderr, "json_at: %s\n", e.text);
    for (int i = 1; ok && i < argc; i++) {
        if (i > 1) putchar('\t');
        ok = print_at(value, argv[i]);
        if (!ok) fprintf(stderr, "json_at: no value at %s\n", argv[i]);
    }
    putchar('\n');
    json_object_put(value);
    return ok;
}

int main(int argc, char **argv)
{
    char *line = NULL;
    size_t capacity = 0;
    ssize_t n;
    bool ok = true, any = false;
    while ((n = getline(&line, &capacity, stdin)) > 0) {
        any = true;
        ok = print_line(line, (size_t)n, argc, argv) && ok;
    }
    free(line);
    return ok && any ? 0 : 1;
}
