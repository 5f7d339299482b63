/* SPDX-License-Identifier: Apache-2.0 */
/* Memory plans: what an engine would allocate, computed from the checkpoint's headers alone.
 *
 * Planning reads no weights and allocates nothing on the device. A plan that does not fit is not
 * an error: it says by how much, and which options would make it fit. */
#ifndef EYELET_PLAN_H
#define EYELET_PLAN_H

#include "eyelet/engine.h"

EY_BEGIN_DECLS

/* One row of a memory plan. */
typedef struct {
    const char *name;   /* "weights", "KV cache", ... */
    const char *device; /* "file", "host", "cuda:0" */
    uint64_t bytes;
    const char *lifetime; /* "always", "vision", "prefill", "loading" */
} ey_plan_item;

enum { EY_PLAN_ITEMS = 20, EY_PLAN_SUGGESTIONS = 16, EY_PLAN_CHOICES = 8 };

struct ey_plan {
    char directory[4096]; /* where the checkpoint was found */
    const char *device;   /* "cuda", "cpu" or "ref" */
    bool on_gpu;
    ey_plan_item items[EY_PLAN_ITEMS];
    size_t n_items;
    uint64_t file_bytes;   /* weights that are read from the mapped file */
    uint64_t total_bytes;  /* allocated on the device (on a CPU: in addition to the weights) */
    uint64_t budget_bytes; /* the limit for total_bytes */
    char budget_rule[160]; /* "6720 MiB: ...": how the limit was determined */
    bool fits;
    char choices[EY_PLAN_CHOICES][160]; /* options that the plan chose to fit, each with its cost */
    size_t n_choices;
    int max_model_len;
    int kv_tokens;
    int max_num_seqs;
    int n_layers;             /* of the text model */
    int gpu_layers;           /* of them on the GPU */
    double tokens_per_second; /* if layers are split: expected decode speed; else 0 */
    uint64_t max_pixels;      /* of an image with detail "auto" */
    struct {
        char options[96];
        uint64_t total_bytes;
        bool fits;
    } suggestions[EY_PLAN_SUGGESTIONS]; /* if it does not fit: options that would change that */
    size_t n_suggestions;
    uint64_t shared_bytes; /* in a multi-model plan: this model's share of ey_multi_model_plan */
    bool resident;         /* in a multi-model plan: always loaded, not on demand */
};

/* Plans what ey_engine_open would allocate with these options. */
EY_API bool ey_plan_make(const ey_engine_options *options, ey_plan *plan, ey_err *err);

/* The rows of an open engine's plan, *n of them. They live as long as the engine. */
EY_API const ey_plan_item *ey_engine_plan(const ey_engine *engine, size_t *n);

/* ---- several models on one device ------------------------------------------------------------ */

enum { EY_MAX_MODELS = 16 };

/* On a GPU the models share its budget less the context, which they have in common; on a CPU they
 * share the available host memory, which should hold their mapped weights. */
typedef struct {
    uint64_t capacity_bytes; /* for the shared_bytes of all models loaded at the same time */
    uint64_t resident_bytes; /* of it, used by the resident models */
    bool all_resident;
} ey_multi_model_plan;

/* Plans n models together, 1 to EY_MAX_MODELS; options[n] may differ in the model only. Models are
 * made resident in their order as long as they fit together. Each of the others is planned with the
 * whole device, as if all idle models had been evicted. plans[i] is what ey_engine_open
 * would do with gpu_memory = plans[i].total_bytes. */
EY_API bool ey_multi_model_plan_make(const ey_engine_options *options, size_t n, ey_plan *plans,
                                     ey_multi_model_plan *out, ey_err *err);

/* ---- quantized checkpoints ------------------------------------------------------------------- */

typedef struct {
    int n_quantized; /* matrices that were quantized */
    int n_unchanged; /* matrices that would have lost too much precision */
    uint64_t bytes_before;
    uint64_t bytes;     /* of all tensors, afterwards */
    double mean_error;  /* relative, over samples of the quantized matrices; int4 only */
    double worst_error; /* likewise */
    char unchanged_names[512];
} ey_quantize_report;

/* Writes the model, quantized as options->quantize does while loading, to the new directory `out`,
 * as a checkpoint that loads to the same bits. Uses only the options model, quantize, group_size,
 * threads and progress. On failure everything written is removed. */
EY_API bool ey_quantize(const ey_engine_options *options, const char *out,
                        ey_quantize_report *report, ey_err *err);

/* ---- other formats --------------------------------------------------------------------------- */

typedef struct {
    int n_tensors;
    int n_float32; /* matrices that the other format cannot hold, written as float32 */
    uint64_t bytes_before;
    uint64_t bytes;          /* of all tensors, afterwards */
    char float32_names[512]; /* some of them, and why */
} ey_convert_report;

/* Writes the model in another format without changing a value: as GGUF if `out` ends with ".gguf",
 * with mmproj-NAME beside it if the model reads images; else as safetensors in the new folder
 * `out`. Fails and names the matrices that the format cannot hold, unless `to_float32` converts
 * them. Uses only the options model, threads and progress. On failure everything written is
 * removed. */
EY_API bool ey_convert(const ey_engine_options *options, const char *out, bool to_float32,
                       ey_convert_report *report, ey_err *err);

EY_END_DECLS

#endif
