/* SPDX-License-Identifier: Apache-2.0 */
/* The card: whether it can be used, who holds its memory, how fast that is and whether its kernels
 * compute what they should. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backend/backend.h"
#include "backend/cuda/nvml.h"
#include "base/system.h"
#include "engine/doctor.h"
#include "plan/facts.h"

#define MIB 1048576.0
enum { SLICE = 256 << 20, MOST_SLICES = 4, ROUNDS = 3, SLOWER = 5 };
#define LEAST_FREE ((uint64_t)2000 << 20) /* with less than this no official model fits */

/* ---- the card ---- */

static void look_at_driver(ey_diagnosis *out, const struct nvml *nvml, bool nvml_there)
{
    char version[96];
    if (nvml_there && nvml->driver_version(version, sizeof(version)) == 0)
        finding_text(finding_add(out, "driver", EY_FINDING_GOOD), "NVIDIA driver %.90s", version);
    else
        finding_text(finding_add(out, "driver", EY_FINDING_NOTE),
                     "libnvidia-ml.so.1 does not answer: who uses the card cannot be told");
}

/* ---- its memory ---- */

static void add_holder(ey_diagnosis *out, const struct nvml_process *p)
{
    char name[64];
    ey_finding *f = finding_add(out, "card_holder", EY_FINDING_NOTE);
    system_process_name(name, sizeof(name), p->pid);
    if (!name[0]) snprintf(name, sizeof(name), "a process that cannot be seen from here");
    finding_text(f, "%.0f MiB held by %s (pid %u)", (double)p->bytes / MIB, name, p->pid);
    finding_remedy(
        f, "close it, or let it use the processor's own graphics, to have them for a model");
    finding_value(f, (double)p->bytes, "bytes");
}

/* Bytes of the holders that are known. */
static uint64_t look_at_holders(ey_diagnosis *out, const struct nvml *nvml,
                                const struct cuda_facts *card)
{
    enum { WORTH_TELLING = 32 << 20, MOST = 12 };
    struct nvml_process list[NVML_PROCESSES];
    int n = nvml_processes(nvml, card->bus, list);
    uint64_t sum = 0;
    for (int i = 0; i < n; i++) {
        if (list[i].pid == (unsigned)getpid() || list[i].bytes == NVML_NOT_KNOWN) continue;
        sum += list[i].bytes;
        if (list[i].bytes >= WORTH_TELLING && i < MOST) add_holder(out, &list[i]);
    }
    return sum;
}

/* What is neither free, nor this process's, nor a holder's that is known. */
static void look_at_rest(ey_diagnosis *out, const struct cuda_facts *card, uint64_t known)
{
    const uint64_t worth_telling = (uint64_t)64 << 20;
    uint64_t used = card->total - card->free, ours = facts_context(card->sm_count) + known,
             rest = used > ours ? used - ours : 0;
    if (rest < worth_telling) return;
    bool wsl2 = system_is_wsl2();
    ey_finding *f = finding_add(out, "card_held_outside", EY_FINDING_NOTE);
    finding_text(f, "%.0f MiB are held %s", (double)rest / MIB,
                 wsl2 ? "by Windows and its programs, which cannot be listed from WSL2"
                      : "by the system or by processes that cannot be listed");
    if (wsl2)
        finding_remedy(f, "Windows' task manager lists them (details, dedicated GPU memory): close "
                          "browsers and games");
    finding_value(f, (double)rest, "bytes");
}

static bool look_at_memory(ey_diagnosis *out, const struct cuda_facts *card)
{
    uint64_t left = card->free + facts_context(card->sm_count);
    bool enough = left >= LEAST_FREE;
    ey_finding *f = finding_add(out, "card_memory", enough ? EY_FINDING_GOOD : EY_FINDING_BAD);
    finding_text(f, "%.0f of %.0f MiB can be had", (double)left / MIB, (double)card->total / MIB);
    if (!enough)
        finding_remedy(f,
                       "no official model fits into less than %.0f MiB: close what holds the rest, "
                       "or use --device cpu",
                       (double)LEAST_FREE / MIB);
    finding_value(f, (double)left, "bytes");
    return enough;
}

/* ---- how fast it is ---- */

/* The best of a few reads of each slice; the first wake the card up. */
static bool read_slices(struct backend *be, double rate[MOST_SLICES], int n, ey_err *e)
{
    double seconds;
    memset(rate, 0, MOST_SLICES * sizeof(*rate));
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < n; i++) {
            if (!backend_cuda_read_slice(be, (size_t)i * SLICE, SLICE, &seconds, e)) return false;
            if (SLICE / seconds > rate[i]) rate[i] = SLICE / seconds;
        }
    return true;
}

static void judge_reads(ey_diagnosis *out, const double *rate, int n, double rated)
{
    double best = 0, worst = INFINITY;
    for (int i = 0; i < n; i++) {
        best = fmax(best, rate[i]);
        worst = fmin(worst, rate[i]);
    }
    double usual = best < rated / SLOWER ? rated : best;
    int slow = 0;
    for (int i = 0; i < n; i++)
        slow += rate[i] * SLOWER < usual;
    ey_finding *f = finding_add(out, "card_reads", EY_FINDING_GOOD);
    finding_text(f, "its memory is read at %.0f GB/s%s", best / 1e9,
                 rated > 0 ? "" : "; the driver does not say what it should reach");
    if (rated > 0)
        finding_text(f, "its memory is read at %.0f GB/s, %.0f %% of what its clock gives",
                     best / 1e9, 100 * best / rated);
    finding_value(f, best, "bytes/s");
    if (!slow && best < 0.5 * rated) {
        f->level = EY_FINDING_WARNING;
        finding_remedy(f, "something else uses the card, or it saves power: plug it in, or choose "
                          "the performance mode");
    }
    if (!slow) return;
    f = finding_add(out, "card_spill", EY_FINDING_WARNING);
    finding_text(f,
                 "%d of %d MiB that were tried are read at %.1f GB/s: the system has moved them to "
                 "the computer's memory",
                 slow * (SLICE >> 20), n * (SLICE >> 20), worst / 1e9);
    finding_remedy(f, "close what else uses the card; under Windows set \"CUDA - Sysmem Fallback "
                      "Policy\" to \"Prefer No Sysmem Fallback\"");
}

static void look_at_reads(ey_diagnosis *out, struct backend *be, const struct cuda_facts *card)
{
    double rate[MOST_SLICES];
    ey_err e;
    uint64_t slices = card->free / 2 / SLICE;
    int n = slices < MOST_SLICES ? (int)slices : MOST_SLICES;
    if (n < 1) return;
    if (be->ops->open_arena(be, (uint64_t)n * SLICE, &e) && read_slices(be, rate, n, &e))
        judge_reads(out, rate, n, card->rated_reads);
    else
        finding_text(finding_add(out, "card_reads", EY_FINDING_BAD), "%.250s", e.text);
}

/* ---- its kernels ---- */

static void add_family(ey_diagnosis *out, const struct kernel_verdict *v)
{
    ey_finding *f = finding_add(out, v->name, v->failed ? EY_FINDING_WARNING : EY_FINDING_GOOD);
    if (isfinite(v->error))
        finding_text(f, "error %.1e", (double)v->error);
    else
        finding_text(f, "it gave no numbers");
    if (v->failed && v->instead)
        finding_remedy(f, "not used on this card; in its place: %s", v->instead);
    if (isfinite(v->error)) finding_value(f, (double)v->error, "relative error");
}

static bool look_at_kernels(ey_diagnosis *out, struct backend *be, bool again)
{
    struct kernel_report report;
    ey_err e;
    bool ok = backend_cuda_check(be, again, &report, &e);
    ey_finding *f = finding_add(out, "kernels",
                                !ok               ? EY_FINDING_BAD
                                : report.n_failed ? EY_FINDING_WARNING
                                                  : EY_FINDING_GOOD);
    int tried = 0;
    for (int i = 0; i < report.n; i++)
        tried += report.family[i].tried;
    if (!ok)
        finding_text(f, "%.250s", e.text);
    else if (report.cached)
        finding_text(f,
                     "%d of %d kernels passed their trial on a card like this one (--kernels holds "
                     "it again)",
                     tried - report.n_failed, tried);
    else
        finding_text(f, "%d of %d kernels passed their trial, in %.2f s", tried - report.n_failed,
                     tried, report.seconds);
    if (report.n_failed) finding_remedy(f, "answers are right but slower; please report this");
    for (int i = 0; i < report.n; i++)
        if (report.family[i].tried && (again || report.family[i].failed))
            add_family(out, &report.family[i]);
    return ok;
}

/* ---- all ---- */

static bool look_at_card(ey_diagnosis *out, struct backend *be, bool kernels)
{
    struct cuda_facts card;
    struct nvml nvml;
    ey_err e;
    bool there = nvml_open(&nvml);
    finding_text(finding_add(out, "card", EY_FINDING_GOOD), "%s", be->ops->detail(be));
    look_at_driver(out, &nvml, there);
    bool ok = backend_cuda_facts(be, &card, &e);
    if (ok) {
        ok = look_at_memory(out, &card);
        look_at_rest(out, &card, there ? look_at_holders(out, &nvml, &card) : 0);
        ok &= look_at_kernels(out, be, kernels);
        look_at_reads(out, be, &card);
    } else {
        finding_text(finding_add(out, "card_memory", EY_FINDING_BAD), "%.250s", e.text);
    }
    nvml_close(&nvml);
    return ok;
}

bool doctor_card(ey_diagnosis *out, bool kernels)
{
    ey_err e;
    struct pool *pool = NULL;
    struct backend *be = NULL;
    bool there = pool_create(&pool, 0, &e) && backend_cuda_create(&be, pool, true, &e),
         ok = there && look_at_card(out, be, kernels);
    if (!there) finding_text(finding_add(out, "card", EY_FINDING_NOTE), "%.500s", e.text);
    if (be) be->ops->destroy(be);
    pool_destroy(&pool);
    return ok;
}
