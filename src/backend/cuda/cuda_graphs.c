/* SPDX-License-Identifier: Apache-2.0 */
/* A step's batch on the GPU, and CUDA graphs: one captured decode step for each number of
 * sequences. */
#include <string.h>

#include "backend/cuda/cuda_backend.h"
#include "kernels/cuda/sampling/sample_launch.h"

/* ---- memory ---- */

static size_t step_output_bytes(const struct cuda *c)
{
    return cuda_aligned(c->small.layout.total * sizeof(int32_t)) +
           cuda_aligned(cuda_step_output_layout(&c->limits).total);
}

/* Lays one turn's results out; returns what comes behind them. */
static char *open_step_output(struct cuda *c, struct step_output *o, char *at)
{
    o->small = (int32_t *)(void *)at;
    o->results = at + cuda_aligned(c->small.layout.total * sizeof(int32_t));
    return at + step_output_bytes(c);
}

static bool open_step_event(struct cuda *c, CUevent *event, ey_err *e)
{
    return *event ||
           cuda_ok(&c->driver, c->driver.event_create(event, CU_EVENT_DISABLE_TIMING), "steps", e);
}

/* One pinned allocation: twins of both regions, and what comes back of a step. */
bool cuda_batches_open(struct cuda *c, ey_err *e)
{
    int rows = c->limits.max_rows > SMALL_ROWS ? c->limits.max_rows : SMALL_ROWS;
    c->small = (struct batch_region){.layout = cuda_batch_layout(SMALL_ROWS, &c->limits),
                                     .device = (int32_t *)(void *)c->scratch[SCRATCH_SMALL],
                                     .rows = SMALL_ROWS};
    c->large = (struct batch_region){.layout = cuda_batch_layout(rows, &c->limits),
                                     .device = (int32_t *)(void *)c->scratch[SCRATCH_LARGE],
                                     .rows = rows};
    size_t large = cuda_aligned(c->large.layout.total * sizeof(int32_t));
    void *p = NULL;
    if (c->pinned_step_memory) {
        c->driver.host_free(c->pinned_step_memory);
        c->pinned_step_memory = NULL;
    }
    if (!cuda_ok(&c->driver, c->driver.host_alloc(&p, large + 2 * step_output_bytes(c), 0),
                 "pinned memory for steps", e))
        return false;
    c->pinned_step_memory = p;
    c->large.host = p;
    char *at = c->pinned_step_memory + large;
    for (int i = 0; i < 2; i++) {
        at = open_step_output(c, &c->step_output[i], at);
        if (!open_step_event(c, &c->step_output[i].done, e)) return false;
    }
    c->small.host = c->step_output[0].small;
    return true;
}

/* ---- a batch ---- */

static bool is_same(const struct batch *a, const struct batch *b)
{
    return a->n_rows && a->n_rows == b->n_rows && a->n_seqs == b->n_seqs && a->token == b->token &&
           a->feature == b->feature && a->position == b->position && a->seq == b->seq &&
           a->index == b->index && a->block_table == b->block_table;
}

static void copy_rows(struct batch_region *r, size_t at, const int32_t *from, size_t n)
{
    if (from) memcpy(r->host + at, from, n * sizeof(int32_t));
}

/* Rows of one sequence that follow each other, cut at ATTENTION_ROWS. The layout has room for the
 * tiles of batches in which a sequence's rows lie together. */
static void lay_out_attention_tiles(struct batch_region *r, const struct batch *b)
{
    int32_t *tile = r->host + r->layout.tile;
    r->n_tiles = 0;
    for (int first = 0, n; b->seq && b->index && first < b->n_rows; first += n) {
        for (n = 1; n < ATTENTION_ROWS && first + n < b->n_rows; n++)
            if (b->seq[first + n] != b->seq[first] || b->index[first + n] != b->index[first] + n)
                break;
        tile[2 * r->n_tiles] = first;
        tile[2 * r->n_tiles + 1] = n;
        r->n_tiles++;
    }
}

static void fill_region(struct batch_region *r, const struct batch *b)
{
    size_t n = (size_t)b->n_rows;
    copy_rows(r, 0, b->token, n);
    copy_rows(r, r->layout.feature, b->feature, n);
    copy_rows(r, r->layout.seq, b->seq, n);
    copy_rows(r, r->layout.index, b->index, n);
    copy_rows(r, r->layout.position, b->position, 3 * n);
    copy_rows(r, r->layout.block_table, b->block_table, (size_t)b->n_seqs * (size_t)b->max_blocks);
    for (size_t i = 0; i < (size_t)(r->layout.tile - r->layout.out_rows); i++)
        r->host[r->layout.out_rows + i] = (int32_t)i;
    lay_out_attention_tiles(r, b);
    r->copied = *b;
}

const struct batch_region *cuda_batch(struct cuda *c, const struct batch *batch)
{
    struct batch_region *r = batch->n_rows <= SMALL_ROWS ? &c->small : &c->large;
    if (c->capturing || is_same(&r->copied, batch)) return r;
    cuda_check_call(c, c->driver.stream_sync(c->stream),
                    "a step"); /* the twin may still be on its way */
    fill_region(r, batch);
    cuda_check_call(c,
                    c->driver.to_device((CUdeviceptr)(uintptr_t)r->device, r->host,
                                        r->layout.total * sizeof(int32_t), c->stream),
                    "a batch");
    return r;
}

struct dev_batch cuda_dev_batch(const struct batch_region *r, const struct batch *batch)
{
    return (struct dev_batch){r->device + r->layout.seq, r->device + r->layout.index,
                              r->device + r->layout.block_table, batch->n_rows, batch->max_blocks};
}

/* ---- captured steps ---- */

bool cuda_is_decode(const struct batch *b)
{
    if (b->n_rows != b->n_seqs || b->n_rows > SMALL_ROWS) return false;
    for (int i = 0; i < b->n_rows; i++)
        if (b->seq[i] != i) return false;
    return true;
}

bool cuda_capture_begin(struct backend *be, int n_seqs)
{
    struct cuda *c = cuda_of(be);
    if (c->eager || n_seqs < 1 || n_seqs > SMALL_ROWS) return false;
    if (!cuda_check_call(c, c->driver.capture_begin(c->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                         "recording"))
        return false;
    c->capturing = n_seqs;
    return true;
}

bool cuda_capture_end(struct backend *be, ey_err *e)
{
    struct cuda *c = cuda_of(be);
    CUgraph graph = NULL;
    int n = c->capturing;
    c->capturing = 0;
    if (!cuda_ok(&c->driver, c->driver.capture_end(c->stream, &graph), "recording", e))
        return false;
    bool ok = cuda_ok(&c->driver, c->driver.graph_instantiate(&c->graph[n], graph, 0),
                      "a recorded step", e) &&
              cuda_ok(&c->driver, c->driver.graph_upload(c->graph[n], c->stream), "a recorded step",
                      e);
    c->driver.graph_destroy(graph);
    return cuda_finish(be, e) && ok;
}

/* Copies a step's inputs or outputs between the GPU and pinned memory: by a kernel where it can,
 * which starts sooner than the copy engine. */
static void copy_step_words(struct cuda *c, void *to, const void *from, size_t bytes, bool to_gpu)
{
    struct copy_words_args a = {to, from, (int32_t)(bytes / sizeof(uint32_t))};
    struct launch l = copy_words_launch();
    if (c->sees_pinned)
        cuda_launch(c, &l, &a);
    else if (to_gpu)
        cuda_check_call(c, c->driver.to_device((CUdeviceptr)(uintptr_t)to, from, bytes, c->stream),
                        "a step's inputs");
    else
        cuda_check_call(c, c->driver.to_host(to, (CUdeviceptr)(uintptr_t)from, bytes, c->stream),
                        "a step's results");
}

/* Enqueues the upload of the step's inputs from this turn's buffer. */
static void send_step_inputs(struct cuda *c, const struct batch *batch,
                             const struct token_sampling *draws)
{
    struct batch_region *r = &c->small;
    r->host = c->step_output[c->turn].small;
    fill_region(r, batch);
    r->copied.n_rows = 0; /* the arrays that it came from change from step to step */
    for (int i = 0; draws && i < batch->n_rows; i++) {
        const struct token_sampling *d = &draws[i];
        const struct sample_params params = {d->seed,  d->step,  d->temperature,
                                             d->top_p, d->min_p, d->top_k};
        memcpy(r->host + r->layout.sample_params + (size_t)i * sizeof(params) / sizeof(int32_t),
               &params, sizeof(params));
    }
    copy_step_words(c, r->device, r->host, r->layout.total * sizeof(int32_t), true);
}

void cuda_send_step_output(struct cuda *c)
{
    struct step_output *o = &c->step_output[c->turn];
    copy_step_words(c, o->results, c->scratch[SCRATCH_STEP_OUTPUT],
                    cuda_step_output_layout(&c->limits).total, false);
    cuda_check_call(c, c->driver.event_record(o->done, c->stream), "results");
    o->n_committed = 0;
    c->shown = c->turn;
    c->turn = !c->turn;
}

bool cuda_launch_graph(struct backend *be, const struct batch *batch, int n_out)
{
    struct cuda *c = cuda_of(be);
    if (c->capturing || n_out != batch->n_rows || !cuda_is_decode(batch) ||
        !c->graph[batch->n_rows])
        return false;
    if (c->limits.fp8_prompts && batch->n_prompt) return false;
    for (int i = 0; i < batch->n_rows; i++)
        if (batch->feature[i] >= 0) return false;
    if (c->host_embedding.data && !c->n_pinned_ranges) cuda_look_up_embeddings(c, batch);
    send_step_inputs(c, batch, NULL);
    cuda_check_call(c, c->driver.graph_launch(c->graph[batch->n_rows], c->stream),
                    "a recorded step");
    cuda_send_step_output(c);
    return true;
}

/* Not where the host looks up embeddings or rescores: it has to know the token first. */
bool cuda_enqueue_speculative(struct backend *be, const struct batch *batch,
                              const struct token_sampling *draws)
{
    struct cuda *c = cuda_of(be);
    if (((c->host_embedding.data || c->bf16_head.data) && !c->n_pinned_ranges) ||
        !c->graph[batch->n_rows] || c->error.code != EY_OK)
        return false;
    int shown = c->shown;
    char *output = c->scratch[SCRATCH_STEP_OUTPUT];
    send_step_inputs(c, batch, draws);
    struct sample_args a = {
        (const struct topk_logit *)(void *)output,
        (const struct sample_params *)(const void *)(c->small.device +
                                                     c->small.layout.sample_params),
        c->small.device, (int32_t *)(void *)(output + cuda_step_output_layout(&c->limits).sampled),
        batch->n_rows};
    struct launch l = sample_launch(&a);
    cuda_launch(c, &l, &a);
    cuda_check_call(c, c->driver.graph_launch(c->graph[batch->n_rows], c->stream),
                    "a recorded step");
    cuda_send_step_output(c);
    c->shown = shown; /* the one before it */
    return true;
}

bool cuda_wait_previous(struct backend *be, ey_err *e)
{
    struct cuda *c = cuda_of(be);
    cuda_check_call(c, c->driver.event_sync(c->step_output[c->shown].done), "a step");
    return cuda_take_error(c, e);
}

void cuda_commit(struct backend *be, const int32_t *token, int n)
{
    struct cuda *c = cuda_of(be);
    struct step_output *o = &c->step_output[!c->shown];
    o->n_committed = n;
    memcpy(o->committed, token, (size_t)n * sizeof(*token));
    c->shown = !c->shown;
}

bool cuda_verify(struct backend *be)
{
    const struct cuda *c = cuda_of(be);
    const struct step_output *o = &c->step_output[c->shown];
    return memcmp(o->results + cuda_step_output_layout(&c->limits).sampled, o->committed,
                  (size_t)o->n_committed * sizeof(*o->committed)) == 0;
}
