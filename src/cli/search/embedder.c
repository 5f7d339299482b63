/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/search/embedder.h"

#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "cli/terminal/cancel.h"

bool embedder_load(struct embedder *embedder, ey_err *e)
{
    struct cli_engine *cli = embedder->cli;
    cli->embeds = true;
    cli->at_once = true;
    if (!cli_engine_load(cli, e)) return false;
    if (cli->remote) return true; /* the server checks the model when it gets a request */
    const int all = ey_engine_dimensions(cli->engine);
    if (ey_engine_task(cli->engine) != EY_TASK_EMBED)
        return ey_fail(e, EY_BAD_REQUEST,
                       "%.200s is not an embedding model; get one with: eyelet pull "
                       "qwen3-vl-embedding:2b (or add --task embed if it is one)",
                       cli->model);
    if (embedder->dimensions > all)
        return ey_fail(e, EY_BAD_REQUEST, "--dimensions %d: this model's vectors have %d numbers",
                       embedder->dimensions, all);
    return true;
}

static bool vectors_are_wanted(void)
{
    return !cancel_requested();
}

struct embedded embedded_of(const struct batch_item *item)
{
    const ey_pooled pooled = ey_answer_pooled(&item->answer);
    if (item->vector.number)
        return (struct embedded){item->vector.number, item->vector.n, item->vector.prompt_tokens};
    return (struct embedded){pooled.vector, pooled.n_vector, item->answer.prompt_tokens};
}

bool embedder_dimensions(const struct embedder *embedder, int *n, ey_err *e)
{
    const struct cli_engine *cli = embedder->cli;
    ey_part part = ey_text_part("a");
    const ey_pooling_input input = {.parts = &part, .n_parts = 1};
    struct remote_vector vector = {0};
    if (!cli->remote) return *n = ey_engine_dimensions(cli->engine), true;
    bool ok = remote_embed(cli->remote, &input, 0, vectors_are_wanted, &vector, e);
    *n = (int)vector.n;
    free(vector.number);
    return ok;
}

static bool goes_on(void *user, const ey_event *event)
{
    (void)user;
    (void)event;
    return !cancel_requested();
}

static size_t input_parts(const struct embedder *embedder, const struct embed_input *input,
                          const struct input *image, ey_part parts[2])
{
    size_t n = 0;
    if (input->image) {
        parts[n] = ey_image_part(image->bytes, image->size);
        if (embedder->cli->options->max_pixels > 0)
            parts[n].max_pixels = (uint64_t)embedder->cli->options->max_pixels;
        n++;
    }
    if (input->text)
        parts[n++] = (ey_part){
            .type = EY_PART_TEXT, .bytes = input->text, .n_bytes = input->n_text};
    return n;
}

static bool make_vector(const struct embedder *embedder, const struct embed_input *input,
                        const struct input *image, struct batch_item *item, ey_err *e)
{
    const char *instruction = input->instruction ? input->instruction : embedder->instruction;
    ey_part parts[2];
    const ey_pooling_input pooled = {
        .parts = parts,
        .n_parts = input_parts(embedder, input, image, parts),
        .instruction = instruction,
        .n_instruction = instruction ? strlen(instruction) : 0,
    };
    if (embedder->cli->remote)
        return remote_embed(embedder->cli->remote, &pooled, embedder->dimensions,
                            vectors_are_wanted, &item->vector, e);
    ey_request request = ey_request_defaults();
    request.pool = true;
    request.input = &pooled;
    request.truncate = true;
    request.dimensions = embedder->dimensions;
    request.on_event = goes_on;
    return ey_ask(embedder->cli->engine, &request, &item->answer, e) &&
           (item->answer.finish_reason != EY_FINISH_CANCELLED ||
            ey_fail(e, EY_CANCELLED, "it was interrupted"));
}

void embedder_run(const struct embedder *embedder, const struct embed_input *input,
                  struct batch_item *item)
{
    struct input image = {0};
    *item = (struct batch_item){0};
    if (cancel_requested()) return;
    item->ok = (!input->image ||
                input_read(&image, input->image, EY_MAX_IMAGE_BYTES, &item->error)) &&
               make_vector(embedder, input, &image, item, &item->error);
    input_free(&image);
}

int embedder_at_once(const struct embedder *embedder, size_t n)
{
    if (embedder->cli->remote) return 1; /* requests share one connection */
    const int most = ey_engine_describe(embedder->cli->engine).max_num_seqs;
    return n < (size_t)most ? (int)n : most;
}

bool embedder_run_all(const struct embedder *embedder, struct batch_work *work, ey_err *e)
{
    work->n_threads = embedder_at_once(embedder, work->n);
    embedder->cli->shared = true;
    return !work->n || batch_work_run(work, e);
}
