/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the engine's memory plan: turns options and device info into limits for src/plan, and
 * reports the result. Also works for a simulated GPU. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/open/open_backend.h"
#include "base/memory.h"
#include "base/system.h"
#include "engine/load/load.h"
#include "engine/load/make_plan.h"
#include "engine/request/prompt_images.h"
#include "models/on_load_quantization.h"

enum { MAX_QUEUED_DEFAULT = 64, MIB = 1 << 20 };

/* ---- options ---- */

static bool fail_option_choice(const char *text, const char *const *words, const char *option,
                               ey_err *e)
{
    char list[80] = "";
    for (size_t used = 0; *words && used < sizeof(list); words++, used = strlen(list))
        snprintf(list + used, sizeof(list) - used, "%s%s", used ? ", " : "", *words);
    return ey_fail(e, EY_BAD_REQUEST, "--%s %.40s is not a valid choice; use %s or auto", option,
                   text, list);
}

/* Sets *out to the index of `text` among the words, counted from 1; NULL and "auto" are 0. */
static bool parse_choice(int *out, const char *text, const char *const *words, const char *option,
                         ey_err *e)
{
    *out = 0;
    if (!text || strcmp(text, "auto") == 0) return true;
    for (int i = 0; words[i]; i++)
        if (strcmp(text, words[i]) == 0) {
            *out = i + 1;
            return true;
        }
    return fail_option_choice(text, words, option, e);
}

static bool read_knobs(struct plan_knobs *out, const ey_engine_options *o, ey_err *e)
{
    static const char *const kinds[] = {"bf16", "fp8", NULL}, *const heads[] = {"bf16", "8bit",
                                                                                NULL};
    static const char *const placements[] = {"resident", "streamed", "host", NULL},
                             *const readers[] = {"pinned", "host", NULL};
    int kv, head, vision, rows;
    if (!parse_choice(&kv, o->kv_cache_dtype, kinds, "kv-cache-dtype", e) ||
        !parse_choice(&head, o->lm_head, heads, "head", e) ||
        !parse_choice(&vision, o->vision_weights, placements, "vision-weights", e) ||
        !parse_choice(&rows, o->lm_head_rows, readers, "head-rows", e))
        return false;
    *out = (struct plan_knobs){(enum plan_kv_dtype)kv, (enum plan_lm_head)head,
                               (enum plan_vision)vision, (enum plan_head_rows)rows};
    return true;
}

bool plan_read_limits(struct plan_limits *out, const ey_engine_options *o, ey_err *e)
{
    *out = (struct plan_limits){
        .max_model_len = o->max_model_len,
        .kv_tokens = o->kv_tokens,
        .max_num_seqs = o->max_num_seqs,
        .max_num_batched_tokens = o->max_num_batched_tokens,
        .max_images = o->max_images,
        .max_pixels = o->max_pixels,
        .serving = o->serving,
        .utilization = o->gpu_memory_utilization,
        .device_bytes = o->gpu_memory,
        .gpu_layers = o->gpu_layers,
        .cpu_bytes = o->cpu_memory,
    };
    if (o->gpu_layers < EY_LAYERS_AUTO)
        return ey_fail(e, EY_BAD_REQUEST, "--gpu-layers %d: use a number of layers, or auto",
                       o->gpu_layers);
    return read_knobs(&out->knobs, o, e);
}

/* ---- prefill math ---- */

static bool has_fp8_weights(const struct model *m)
{
    for (int i = 0; i < m->text.n_layers; i++)
        if (m->layers[i].attention.q.dtype == DTYPE_F8_E4M3 ||
            m->layers[i].mlp.down.dtype == DTYPE_F8_E4M3)
            return true;
    return false;
}

static bool can_use_fp8_prompts(const struct engine_devices *devices, bool *slow, ey_err *why)
{
    const struct backend_ops *op = devices->be->ops;
    if (!has_fp8_weights(&devices->model))
        return ey_fail(
            why, EY_BAD_MODEL,
            "none of the text model's matrices are block FP8 (--quantize fp8 makes them so)");
    return op->compute->supports_fp8_prompts
               ? op->compute->supports_fp8_prompts(devices->be, slow, why)
               : ey_fail(why, EY_NO_DEVICE, "the model runs on the CPU");
}

bool plan_choose_prefill_math(struct plan_limits *out, const struct engine_devices *devices,
                              const ey_engine_options *o, ey_err *e)
{
    const char *mode = o->prefill_math ? o->prefill_math : "bf16";
    char text[sizeof(e->text) + 64];
    ey_err why;
    const bool wanted = strcmp(mode, "fp8") == 0;
    bool slow = false;
    if (!wanted && strcmp(mode, "bf16") != 0)
        return ey_fail(e, EY_BAD_REQUEST, "--prefill-math %.40s: use bf16 or fp8", mode);
    out->fp8_prompts = wanted && can_use_fp8_prompts(devices, &slow, &why);
    if (!wanted || !o->notice || (out->fp8_prompts && !slow)) return true;
    if (slow)
        snprintf(text, sizeof(text),
                 "--prefill-math fp8: this GPU is slower with it; it is for compute capability "
                 "8.9 and 12.0 (RTX 40 and 50)");
    else
        snprintf(text, sizeof(text), "--prefill-math fp8: prompts are computed in BF16, because %s",
                 why.text);
    o->notice(o->notice_user, text);
    return true;
}

/* ---- quantization while loading ---- */

bool engine_read_quantization(struct quantize_choice *out, const ey_engine_options *o, ey_err *e)
{
    const char *to = o->quantize ? o->quantize : "none";
    *out = (struct quantize_choice){DTYPE_NONE, o->group_size ? o->group_size : INT4_DEFAULT_GROUP};
    if (strcmp(to, "fp8") == 0)
        out->dtype = DTYPE_F8_E4M3;
    else if (strcmp(to, "int4") == 0)
        out->dtype = DTYPE_INT4;
    else if (strcmp(to, "none") != 0)
        return ey_fail(e, EY_BAD_REQUEST, "--quantize %.40s: use fp8 or int4", to);
    if (o->group_size && out->dtype != DTYPE_INT4)
        return ey_fail(e, EY_BAD_REQUEST, "--group-size is an option of --quantize int4");
    return out->group_size == 32 || out->group_size == 64 || out->group_size == 128 ||
           ey_fail(e, EY_BAD_REQUEST, "--group-size %d: use 32, 64 or 128", out->group_size);
}

static void notify_unquantized(const struct quantize_report *r, const ey_engine_options *o)
{
    char text[640];
    if (!r->n_unquantized || !o->notice) return;
    snprintf(text, sizeof(text),
             "%d matrices would lose too much accuracy in four bits and are not quantized: %s",
             r->n_unquantized, r->unquantized_names);
    o->notice(o->notice_user, text);
}

bool plan_quantize_on_load(struct engine_devices *devices, const ey_engine_options *o, ey_err *e)
{
    struct quantize_choice choice;
    struct quantize_report report;
    if (!engine_read_quantization(&choice, o, e)) return false;
    if (!model_quantize_on_load(&devices->model, &choice, &report, devices->pool, e)) return false;
    notify_unquantized(&report, o);
    return true;
}

/* ---- the device ---- */

/* The CUDA context already exists, so the free memory excludes it. */
static bool query_gpu_info(struct device_info *out, const struct engine_devices *devices, ey_err *e)
{
    const struct model *m = &devices->model;
    struct gpu_info gpu;
    if (!devices->be->ops->device->info(devices->be, &gpu, e)) return false;
    uint64_t context = gpu_context_bytes(gpu.sm_count);
    *out = (struct device_info){
        .name = "cuda:0",
        .is_gpu = true,
        .wsl2 = system_is_wsl2(),
        .sm_count = gpu.sm_count,
        .total = gpu.total,
        .free = gpu.free + context,
        .context = context,
        .bandwidth = gpu.rated_reads,
        .host_free = memory_available(),
        .pinned_reads = devices->be->ops->device->can_pin_rows(devices->be, &m->head, &m->embed)
                            ? PINNED_READS_ALLOWED
                            : PINNED_READS_DENIED};
    return true;
}

static struct device_info host_device_info(void)
{
    uint64_t available = memory_available();
    return (struct device_info){.name = "host", .total = available, .free = available};
}

/* Fills the device info of a simulated GPU (--vram) without a driver. */
bool plan_open_simulated_gpu(struct engine_devices *devices, const ey_engine_options *o, ey_err *e)
{
    enum { USUAL_SM_COUNT = 30, MAX_SM_COUNT = 1024 };
    int sm_count = o->sm_count ? o->sm_count : USUAL_SM_COUNT;
    if (o->device && strcmp(o->device, "auto") != 0 && !backend_name_is_gpu(o->device))
        return ey_fail(e, EY_BAD_REQUEST, "--vram describes a GPU, and --device %.40s is not one",
                       o->device);
    if (sm_count < 1 || sm_count > MAX_SM_COUNT)
        return ey_fail(e, EY_BAD_REQUEST, "sm_count is %d; it must be from 1 to %d", sm_count,
                       MAX_SM_COUNT);
    if (o->vram_used > o->vram)
        return ey_fail(e, EY_BAD_REQUEST, "--vram-used is %llu MiB, more than --vram, %llu MiB",
                       (unsigned long long)(o->vram_used / MIB),
                       (unsigned long long)(o->vram / MIB));
    devices->device_info = (struct device_info){.name = "cuda:0",
                                                .is_gpu = true,
                                                .sm_count = sm_count,
                                                .total = o->vram,
                                                .free = o->vram - o->vram_used,
                                                .context = gpu_context_bytes(sm_count)};
    return engine_open_cpu(devices, o, e) && backend_open_simulated_gpu(&devices->be, e);
}

/* ---- the plan in the public API ---- */

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t auto_detail_pixels(const ey_engine *engine)
{
    const struct patch_spec *spec = &engine->devices.model.patch_spec;
    const uint64_t side = (uint64_t)(spec->patch * spec->merge);
    return min_u64(min_u64(detail_pixels(EY_DETAIL_AUTO), spec->max_pixels),
                   (uint64_t)engine->buffers.plan.max_tokens_per_image * side * side);
}

void plan_export(ey_plan *out, const ey_engine *engine)
{
    const struct plan *p = &engine->buffers.plan;
    snprintf(out->directory, sizeof(out->directory), "%s",
             checkpoint_directory(engine->devices.ckpt));
    out->device = engine->devices.be->ops->name;
    out->on_gpu = p->device->is_gpu;
    out->n_items = (size_t)engine->buffers.n_plan_items;
    memcpy(out->items, engine->buffers.plan_item, out->n_items * sizeof(out->items[0]));
    out->file_bytes = p->device->is_gpu ? p->bytes[PLAN_FILE_WEIGHTS] : p->bytes[PLAN_WEIGHTS];
    out->total_bytes = p->allocated;
    out->budget_bytes = p->budget.bytes;
    out->fits = p->fits;
    plan_budget_text(&p->budget, out->budget_rule, sizeof(out->budget_rule));
    out->n_choices = (size_t)p->n_choices;
    memcpy(out->choices, p->choice, sizeof(p->choice));
    out->max_model_len = p->max_model_len;
    out->kv_tokens = p->kv.n_blocks * KV_BLOCK;
    out->max_num_seqs = p->max_num_seqs;
    out->max_pixels = auto_detail_pixels(engine);
    out->n_layers = engine->devices.model.text.n_layers;
    out->gpu_layers = out->n_layers - p->cpu_layers;
    out->tokens_per_second = p->tokens_per_second;
}

/* ---- the engine's own plan ---- */

static void notify_planned(const ey_engine *engine, const ey_engine_options *o)
{
    ey_plan plan = {0};
    if (!o->planned) return;
    plan_export(&plan, engine);
    o->planned(o->planned_user, &plan);
}

bool plan_query_device(struct engine_devices *devices, ey_err *e)
{
    bool simulated = devices->device_info.is_gpu,
         gpu = simulated || devices->be->ops->device != NULL;
    if (!gpu)
        devices->device_info = host_device_info();
    else if (!simulated && !query_gpu_info(&devices->device_info, devices, e))
        return false;
    devices->device_info.cpu = devices->cpu;
    return true;
}

/* Measures the CPU's bandwidth for predictions if layers may be divided, by reading a GiB. If
 * memory is short, there is no prediction. */
void plan_measure_cpu_bandwidth(struct engine_devices *devices, const ey_engine_options *o)
{
    struct device_roofline limits;
    if (!devices->device_info.is_gpu || !o->gpu_layers || devices->device_info.cpu_bandwidth > 0 ||
        memory_available() < (uint64_t)2 << 30)
        return;
    if (devices->cpu->ops->measure_roofline(devices->cpu, &limits, NULL))
        devices->device_info.cpu_bandwidth = limits.bandwidth;
}

bool engine_plan(ey_engine *engine, const ey_engine_options *o, ey_err *e)
{
    struct plan_limits limits;
    struct plan *p = &engine->buffers.plan;
    if (!plan_query_device(&engine->devices, e)) return false;
    plan_measure_cpu_bandwidth(&engine->devices, o);
    if (!plan_quantize_on_load(&engine->devices, o, e) || !plan_read_limits(&limits, o, e) ||
        !plan_choose_prefill_math(&limits, &engine->devices, o, e))
        return false;
    if (!plan_make(p, &engine->devices.model, engine->devices.be, &engine->devices.device_info,
                   &limits, e))
        return false;
    engine->buffers.n_plan_items = plan_items(p, engine->buffers.plan_item);
    notify_planned(engine, o);
    engine->limits.max_num_queued = o->max_num_queued ? o->max_num_queued : MAX_QUEUED_DEFAULT;
    engine->limits.max_model_len = p->max_model_len;
    engine->limits.max_blocks = p->max_blocks;
    engine->limits.max_num_seqs = p->max_num_seqs;
    engine->limits.max_images = p->max_images;
    engine->limits.max_unread = MAX_UNREAD_DEFAULT;
    engine->limits.unread_seconds = UNREAD_SECONDS_DEFAULT;
    engine->limits.slice_seconds = SLICE_SECONDS_DEFAULT;
    engine->devices.budget = o->budget;
    engine->scheduler.stats = (ey_stats){.kv_blocks = p->kv.n_blocks,
                                         .image_cache_tokens = p->feature_rows,
                                         .image_cache_bytes = p->bytes[PLAN_IMAGE_CACHE]};
    return (engine->limits.max_num_queued > 0 && engine->limits.max_num_queued <= EY_MAX_QUEUED) ||
           ey_fail(e, EY_BAD_REQUEST, "max_num_queued is %d; it must be from 1 to %d",
                   engine->limits.max_num_queued, EY_MAX_QUEUED);
}

/* ---- plans that do not fit ---- */

/* Suggests running on the CPU. The mapped weights count as memory, because every token reads
 * them. */
static bool suggest_cpu(struct plan_suggestion *out, const ey_engine *engine,
                        const struct plan_limits *limits)
{
    struct plan p;
    struct plan_limits plain = *limits;
    struct device_info info = host_device_info();
    struct pool *pool = NULL;
    struct backend *be = NULL;
    plain.knobs = (struct plan_knobs){0};
    plain.fp8_prompts = false;
    plain.utilization = 0;
    plain.device_bytes = 0;
    plain.gpu_layers = 0;
    bool ok = pool_create(&pool, 1, NULL) &&
              backend_open(&be, "cpu", &(struct backend_options){.pool = pool}, NULL) &&
              plan_make(&p, &engine->devices.model, be, &info, &plain, NULL);
    if (ok) {
        *out = (struct plan_suggestion){.options = "--device cpu",
                                        .total = p.allocated + p.bytes[PLAN_WEIGHTS]};
        out->fits = out->total <= info.free;
    }
    if (be) be->ops->destroy(be);
    pool_destroy(&pool);
    return ok;
}

int plan_find_suggestions(struct plan_suggestion out[PLAN_SUGGESTIONS + 1], const ey_engine *engine,
                          const struct plan_limits *limits)
{
    int n = plan_suggestions(out, &engine->buffers.plan, &engine->devices.model, engine->devices.be,
                             limits);
    return n + (engine->buffers.plan.device->is_gpu && suggest_cpu(&out[n], engine, limits));
}

static unsigned long long engine_mib(uint64_t bytes)
{
    return (unsigned long long)(bytes / MIB);
}

static bool fail_host_plan(const ey_engine *engine, const struct plan_limits *limits, ey_err *e)
{
    const struct plan *p = &engine->buffers.plan;
    if (!e) return false;
    int fits = plan_longest_context(&engine->devices.model, engine->devices.be, p->device, limits);
    ey_fail(e, EY_NO_MEMORY,
            "a context of %d tokens and a KV pool of %d need %llu MiB of memory in addition to the "
            "model's file, and %llu MiB are available",
            p->max_model_len, p->kv_tokens, engine_mib(p->allocated), engine_mib(p->budget.bytes));
    size_t n = strlen(e->text);
    if (fits && limits->kv_tokens)
        snprintf(e->text + n, sizeof(e->text) - n, "; use --max-model-len %d --kv-tokens %d", fits,
                 fits);
    else if (fits)
        snprintf(e->text + n, sizeof(e->text) - n, "; use --max-model-len %d", fits);
    return false;
}

/* Fails with as many suggestions as the message can hold, those that fit first. */
static bool fail_gpu_plan(const ey_engine *engine, const struct plan_limits *limits, ey_err *e)
{
    const struct plan *p = &engine->buffers.plan;
    struct plan_suggestion suggestion[PLAN_SUGGESTIONS + 1];
    char rule[160];
    if (!e) return false;
    int n_suggestions = plan_find_suggestions(suggestion, engine, limits);
    plan_budget_text(&p->budget, rule, sizeof(rule));
    ey_fail(e, EY_NO_MEMORY,
            "the model does not fit on %s: with a context of %d tokens it needs %llu MiB, %llu MiB "
            "too many (eyelet may use %s). Alternatives:",
            p->device->name, p->max_model_len, engine_mib(p->allocated),
            engine_mib(p->allocated - p->budget.bytes + MIB - 1), rule);
    for (int fits = 1; fits >= 0; fits--)
        for (int i = 0; i < n_suggestions; i++) {
            char text[192];
            size_t used = strlen(e->text);
            if (suggestion[i].fits != (fits == 1)) continue;
            snprintf(text, sizeof(text), "%s %.95s: %llu MiB, %s",
                     e->text[used - 1] == ':' ? "" : ";", suggestion[i].options,
                     engine_mib(suggestion[i].total), fits ? "fits" : "does not fit");
            if (used + strlen(text) < sizeof(e->text))
                snprintf(e->text + used, sizeof(e->text) - used, "%s", text);
        }
    return false;
}

/* Refuses a plan that does not fit. Reserved memory takes no pages yet, so without this check the
 * system would end the process later. */
bool engine_check_plan(const ey_engine *engine, const ey_engine_options *o, ey_err *e)
{
    const struct plan *p = &engine->buffers.plan;
    struct plan_limits limits;
    uint64_t host = p->bytes[PLAN_UPLOAD_RING] + p->bytes[PLAN_QUANTIZED] +
                    p->bytes[PLAN_HOST_BUFFERS] + p->bytes[PLAN_CPU_VISION_WORKSPACE] +
                    p->bytes[PLAN_CPU_SCRATCH] + p->bytes[PLAN_PINNED_ROWS] +
                    (p->cpu_layers ? p->bytes[PLAN_CPU_KV] + p->bytes[PLAN_CPU_WORKSPACE] +
                                         p->bytes[PLAN_IMAGE_CACHE]
                                   : 0);
    if (!plan_read_limits(&limits, o, e)) return false;
    if (limits.cpu_bytes && p->cpu_layers_bytes > limits.cpu_bytes)
        return ey_fail(
            e, EY_NO_MEMORY,
            "the %d layers on the CPU need %llu MiB of memory, and --cpu-memory allows %llu",
            p->cpu_layers, engine_mib(p->cpu_layers_bytes), engine_mib(limits.cpu_bytes));
    if (!p->fits)
        return p->device->is_gpu ? fail_gpu_plan(engine, &limits, e)
                                 : fail_host_plan(engine, &limits, e);
    return !p->device->is_gpu || host <= memory_available() ||
           ey_fail(e, EY_NO_MEMORY,
                   "%llu MiB of memory are needed alongside the GPU's, and %llu MiB are available",
                   engine_mib(host), engine_mib(memory_available()));
}
