/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the processor, the host memory and the file systems. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/open/open_backend.h"
#include "base/memory.h"
#include "base/system.h"
#include "checkpoint/hf_cache.h"
#include "doctor/doctor_findings.h"

#define GIB 1073741824.0
/* Enough for the demo model, or for what a model on a GPU needs in host memory. */
#define MIN_HOST_MEMORY (0.5 * GIB)
/* Enough for the 2B model on the CPU; with less, weights are read from the disk for every token. */
#define COMFORTABLE_HOST_MEMORY (4 * GIB)
#define MIN_DISK_SPACE (6 * GIB) /* the download of a 4B model */

static void check_wsl2(ey_diagnosis *out)
{
    if (!system_is_wsl2()) return;
    double all = (double)system_memory();
    ey_finding *f = finding_add(out, "wsl2", all < 8 * GIB ? EY_FINDING_WARNING : EY_FINDING_NOTE);
    finding_text(f,
                 "WSL2: Linux may use %.1f GiB of the computer's memory; Windows' default is half "
                 "of it",
                 all / GIB);
    finding_remedy(f, "for more, write [wsl2] and memory=12GB into .wslconfig in the Windows "
                      "user's folder, then run wsl --shutdown");
    finding_value(f, all, "bytes");
}

static bool check_cpu(ey_diagnosis *out)
{
    char name[96];
    ey_err e;
    struct pool *pool = NULL;
    struct backend *be = NULL;
    system_cpu_name(name, sizeof(name));
    bool ok = pool_create(&pool, 0, &e) &&
              backend_open(&be, "cpu", &(struct backend_options){.pool = pool}, &e);
    ey_finding *f = finding_add(out, "processor", ok ? EY_FINDING_GOOD : EY_FINDING_BAD);
    if (ok)
        finding_text(f, "%s, %d threads, kernels for %s", name[0] ? name : "a processor",
                     pool_threads(pool), be->ops->detail(be));
    else
        finding_text(f, "%.200s", e.text);
    if (ok && strcmp(be->ops->detail(be), "generic") == 0) {
        f->level = EY_FINDING_WARNING;
        finding_remedy(
            f, "the processor lacks AVX2, or a virtual machine hides it: models run several "
               "times slower than with it");
    }
    if (be) be->ops->destroy(be);
    pool_destroy(&pool);
    return ok;
}

static bool check_host_memory(ey_diagnosis *out)
{
    uint64_t available = memory_available();
    bool known = available != UINT64_MAX, enough = !known || (double)available >= MIN_HOST_MEMORY,
         comfortable = !known || (double)available >= COMFORTABLE_HOST_MEMORY;
    ey_finding *f = finding_add(out, "memory",
                                comfortable ? EY_FINDING_GOOD
                                : enough    ? EY_FINDING_WARNING
                                            : EY_FINDING_BAD);
    if (known)
        finding_text(f, "%.1f of %.1f GiB of memory are available", (double)available / GIB,
                     (double)system_memory() / GIB);
    else
        finding_text(f, "the system does not report how much memory is available");
    if (!comfortable)
        finding_remedy(f, "close other programs: the 2B model on the processor needs %.0f GiB",
                       COMFORTABLE_HOST_MEMORY / GIB);
    if (known) finding_value(f, (double)available, "bytes");
    return enough;
}

static void check_windows_mount(ey_diagnosis *out, const char *name, const char *path)
{
    if (!system_is_9p(path)) return;
    ey_finding *f = finding_add(out, name, EY_FINDING_WARNING);
    finding_text(f,
                 "%.150s is in a Windows folder, which WSL2 reads about twenty times slower than "
                 "a Linux folder",
                 path);
    finding_remedy(
        f, "copy it to a Linux folder such as ~/.cache/huggingface/hub, and set HF_HUB_CACHE or "
           "--model to that folder");
}

static void check_hf_cache(ey_diagnosis *out)
{
    char cache[EY_MAX_PATH];
    uint64_t bytes;
    ey_err e;
    if (!hf_cache_directory(cache, &e)) {
        finding_text(finding_add(out, "cache", EY_FINDING_WARNING), "%.200s", e.text);
        return;
    }
    if (!system_free_space(cache, &bytes)) return;
    bool enough = (double)bytes >= MIN_DISK_SPACE;
    ey_finding *f = finding_add(out, "cache", enough ? EY_FINDING_GOOD : EY_FINDING_WARNING);
    finding_text(f, "models are kept in %.150s, where %.1f GiB are free", cache,
                 (double)bytes / GIB);
    if (!enough)
        finding_remedy(
            f, "a 4B model takes %.0f GiB: free some space, or set HF_HOME to a larger disk",
            MIN_DISK_SPACE / GIB);
    finding_value(f, (double)bytes, "bytes");
    check_windows_mount(out, "cache_mount", cache);
}

bool doctor_check_host(ey_diagnosis *out, const char *model)
{
    char directory[EY_MAX_PATH];
    check_wsl2(out);
    bool processor = check_cpu(out), memory = check_host_memory(out);
    check_hf_cache(out);
    if (model && model_directory_find(directory, model, NULL))
        check_windows_mount(out, "model_mount", directory);
    return processor && memory;
}
