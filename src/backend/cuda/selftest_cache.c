/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which kernels are used on this GPU: those that passed the self-test. It runs at the first
 * start of a build on a kind of GPU, and its results are cached in the user's cache folder. A
 * kernel that crashes the GPU is cached too, so that the next start avoids it. */
#include "backend/cuda/selftest.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/cuda/cuda_fatbins.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/text/json_writer.h"
#include "base/limits.h"

/* Whether the build lacks one of the family's own kernels. */
static bool lacks_family(const struct cuda *c, enum gpu_family family)
{
    for (int i = 1; i < GPU_KERNELS; i++)
        if (gpu_kernel_info((enum gpu_kernel)i)->family == family && !c->function[i]) return true;
    return false;
}

static struct selftest_report untested_report(const struct cuda *c)
{
    static const struct {
        const char *name, *fallback;
    } families[GPU_FAMILIES] = {
#define GPU_FAMILY(id, name, fallback) {name, fallback},
#include "kernels/cuda/common/gpu_kernels.def"
    };
    struct selftest_report r = {.n = GPU_FAMILIES};
    for (int i = 0; i < GPU_FAMILIES; i++) {
        snprintf(r.kernel[i].name, sizeof(r.kernel[i].name), "%s", families[i].name);
        r.kernel[i].fallback = families[i].fallback;
        r.kernel[i].absent = lacks_family(c, (enum gpu_family)i);
    }
    return r;
}

/* ---- the key: build, GPU and driver ---- */

/* Hashes the kernels' bytes to identify a build; needs no protection against forgery. */
static uint64_t fatbins_hash(void)
{
    uint64_t hash = FNV1A_64_START;
    for (const struct cuda_fatbin *fatbin = cuda_fatbins; fatbin->name; fatbin++)
        hash = fnv1a_64(hash, fatbin->data, fatbin->size);
    return hash;
}

static void make_key(char key[320], const struct cuda *c)
{
    int driver = 0;
    c->driver.driver_version(&driver);
    snprintf(key, 320, "%.160s; driver %d; eyelet %s, kernels %016" PRIx64, c->detail, driver,
             EY_VERSION, fatbins_hash());
}

/* ---- the file ---- */

static bool cache_folder(char out[EY_MAX_PATH])
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = -1;
    if (cache && cache[0] == '/')
        n = snprintf(out, EY_MAX_PATH, "%s/eyelet", cache);
    else if (home && home[0] == '/')
        n = snprintf(out, EY_MAX_PATH, "%s/.cache/eyelet", home);
    return n > 0 && n < EY_MAX_PATH;
}

static bool selftest_cache_path(char out[EY_MAX_PATH], const char *key)
{
    char folder[EY_MAX_PATH];
    uint64_t hash = fnv1a_64(FNV1A_64_START, key, strlen(key));
    int n = cache_folder(folder)
                ? snprintf(out, EY_MAX_PATH, "%s/kernels-%016" PRIx64 ".json", folder, hash)
                : -1;
    return n > 0 && n < EY_MAX_PATH;
}

static void read_cached_result(struct selftest_result *v, const json_object *kernels)
{
    const json_object *error = json_member(kernels, v->name);
    json_object *unused;
    if (!json_object_object_get_ex(kernels, v->name, &unused)) return;
    v->was_run = true;
    v->error = INFINITY;
    if (json_object_is_type(error, json_type_double) || json_object_is_type(error, json_type_int))
        v->error = (float)json_object_get_double(error);
}

/* Fails for another key or an unreadable file: nothing is known then. */
static bool read_cached_results(struct selftest_report *r, const char *key)
{
    char path[EY_MAX_PATH];
    json_object *json = selftest_cache_path(path, key) && access(path, R_OK) == 0
                            ? json_parse_file(path, EY_IO, NULL)
                            : NULL;
    const json_object *found_key = json_member_of_type(json, "key", json_type_string);
    const json_object *kernels = json_member_of_type(json, "errors", json_type_object),
                      *failed = json_member_of_type(json, "failed", json_type_object);
    bool ours = found_key && kernels && failed &&
                strcmp(json_object_get_string((json_object *)(uintptr_t)found_key), key) == 0;
    for (int i = 0; ours && i < r->n; i++) {
        read_cached_result(&r->kernel[i], kernels);
        r->kernel[i].failed = r->kernel[i].was_run &&
                              json_object_get_boolean(json_member(failed, r->kernel[i].name));
    }
    json_object_put(json);
    return ours;
}

static void add_results(struct buf *out, const struct selftest_report *r, const char *key)
{
    struct json_writer w = json_write_to(out, JSON_INDENTED);
    json_open_object(&w);
    json_add_string(&w, "key", key);
    json_write_key(&w, "errors");
    json_open_object(&w);
    for (int i = 0; i < r->n; i++)
        if (r->kernel[i].was_run)
            json_add_digits(&w, r->kernel[i].name, (double)r->kernel[i].error, 4);
    json_close_object(&w);
    json_write_key(&w, "failed");
    json_open_object(&w);
    for (int i = 0; i < r->n; i++)
        if (r->kernel[i].failed) json_add_bool(&w, r->kernel[i].name, true);
    json_close_object(&w);
    json_close_object(&w);
    buf_add_text(out, "\n");
}

static bool write_cache_file(const char *path, const struct buf *text)
{
    char other[EY_MAX_PATH + 16];
    snprintf(other, sizeof(other), "%s.%ld", path, (long)getpid());
    FILE *f = fopen(other, "w");
    bool ok = f && fwrite(text->data, 1, text->size, f) == text->size;
    ok = f && fclose(f) == 0 && ok && rename(other, path) == 0;
    if (f && !ok) unlink(other);
    return ok;
}

/* Ignores errors: a cache that cannot be written only costs another self-test at the next start. */
static void write_cached_results(const struct selftest_report *r, const char *key)
{
    char path[EY_MAX_PATH], folder[EY_MAX_PATH];
    struct buf text = buf_with_max(1 << 16);
    if (!cache_folder(folder) || !selftest_cache_path(path, key)) return;
    for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(folder, 0700);
        *slash = '/';
    }
    mkdir(folder, 0700);
    add_results(&text, r, key);
    if (!text.failed) write_cache_file(path, &text);
    buf_free(&text);
}

/* ---- the check ---- */

static bool is_complete(const struct selftest_report *r)
{
    bool all = true;
    for (int i = 0; i < r->n; i++)
        all &= r->kernel[i].was_run || r->kernel[i].absent;
    return all;
}

static void disable_failed_kernels(struct cuda *c, struct selftest_report *r)
{
    c->failed_families = 0;
    r->n_failed = 0;
    for (int i = 0; i < r->n; i++)
        if (r->kernel[i].failed) {
            c->failed_families |= UINT64_C(1) << i;
            r->n_failed++;
        }
}

/* Fails if a failed kernel has no replacement. */
static bool can_be_used(const struct selftest_report *r, ey_err *e)
{
    for (int i = 0; i < r->n; i++)
        if (r->kernel[i].failed && !r->kernel[i].fallback)
            return ey_fail(e, EY_INTERNAL,
                           "this GPU computes wrongly: kernel %s is off by %.2g (eyelet doctor "
                           "--kernels tests it again); use --device cpu, and please report this",
                           r->kernel[i].name, (double)r->kernel[i].error);
    return true;
}

static bool run_selftest(struct cuda *c, struct backend *reference, struct selftest_report *r,
                         const char *key, ey_err *e)
{
    ey_err died;
    double start = seconds_now();
    bool ok = cuda_selftest_run(c, reference, r, &died);
    r->seconds = seconds_now() - start;
    if (!ok && died.code == EY_NO_MEMORY)
        return true; /* GPU too full for the self-test: the plan will report it */
    write_cached_results(r, key);
    if (ok) return true;
    return ey_fail(
        e, EY_INTERNAL,
        "the GPU stopped during the self-test of its kernels: %.300s; the next start does "
        "without that kernel",
        died.text);
}

bool cuda_selftest(struct backend *be, struct backend *reference, bool again,
                   struct selftest_report *out, ey_err *e)
{
    struct cuda *c = cuda_of(be);
    char key[320];
    *out = untested_report(c);
    make_key(key, c);
    bool known = !again && read_cached_results(out, key);
    out->cached = known && is_complete(out);
    if (known && !can_be_used(out, e)) return false;
    if (!out->cached && !run_selftest(c, reference, out, key, e)) return false;
    disable_failed_kernels(c, out);
    return can_be_used(out, e);
}
