/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that stay in the file: the BF16 rows of an 8-bit head, from which top-k logits are rescored,
 * and the embedding. If the driver pins the file's pages, the GPU reads them itself and a step
 * needs nothing from the host; otherwise the host reads them once per token. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/cuda_kernel_ids.h"
#include "tensor/dequantize.h"
#include "tensor/gguf_blocks.h"

/* A range of whole pages. */
struct pages {
    uintptr_t first, end;
};

static struct pages pages_of(const void *data, size_t bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)data;
    return (struct pages){at / page * page, (at + bytes + page - 1) / page * page};
}

static struct pages pages_of_weight(const struct tensor *w)
{
    return pages_of(w->data, weight_data_bytes(w));
}

/* Whether the alignment suits the kernels: rescoring reads 8 bytes at a time, embed single
 * elements. */
static bool head_is_readable(const struct tensor *head)
{
    return head->dtype == DTYPE_BF16 && (uintptr_t)head->data % 8 == 0;
}

static bool table_is_readable(const struct tensor *embedding)
{
    return dtype_info(embedding->dtype)->use == PLAIN_WEIGHT &&
           (uintptr_t)embedding->data % dtype_size(embedding->dtype) == 0;
}

/* Pins pages; a read-only mapping is pinned read-only if the driver supports that. */
static CUresult pin_pages(const struct cuda *c, const struct pages *p)
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
    snprintf(c->pinned_rows_problem, sizeof(c->pinned_rows_problem),
             "the driver does not pin the file's pages (%s)", name ? name : "?");
    return true;
}

static bool register_span(struct cuda *c, const struct pages *p)
{
    CUdeviceptr device = 0;
    if (has_problem(c, pin_pages(c, p))) return false;
    struct pinned_range *r = &c->pinned_range[c->n_pinned_ranges++];
    *r = (struct pinned_range){.host = (const char *)p->first, .bytes = p->end - p->first};
    if (has_problem(c, c->driver.host_address(&device, (void *)p->first, 0))) return false;
    r->device = (const char *)(uintptr_t)device;
    return true;
}

/* Returns the ranges to pin: one if the embedding is tied, or if both share a page of the file. */
static int pinned_spans(const struct cuda *c, struct pages out[MAX_PINNED_RANGES])
{
    out[0] = pages_of_weight(&c->bf16_head);
    if (!c->host_embedding.data) return 1;
    struct pages embedding = pages_of_weight(&c->host_embedding);
    if (embedding.first > out[0].end || embedding.end < out[0].first) return out[1] = embedding, 2;
    if (embedding.first < out[0].first) out[0].first = embedding.first;
    if (embedding.end > out[0].end) out[0].end = embedding.end;
    return 1;
}

void cuda_pin_rows(struct cuda *c)
{
    struct pages span[MAX_PINNED_RANGES];
    bool ok = true;
    c->pinned_rows_problem[0] = 0;
    if (!c->bf16_head.data) return;
    if (cuda_family_failed(c, FAMILY_RESCORE)) {
        snprintf(c->pinned_rows_problem, sizeof(c->pinned_rows_problem),
                 "kernel rescore computes wrongly on this GPU");
        return;
    }
    if (!head_is_readable(&c->bf16_head) ||
        (c->host_embedding.data && !table_is_readable(&c->host_embedding))) {
        snprintf(c->pinned_rows_problem, sizeof(c->pinned_rows_problem),
                 "the kernels cannot read rows of the file's type or alignment");
        return;
    }
    for (int i = 0, n = pinned_spans(c, span); ok && i < n; i++)
        ok = register_span(c, &span[i]);
    if (!ok) cuda_unpin_rows(c);
}

void cuda_unpin_rows(struct cuda *c)
{
    while (c->n_pinned_ranges)
        c->driver.host_unregister((void *)(uintptr_t)c->pinned_range[--c->n_pinned_ranges].host);
}

const void *cuda_pinned_address(const struct cuda *c, const void *host)
{
    for (int i = 0; i < c->n_pinned_ranges; i++) {
        const struct pinned_range *r = &c->pinned_range[i];
        size_t offset = (size_t)((uintptr_t)host - (uintptr_t)r->host);
        if (offset < r->bytes) return r->device + offset;
    }
    return NULL;
}

bool cuda_reads_pinned_rows(const struct backend *be, const char **why_not)
{
    const struct cuda *c = (const struct cuda *)be;
    *why_not = c->pinned_rows_problem;
    return c->n_pinned_ranges > 0;
}

bool cuda_can_pin_rows(struct backend *be, const struct tensor *head, const struct tensor *embed)
{
    struct cuda *c = cuda_of(be);
    const struct pages page = pages_of(head->data, 1);
    if (!head_is_readable(head) || !table_is_readable(embed) || pin_pages(c, &page) != CUDA_SUCCESS)
        return false;
    return c->driver.host_unregister((void *)page.first) == CUDA_SUCCESS;
}

/* ---- rows that the host looks up ---- */

static void host_embedding_row(bf16 *out, const struct tensor *table, int32_t token)
{
    const size_t hidden = (size_t)table->cols;
    if (table->dtype == DTYPE_BF16) {
        const size_t bytes = hidden * sizeof(bf16);
        memcpy(out, (const char *)table->data + (size_t)token * bytes, bytes);
        return;
    }
    for (size_t i = 0, n; i < hidden; i += n) {
        float values[GGUF_UNIT];
        n = hidden - i < GGUF_UNIT ? hidden - i : GGUF_UNIT;
        dequantize_columns(values, table, token, (int64_t)i, n);
        for (size_t u = 0; u < n; u++)
            out[i + u] = f32_to_bf16(values[u]);
    }
}

/* Copies rows of an embedding in the file to where embed() reads them, a few at a time. */
void cuda_look_up_embeddings(struct cuda *c, const struct step *step)
{
    const struct tensor *table = &c->host_embedding;
    bf16 piece[EMBEDDING_LOOKUP_BYTES / sizeof(bf16)];
    int hidden = (int)table->cols, most = EMBEDDING_LOOKUP_BYTES / (int)sizeof(bf16) /
                                          hidden; /* at least one, by CUDA_MAX_HIDDEN */
    for (int first = 0, n; first < step->n_rows; first += n) {
        n = step->n_rows - first < most ? step->n_rows - first : most;
        for (int i = 0; i < n; i++)
            if (step->token[first + i] >= 0 && step->feature[first + i] < 0)
                host_embedding_row(piece + (size_t)i * (size_t)hidden, table,
                                   step->token[first + i]);
        cuda_upload(c, (bf16 *)(void *)c->scratch[SCRATCH_WIDE] + (size_t)first * (size_t)hidden,
                    piece, (size_t)n * (size_t)hidden * sizeof(bf16));
    }
}
