/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that stay in the file beside an 8-bit head: its own as they are stored, which the best
 * candidates are scored again from, and the embedding's. Where the driver pins the file's pages the
 * card reads them itself, so that a step needs nothing of the host; otherwise the host does, once a
 * token. */
#include <stdio.h>
#include <unistd.h>

#include "backend/cuda/check.h"

/* A stretch of whole pages. */
struct pages {
    uintptr_t first, end;
};

static struct pages pages_of(const void *data, size_t bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)data;
    return (struct pages){at / page * page, (at + bytes + page - 1) / page * page};
}

static struct pages pages_of_weight(const struct weight *w)
{
    return pages_of(w->data, (size_t)w->rows * (size_t)w->cols * dtype_size(w->dtype));
}

/* As the kernels read them: score_again pieces of 8 bytes, embed elements. */
static bool head_is_readable(const struct weight *head)
{
    return head->dtype == DTYPE_BF16 && (uintptr_t)head->data % 8 == 0;
}

static bool table_is_readable(const struct weight *table)
{
    bool known = table->dtype == DTYPE_BF16 || table->dtype == DTYPE_F16 ||
                 table->dtype == DTYPE_F32;
    return known && !table->scale && (uintptr_t)table->data % dtype_size(table->dtype) == 0;
}

/* A mapping for reading alone is pinned for reading alone, where the driver knows of such. */
static CUresult pin(const struct cuda *c, const struct pages *p)
{
    int read_only = 0;
    c->driver.device_attribute(&read_only, CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED,
                               c->device);
    return c->driver.host_register((void *)p->first, p->end - p->first,
                                   CU_MEMHOSTREGISTER_DEVICEMAP |
                                       (read_only ? CU_MEMHOSTREGISTER_READ_ONLY : 0));
}

static bool has_problem(struct cuda *c, CUresult result)
{
    const char *name = NULL;
    if (result == CUDA_SUCCESS) return false;
    c->driver.error_name(result, &name);
    snprintf(c->rows_problem, sizeof(c->rows_problem),
             "the driver does not pin the file's pages (%s)", name ? name : "?");
    return true;
}

static bool register_pages(struct cuda *c, const struct pages *p)
{
    CUdeviceptr card = 0;
    if (has_problem(c, pin(c, p))) return false;
    struct registered *r = &c->registered[c->n_registered++];
    *r = (struct registered){.host = (const char *)p->first, .bytes = p->end - p->first};
    if (has_problem(c, c->driver.host_address(&card, (void *)p->first, 0))) return false;
    r->card = (const char *)(uintptr_t)card;
    return true;
}

/* A tied embedding is the head, and neighbours in the file may have a page in common: then they are
 * one stretch. */
static int stretches(const struct cuda *c, struct pages out[MAX_REGISTERED])
{
    out[0] = pages_of_weight(&c->stored_head);
    if (!c->host_table) return 1;
    struct pages table = pages_of_weight(c->host_table);
    if (table.first > out[0].end || table.end < out[0].first) return out[1] = table, 2;
    if (table.first < out[0].first) out[0].first = table.first;
    if (table.end > out[0].end) out[0].end = table.end;
    return 1;
}

void cuda_register_rows(struct cuda *c)
{
    struct pages stretch[MAX_REGISTERED];
    bool ok = true;
    c->rows_problem[0] = 0;
    if (!c->stored_head.data) return;
    if (cuda_failed(c, FAMILY_EXACT)) {
        snprintf(c->rows_problem, sizeof(c->rows_problem),
                 "kernel score_again computes wrongly on this card");
        return;
    }
    if (!head_is_readable(&c->stored_head) ||
        (c->host_table && !table_is_readable(c->host_table))) {
        snprintf(c->rows_problem, sizeof(c->rows_problem),
                 "the file's rows are not of a type, or not aligned as the kernels need them");
        return;
    }
    for (int i = 0, n = stretches(c, stretch); ok && i < n; i++)
        ok = register_pages(c, &stretch[i]);
    if (!ok) cuda_unregister_rows(c);
}

void cuda_unregister_rows(struct cuda *c)
{
    while (c->n_registered)
        c->driver.host_unregister((void *)(uintptr_t)c->registered[--c->n_registered].host);
}

const void *cuda_registered(const struct cuda *c, const void *host)
{
    for (int i = 0; i < c->n_registered; i++) {
        const struct registered *r = &c->registered[i];
        size_t offset = (size_t)((uintptr_t)host - (uintptr_t)r->host);
        if (offset < r->bytes) return r->card + offset;
    }
    return NULL;
}

bool cuda_reads_stored(const struct backend *be, const char **why_not)
{
    const struct cuda *c = (const struct cuda *)be;
    *why_not = c->rows_problem;
    return c->n_registered > 0;
}

bool backend_cuda_may_read(struct backend *be, const struct weight *head,
                           const struct weight *embed)
{
    struct cuda *c = cuda_of(be);
    const struct pages page = pages_of(head->data, 1);
    if (!head_is_readable(head) || !table_is_readable(embed) || pin(c, &page) != CUDA_SUCCESS)
        return false;
    return c->driver.host_unregister((void *)page.first) == CUDA_SUCCESS;
}
