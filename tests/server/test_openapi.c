/* SPDX-License-Identifier: Apache-2.0 */
/* /openapi.json describes each route and nothing else. */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "server/page/page_files.h"
#include "server/routes.h"

static json_object *document, *paths;

static int parse_document(void **state)
{
    (void)state;
    for (size_t i = 0; i < n_page_files; i++) {
        ey_err e;
        if (strcmp(page_files[i].path, "/openapi.json") != 0) continue;
        document = json_parse((const char *)page_files[i].bytes, page_files[i].n, "openapi.json",
                              EY_BAD_MODEL, &e);
        if (!document) print_error("%s\n", e.text);
    }
    paths = document ? json_member_of_type(document, "paths", json_type_object) : NULL;
    return paths ? 0 : -1;
}

static int free_document(void **state)
{
    (void)state;
    return json_object_put(document) == 1 ? 0 : -1;
}

/* The target of a reference within the document, "#/a/b~1c". */
static json_object *referred(const char *reference)
{
    json_object *at = document;
    assert_memory_equal(reference, "#/", 2);
    for (const char *part = reference + 2; part;) {
        char key[128];
        size_t n = 0, length = strcspn(part, "/");
        for (size_t i = 0; i < length && n + 1 < sizeof(key); i++) {
            bool escape = part[i] == '~';
            key[n++] = !escape ? part[i] : part[i + 1] == '1' ? '/' : '~';
            i += escape;
        }
        key[n] = 0;
        at = json_member(at, key);
        if (!at) fail_msg("%s has no target", reference);
        part = part[length] ? part + length + 1 : NULL;
    }
    return at;
}

/* The path item, after resolving a reference. */
static json_object *path_item(json_object *item)
{
    json_object *reference = json_member_of_type(item, "$ref", json_type_string);
    return reference ? referred(json_object_get_string(reference)) : item;
}

static void lower(char out[16], const char *method)
{
    size_t n = 0;
    for (; method[n] && n < 15; n++)
        out[n] = (char)tolower((unsigned char)method[n]);
    out[n] = 0;
}

/* The description of a route: "/v1/models/{model}" describes "/v1/models/" with any end. */
static json_object *described(const struct route *r)
{
    json_object_object_foreach(paths, path, item)
    {
        size_t n = strcspn(path, "{");
        bool same_end = (r->flags & ROUTE_ANY_END) ? path[n] == '{' : !path[n];
        if (same_end && strlen(r->path) == n && memcmp(path, r->path, n) == 0)
            return path_item(item);
    }
    return NULL;
}

static void every_route_is_described(void **state)
{
    (void)state;
    const struct route *r;
    for (size_t i = 0; (r = route_at(i)); i++) {
        char method[16];
        json_object *item = described(r);
        lower(method, r->method);
        json_object *operation = item ? json_member(item, method) : NULL;
        if (!operation) fail_msg("openapi.json lacks %s %s", r->method, r->path);
        /* open routes say that they need no key */
        json_object *security = json_member(operation, "security");
        bool open = security && json_object_array_length(security) == 0;
        if (open != !!(r->flags & ROUTE_OPEN))
            fail_msg("%s %s: openapi.json is wrong about its key", r->method, r->path);
    }
}

static bool is_page_file(const char *path)
{
    for (size_t i = 0; i < n_page_files; i++)
        if (strcmp(page_files[i].path, path) == 0) return true;
    return false;
}

static void every_description_is_a_route(void **state)
{
    (void)state;
    static const char *const methods[] = {"GET", "POST", "DELETE", "PUT", "PATCH"};
    json_object_object_foreach(paths, path, item)
    {
        char sample[160];
        size_t n = strcspn(path, "{");
        snprintf(sample, sizeof(sample), "%.*s%s", (int)n, path, path[n] ? "x" : "");
        for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
            char method[16];
            const char *allow;
            lower(method, methods[i]);
            if (!json_member(path_item(item), method)) continue;
            const struct route *r = route_find(methods[i], sample, &allow);
            bool same = r && strlen(r->path) == n;
            if (!same && !is_page_file(path)) fail_msg("%s %s is not a route", methods[i], path);
        }
    }
}

static void check_references(json_object *value)
{
    if (json_object_is_type(value, json_type_array))
        for (size_t i = 0; i < json_object_array_length(value); i++)
            check_references(json_object_array_get_idx(value, i));
    if (!json_object_is_type(value, json_type_object)) return;
    json_object_object_foreach(value, key, member)
    {
        if (strcmp(key, "$ref") == 0 && json_object_is_type(member, json_type_string))
            assert_non_null(referred(json_object_get_string(member)));
        check_references(member);
    }
}

static void references_have_targets(void **state)
{
    (void)state;
    check_references(document);
}

static void the_document_has_this_version(void **state)
{
    (void)state;
    json_object *info = json_member(document, "info");
    assert_string_equal(json_object_get_string(json_member(info, "version")), EY_VERSION);
    assert_string_equal(json_object_get_string(json_member(document, "openapi")), "3.1.0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_route_is_described),
        cmocka_unit_test(every_description_is_a_route),
        cmocka_unit_test(references_have_targets),
        cmocka_unit_test(the_document_has_this_version),
    };
    return cmocka_run_group_tests(tests, parse_document, free_document);
}
