/* SPDX-License-Identifier: Apache-2.0 */
#include "document/pdf_pages.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "sandbox/sandbox.h"

enum {
    POINTS_PER_INCH = 72,
    INFO_BYTES = 4 << 20,
    PROGRAM_MEMORY = 512 << 20, /* default of document_wait.program_memory */
    MEMORY_PER_PIXEL = 16,
    OUTPUT_PER_PIXEL = 4,
    PROGRAM_PATH = 256,
};
static const double INFO_SECONDS = 20, PAGE_SECONDS = 60;
/* A page is rendered no larger than the largest pixel budget of a model. */
static const double MOST_PIXELS = 1 << 24;

/* ---- the programs ---- */

/* Returns the bytes that a program may use for libraries, fonts and embedded images. */
static uint64_t memory_for_program(const struct document_wait *wait)
{
    return wait->program_memory ? wait->program_memory : PROGRAM_MEMORY;
}

/* Finds a program in those folders of PATH that the sandbox can read. */
static bool find_program(char out[PROGRAM_PATH], const char *program)
{
    const char *path = getenv("PATH");
    if (!path) path = "/usr/local/bin:/usr/bin:/bin";
    for (const char *at = path; *at; at += *at == ':') {
        size_t n = strcspn(at, ":");
        bool readable = strncmp(at, "/usr/", 5) == 0 || strncmp(at, "/bin", 4) == 0;
        int length = snprintf(out, PROGRAM_PATH, "%.*s/%s", (int)n, at, program);
        if (readable && n < PROGRAM_PATH && length < PROGRAM_PATH && access(out, X_OK) == 0)
            return true;
        at += n;
    }
    return false;
}

static bool fail_missing(const struct paged_document *d, const char *program, ey_err *e)
{
    return ey_fail(e, EY_IO,
                   "%s: PDF files need %s, which is not installed; install the package "
                   "poppler-utils (Debian, Ubuntu, Fedora) or poppler (Arch)",
                   d->name, program);
}

static bool run_poppler(struct sandbox_output *out, const struct paged_document *d,
                        const char *const *argv, const struct sandbox_limits *limits, ey_err *e)
{
    if (sandbox_run_program(out, argv, d->bytes, d->n, limits, e)) return true;
    if (e->code != EY_BAD_IMAGE) return ey_fail_within(e, "%s", d->name);
    return ey_fail_within(
        e, "%s: this PDF is damaged, or needs a password or more than %llu MiB of memory", d->name,
        (unsigned long long)(limits->memory >> 20));
}

/* ---- pages ---- */

/* Returns the text after `label`, or NULL if the line does not begin with it. */
static const char *after_label(const char *line, const char *label)
{
    size_t n = strlen(label);
    return strncmp(line, label, n) == 0 ? line + n : NULL;
}

static bool take_page_count(struct paged_document *d, const char *text, ey_err *e)
{
    long n = strtol(text, NULL, 10);
    if (n < 1) return ey_fail(e, EY_BAD_IMAGE, "%s: this PDF has no pages", d->name);
    if (n > INT_MAX) n = INT_MAX;
    int drawn = n < DOCUMENT_MOST_PAGES ? (int)n : DOCUMENT_MOST_PAGES;
    free(d->sizes);
    d->sizes = calloc((size_t)drawn, sizeof(*d->sizes));
    if (!d->sizes)
        return ey_fail_memory(e, "a document's pages", (size_t)drawn * sizeof(*d->sizes));
    d->n_pages = (int)n;
    for (int i = 0; i < drawn; i++)
        d->sizes[i] = (struct pdf_page_size){612, 792};
    return true;
}

/* Reads a line such as "Page    2 size:  595.44 x 842.04 pts (A4)". */
static void take_page_size(struct paged_document *d, const char *line)
{
    int page;
    struct pdf_page_size size;
    if (sscanf(line, "Page %d size: %lf x %lf", &page, &size.width, &size.height) != 3) return;
    bool sound = size.width > 0 && size.height > 0 && size.width < 1e7 && size.height < 1e7;
    int drawn = d->n_pages < DOCUMENT_MOST_PAGES ? d->n_pages : DOCUMENT_MOST_PAGES;
    if (sound && page >= 1 && page <= drawn) d->sizes[page - 1] = size;
}

bool pdf_read_info(struct paged_document *d, const char *text, size_t n, ey_err *e)
{
    char line[256];
    const char *limit = text + n, *end;
    for (const char *at = text; at < limit; at = end) {
        const char *newline = memchr(at, '\n', (size_t)(limit - at)), *count;
        end = newline ? newline + 1 : limit;
        size_t length = (size_t)(end - at) < sizeof(line) ? (size_t)(end - at) : sizeof(line) - 1;
        memcpy(line, at, length);
        line[length] = 0;
        if ((count = after_label(line, "Pages:")) && !take_page_count(d, count, e)) return false;
        if (d->n_pages) take_page_size(d, line);
    }
    return d->n_pages || ey_fail(e, EY_BAD_IMAGE, "%s: this PDF has no pages", d->name);
}

bool pdf_open(struct paged_document *d, const struct document_wait *wait, ey_err *e)
{
    char program[PROGRAM_PATH];
    struct sandbox_output output = {0};
    if (!find_program(program, "pdfinfo")) return fail_missing(d, "pdfinfo", e);
    const char *const argv[] = {program, "-f", "1", "-l", "10000", "-", NULL};
    const struct sandbox_limits limits = {.memory = memory_for_program(wait),
                                          .output = INFO_BYTES,
                                          .seconds = INFO_SECONDS,
                                          .gone = wait->gone,
                                          .user = wait->user};
    bool ok = run_poppler(&output, d, argv, &limits, e) &&
              pdf_read_info(d, (const char *)output.bytes, output.n, e);
    sandbox_output_close(&output);
    return ok;
}

/* Returns the resolution, at most `dpi`, at which the page stays within the pixel budget. */
static double dpi_for(const struct pdf_page_size *size, int dpi)
{
    double square_inches = size->width / POINTS_PER_INCH * size->height / POINTS_PER_INCH;
    double most = sqrt(MOST_PIXELS / square_inches);
    return dpi < most ? dpi : most;
}

static uint64_t page_pixels(const struct pdf_page_size *size, double dpi)
{
    double square_inches = size->width * size->height / (POINTS_PER_INCH * POINTS_PER_INCH);
    return (uint64_t)(square_inches * dpi * dpi) + 1;
}

static uint64_t most_output(uint64_t pixels)
{
    return INFO_BYTES + pixels * OUTPUT_PER_PIXEL;
}

uint64_t pdf_page_memory(const struct paged_document *d, int page, int dpi)
{
    const struct pdf_page_size *size = &d->sizes[page - 1];
    uint64_t pixels = page_pixels(size, dpi_for(size, dpi));
    return most_output(pixels) + pixels * MEMORY_PER_PIXEL;
}

static bool copy_drawn_page(const struct sandbox_output *output, char **out, size_t *n_out,
                            ey_err *e)
{
    *out = malloc(output->n);
    if (!*out) return ey_fail_memory(e, "a document's page", output->n);
    memcpy(*out, output->bytes, output->n);
    *n_out = output->n;
    return true;
}

bool pdf_draw_page(const struct paged_document *d, int page, int dpi,
                   const struct document_wait *wait, char **out, size_t *n_out, ey_err *e)
{
    char program[PROGRAM_PATH], number[16], dots[32];
    struct sandbox_output output = {0};
    double used = dpi_for(&d->sizes[page - 1], dpi);
    uint64_t pixels = page_pixels(&d->sizes[page - 1], used);
    if (!find_program(program, "pdftoppm")) return fail_missing(d, "pdftoppm", e);
    snprintf(number, sizeof(number), "%d", page);
    snprintf(dots, sizeof(dots), "%.3f", used);
    const char *const argv[] = {program, "-png", "-cropbox", "-r", dots, "-f",
                                number,  "-l",   number,     "-",  NULL};
    uint64_t memory = memory_for_program(wait) + pixels * MEMORY_PER_PIXEL;
    const struct sandbox_limits limits = {.memory = memory,
                                          .output = most_output(pixels),
                                          .seconds = PAGE_SECONDS,
                                          .gone = wait->gone,
                                          .user = wait->user};
    bool ok = run_poppler(&output, d, argv, &limits, e);
    if (ok && !output.n)
        ok = ey_fail(e, EY_BAD_IMAGE, "%s: page %d of this PDF cannot be rendered", d->name, page);
    ok = ok && copy_drawn_page(&output, out, n_out, e);
    sandbox_output_close(&output);
    return ok;
}
