/* SPDX-License-Identifier: Apache-2.0 */
/* eyelet bench measures load, vision, prefill and decode on a generated image (a text for text-only
 * models), and decode with a schema. It compares each phase with the machine's limits, which it
 * measures in the same run. Speed depends on the weights' shapes only, so random weights will do.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/limits.h"
#include "cli/output/answer_json.h"
#include "cli/commands/bench_streams.h"
#include "cli/terminal/cancel.h"
#include "cli/commands/commands.h"
#include "cli/cli_engine.h"
#include "image/image.h"

enum { MAX_RUNS = 1000 };

/* The schema of detect's answers, with more items than tokens, so that the answer never ends by
 * itself. */
static const char boxes_schema[] =
    "{\"type\": \"array\", \"minItems\": 1000000, \"items\": {\"type\": \"object\", "
    "\"properties\": {\"bbox_2d\": {\"type\": \"array\", \"items\": {\"type\": \"integer\","
    " \"minimum\": 0, \"maximum\": 1000}, \"minItems\": 4, \"maxItems\": 4}, \"label\": {\"type\": "
    "\"string\", \"minLength\": 1, \"maxLength\": 24}}, \"required\": [\"bbox_2d\","
    " \"label\"], \"additionalProperties\": false}}";

struct bench_phase {
    double seconds[MAX_RUNS];
    int n;
    double bytes, flops, tokens; /* of one run; 0 if not applicable */
};

struct bench {
    struct cli_engine cli;
    struct input image_file;
    struct cli_response_format boxes;
    struct bench_phase vision, prefill, decode, constrained, streams;
    struct bench_phase deep; /* the prompt of one stream */
    ey_mask_stats masks;     /* of the constrained runs */
    bool reads_images;       /* the model takes images */
    int width, height;       /* of the image */
    double huge_page_bytes;  /* weights that were copied to huge pages */
    double first_token;      /* seconds until the first token of the first run */
    ey_roofline roofline;
    ey_image_usage image_usage;
    int prompt_tokens;
    double peak_bytes;
    char machine[160];
};

/* ---- an image ---- */

/* Draws smooth colors. The vision encoder's time does not depend on the content. */
static bool bench_draw_image(struct image *image, int width, int height, ey_err *e)
{
    size_t bytes = (size_t)width * (size_t)height * 3;
    *image = (struct image){.width = width, .height = height, .rgb = malloc(bytes)};
    if (!image->rgb) return ey_fail_memory(e, "an image", bytes);
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            uint8_t *p = image->rgb + 3 * ((size_t)y * (size_t)width + (size_t)x);
            p[0] = (uint8_t)(x / 4);
            p[1] = (uint8_t)(y / 3);
            p[2] = (uint8_t)((x + y) / 7);
        }
    return true;
}

/* Encodes the image as a file, because requests carry files. */
static bool bench_make_image(struct input *out, int width, int height, ey_err *e)
{
    const char *temporary = getenv("TMPDIR"),
               *folder = temporary && temporary[0] ? temporary : "/tmp";
    char path[EY_MAX_PATH];
    struct image image = {0};
    if (!path_join(path, folder, "eyelet-bench-XXXXXX", e)) return false;
    int fd = mkstemp(path);
    if (fd < 0)
        return ey_fail(e, EY_IO,
                       "cannot create a temporary file in %s; set TMPDIR to a writable folder",
                       folder);
    close(fd);
    bool ok = bench_draw_image(&image, width, height, e) && image_write_png(&image, path, e) &&
              input_read(out, path, EY_MAX_IMAGE_BYTES, e);
    unlink(path);
    image_free(&image);
    return ok;
}

/* ---- a text ---- */

enum { TEXT_BYTES = 4096 };

/* Makes a text of at most context / 2 bytes, which always fits, because a token has at least one
 * byte. */
static void make_bench_text(char out[TEXT_BYTES + 1], int context)
{
    static const char words[] =
        "The house on the hill has two doors, four windows and a small tree. ";
    size_t most = (size_t)context / 2 < TEXT_BYTES ? (size_t)context / 2 : TEXT_BYTES;
    for (size_t i = 0; i < most; i++)
        out[i] = words[i % (sizeof(words) - 1)];
    out[most] = 0;
}

/* ---- facts of the machine ---- */

/* Reads the value of a "key : value" line of a file in /proc. Returns false if there is none. */
static bool proc_value(const char *path, const char *key, char *out, size_t size)
{
    char line[512];
    bool found = false;
    FILE *f = fopen(path, "r");
    while (f && !found && fgets(line, sizeof(line), f)) {
        char *colon = strchr(line, ':');
        found = colon && strncmp(line, key, strlen(key)) == 0;
        if (found)
            snprintf(out, size, "%.*s", (int)strcspn(colon + 1 + strspn(colon + 1, " \t"), "\n"),
                     colon + 1 + strspn(colon + 1, " \t"));
    }
    if (f) fclose(f);
    return found;
}

static double peak_bytes(void)
{
    char value[64];
    return proc_value("/proc/self/status", "VmHWM", value, sizeof(value))
               ? strtod(value, NULL) * 1024
               : 0;
}

static void name_machine(struct bench *b)
{
    char processor[96] = "processor of unknown name";
    ey_engine_info info = ey_engine_describe(b->cli.engine);
    proc_value("/proc/cpuinfo", "model name", processor, sizeof(processor));
    snprintf(b->machine, sizeof(b->machine), "%s, %d threads, %s", processor, info.threads,
             info.device_detail);
}

/* ---- measuring ---- */

/* Generates an answer of at least two tokens. The caller frees it, also after an error. */
static bool answer_once(struct bench *b, const struct cli_response_format *format,
                        ey_answer *answer, ey_err *e)
{
    char text[TEXT_BYTES + 1];
    struct question question = {&b->image_file, 1, "Describe this image.", false, true, format};
    if (!b->reads_images) {
        make_bench_text(text, cli_engine_context_length(&b->cli));
        question = (struct question){NULL, 0, text, false, true, format};
    }
    if (!cli_engine_ask(&b->cli, &question, answer, e)) return false;
    if (cancel_requested()) return ey_fail(e, EY_CANCELLED, "stopped before all runs were done");
    return answer->completion_tokens >= 2 ||
           ey_fail(e, EY_TOO_LONG,
                   "the context leaves no room for a second token of the answer; use a larger "
                   "--max-model-len");
}

static bool run_once(struct bench *b, ey_err *e)
{
    ey_answer answer = {0};
    if (!answer_once(b, NULL, &answer, e)) return ey_answer_free(&answer), false;
    if (!b->vision.n) b->first_token = answer.vision_seconds + answer.prefill_seconds;
    b->vision.seconds[b->vision.n++] = answer.vision_seconds;
    b->prefill.seconds[b->prefill.n++] = answer.prefill_seconds;
    b->decode.seconds[b->decode.n++] = answer.decode_seconds;
    if (b->reads_images) b->image_usage = answer.images[0];
    b->prompt_tokens = answer.prompt_tokens;
    b->decode.tokens = answer.completion_tokens -
                       1; /* the first token comes from the prefill's logits */
    ey_answer_free(&answer);
    return true;
}

/* Asks the same question with a schema, to measure the cost of constraining answers. The runs
 * alternate with unconstrained ones, so that conditions are equal. Skips the phase if the
 * vocabulary lacks a byte, because such a model's answers cannot be constrained. */
static bool run_constrained(struct bench *b, ey_err *e)
{
    ey_answer answer = {0};
    bool ok = answer_once(b, &b->boxes, &answer, e);
    if (!ok && e->code == EY_BAD_MODEL) return ey_answer_free(&answer), true;
    if (ok) {
        b->constrained.seconds[b->constrained.n++] = answer.decode_seconds;
        b->constrained.tokens = answer.completion_tokens - 1;
    }
    ey_answer_free(&answer);
    return ok;
}

static void estimate_costs(struct bench *b)
{
    ey_cost_estimate work = ey_estimate_cost(b->cli.engine, b->image_usage.used_width,
                                             b->image_usage.used_height, b->prompt_tokens);
    b->vision.flops = work.vision_flops;
    b->vision.tokens = b->image_usage.tokens;
    b->prefill.flops = work.prefill_flops;
    b->prefill.tokens = b->prompt_tokens;
    b->decode.bytes = work.decode_bytes * b->decode.tokens;
    b->constrained.bytes = work.decode_bytes * b->constrained.tokens;
}

/* "1024x768" */
static bool bench_read_size(struct bench *b, ey_err *e)
{
    char end;
    const char *text = b->cli.options->image_size;
    if (sscanf(text, "%dx%d%c", &b->width, &b->height, &end) == 2 && b->width > 0 &&
        b->height > 0 && b->width <= EY_MAX_IMAGE_SIDE && b->height <= EY_MAX_IMAGE_SIDE &&
        (uint64_t)b->width * (uint64_t)b->height <= (uint64_t)EY_MAX_IMAGE_PIXELS)
        return true;
    return ey_fail(e, EY_BAD_REQUEST, "--picture takes a size such as 1024x768, not \"%.40s\"",
                   text);
}

/* Measures how fast --streams answers are decoded after prompts of --depth tokens. A step reads the
 * weights once, and the keys and values of each stream. */
static bool run_bench_streams(struct bench *b, ey_err *e)
{
    const struct options *o = b->cli.options;
    int n = (int)o->streams, depth = (int)o->depth;
    struct bench_streams_rate rate = {0};
    ey_cost_estimate weights = ey_estimate_cost(b->cli.engine, 0, 0, 0),
                     each = ey_estimate_cost(b->cli.engine, 0, 0, depth + (int)o->max_tokens / 2);
    for (int64_t i = 0; i < o->runs; i++) {
        if (!bench_streams(b->cli.engine, n, depth, (int)o->max_tokens, &rate, e)) return false;
        if (cancel_requested())
            return ey_fail(e, EY_CANCELLED, "stopped before all runs were done");
        if (rate.tokens < n)
            return ey_fail(e, EY_TOO_LONG,
                           "the answers are too short to be timed; raise --max-tokens");
        b->streams.seconds[b->streams.n++] = rate.seconds / rate.tokens;
        if (n == 1) b->deep.seconds[b->deep.n++] = rate.prefill_seconds;
    }
    b->deep.tokens = depth;
    b->deep.flops = ey_estimate_cost(b->cli.engine, 0, 0, depth).prefill_flops;
    b->streams.tokens = 1; /* seconds[] are per token of all streams together */
    b->streams.bytes = (weights.decode_bytes + n * (each.decode_bytes - weights.decode_bytes)) / n;
    return true;
}

/* Loads the model and runs all phases. Measures the roofline last, so that its memory does not
 * count as the model's peak. */
static bool bench_measure(struct bench *b, ey_err *e)
{
    if (!bench_read_size(b, e) || !bench_make_image(&b->image_file, b->width, b->height, e) ||
        !cli_engine_load(&b->cli, e) ||
        !ey_grammar_of_schema(&b->boxes.grammar, boxes_schema, strlen(boxes_schema), e))
        return false;
    b->huge_page_bytes = (double)ey_engine_wait_huge_pages(b->cli.engine);
    b->cli.ignore_eos = true;
    b->reads_images = ey_engine_describe(b->cli.engine).reads_images;
    for (int64_t i = 0; i < b->cli.options->runs; i++)
        if (!run_once(b, e) || !run_constrained(b, e)) return false;
    b->masks = ey_engine_mask_stats(b->cli.engine);
    if (b->cli.options->depth && !run_bench_streams(b, e)) return false;
    b->peak_bytes = peak_bytes();
    if (!ey_measure_roofline(b->cli.engine, &b->roofline, e)) return false;
    estimate_costs(b);
    name_machine(b);
    return true;
}

/* ---- printing ---- */

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(struct bench_phase *p)
{
    qsort(p->seconds, (size_t)p->n, sizeof(p->seconds[0]), compare_doubles);
    return p->n % 2 ? p->seconds[p->n / 2] : (p->seconds[p->n / 2 - 1] + p->seconds[p->n / 2]) / 2;
}

static double share_of_roofline(const struct bench *b, const struct bench_phase *p, double seconds)
{
    double work = p->bytes > 0 ? p->bytes / b->roofline.read_bytes_per_second
                               : p->flops / b->roofline.flops_per_second;
    return work / seconds;
}

/* On a CPU whose tile instructions are faster, prints the share of the vector limit, too. */
static void print_vector_share(const struct bench *b, const struct bench_phase *p, double seconds)
{
    if (p->flops > 0 && b->roofline.vector_flops_per_second > 0)
        printf("         %3.0f %% of the limit of vector instructions\n",
               100 * p->flops / seconds / b->roofline.vector_flops_per_second);
}

static void print_phase(const struct bench *b, const char *name, struct bench_phase *p)
{
    double seconds = median(p);
    bool reads = p->bytes > 0;
    printf(
        "%-8s %8.3f s  %9.1f tok/s  %8.1f %s  %3.0f %% of the limit  (%.3f to %.3f s in %d runs)\n",
        name, seconds, p->tokens / seconds, (reads ? p->bytes : p->flops) / seconds / 1e9,
        reads ? "GB/s   " : "GFLOP/s", 100 * share_of_roofline(b, p, seconds), p->seconds[0],
        p->seconds[p->n - 1], p->n);
    print_vector_share(b, p, seconds);
}

static void print_streams(struct bench *b)
{
    double seconds = median(&b->streams);
    printf("%lld at %-4lld %8.3f ms  %9.1f tok/s total %8.1f GB/s  %3.0f %% of the limit  (%.1f "
           "to %.1f tok/s in %d runs)\n",
           (long long)b->cli.options->streams, (long long)b->cli.options->depth,
           1e3 * seconds * (double)b->cli.options->streams, 1 / seconds,
           b->streams.bytes / seconds / 1e9, 100 * share_of_roofline(b, &b->streams, seconds),
           1 / b->streams.seconds[b->streams.n - 1], 1 / b->streams.seconds[0], b->streams.n);
}

static void print_gpu(struct bench *b)
{
    uint64_t used, total;
    ey_stats stats = ey_engine_stats(b->cli.engine);
    if (!ey_gpu_memory_usage(b->cli.engine, &used, &total)) return;
    printf("steps    %8llu, %llu of them enqueued before the previous tokens were known\n",
           (unsigned long long)stats.steps, (unsigned long long)stats.async_steps);
    printf("GPU      %8.0f MiB planned, %.0f of %.0f MiB in use by all processes\n",
           (double)ey_engine_describe(b->cli.engine).device_bytes / (1 << 20),
           (double)used / (1 << 20), (double)total / (1 << 20));
}

/* Prints which processor rescores the candidates of an 8-bit LM head. */
static void print_lm_head(struct bench *b)
{
    const char *rows = ey_engine_describe(b->cli.engine).lm_head_rows;
    if (!rows) return;
    printf("lm_head  8 bits; candidates are rescored %s\n",
           strcmp(rows, "pinned") == 0 ? "by the GPU, from rows in pinned host memory"
                                       : "by the host, one round trip a token");
}

/* Prints expected and measured speed if layers are split between GPU and CPU. */
static void print_gpu_layers(struct bench *b)
{
    ey_engine_info info = ey_engine_describe(b->cli.engine);
    const double measured = b->decode.tokens / median(&b->decode);
    if (info.gpu_layers == info.n_layers) return;
    printf("split    %d of %d layers on the GPU: %.2f tok/s expected, %.2f "
           "measured, %.0f %%\n",
           info.gpu_layers, info.n_layers, info.tokens_per_second, measured,
           info.tokens_per_second > 0 ? 100 * measured / info.tokens_per_second : 0);
}

static void print_constrained(struct bench *b)
{
    print_phase(b, "schema", &b->constrained);
    printf("masks    %8.1f us at p50, %.1f us at p99 (upper bounds), computed during steps, which "
           "waited %.2f ms for %llu masks in total\n",
           1e6 * ey_mask_percentile(&b->masks, 0.5), 1e6 * ey_mask_percentile(&b->masks, 0.99),
           1e3 * b->masks.step_wait_seconds, (unsigned long long)b->masks.count);
}

static void bench_print_text(struct bench *b)
{
    ey_engine_info info = ey_engine_describe(b->cli.engine);
    printf("%s\nlimits   reading %.1f GB/s, multiply-add %.1f GFLOP/s", b->machine,
           b->roofline.read_bytes_per_second / 1e9, b->roofline.flops_per_second / 1e9);
    if (b->roofline.vector_flops_per_second > 0)
        printf(" (tdpbf16ps), of vectors %.1f (vdpbf16ps)",
               b->roofline.vector_flops_per_second / 1e9);
    printf("\n");
    printf("load     %8.3f s, of which %.3f s for the device itself\n", info.load_seconds,
           info.device_seconds);
    if (b->reads_images)
        printf("image    %dx%d, %d tokens; prompt %d tokens\n", b->image_usage.used_width,
               b->image_usage.used_height, b->image_usage.tokens, b->prompt_tokens);
    else
        printf("text     prompt %d tokens\n", b->prompt_tokens);
    if (b->reads_images) print_phase(b, "vision", &b->vision);
    print_phase(b, "prefill", &b->prefill);
    print_phase(b, "decode", &b->decode);
    print_gpu_layers(b);
    if (b->constrained.n) print_constrained(b);
    if (b->streams.n) print_streams(b);
    if (b->deep.n) print_phase(b, "prompt", &b->deep);
    printf("first    %8.1f ms to the first token of the first run\n", 1e3 * b->first_token);
    print_lm_head(b);
    print_gpu(b);
    printf("memory   %8.0f MB at the peak, mapped weights included", b->peak_bytes / 1e6);
    if (b->huge_page_bytes > 0)
        printf("; %.0f MB of the weights copied to huge pages", b->huge_page_bytes / 1e6);
    printf("\n");
}

static void add_phase(struct json_writer *w, const struct bench *b, const char *name,
                      struct bench_phase *p)
{
    double seconds = median(p);
    json_write_key(w, name);
    json_open_object(w);
    json_add_fixed(w, "seconds", seconds, 6);
    json_add_fixed(w, "tokens_per_second", p->tokens / seconds, 3);
    if (p->bytes > 0) {
        json_add_fixed(w, "bytes", p->bytes, 0);
        json_add_null(w, "flops");
    } else {
        json_add_null(w, "bytes");
        json_add_fixed(w, "flops", p->flops, 0);
    }
    json_add_fixed(w, "share_of_limit", share_of_roofline(b, p, seconds), 4);
    json_close_object(w);
}

static void add_masks(struct json_writer *w, const ey_mask_stats *masks)
{
    json_write_key(w, "masks");
    json_open_object(w);
    json_add_uint(w, "made", masks->count);
    json_add_fixed(w, "p50_seconds", ey_mask_percentile(masks, 0.5), 9);
    json_add_fixed(w, "p99_seconds", ey_mask_percentile(masks, 0.99), 9);
    json_add_fixed(w, "waited_seconds", masks->step_wait_seconds, 9);
    json_close_object(w);
}

static void write_bench(struct json_writer *w, struct bench *b)
{
    const ey_engine_info engine = ey_engine_describe(b->cli.engine);
    json_open_object(w);
    json_add_string(w, "machine", b->machine);
    json_write_key(w, "load");
    json_open_object(w);
    json_add_fixed(w, "seconds", engine.load_seconds, 6);
    json_close_object(w);
    if (b->reads_images) add_phase(w, b, "vision", &b->vision);
    add_phase(w, b, "prefill", &b->prefill);
    add_phase(w, b, "decode", &b->decode);
    if (b->constrained.n) {
        add_phase(w, b, "schema", &b->constrained);
        add_masks(w, &b->masks);
    }
    if (b->streams.n) add_phase(w, b, "streams", &b->streams);
    if (b->deep.n) add_phase(w, b, "prompt", &b->deep);
    json_add_string(w, "head_rows", engine.lm_head_rows);
    json_write_key(w, "limits");
    json_open_object(w);
    json_add_fixed(w, "read_bytes_per_second", b->roofline.read_bytes_per_second, 0);
    json_add_fixed(w, "flops_per_second", b->roofline.flops_per_second, 0);
    json_add_fixed(w, "vector_flops_per_second", b->roofline.vector_flops_per_second, 0);
    json_close_object(w);
    json_add_fixed(w, "peak_bytes", b->peak_bytes, 0);
    json_add_fixed(w, "huge_page_bytes", b->huge_page_bytes, 0);
    json_close_object(w);
}

static void bench_print_json(struct bench *b)
{
    struct buf out = buf_with_max(1 << 16);
    struct json_writer w = json_write_to(&out, JSON_SPACED);
    write_bench(&w, b);
    if (!out.failed) printf("%s\n", out.data);
    buf_free(&out);
}

static bool bench_check_options(const struct options *o, ey_err *e)
{
    if (o->n_args)
        return ey_fail(e, EY_BAD_REQUEST, "bench takes no arguments; name the model with --model");
    return o->streams < 2 || o->depth ||
           ey_fail(e, EY_BAD_REQUEST,
                   "--streams needs --depth, the length of the streams' prompts");
}

int cmd_bench(const struct options *o)
{
    ey_err e;
    if (!bench_check_options(o, &e)) return term_complain(&e);
    struct bench *b = calloc(1, sizeof(*b));
    if (!b) return 1;
    cli_engine_init(&b->cli, o);
    bool ok = bench_measure(b, &e);
    progress_clear(&b->cli.progress);
    int status = ok ? 0 : term_complain(&e);
    if (cancel_requested()) status = EXIT_INTERRUPTED;
    if (ok && o->json)
        bench_print_json(b);
    else if (ok)
        bench_print_text(b);
    if (ok) status = term_finish(&b->cli.out, 0);
    response_format_close(&b->boxes);
    input_free(&b->image_file);
    cli_engine_close(&b->cli);
    free(b);
    return status;
}
