/* SPDX-License-Identifier: Apache-2.0 */
#include "convert/export_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_linear(const struct stored_tensor *t)
{
    return t->is_matrix && !strstr(t->name, "embed_tokens") && !strstr(t->name, "lm_head");
}

/* Returns the type of the first 16-bit matrix, or F32 if there is none. */
static enum dtype main_type_of(const struct stored_tensors *tensors)
{
    for (size_t i = 0; i < tensors->n; i++) {
        const struct stored_tensor *t = &tensors->tensor[i];
        if (t->n_dims == 2 && (t->view->dtype == DTYPE_BF16 || t->view->dtype == DTYPE_F16))
            return t->view->dtype;
    }
    return DTYPE_F32;
}

/* Counts a lossy tensor. Appends "NAME (TYPE): WHY" for the first three. */
static void note_lossy(ey_convert_report *report, const struct stored_tensor *t, enum dtype type,
                       const char *why)
{
    const size_t n = strlen(report->float32_names);
    if (report->n_float32++ < 3)
        snprintf(report->float32_names + n, sizeof(report->float32_names) - n, "%s%.80s (%s): %s",
                 n ? "; " : "", t->name, dtype_info(type)->label, why);
}

static bool plan_tensor(struct export_plan *p, size_t i, enum export_format format,
                        ey_convert_report *report, ey_err *e)
{
    struct planned_tensor *t = &p->tensor[i];
    struct loaded_tensor loaded;
    bool ok = stored_tensor_load(&loaded, p->source, t->stored, e);
    if (ok) {
        t->plan = format == EXPORT_GGUF
                      ? plan_for_gguf(&loaded.w, t->stored->n_dims == 2 &&
                                                     !strstr(t->stored->name, "pos_embed"))
                      : plan_for_safetensors(&loaded.w, p->main_type, is_linear(t->stored));
        formed_sizes(t->size, &loaded.w, &t->plan);
        t->factor = t->plan.dtype == DTYPE_GGUF_NVFP4 ? 1 : 0;
        for (int k = 0; k < FORM_PARTS; k++)
            p->bytes += t->size[k];
        if (t->plan.why_lossy) note_lossy(report, t->stored, loaded.w.dtype, t->plan.why_lossy);
    }
    loaded_tensor_free(&loaded);
    return ok;
}

static bool check_lossy(const struct export_plan *p, const ey_convert_report *report, ey_err *e)
{
    if (!report->n_float32 || p->source->to_float32) return true;
    return ey_fail(e, EY_BAD_REQUEST,
                   "the format cannot hold %d matrices without loss: %s%s. --float32 writes "
                   "their exact values as float32, %.2f GB in total",
                   report->n_float32, report->float32_names, report->n_float32 > 3 ? "; …" : "",
                   (double)p->bytes / 1e9);
}

bool export_plan_make(struct export_plan *p, const struct convert_source *source,
                      enum export_format format, ey_convert_report *report, ey_err *e)
{
    *p = (struct export_plan){.source = source};
    *report = (ey_convert_report){.bytes_before = checkpoint_bytes(source->ckpt)};
    if (!stored_tensors_list(&p->stored, source, e)) return false;
    p->n = p->stored.n;
    p->tensor = calloc(p->n + 1, sizeof(*p->tensor));
    if (!p->tensor) return ey_fail_memory(e, "the list of tensors", p->n * sizeof(*p->tensor));
    p->main_type = main_type_of(&p->stored);
    for (size_t i = 0; i < p->n; i++) {
        p->tensor[i].stored = &p->stored.tensor[i];
        if (!plan_tensor(p, i, format, report, e)) return false;
    }
    report->n_tensors = (int)p->n;
    report->bytes = p->bytes;
    return check_lossy(p, report, e);
}

void export_plan_free(struct export_plan *p)
{
    stored_tensors_free(&p->stored);
    free(p->tensor);
    p->tensor = NULL;
}

bool export_plan_form(struct formed_weight *out, const struct export_plan *p, size_t i, ey_err *e)
{
    const struct planned_tensor *t = &p->tensor[i];
    struct loaded_tensor loaded;
    bool differs = false;
    *out = (struct formed_weight){.factor = 0};
    bool ok = stored_tensor_load(&loaded, p->source, t->stored, e);
    if (ok && !form_weight(out, &loaded.w, &t->plan, &differs))
        ok = differs ? ey_fail(e, EY_BAD_MODEL,
                               "%s: a value would change or is not finite; nothing was "
                               "converted",
                               t->stored->name)
                     : ey_fail_memory(e, t->stored->name, t->size[0]);
    loaded_tensor_free(&loaded);
    return ok;
}

void export_progress(const struct export_plan *p, size_t done)
{
    const ey_engine_options *o = p->source->options;
    if (o->progress) o->progress(o->progress_user, EY_PHASE_CONVERTING, done, p->n);
}
