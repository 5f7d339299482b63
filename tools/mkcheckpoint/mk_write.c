/* SPDX-License-Identifier: Apache-2.0 */
/* Writes safetensors files with tensors in the order of the format's own writer: by dtype (F32,
 * BF16, F16, others) and name. Threads make pieces of 4 MiB and write each at its offset, so the
 * files do not depend on the order in which threads finish. */
#include "mk_write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "checkpoint/safetensors_writer.h"

enum { PIECE_BYTES = 4 << 20 };

struct piece {
    const struct mk_tensor *tensor;
    size_t first, n; /* elements */
};

struct shard {
    char name[SHARD_NAME_BYTES];
    struct safetensors_writer file;
    struct mk_tensor **tensors;
    size_t n;
};

struct job {
    const struct shard *shard;
    struct piece *pieces;
    uint8_t **buffers; /* [threads] */
    atomic_int error;  /* errno of the first write that failed */
};

/* ---- order ---- */

static int writer_rank(enum dtype dtype)
{
    return dtype == DTYPE_F32 ? 0 : dtype == DTYPE_BF16 ? 1 : dtype == DTYPE_F16 ? 2 : 3;
}

static int compare_for_writer(const void *a, const void *b)
{
    const struct mk_tensor *x = *(struct mk_tensor *const *)a, *y = *(struct mk_tensor *const *)b;
    int by_dtype = writer_rank(x->dtype) - writer_rank(y->dtype);
    return by_dtype ? by_dtype : strcmp(x->name, y->name);
}

static int compare_by_name(const void *a, const void *b)
{
    return strcmp((*(struct mk_tensor *const *)a)->name, (*(struct mk_tensor *const *)b)->name);
}

/* Cuts the list of tensors into runs of about equal size. Returns the number of shards that have
 * tensors. */
static int assign_shards(struct mk_list *l, int wanted)
{
    uint64_t total = mk_list_bytes(l), before = 0;
    int used = 0, last = -1;
    for (size_t i = 0; i < l->n; i++) {
        int slice = (int)(before * (uint64_t)wanted / total);
        if (slice != last) {
            last = slice;
            used++;
        }
        l->tensors[i].shard = used - 1;
        before += l->tensors[i].size;
    }
    return used;
}

static void gather_shard(struct shard *s, struct mk_list *l, int index)
{
    s->n = 0;
    for (size_t i = 0; i < l->n; i++)
        if (l->tensors[i].shard == index) s->tensors[s->n++] = &l->tensors[i];
    qsort(s->tensors, s->n, sizeof(s->tensors[0]), compare_for_writer);
}

/* ---- header ---- */

/* Names the tensors, writes the header and gives the file its length. */
static bool begin_file(struct shard *s, int fd, ey_err *e)
{
    safetensors_writer_begin(&s->file, fd);
    for (size_t i = 0; i < s->n; i++) {
        struct mk_tensor *t = s->tensors[i];
        t->begin = safetensors_writer_add(&s->file, t->name, t->dtype, t->shape, t->n_dims);
    }
    if (safetensors_write_header(&s->file) &&
        ftruncate(fd, (off_t)(s->file.data_begin + s->file.data_size)) == 0)
        return true;
    return ey_fail(e, EY_IO, "%s: %s", s->name, strerror(errno));
}

/* ---- data ---- */

static size_t piece_elements(const struct mk_tensor *t)
{
    return PIECE_BYTES / dtype_size(t->dtype);
}

static size_t count_pieces(const struct shard *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) {
        size_t step = piece_elements(s->tensors[i]);
        n += (s->tensors[i]->elements + step - 1) / step;
    }
    return n;
}

static void list_pieces(struct piece *out, const struct shard *s)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct mk_tensor *t = s->tensors[i];
        size_t step = piece_elements(t);
        for (size_t at = 0; at < t->elements; at += step)
            *out++ = (struct piece){t, at, t->elements - at < step ? t->elements - at : step};
    }
}

static void make_pieces(void *context, size_t begin, size_t end, int thread)
{
    struct job *job = context;
    for (size_t i = begin; i < end && !atomic_load(&job->error); i++) {
        const struct piece *p = &job->pieces[i];
        const struct mk_tensor *t = p->tensor;
        size_t unit = dtype_size(t->dtype);
        values_fill(job->buffers[thread], t->dtype, t->recipe, t->key, p->first, p->n);
        if (!safetensors_write_data(&job->shard->file, job->buffers[thread], p->n * unit,
                                    t->begin + p->first * unit))
            atomic_store(&job->error, errno);
        if (output_interrupted()) atomic_store(&job->error, EINTR);
    }
}

static bool write_data(const struct shard *s, uint8_t **buffers, struct pool *pool, ey_err *e)
{
    size_t n = count_pieces(s);
    struct job job = {
        .shard = s, .buffers = buffers, .pieces = malloc((n + 1) * sizeof(*job.pieces))};
    if (!job.pieces) return ey_fail_memory(e, "the list of pieces", n * sizeof(*job.pieces));
    list_pieces(job.pieces, s);
    pool_run(pool, n, 1, make_pieces, &job);
    free(job.pieces);
    int error = atomic_load(&job.error);
    return !error || ey_fail(e, EY_IO, "%s: %s", s->name, strerror(error));
}

static bool write_shard(struct mk_output *o, struct shard *s, bool sparse, uint8_t **buffers,
                        struct pool *pool, ey_err *e)
{
    int fd = output_create(o, s->name, e);
    if (fd < 0) return false;
    bool ok = begin_file(s, fd, e) && (sparse || write_data(s, buffers, pool, e));
    if (close(fd) != 0 && ok) ok = ey_fail(e, EY_IO, "%s: %s", s->name, strerror(errno));
    return ok;
}

/* ---- the whole ---- */

static bool write_index(struct mk_output *o, struct mk_list *l, struct mk_tensor **sorted,
                        int n_shards, ey_err *e)
{
    struct buf b = buf_with_max(EY_MAX_JSON_BYTES);
    for (size_t i = 0; i < l->n; i++)
        sorted[i] = &l->tensors[i];
    qsort(sorted, l->n, sizeof(sorted[0]), compare_by_name);
    struct json_writer index = shard_index_open(&b, mk_list_bytes(l));
    for (size_t i = 0; i < l->n; i++)
        shard_index_add(&index, sorted[i]->name, sorted[i]->shard, n_shards);
    shard_index_close(&index);
    bool ok = b.failed ? ey_fail_memory(e, "the index", 0)
                       : output_text(o, "model.safetensors.index.json", b.data, b.size, e);
    buf_free(&b);
    return ok;
}

static bool allocate_buffers(uint8_t **buffers, int n)
{
    for (int i = 0; i < n; i++)
        if (!(buffers[i] = malloc(PIECE_BYTES))) return false;
    return true;
}

bool checkpoint_write(struct mk_output *o, struct mk_list *l, struct mk_write_options options,
                      struct pool *pool, ey_err *e)
{
    uint8_t *buffers[EY_MAX_THREADS] = {0};
    int n_threads = pool_threads(pool);
    struct shard s = {.tensors = calloc(l->n + 1, sizeof(s.tensors[0]))};
    bool ok = s.tensors && allocate_buffers(buffers, n_threads);
    if (!ok) ey_fail_memory(e, "write buffers", (size_t)n_threads * PIECE_BYTES);
    int n_shards = assign_shards(l, options.shards);
    for (int i = 0; ok && i < n_shards; i++) {
        shard_file_name(s.name, i, n_shards);
        gather_shard(&s, l, i);
        ok = write_shard(o, &s, options.sparse, buffers, pool, e);
    }
    if (ok && n_shards > 1) ok = write_index(o, l, s.tensors, n_shards, e);
    for (int i = 0; i < n_threads; i++)
        free(buffers[i]);
    free(s.tensors);
    return ok;
}
