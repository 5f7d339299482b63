/* SPDX-License-Identifier: Apache-2.0 */
/* A step's batch on the card, and steps that are written down once and replayed: a CUDA graph for
 * each number of sequences. */
#include <string.h>

#include "backend/cuda/cuda.h"
#include "backend/cuda/draw_shape.h"

/* ---- memory ---- */

static size_t outcome_bytes(const struct cuda *c)
{
    return cuda_aligned(c->small.layout.total * sizeof(int32_t)) +
           cuda_aligned(cuda_outcome_layout(&c->limits).total);
}

/* Lays one turn's results out; returns what comes behind them. */
static char *open_outcome(struct cuda *c, struct outcome *o, char *at)
{
    o->small = (int32_t *)(void *)at;
    o->results = at + cuda_aligned(c->small.layout.total * sizeof(int32_t));
    return at + outcome_bytes(c);
}

static bool open_event(struct cuda *c, CUevent *event, ey_err *e)
{
    return *event ||
           cuda_ok(&c->driver, c->driver.event_create(event, CU_EVENT_DISABLE_TIMING), "steps", e);
}

/* One pinned allocation: twins of both regions, and what comes back of a step. */
bool cuda_batches_open(struct cuda *c, ey_err *e)
{
    int rows = c->limits.max_rows > SMALL_ROWS ? c->limits.max_rows : SMALL_ROWS;
    c->small = (struct batch_region){.layout = cuda_batch_layout(SMALL_ROWS, &c->limits),
                                     .card = (int32_t *)(void *)c->scratch[SCRATCH_SMALL],
                                     .rows = SMALL_ROWS};
    c->large = (struct batch_region){.layout = cuda_batch_layout(rows, &c->limits),
                                     .card = (int32_t *)(void *)c->scratch[SCRATCH_LARGE],
                                     .rows = rows};
    size_t large = cuda_aligned(c->large.layout.total * sizeof(int32_t));
    void *p = NULL;
    if (c->pinned_small) {
        c->driver.host_free(c->pinned_small);
        c->pinned_small = NULL;
    }
    if (!cuda_ok(&c->driver, c->driver.host_alloc(&p, large + 2 * outcome_bytes(c), 0),
                 "pinned memory for steps", e))
        return false;
    c->pinned_small = p;
    c->large.host = p;
    char *at = c->pinned_small + large;
    for (int i = 0; i < 2; i++) {
        at = open_outcome(c, &c->outcome[i], at);
        if (!open_event(c, &c->outcome[i].done, e)) return false;
    }
    c->small.host = c->outcome[0].small;
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

/* Rows of one sequence that follow each other, cut at ATTEND_ROWS. The layout has room for the
 * tiles of batches in which a sequence's rows lie together. */
static void lay_out_tiles(struct batch_region *r, const struct batch *b)
{
    int32_t *tile = r->host + r->layout.tile;
    r->n_tiles = 0;
    for (int first = 0, n; b->seq && b->index && first < b->n_rows; first += n) {
        for (n = 1; n < ATTEND_ROWS && first + n < b->n_rows; n++)
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
    lay_out_tiles(r, b);
    r->copied = *b;
}

const struct batch_region *cuda_batch(struct cuda *c, const struct batch *batch)
{
    struct batch_region *r = batch->n_rows <= SMALL_ROWS ? &c->small : &c->large;
    if (c->recording || is_same(&r->copied, batch)) return r;
    cuda_check(c, c->driver.stream_sync(c->stream),
               "a step"); /* the twin may still be on its way */
    fill_region(r, batch);
    cuda_check(c,
               c->driver.to_device((CUdeviceptr)(uintptr_t)r->card, r->host,
                                   r->layout.total * sizeof(int32_t), c->stream),
               "a batch");
    return r;
}

struct dev_batch cuda_rows(const struct batch_region *r, const struct batch *batch)
{
    return (struct dev_batch){r->card + r->layout.seq, r->card + r->layout.index,
                              r->card + r->layout.block_table, batch->n_rows, batch->max_blocks};
}

/* ---- recorded steps ---- */

bool cuda_is_decode(const struct batch *b)
{
    if (b->n_rows != b->n_seqs || b->n_rows > SMALL_ROWS) return false;
    for (int i = 0; i < b->n_rows; i++)
        if (b->seq[i] != i) return false;
    return true;
}

bool cuda_record_begin(struct backend *be, int n_seqs)
{
    struct cuda *c = cuda_of(be);
    if (c->eager || n_seqs < 1 || n_seqs > SMALL_ROWS) return false;
    if (!cuda_check(c, c->driver.capture_begin(c->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                    "recording"))
        return false;
    c->recording = n_seqs;
    return true;
}

bool cuda_record_end(struct backend *be, ey_err *e)
{
    struct cuda *c = cuda_of(be);
    CUgraph graph = NULL;
    int n = c->recording;
    c->recording = 0;
    if (!cuda_ok(&c->driver, c->driver.capture_end(c->stream, &graph), "recording", e))
        return false;
    bool ok = cuda_ok(&c->driver, c->driver.graph_instantiate(&c->graph[n], graph, 0),
                      "a recorded step", e) &&
              cuda_ok(&c->driver, c->driver.graph_upload(c->graph[n], c->stream), "a recorded step",
                      e);
    c->driver.graph_destroy(graph);
    return c->base.ops->finish(be, e) && ok;
}

/* Between two steps, between the card and pinned memory. */
static void copy_between(struct cuda *c, void *to, const void *from, size_t bytes, bool to_card)
{
    struct words_args a = {to, from, (int32_t)(bytes / sizeof(uint32_t))};
    struct launch l = words_launch();
    if (c->sees_pinned)
        cuda_launch(c, &l, &a);
    else if (to_card)
        cuda_check(c, c->driver.to_device((CUdeviceptr)(uintptr_t)to, from, bytes, c->stream),
                   "a step's inputs");
    else
        cuda_check(c, c->driver.to_host(to, (CUdeviceptr)(uintptr_t)from, bytes, c->stream),
                   "a step's results");
}

/* The step's inputs on their way to the card, from this turn's twin. */
static void send_step(struct cuda *c, const struct batch *batch, const struct token_draw *draws)
{
    struct batch_region *r = &c->small;
    r->host = c->outcome[c->turn].small;
    fill_region(r, batch);
    r->copied.n_rows = 0; /* the arrays that it came from change from step to step */
    for (int i = 0; draws && i < batch->n_rows; i++) {
        const struct token_draw *d = &draws[i];
        const struct drawing drawing = {d->seed,  d->step,  d->temperature,
                                        d->top_p, d->min_p, d->top_k};
        memcpy(r->host + r->layout.drawing + (size_t)i * sizeof(drawing) / sizeof(int32_t),
               &drawing, sizeof(drawing));
    }
    copy_between(c, r->card, r->host, r->layout.total * sizeof(int32_t), true);
}

void cuda_send_outcome(struct cuda *c)
{
    struct outcome *o = &c->outcome[c->turn];
    copy_between(c, o->results, c->scratch[SCRATCH_OUTCOME], cuda_outcome_layout(&c->limits).total,
                 false);
    cuda_check(c, c->driver.event_record(o->done, c->stream), "results");
    o->n_taken = 0;
    c->shown = c->turn;
    c->turn = !c->turn;
}

bool cuda_replay(struct backend *be, const struct batch *batch, int n_out)
{
    struct cuda *c = cuda_of(be);
    if (c->recording || n_out != batch->n_rows || !cuda_is_decode(batch) ||
        !c->graph[batch->n_rows])
        return false;
    if (c->limits.fp8_prompts && batch->n_prompt) return false;
    for (int i = 0; i < batch->n_rows; i++)
        if (batch->feature[i] >= 0) return false;
    if (c->host_table && !c->n_registered) cuda_look_up(c, batch);
    send_step(c, batch, NULL);
    cuda_check(c, c->driver.graph_launch(c->graph[batch->n_rows], c->stream), "a recorded step");
    cuda_send_outcome(c);
    return true;
}

/* Where the host looks embeddings up, or scores candidates again, it has to know the token. */
bool cuda_replay_next(struct backend *be, const struct batch *batch, const struct token_draw *draws)
{
    struct cuda *c = cuda_of(be);
    if (((c->host_table || c->stored_head.data) && !c->n_registered) || !c->graph[batch->n_rows] ||
        c->error.code != EY_OK)
        return false;
    int shown = c->shown;
    char *outcome = c->scratch[SCRATCH_OUTCOME];
    send_step(c, batch, draws);
    struct draw_args a = {
        (const struct candidate *)(void *)outcome,
        (const struct drawing *)(const void *)(c->small.card + c->small.layout.drawing),
        c->small.card, (int32_t *)(void *)(outcome + cuda_outcome_layout(&c->limits).drawn),
        batch->n_rows};
    struct launch l = draw_launch(&a);
    cuda_launch(c, &l, &a);
    cuda_check(c, c->driver.graph_launch(c->graph[batch->n_rows], c->stream), "a recorded step");
    cuda_send_outcome(c);
    c->shown = shown; /* the one before it */
    return true;
}

bool cuda_finish_one(struct backend *be, ey_err *e)
{
    struct cuda *c = cuda_of(be);
    cuda_check(c, c->driver.event_sync(c->outcome[c->shown].done), "a step");
    return cuda_take_error(c, e);
}

void cuda_take_next(struct backend *be, const int32_t *token, int n)
{
    struct cuda *c = cuda_of(be);
    struct outcome *o = &c->outcome[!c->shown];
    o->n_taken = n;
    memcpy(o->taken, token, (size_t)n * sizeof(*token));
    c->shown = !c->shown;
}

bool cuda_was_right(struct backend *be)
{
    const struct cuda *c = cuda_of(be);
    const struct outcome *o = &c->outcome[c->shown];
    return memcmp(o->results + cuda_outcome_layout(&c->limits).drawn, o->taken,
                  (size_t)o->n_taken * sizeof(*o->taken)) == 0;
}
