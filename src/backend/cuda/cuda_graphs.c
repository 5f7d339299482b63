/* SPDX-License-Identifier: Apache-2.0 */
/* Steps on the GPU, and CUDA graphs: one for each captured shape of step. */
#include <string.h>

#include "backend/cuda/cuda_backend.h"
#include "kernels/cuda/sampling/sample_launch.h"

/* ---- memory ---- */

static size_t step_output_bytes(const struct cuda *c)
{
    return cuda_aligned(c->small.layout.total * sizeof(int32_t)) +
           cuda_aligned(cuda_step_output_layout(&c->limits).total);
}

/* Lays out one turn's results; returns the address after them. */
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

/* Makes one pinned allocation for the copies of both regions and the results of steps. */
bool cuda_steps_open(struct cuda *c, ey_err *e)
{
    int rows = c->limits.max_rows > SMALL_ROWS ? c->limits.max_rows : SMALL_ROWS;
    c->small = (struct step_region){.layout = cuda_step_layout(SMALL_ROWS, &c->limits),
                                    .device = (int32_t *)(void *)c->scratch[SCRATCH_SMALL],
                                    .rows = SMALL_ROWS};
    c->large = (struct step_region){.layout = cuda_step_layout(rows, &c->limits),
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

/* ---- a step ---- */

static bool is_same(const struct step *a, const struct step *b)
{
    return a->n_rows && a->n_rows == b->n_rows && a->n_seqs == b->n_seqs && a->seq == b->seq &&
           a->token == b->token && a->feature == b->feature && a->position == b->position &&
           a->row_seq == b->row_seq && a->row_slot == b->row_slot &&
           a->block_table == b->block_table;
}

static void copy_rows(struct step_region *r, size_t at, const int32_t *from, size_t n)
{
    if (from) memcpy(r->host + at, from, n * sizeof(int32_t));
}

int cuda_attention_tiles(const struct step *step)
{
    int n = 0;
    for (int s = 0; s < step->n_seqs; s++)
        n += (step->seq[s].n_rows + ATTENTION_ROWS - 1) / ATTENTION_ROWS;
    return n;
}

/* Lists the attention tiles: each sequence's rows, cut at ATTENTION_ROWS. */
static void lay_out_attention_tiles(int32_t *tile, const struct step *step)
{
    for (int s = 0; s < step->n_seqs; s++) {
        const struct step_seq *seq = &step->seq[s];
        for (int row = 0; row < seq->n_rows; row += ATTENTION_ROWS) {
            int left = seq->n_rows - row;
            *tile++ = seq->first_row + row;
            *tile++ = left < ATTENTION_ROWS ? left : ATTENTION_ROWS;
        }
    }
}

static void fill_region(struct step_region *r, const struct step *step)
{
    size_t n = (size_t)step->n_rows;
    copy_rows(r, 0, step->token, n);
    copy_rows(r, r->layout.feature, step->feature, n);
    copy_rows(r, r->layout.seq, step->row_seq, n);
    copy_rows(r, r->layout.index, step->row_slot, n);
    copy_rows(r, r->layout.position, step->position, 3 * n);
    copy_rows(r, r->layout.block_table, step->block_table,
              (size_t)step->n_seqs * (size_t)step->max_blocks);
    for (size_t i = 0; i < r->layout.tile - r->layout.logits_row; i++)
        r->host[r->layout.logits_row + i] = (int32_t)i;
    lay_out_attention_tiles(r->host + r->layout.tile, step);
    r->copied = *step;
}

const struct step_region *cuda_step(struct cuda *c, const struct step *step)
{
    struct step_region *r = step->n_rows <= SMALL_ROWS ? &c->small : &c->large;
    if (c->capturing || is_same(&r->copied, step)) return r;
    cuda_check_call(c, c->driver.stream_sync(c->stream),
                    "a step"); /* the pinned copy may still be in transfer */
    fill_region(r, step);
    cuda_check_call(c,
                    c->driver.to_device((CUdeviceptr)(uintptr_t)r->device, r->host,
                                        r->layout.total * sizeof(int32_t), c->stream),
                    "a step");
    return r;
}

struct dev_batch cuda_dev_batch(const struct step_region *r, const struct step *step)
{
    return (struct dev_batch){r->device + r->layout.seq, r->device + r->layout.index,
                              r->device + r->layout.block_table, step->n_rows, step->max_blocks};
}

/* ---- captured steps ---- */

bool cuda_is_decode(const struct step *step)
{
    return step->n_rows == step->n_seqs && step->n_rows <= SMALL_ROWS;
}

/* Returns the shape of a step whose sequences have equally many rows; other steps match no
 * graph. */
static struct step_shape step_shape_of(const struct step *step)
{
    for (int s = 0; s < step->n_seqs; s++)
        if (step->seq[s].n_rows != step->seq[0].n_rows) return (struct step_shape){0, 0};
    return (struct step_shape){step->n_seqs, step->n_seqs ? step->seq[0].n_rows : 0};
}

/* Returns NULL if no step of this shape was captured. */
static CUgraphExec captured_graph(const struct cuda *c, const struct step *step)
{
    const struct step_shape shape = step_shape_of(step);
    for (int i = 0; i < c->n_captured; i++)
        if (c->captured[i].shape.n_seqs == shape.n_seqs &&
            c->captured[i].shape.rows_per_seq == shape.rows_per_seq)
            return c->captured[i].graph;
    return NULL;
}

bool cuda_capture_begin(struct backend *be, const struct step_shape *shape)
{
    struct cuda *c = cuda_of(be);
    if (c->eager || c->n_captured == MAX_GRAPHS || shape->n_seqs < 1 || shape->rows_per_seq < 1 ||
        shape->n_seqs * shape->rows_per_seq > SMALL_ROWS)
        return false;
    if (!cuda_check_call(c, c->driver.capture_begin(c->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                         "recording"))
        return false;
    c->captured[c->n_captured].shape = *shape;
    c->capturing = true;
    return true;
}

bool cuda_capture_end(struct backend *be, ey_err *e)
{
    struct cuda *c = cuda_of(be);
    CUgraph graph = NULL;
    CUgraphExec *exec = &c->captured[c->n_captured].graph;
    cuda_add_pending(c);
    c->capturing = false;
    if (!cuda_ok(&c->driver, c->driver.capture_end(c->stream, &graph), "recording", e))
        return false;
    bool made = cuda_ok(&c->driver, c->driver.graph_instantiate(exec, graph, 0), "a recorded step",
                        e);
    c->n_captured += made;
    bool ok = made &&
              cuda_ok(&c->driver, c->driver.graph_upload(*exec, c->stream), "a recorded step", e);
    c->driver.graph_destroy(graph);
    return cuda_finish(be, e) && ok;
}

/* Copies a step's inputs or outputs between the GPU and pinned memory, if possible by a kernel,
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
static void send_step_inputs(struct cuda *c, const struct step *step,
                             const struct token_sampling *draws)
{
    struct step_region *r = &c->small;
    r->host = c->step_output[c->turn].small;
    fill_region(r, step);
    r->copied.n_rows = 0; /* its source arrays change from step to step */
    for (int i = 0; draws && i < step->n_rows; i++) {
        const struct token_sampling *d = &draws[i];
        const struct sample_params params = {d->seed,  d->step,  d->temperature,
                                             d->top_p, d->min_p, d->top_k};
        memcpy(r->host + r->layout.sample_params + (size_t)i * sizeof(params) / sizeof(int32_t),
               &params, sizeof(params));
    }
    copy_step_words(c, r->device, r->host, r->layout.total * sizeof(int32_t), true);
}

/* Returns the output that a handle identifies. */
static struct step_output *output_of(struct cuda *c, step_handle step)
{
    return &c->step_output[step - 1];
}

/* Enqueues the copy of the step's results to the host, into this turn's buffer. */
static step_handle send_step_output(struct cuda *c)
{
    const int turn = c->turn;
    struct step_output *o = &c->step_output[turn];
    copy_step_words(c, o->results, c->scratch[SCRATCH_STEP_OUTPUT],
                    cuda_step_output_layout(&c->limits).total, false);
    cuda_check_call(c, c->driver.event_record(o->done, c->stream), "results");
    o->n_committed = 0;
    c->turn = !turn;
    return turn + 1;
}

step_handle cuda_end_step(struct backend *be)
{
    struct cuda *c = cuda_of(be);
    c->shown = c->turn;
    return send_step_output(c);
}

step_handle cuda_launch_graph(struct backend *be, const struct step *step)
{
    struct cuda *c = cuda_of(be);
    const CUgraphExec graph = captured_graph(c, step);
    if (c->capturing || !graph || step->n_logits != step->n_rows) return 0;
    if (c->limits.fp8_prompts && step_prompt_rows(step)) return 0;
    for (int i = 0; i < step->n_rows; i++)
        if (step->feature[i] >= 0) return 0;
    if (c->host_embedding.data && !c->n_pinned_ranges) cuda_look_up_embeddings(c, step);
    send_step_inputs(c, step, NULL);
    cuda_check_call(c, c->driver.graph_launch(graph, c->stream), "a recorded step");
    return cuda_end_step(be);
}

/* Returns 0 if the host looks up embeddings or rescores, because it must know the token first. */
step_handle cuda_enqueue_speculative(struct backend *be, const struct step *step,
                                     const struct token_sampling *draws)
{
    struct cuda *c = cuda_of(be);
    const CUgraphExec graph = captured_graph(c, step);
    if (((c->host_embedding.data || c->bf16_head.data) && !c->n_pinned_ranges) || !graph ||
        c->error.code != EY_OK)
        return 0;
    char *output = c->scratch[SCRATCH_STEP_OUTPUT];
    send_step_inputs(c, step, draws);
    struct sample_args a = {
        (const struct topk_logit *)(void *)output,
        (const struct sample_params *)(const void *)(c->small.device +
                                                     c->small.layout.sample_params),
        c->small.device, (int32_t *)(void *)(output + cuda_step_output_layout(&c->limits).sampled),
        step->n_rows};
    struct launch l = sample_launch(&a);
    cuda_launch(c, &l, &a);
    cuda_check_call(c, c->driver.graph_launch(graph, c->stream), "a recorded step");
    return send_step_output(c);
}

bool cuda_wait(struct backend *be, step_handle step, ey_err *e)
{
    struct cuda *c = cuda_of(be);
    cuda_check_call(c, c->driver.event_sync(output_of(c, step)->done), "a step");
    return cuda_take_error(c, e);
}

void cuda_commit(struct backend *be, step_handle step, const int32_t *token, int n)
{
    struct cuda *c = cuda_of(be);
    struct step_output *o = output_of(c, step);
    o->n_committed = n;
    memcpy(o->committed, token, (size_t)n * sizeof(*token));
    c->shown = step - 1;
}

bool cuda_verify(struct backend *be, step_handle step)
{
    struct cuda *c = cuda_of(be);
    const struct step_output *o = output_of(c, step);
    return memcmp(o->results + cuda_step_output_layout(&c->limits).sampled, o->committed,
                  (size_t)o->n_committed * sizeof(*o->committed)) == 0;
}

void cuda_drop(struct backend *be, step_handle step)
{
    (void)step; /* only the last step can be dropped */
    cuda_finish(be, NULL);
}
