/* SPDX-License-Identifier: Apache-2.0 */
/* Refines placed weights: those that every step reads are copied to huge pages, a few at a time,
 * with all threads. Each copy is page-aligned: matrices in files are not, and on some
 * machines long streams that enter a page in the middle of a row are read a sixth slower. BF16
 * matrices become BF12 (tensor/bf12.h), a quarter smaller without loss, if the kernels support it.
 * The vision encoder stays in the file's pages, because it is read once per image. */
#include "backend/cpu/cpu_hugepages.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hugepages.h"
#include "base/memory.h"
#include "tensor/bf12.h"

enum {
    PAGE = 4096,
    HUGEPAGE_MIN_BYTES = 64 << 10, /* least bytes of a matrix, or of its scales */
    COPY_CHUNK_BYTES = 32 << 20,   /* bytes copied at a time, twice in memory during the copy */
    WEIGHT_PARTS = 3
};

struct weight_copy {
    const void **ref;                 /* the pointer to the weight, which will point to the copy */
    const void **second_ref;          /* the same for a tied embedding, or NULL */
    const struct tensor *bf12_source; /* the matrix to encode as BF12; NULL to copy bytes */
    const uint8_t *from;
    uint8_t *to;
    size_t size;
};

struct cpu_hugepages {
    struct weight_copy *copy;
    size_t n, n_done;
    void *memory;
    size_t memory_bytes;
    struct refine_progress progress;
};

/* ---- the weights to copy ---- */

void cpu_remember_weight(struct cpu *c, struct cpu_weight *w)
{
    if (c->last_weight)
        c->last_weight->next = w;
    else
        c->weights = w;
    c->last_weight = w;
}

size_t cpu_bf12_bytes(const struct cpu *c, const struct tensor *w)
{
    const struct cpu_kernels *k = c->k;
    const bool smaller = (k->low_precision ? k->low_precision : k->f32)->bf12 && bf12_supports(w) &&
                         bf12_bytes(w) <
                             weight_data_bytes(w); /* block headers may make BF12 larger */
    return smaller ? bf12_bytes(w) : 0;
}

static size_t round_up_to_pages(size_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

static void add_copy(struct cpu_hugepages *h, const void *from, struct weight_copy copy)
{
    if (!from || copy.size < HUGEPAGE_MIN_BYTES) return;
    copy.from = from;
    h->copy[h->n++] = copy;
    h->memory_bytes += round_up_to_pages(copy.size);
}

static void add_weight_copies(struct cpu_hugepages *h, const struct cpu *c, struct cpu_matrix *m)
{
    struct tensor *w = &m->tensor;
    const size_t bf12_size = cpu_bf12_bytes(c, w);
    if (bf12_size)
        add_copy(h, w->data,
                 (struct weight_copy){.ref = &m->bf12, .bf12_source = w, .size = bf12_size});
    else
        add_copy(h, w->data, (struct weight_copy){.ref = &w->data, .size = weight_data_bytes(w)});
    if (!w->group_size) return;
    add_copy(h, w->group_scale,
             (struct weight_copy){.ref = &w->group_scale, .size = weight_group_scale_bytes(w)});
    add_copy(h, w->group_zero,
             (struct weight_copy){.ref = &w->group_zero, .size = weight_group_zero_bytes(w)});
}

static struct cpu_matrix *matrix_with_role(const struct cpu *c, enum weight_role role)
{
    for (struct cpu_weight *w = c->weights; w; w = w->next)
        if (w->role == role) return &w->m;
    return NULL;
}

/* Lists the copies. The head comes first: it is the largest, and at first there are usually no
 * requests. A tied embedding moves with it; otherwise lookups would load its file pages again. */
static void list_copies(struct cpu_hugepages *h, const struct cpu *c)
{
    struct cpu_matrix *head = matrix_with_role(c, ROLE_HEAD),
                      *embed = matrix_with_role(c, ROLE_EMBED);
    if (head) add_weight_copies(h, c, head);
    if (h->n && embed && embed->tensor.data == head->tensor.data)
        h->copy[0].second_ref = h->copy[0].bf12_source ? &embed->bf12 : &embed->tensor.data;
    for (struct cpu_weight *w = c->weights; w; w = w->next)
        if (w->role == ROLE_TEXT || w->role == ROLE_ATTENTION) add_weight_copies(h, c, &w->m);
}

/* Whether memory is available for the copies and for an eighth of their size in addition. The
 * file's pages count as available. */
static bool hugepage_memory_available(size_t bytes)
{
    return bytes >= HUGEPAGE_BYTES && bytes + bytes / 8 <= memory_available();
}

static void allocate_copies(struct cpu_hugepages *h)
{
    uint8_t *to = h->memory = hugepages_available() && hugepage_memory_available(h->memory_bytes)
                                  ? hugepages_alloc(h->memory_bytes)
                                  : NULL;
    for (size_t i = 0; to && i < h->n; to += round_up_to_pages(h->copy[i].size), i++)
        h->copy[i].to = to;
    if (!to) h->n = 0;
}

/* Returns the number of weights, or 0 if some were quantized while loading, because those are not
 * in the file. */
static size_t count_file_weights(const struct cpu *c)
{
    size_t n = 0;
    for (const struct cpu_weight *w = c->weights; w; w = w->next, n++)
        if (w->m.tensor.recipe) return 0;
    return n;
}

/* Returns NULL if out of memory. */
static struct cpu_hugepages *hugepages_open(const struct cpu *c)
{
    const size_t n = count_file_weights(c);
    struct cpu_hugepages *h = calloc(1, sizeof(*h));
    if (!h || !n) return h;
    h->copy = calloc(n * WEIGHT_PARTS, sizeof(*h->copy));
    if (h->copy) list_copies(h, c);
    allocate_copies(h);
    return h;
}

void cpu_hugepages_close(struct cpu *c)
{
    struct cpu_hugepages *h = c->hugepages;
    if (!h) return;
    hugepages_free(h->memory, h->memory_bytes);
    free(h->copy);
    free(h);
    c->hugepages = NULL;
}

/* ---- copies ---- */

struct copy_chunk {
    uint8_t *to;
    const uint8_t *from;
    size_t size;
};

static void copy_pages(void *context, size_t begin, size_t end, int thread)
{
    const struct copy_chunk *p = context;
    size_t first = begin * HUGEPAGE_BYTES,
           last = end * HUGEPAGE_BYTES < p->size ? end * HUGEPAGE_BYTES : p->size;
    (void)thread;
    memcpy(p->to + first, p->from + first, last - first);
}

static void copy_plain(const struct weight_copy *copy, struct pool *pool)
{
    for (size_t at = 0; at < copy->size; at += COPY_CHUNK_BYTES) {
        struct copy_chunk p = {copy->to + at, copy->from + at,
                               copy->size - at < COPY_CHUNK_BYTES ? copy->size - at
                                                                  : COPY_CHUNK_BYTES};
        pool_run(pool, (p.size + HUGEPAGE_BYTES - 1) / HUGEPAGE_BYTES, 1, copy_pages, &p);
        file_map_release_pages(p.from, p.size);
    }
}

struct bf12_job {
    const struct weight_copy *copy;
    size_t first_block;
};

static void encode_bf12_blocks(void *context, size_t begin, size_t end, int thread)
{
    const struct bf12_job *job = context;
    (void)thread;
    for (size_t block = job->first_block + begin; block < job->first_block + end; block++)
        bf12_encode(job->copy->to, job->copy->bf12_source, (int64_t)(block * BF12_ROWS));
}

static void copy_as_bf12(const struct weight_copy *copy, struct pool *pool)
{
    const struct tensor *w = copy->bf12_source;
    const size_t block_bytes = BF12_ROWS * weight_row_bytes(w), bytes = weight_data_bytes(w),
                 n = weight_bf12_blocks(w), step = COPY_CHUNK_BYTES / block_bytes + 1;
    for (size_t first = 0; first < n; first += step) {
        struct bf12_job job = {copy, first};
        const size_t count = n - first < step ? n - first : step, at = first * block_bytes;
        pool_run(pool, count, HUGEPAGE_BYTES / block_bytes + 1, encode_bf12_blocks, &job);
        file_map_release_pages(copy->from + at,
                               bytes - at < count * block_bytes ? bytes - at : count * block_bytes);
    }
}

/* Copies a weight and drops the file's pages that the copy replaces. */
static void copy_weight(struct cpu_hugepages *h, const struct weight_copy *copy, struct pool *pool)
{
    const struct tensor *w = copy->bf12_source;
    if (w) {
        copy_as_bf12(copy, pool);
        h->progress.saved_bytes += weight_data_bytes(w) - copy->size;
    } else {
        copy_plain(copy, pool);
    }
    h->progress.bytes += copy->size;
    *copy->ref = copy->to;
    if (copy->second_ref) *copy->second_ref = copy->to;
}

bool cpu_refine(struct backend *be, double seconds, struct refine_progress *progress)
{
    struct cpu *c = cpu_of(be);
    const double start = seconds_now();
    *progress = (struct refine_progress){0};
    if (!c->hugepages && !(c->hugepages = hugepages_open(c))) return false;
    struct cpu_hugepages *h = c->hugepages;
    while (h->n_done < h->n && seconds_now() - start < seconds)
        copy_weight(h, &h->copy[h->n_done++], c->pool);
    *progress = h->progress;
    return h->n_done < h->n;
}
