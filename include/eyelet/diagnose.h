/* SPDX-License-Identifier: Apache-2.0 */
/* What an engine and its machine are doing: statistics, GPU memory, speed limits, diagnosis.
 *
 * Everything here is optional; no request needs it. */
#ifndef EYELET_DIAGNOSE_H
#define EYELET_DIAGNOSE_H

#include "eyelet/engine.h"

EY_BEGIN_DECLS

/* ---- statistics ------------------------------------------------------------------------------ */

typedef struct {
    /* now */
    int running; /* requests */
    int waiting;
    int paused;    /* running requests whose text nobody fetches */
    int kv_blocks; /* of 64 tokens */
    int kv_blocks_used;
    int kv_blocks_cached;   /* of finished requests; evicted on demand */
    int image_cache_tokens; /* image tokens that the image cache can hold */
    int image_cache_tokens_used;
    uint64_t image_cache_bytes;
    /* since the start */
    uint64_t prompt_tokens;
    uint64_t cached_tokens;
    uint64_t generated_tokens;
    uint64_t preemptions;
    uint64_t steps;
    uint64_t async_steps; /* of them, enqueued before the previous step's tokens were known */
    uint64_t images;
    uint64_t images_cached;
    uint64_t encoder_runs; /* of the vision encoder */
    uint64_t finished_stop;
    uint64_t finished_length;
    uint64_t finished_cancelled;
    uint64_t failed;
    double vision_seconds; /* time that the device was busy */
    double step_seconds;
    double heartbeat_age; /* seconds since the last step; 0 if the engine is idle */
} ey_stats;

/* Returns a snapshot. Thread-safe. */
EY_API ey_stats ey_engine_stats(const ey_engine *engine);

/* Histogram of the time to compute one grammar mask. Bucket i ends at
 * EY_MASK_FIRST_US * 2^(i / EY_MASK_BUCKETS_PER_OCTAVE) microseconds; the last one is unbounded. */
enum { EY_MASK_BUCKETS = 72, EY_MASK_BUCKETS_PER_OCTAVE = 4 };
#define EY_MASK_FIRST_US 0.25
typedef struct {
    uint64_t count;
    uint64_t buckets[EY_MASK_BUCKETS];
    double step_wait_seconds; /* time that finished steps waited for masks */
} ey_mask_stats;
EY_API ey_mask_stats ey_engine_mask_stats(const ey_engine *engine);
/* Returns the `share` quantile (0 to 1) of mask times in seconds, rounded up to a bucket's end. */
EY_API double ey_mask_percentile(const ey_mask_stats *stats, double share);

/* ---- GPU memory ------------------------------------------------------------------------------ */

/* Sets the bytes that all processes use, and the GPU's total. Returns false without a GPU. */
EY_API bool ey_gpu_memory_usage(ey_engine *engine, uint64_t *used, uint64_t *total);

/* Result of the last probe. Windows may move GPU memory to host memory at any time, without notice:
 * everything still works, but slowly. The probe measures the speed of reads to detect that. */
typedef struct {
    bool known;   /* false before the first probe or without a GPU; all else is 0 then */
    bool spilled; /* some of the engine's memory reads far slower than GPU memory */
    uint64_t planned_bytes;
    uint64_t budget_bytes;
    uint64_t total_bytes; /* of the GPU */
    uint64_t free_bytes;
    uint64_t allocated_bytes;        /* by the engine, without its context */
    uint64_t spilled_bytes;          /* of them, read slowly */
    double bytes_per_second;         /* read bandwidth of the median slice */
    double spilled_bytes_per_second; /* of the slow slices */
    double usual_bytes_per_second;   /* what slices are compared with */
    double start_bytes_per_second;   /* the median after loading */
    double rated_bytes_per_second;   /* from the memory's clock and width; 0: unknown */
    double age_seconds;
} ey_gpu_memory;

/* Reads all of the engine's GPU memory once, in slices between which requests run. Thread-safe.
 * Without a GPU it returns true with known = false. */
EY_API bool ey_probe_gpu_memory(ey_engine *engine, ey_gpu_memory *out, ey_err *err);
/* The result of the last probe: after loading, or by ey_probe_gpu_memory. */
EY_API ey_gpu_memory ey_last_gpu_memory(ey_engine *engine);
/* Writes a warning that memory has spilled, and what to do. Returns false if it has not. */
EY_API bool ey_gpu_memory_warning(const ey_gpu_memory *memory, char *text, size_t size);

/* ---- cost and roofline (for benchmarks) ------------------------------------------------------ */

typedef struct {
    double vision_flops;  /* vision encoder and mergers for one image, attention included */
    double prefill_flops; /* matmuls and attention of the text model for the prompt; LM head once */
    double decode_bytes;  /* weights and KV cache read for one token after the prompt */
} ey_cost_estimate;

/* Returns the least work for a prompt of prompt_tokens with one image, whose size as the model sees
 * it is width x height. Text-only models ignore the image. */
EY_API ey_cost_estimate ey_estimate_cost(const ey_engine *engine, int width, int height,
                                         int prompt_tokens);

typedef struct {
    double read_bytes_per_second; /* plain reads of 1 GiB by all threads */
    double flops_per_second;      /* multiply-adds from registers with the best instruction */
    /* The same with vector instructions, if the best one multiplies tiles; else 0. */
    double vector_flops_per_second;
} ey_roofline;

/* Measures the limits of the device for about a second, between requests. */
EY_API bool ey_measure_roofline(ey_engine *engine, ey_roofline *roofline, ey_err *err);

/* ---- doctor ---------------------------------------------------------------------------------- */

typedef enum {
    EY_FINDING_GOOD,
    EY_FINDING_NOTE,
    EY_FINDING_WARNING,
    EY_FINDING_BAD
} ey_finding_level;

typedef struct {
    char name[32]; /* for programs, such as "gpu_memory" */
    ey_finding_level level;
    char text[512];   /* what was found */
    char remedy[256]; /* what helps; "": nothing needs to be done */
    double value;     /* the number in `text` */
    const char *unit; /* of `value`, such as "bytes/s"; "": no number */
} ey_finding;

enum { EY_MAX_FINDINGS = 128 };

typedef struct {
    ey_finding findings[EY_MAX_FINDINGS];
    size_t n;
    bool usable; /* the model of the options can run here; without one, some model can */
} ey_diagnosis;

/* Checks whether this machine can run models well, and what would help: GPU, processes that use its
 * memory, memory bandwidth, processor, host memory, disks. Uses the options model and
 * device; without a model, none is planned. With `kernels`, repeats the GPU kernels' self-test and
 * reports each. */
EY_API void ey_diagnose(ey_diagnosis *out, const ey_engine_options *options, bool kernels);

EY_END_DECLS

#endif
