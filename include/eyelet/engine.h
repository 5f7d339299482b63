/* SPDX-License-Identifier: Apache-2.0 */
/* An engine: one loaded model on one device.
 *
 * ey_engine_open loads a checkpoint, ey_engine_close frees everything. Any number of threads may
 * use an open engine at the same time. The model's files stay mapped until it is closed: replacing
 * them is fine, changing them in place is not. */
#ifndef EYELET_ENGINE_H
#define EYELET_ENGINE_H

#include "eyelet/budget.h"
#include "eyelet/error.h"
#include "eyelet/phase.h"

EY_BEGIN_DECLS

/* "1.2.3": a static string. */
EY_API const char *ey_version(void);

/* ---- options --------------------------------------------------------------------------------- */

typedef struct ey_engine ey_engine;
typedef struct ey_plan ey_plan; /* plan.h */

/* Reports progress while a model is loaded: `done` of `total` units, with a total of 0 if unknown.
 * Requests report their progress as events (request.h). */
typedef void ey_progress_fn(void *user, ey_phase phase, uint64_t done, uint64_t total);

/* Called once while a model is opened, before anything is allocated, even if it does not fit. */
typedef void ey_planned_fn(void *user, const ey_plan *plan);

/* Receives a warning or note for the user of an engine, as one sentence. */
typedef void ey_notice_fn(void *user, const char *text);

enum { EY_LAYERS_AUTO = -1 }; /* as many layers as fit */

/* Start from ey_engine_defaults(). An option that is left at 0 or NULL has its default value. */
typedef struct {
    size_t size;        /* of this struct */
    const char *model;  /* checkpoint directory, or a repository name in the Hugging Face cache */
    const char *device; /* "auto", "cuda", "cpu" or "ref" */
    /* Highest instruction set to use: "generic", "avx2", "avx512" or "amx", each with all of its
     * extensions that the processor has, or "avx2-novnni", "avx512-nobf16". NULL: the fastest. */
    const char *cpu_mask;
    int threads; /* 0: one per physical core that this process may use */
    /* Read weights from the mapped file, which processes of the same model share, instead of
     * copying them to huge pages. CPU only. */
    bool no_huge_pages;

    /* Context of one request. 0: 8192 (rerank: 10240; generate on a GPU: 16384), or less if the
     * model's limit is lower or, on a GPU, memory is short. */
    int max_model_len;
    /* Size of the KV cache that all requests share. 0: max_model_len; on a GPU, if max_model_len is
     * set, up to max_num_seqs times as many tokens, at most 16384, as far as they fit. */
    int kv_tokens;
    /* Requests that run at the same time. 0: 1 (serving: 4; embed and rerank: 16); generate on a
     * GPU: 4 to 32, one per 1,024 tokens of the KV cache, as far as they fit. */
    int max_num_seqs;
    int max_num_queued; /* requests that may wait; 0: 64 */
    /* Token rows of one step, 64 to 4096. 0: 512; on a GPU the largest of 4096, 2048, 1024 and 512
     * that fits. 4096 is tried only on GPUs of 32 GiB or more, and not if max_num_seqs is 1. */
    int max_num_batched_tokens;
    int max_images; /* per request; 0: 16, -1: none */
    /* Pixels of the largest image, if more than the 4,194,304 that a GPU reserves memory for. */
    uint64_t max_pixels;
    /* A server's engine: the KV cache holds at least 8192 tokens if kv_tokens is 0, and preparation
     * that speeds up later requests does not wait for the first ones. */
    bool serving;

    /* Quantize the text model's matrices while loading: "fp8" or "int4"
     * (docs/guides/quantization.md). NULL or "none": as stored. */
    const char *quantize;
    int group_size; /* of int4: 32, 64 or 128; 0: 128 */

    /* GPU only. NULL or "auto": what the plan needs (docs/guides/memory.md). */
    const char *kv_cache_dtype; /* "bf16" or "fp8" */
    const char *lm_head;        /* "bf16" or "8bit" */
    /* With an 8-bit LM head, who reads the BF16 rows for rescoring: the GPU, from "pinned" pages of
     * the file, or the "host". */
    const char *lm_head_rows;
    const char *vision_weights; /* "resident", "streamed" or "host" */
    /* How many layers of the text model are on the GPU: the last ones. The CPU runs the others.
     * 0: all. */
    int gpu_layers;
    /* Memory for the layers on the CPU, weights included. 0: what is available. */
    uint64_t cpu_memory;
    /* How prompts are multiplied with block-FP8 matrices: "bf16", or "fp8", which also rounds
     * activations. NULL: bf16. */
    const char *prefill_math;
    bool enforce_eager;            /* do not capture CUDA graphs */
    double gpu_memory_utilization; /* share of the GPU's memory to use at most; 0: 0.92 */
    uint64_t gpu_memory;           /* that limit in bytes; 0: by the share */

    /* ey_plan_make only: a simulated GPU. */
    uint64_t vram;      /* its memory; 0: the GPU that is present */
    uint64_t vram_used; /* of it, used by other processes */
    int sm_count;       /* its multiprocessors */

    ey_budget *budget; /* limits host bytes of images in flight (borrowed); NULL for no limit */
    ey_progress_fn *progress;
    void *progress_user;
    ey_planned_fn *planned;
    void *planned_user;
    ey_notice_fn *notice; /* while the model is opened */
    void *notice_user;

    /* What the model is to do: "generate", "embed" or "rerank" (pooling.h). NULL or "auto": what
     * its files say. */
    const char *task;
} ey_engine_options;

static inline ey_engine_options ey_engine_defaults(void)
{
    ey_engine_options options = EY_ZEROS;
    options.size = sizeof(options);
    options.device = "auto";
    return options;
}

/* ---- open, close, describe ------------------------------------------------------------------- */

/* Opens a model. On success *engine belongs to the caller. Keeps no pointer into `options` other
 * than `budget`. */
EY_API bool ey_engine_open(ey_engine **engine, const ey_engine_options *options, ey_err *err);
/* Frees the engine and sets *engine to NULL. Accepts NULL and half-built engines. All prompts and
 * generations must have been freed before. */
EY_API void ey_engine_close(ey_engine **engine);

typedef struct {
    const char *directory;    /* where the checkpoint was found */
    const char *architecture; /* as config.json names it */
    const char *device;
    const char *device_detail; /* instruction set, or the GPU's name */
    int threads;
    int max_model_len;
    int kv_tokens;
    int max_num_seqs;
    int vocab_size;    /* token ids are less than this */
    bool reads_images; /* text-only models refuse requests with images */
    uint64_t weight_bytes;
    uint64_t kv_bytes;
    uint64_t workspace_bytes;
    double load_seconds;      /* total time to open the model */
    double device_seconds;    /* of it, creating the GPU's context and loading its kernels */
    uint64_t device_bytes;    /* planned on the GPU, context included; 0: no GPU */
    int n_layers;             /* of the text model */
    int gpu_layers;           /* of them on the GPU, if they are split; else n_layers */
    const char *lm_head_rows; /* of an 8-bit LM head: "pinned" or "host"; NULL: BF16 LM head */
    double tokens_per_second; /* if layers are split: expected decode speed; 0: unknown */
    bool thinks;              /* answers to messages begin with a thought, unless told otherwise */
} ey_engine_info;

/* Properties of an open engine. The strings live as long as the engine. */
EY_API ey_engine_info ey_engine_describe(const ey_engine *engine);

/* An open engine copies the weights that the CPU reads in every step to huge pages, between steps
 * and while it is idle. Waits until that is done and returns the bytes copied. Requests need not
 * wait. Thread-safe. */
EY_API uint64_t ey_engine_wait_huge_pages(ey_engine *engine);

/* ---- tokenizer ------------------------------------------------------------------------------- */

/* Tokenizes text[n_text] into *ids (the caller frees) and *n. With `parse_special`, text that
 * spells a special token becomes that token. */
EY_API bool ey_tokenize(const ey_engine *engine, const char *text, size_t n_text,
                        bool parse_special, int **ids, size_t *n, ey_err *err);
/* Writes the text of token ids to *text (the caller frees; NUL-terminated) and its length to *n.
 * Bytes that are not UTF-8 become U+FFFD. Fails for ids outside the vocabulary. */
EY_API bool ey_detokenize(const ey_engine *engine, const int *ids, size_t n_ids, char **text,
                          size_t *n, ey_err *err);
/* The text of one token, as in ey_logprob; "" for an id outside the vocabulary. Lives as long as
 * the engine. */
EY_API const char *ey_token_text(const ey_engine *engine, int id);

EY_END_DECLS

#endif
