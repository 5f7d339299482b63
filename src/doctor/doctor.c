/* SPDX-License-Identifier: Apache-2.0 */
/* Checks whether this machine can run models, and says what is wrong and what to do. */
#include "backend/open/open_backend.h"
#include "base/checked.h"
#include "doctor/doctor_findings.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- findings ---- */

ey_finding *finding_add(ey_diagnosis *out, const char *name, ey_finding_level level)
{
    static _Thread_local ey_finding surplus;
    ey_finding *f = out->n < EY_MAX_FINDINGS ? &out->findings[out->n++] : &surplus;
    *f = (ey_finding){.level = level, .unit = ""};
    snprintf(f->name, sizeof(f->name), "%s", name);
    return f;
}

void finding_text(ey_finding *f, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(f->text, sizeof(f->text), fmt, args);
    va_end(args);
}

void finding_remedy(ey_finding *f, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(f->remedy, sizeof(f->remedy), fmt, args);
    va_end(args);
}

void finding_value(ey_finding *f, double value, const char *unit)
{
    f->value = value;
    f->unit = unit;
}

/* ---- all ---- */

/* Plans the model and reports whether it would start with these options. */
static bool check_plan(ey_diagnosis *out, const ey_engine_options *options)
{
    const uint64_t mib = 1 << 20;
    ey_plan plan;
    ey_err e;
    bool planned = ey_plan_make(options, &plan, &e);
    ey_finding *f = finding_add(out, "model",
                                !planned    ? EY_FINDING_BAD
                                : plan.fits ? EY_FINDING_GOOD
                                            : EY_FINDING_BAD);
    if (!planned) {
        finding_text(f, "%.500s", e.text);
        return false;
    }
    finding_value(f, (double)plan.total_bytes, "bytes");
    finding_text(f, "%.300s on %s: the plan needs %.0f MiB; usable memory: %s", plan.directory,
                 plan.device, (double)plan.total_bytes / (double)mib, plan.budget_rule);
    if (!plan.fits && plan.total_bytes <= plan.budget_bytes)
        finding_remedy(f,
                       "layers on the CPU take more memory than --cpu-memory allows; eyelet plan "
                       "says what would fit");
    else if (!plan.fits)
        finding_remedy(
            f, "the plan exceeds the usable memory by %llu MiB; eyelet plan says what would fit",
            (unsigned long long)((plan.total_bytes - plan.budget_bytes + mib - 1) / mib));
    return plan.fits;
}

void ey_diagnose(ey_diagnosis *out, const ey_engine_options *given, bool kernels)
{
    ey_engine_options own = ey_engine_defaults();
    const ey_engine_options *options = &own;
    if (!checked_struct(&own, sizeof(own), given, sizeof(given->size), "ey_engine_defaults", NULL))
        own = ey_engine_defaults();
    *out = (ey_diagnosis){0};
    bool try_gpu = !options->device || strcmp(options->device, "auto") == 0 ||
                   backend_name_is_gpu(options->device);
    bool needs_gpu = backend_name_is_gpu(options->device);
    bool gpu = try_gpu && doctor_check_gpu(out, kernels),
         host = doctor_check_host(out, options->model);
    out->usable = gpu || (host && !needs_gpu);
    if (options->model && !check_plan(out, options)) out->usable = false;
}
