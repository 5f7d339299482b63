/* SPDX-License-Identifier: Apache-2.0 */
/* Draws pages within a time limit and the memory budget. */
#include "media/media_pages.h"

#include "base/clock.h"
#include "document/document.h"
#include "media/media_internal.h"

/* The state while a document's pages are drawn: limits, and the memory that is used so far. */
struct drawing {
    const struct media_policy *policy;
    struct paged_document document;
    struct document_wait wait; /* program_memory is 0 for a TIFF, or without a budget */
    double until;
    bool late;
    uint64_t own; /* bytes of the budget that the request holds, including the pages drawn so far */
};

static bool drawing_ends(void *user)
{
    struct drawing *drawing = user;
    drawing->late = seconds_now() >= drawing->until;
    return drawing->late || media_client_gone(drawing->policy);
}

/* Replaces the error "cancelled" if the time limit, and not the client, ended the drawing. Returns
 * false. */
static bool fail_if_late(const struct drawing *drawing, ey_err *e)
{
    if (e->code != EY_CANCELLED || !drawing->late) return false;
    return ey_fail(e, EY_BAD_IMAGE,
                   "drawing the document's pages takes longer than %d s; send fewer pages",
                   MEDIA_PAGES_SECONDS);
}

/* Returns the memory limit of a program that reads the file: a quarter of the budget, within
 * bounds. The budget is charged this much while the program runs. */
static uint64_t program_memory(const struct media *file, const struct media_policy *policy)
{
    const uint64_t least = (uint64_t)96 << 20, most = (uint64_t)256 << 20;
    if (!policy->budget || !document_is_pdf(file->bytes, file->n_bytes)) return 0;
    uint64_t quarter = ey_budget_total(policy->budget) / 4;
    return quarter < least ? least : quarter > most ? most : quarter;
}

static bool open_document(struct drawing *drawing, const struct media *file, ey_err *e)
{
    struct media program = {0};
    struct media_policy policy = *drawing->policy;
    policy.own = drawing->own;
    bool ok = media_hold(&program, (size_t)drawing->wait.program_memory, &policy, e) &&
              document_open(&drawing->document, file->bytes, file->n_bytes, "the document",
                            &drawing->wait, e);
    media_free(&program);
    return ok || fail_if_late(drawing, e);
}

static bool open_drawing(struct drawing *drawing, const struct media *file,
                         const struct media_policy *policy, ey_err *e)
{
    *drawing = (struct drawing){.policy = policy,
                                .wait = {drawing_ends, drawing, program_memory(file, policy)},
                                .until = seconds_now() + MEDIA_PAGES_SECONDS,
                                .own = policy->own + file->held};
    return open_document(drawing, file, e);
}

static bool draw_page(struct media *out, int page, struct drawing *drawing, ey_err *e)
{
    char *bytes;
    size_t n;
    struct media_policy policy = *drawing->policy;
    uint64_t most = document_page_memory(&drawing->document, page, MEDIA_PAGE_DPI) +
                    drawing->wait.program_memory;
    policy.own = drawing->own;
    *out = (struct media){0};
    if (!media_hold(out, (size_t)most, &policy, e)) return false;
    if (!document_page(&drawing->document, page, MEDIA_PAGE_DPI, &drawing->wait, &bytes, &n, e)) {
        media_free(out);
        return fail_if_late(drawing, e);
    }
    out->bytes = bytes;
    out->n_bytes = n;
    media_shrink(out);
    drawing->own += out->held;
    return true;
}

bool media_has_pages(const struct media *file)
{
    return document_is(file->bytes, file->n_bytes);
}

static bool check_page_count(const struct paged_document *document, size_t most, ey_err *e)
{
    if ((size_t)document->n_pages <= most) return true;
    return ey_fail(e, EY_TOO_LONG,
                   "the document has %d pages, but this request may have only %zu more image%s; "
                   "send only the pages that you need",
                   document->n_pages, most, most == 1 ? "" : "s");
}

bool media_draw_pages(struct media *pages, size_t most, size_t *n, const struct media *file,
                      const struct media_policy *policy, ey_err *e)
{
    struct drawing drawing;
    *n = 0;
    bool ok = open_drawing(&drawing, file, policy, e) &&
              check_page_count(&drawing.document, most, e);
    for (int page = 1; ok && page <= drawing.document.n_pages; page++)
        if ((ok = draw_page(&pages[*n], page, &drawing, e))) (*n)++;
    document_close(&drawing.document);
    return ok;
}

bool media_draw_page(struct media *out, int page, int *n_pages, const struct media *file,
                     const struct media_policy *policy, ey_err *e)
{
    struct drawing drawing;
    *out = (struct media){0};
    *n_pages = 0;
    bool ok = open_drawing(&drawing, file, policy, e) &&
              document_check_page(&drawing.document, page, e) && draw_page(out, page, &drawing, e);
    if (ok) *n_pages = drawing.document.n_pages;
    document_close(&drawing.document);
    return ok;
}
