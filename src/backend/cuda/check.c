/* SPDX-License-Identifier: Apache-2.0 */
/* Which kernels may be used on this card: those that passed their trial. It is held at the first
 * start on a card that this build has not seen, and what it found is kept in the user's cache; a
 * card that died of a kernel is told the same way, so that the next start does without it. */
#include "backend/cuda/check.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/cuda/images.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/limits.h"

/* ---- the families' names ---- */

static void name_family(struct kernel_verdict *v, int family)
{
    static const char *const names[FAMILY_GEMM] = {"plain_linear",
                                                   "append",
                                                   "attend_plain",
                                                   "vision_attend_plain",
                                                   "norm_rows",
                                                   "merge_norm",
                                                   "embed",
                                                   "candidates",
                                                   "unpack_int4",
                                                   "gemv_fp8",
                                                   "gemv_bf16",
                                                   "gemv_int8",
                                                   "gemv_int4",
                                                   "gemv1",
                                                   "attend_64",
                                                   "attend_128",
                                                   "attend_64_fp8",
                                                   "attend_128_fp8",
                                                   "decode_64",
                                                   "decode_128",
                                                   "decode_64_fp8",
                                                   "decode_128_fp8",
                                                   "vision_attend_64",
                                                   "vision_attend_80",
                                                   "score_again",
                                                   "gemm_e4m3"};
    const struct gemm_tile *tile = family >= FAMILY_GEMM ? gemm_tile((enum gemm_tile_kind)(
                                                               (family - FAMILY_GEMM) % GEMM_TILES))
                                                         : NULL;
    const char *name = !tile                               ? names[family]
                       : family - FAMILY_GEMM < GEMM_TILES ? tile->fp8
                                                           : tile->bf16;
    snprintf(v->name, sizeof(v->name), "%s", name);
    if (family >= FAMILY_GEMM)
        v->instead = "another tile, or plain_linear";
    else if (family == FAMILY_EXACT)
        v->instead = "the host";
    else if (family == FAMILY_E4M3)
        v->instead = "gemm_fp8 (BF16)";
    else if (family >= FAMILY_VISION)
        v->instead = "vision_attend_plain";
    else if (family >= FAMILY_DECODE)
        v->instead = "append and attend";
    else if (family >= FAMILY_ATTEND)
        v->instead = "attend_plain";
    else if (family == FAMILY_GEMV1)
        v->instead = "gemv_fp8";
    else if (family >= FAMILY_GEMV)
        v->instead = family - FAMILY_GEMV == 2 ? "plain_linear" : "gemm";
}

static struct kernel_report untried(const struct cuda *c)
{
    struct kernel_report r = {.n = CUDA_FAMILIES};
    for (int i = 0; i < CUDA_FAMILIES; i++) {
        name_family(&r.family[i], i);
        r.family[i].absent = cuda_lacks_family(c, i);
    }
    return r;
}

/* ---- what it was found with ---- */

/* A sum of the kernels' bytes, a word at a time: it names a build, nobody forges it. */
static uint64_t images_sum(void)
{
    uint64_t sum = 0xcbf29ce484222325u;
    for (const struct cuda_image *image = cuda_images; image->name; image++)
        for (size_t at = 0; at < image->size; at += sizeof(uint64_t)) {
            uint64_t word = 0;
            memcpy(&word, (const char *)image->data + at,
                   image->size - at < sizeof(word) ? image->size - at : sizeof(word));
            sum = (sum ^ word) * 0x100000001b3u;
            sum ^= sum >> 29;
        }
    return sum;
}

static void make_key(char key[320], const struct cuda *c)
{
    int driver = 0;
    c->driver.driver_version(&driver);
    snprintf(key, 320, "%.160s; driver %d; eyelet %s, kernels %016" PRIx64, c->detail, driver,
             EY_VERSION, images_sum());
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

static bool verdict_path(char out[EY_MAX_PATH], const char *key)
{
    char folder[EY_MAX_PATH];
    uint64_t sum = 0xcbf29ce484222325u;
    for (const char *p = key; *p; p++)
        sum = (sum ^ (unsigned char)*p) * 0x100000001b3u;
    int n = cache_folder(folder)
                ? snprintf(out, EY_MAX_PATH, "%s/kernels-%016" PRIx64 ".json", folder, sum)
                : -1;
    return n > 0 && n < EY_MAX_PATH;
}

static void read_verdict(struct kernel_verdict *v, const json_object *families)
{
    const json_object *error = json_member(families, v->name);
    json_object *unused;
    if (!json_object_object_get_ex(families, v->name, &unused)) return;
    v->tried = true;
    v->error = INFINITY;
    if (json_object_is_type(error, json_type_double) || json_object_is_type(error, json_type_int))
        v->error = (float)json_object_get_double(error);
}

/* Of another key, or unreadable: nothing is known. */
static bool read_verdicts(struct kernel_report *r, const char *key)
{
    char path[EY_MAX_PATH];
    json_object *json = verdict_path(path, key) && access(path, R_OK) == 0
                            ? json_parse_file(path, EY_IO, NULL)
                            : NULL;
    const json_object *found_key = json_member_of_type(json, "key", json_type_string);
    const json_object *families = json_member_of_type(json, "errors", json_type_object),
                      *failed = json_member_of_type(json, "failed", json_type_object);
    bool ours = found_key && families && failed &&
                strcmp(json_object_get_string((json_object *)(uintptr_t)found_key), key) == 0;
    for (int i = 0; ours && i < r->n; i++) {
        read_verdict(&r->family[i], families);
        r->family[i].failed = r->family[i].tried &&
                              json_object_get_boolean(json_member(failed, r->family[i].name));
    }
    json_object_put(json);
    return ours;
}

static void add_verdicts(struct buf *out, const struct kernel_report *r, const char *key)
{
    const char *comma = "";
    buf_add_text(out, "{\"key\": ");
    json_dump_string(out, key, strlen(key));
    buf_add_text(out, ",\n \"errors\": {");
    for (int i = 0; i < r->n; i++) {
        const struct kernel_verdict *v = &r->family[i];
        if (!v->tried) continue;
        buf_printf(out, "%s\"%s\": ", comma, v->name);
        comma = ", ";
        if (isfinite(v->error))
            buf_printf(out, "%.3e", (double)v->error);
        else
            buf_add_text(out, "null");
    }
    buf_add_text(out, "},\n \"failed\": {");
    comma = "";
    for (int i = 0; i < r->n; i++)
        if (r->family[i].failed) {
            buf_printf(out, "%s\"%s\": true", comma, r->family[i].name);
            comma = ", ";
        }
    buf_add_text(out, "}}\n");
}

static bool write_file(const char *path, const struct buf *text)
{
    char other[EY_MAX_PATH + 16];
    snprintf(other, sizeof(other), "%s.%ld", path, (long)getpid());
    FILE *f = fopen(other, "w");
    bool ok = f && fwrite(text->data, 1, text->size, f) == text->size;
    ok = f && fclose(f) == 0 && ok && rename(other, path) == 0;
    if (f && !ok) unlink(other);
    return ok;
}

/* A cache that cannot be written costs the next start a trial, no more. */
static void write_verdicts(const struct kernel_report *r, const char *key)
{
    char path[EY_MAX_PATH], folder[EY_MAX_PATH];
    struct buf text = buf_with_max(1 << 16);
    if (!cache_folder(folder) || !verdict_path(path, key)) return;
    for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(folder, 0700);
        *slash = '/';
    }
    mkdir(folder, 0700);
    add_verdicts(&text, r, key);
    if (!text.failed) write_file(path, &text);
    buf_free(&text);
}

/* ---- the check ---- */

static bool is_complete(const struct kernel_report *r)
{
    bool all = true;
    for (int i = 0; i < r->n; i++)
        all &= r->family[i].tried || r->family[i].absent;
    return all;
}

static void use_what_works(struct cuda *c, struct kernel_report *r)
{
    c->failed_families = 0;
    r->n_failed = 0;
    for (int i = 0; i < r->n; i++)
        if (r->family[i].failed) {
            c->failed_families |= UINT64_C(1) << i;
            r->n_failed++;
        }
}

/* False: a kernel failed that nothing can replace. */
static bool can_be_used(const struct kernel_report *r, ey_err *e)
{
    for (int i = 0; i < r->n; i++)
        if (r->family[i].failed && !r->family[i].instead)
            return ey_fail(e, EY_INTERNAL,
                           "this card computes wrongly: kernel %s is off by %.2g (eyelet doctor "
                           "--kernels tries it again); "
                           "--device cpu works without it, and please report it",
                           r->family[i].name, (double)r->family[i].error);
    return true;
}

static bool hold_trial(struct cuda *c, struct kernel_report *r, const char *key, ey_err *e)
{
    ey_err died;
    double start = seconds_now();
    bool ok = cuda_try_families(c, r, &died);
    r->seconds = seconds_now() - start;
    if (!ok && died.code == EY_NO_MEMORY)
        return true; /* too full for a trial now: the plan will say so */
    write_verdicts(r, key);
    if (ok) return true;
    return ey_fail(e, EY_INTERNAL,
                   "the card stopped while its kernels were tried: %.300s; the next start does "
                   "without that kernel",
                   died.text);
}

bool backend_cuda_check(struct backend *be, bool again, struct kernel_report *out, ey_err *e)
{
    struct cuda *c = cuda_of(be);
    char key[320];
    *out = untried(c);
    make_key(key, c);
    bool known = !again && read_verdicts(out, key);
    out->cached = known && is_complete(out);
    if (known && !can_be_used(out, e)) return false;
    if (!out->cached && !hold_trial(c, out, key, e)) return false;
    use_what_works(c, out);
    return can_be_used(out, e);
}
