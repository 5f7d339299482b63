/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a batch: lists the images, loads the engine, asks, and writes the answers. */
#include "cli/batch/image_batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "cli/batch/batch_workers.h"
#include "cli/options/image_list.h"
#include "cli/output/answer_json.h"
#include "cli/batch/batch_output.h"
#include "cli/terminal/cancel.h"
#include "base/file.h"

enum { MAX_LINE = 64 << 20 };

struct batch_run {
    const struct image_batch *batch;
    struct cli_engine cli;
    struct batch_output output;
    struct image_list list;
    size_t first;                         /* the first image that could be read */
    struct input_document first_document; /* that image, kept until it is asked about */
    size_t done, failed, skipped;
    bool wrote_load_time; /* only the first line of JSON has the model's load time */
};

bool batch_wanted(const struct options *o, char *const *args, size_t n)
{
    bool folder = false;
    for (size_t i = 0; i < n; i++)
        folder |= path_is_directory(args[i]) || input_may_have_pages(args[i]);
    return n > 1 || folder || o->each || o->recursive || o->jsonl || o->csv || o->sidecar ||
           o->resume || o->output;
}

static bool asks_many(const struct batch_run *r)
{
    return r->list.n + r->skipped > 1 || r->list.from_folder;
}

static bool wants_logprobs(const struct batch_run *r)
{
    return r->cli.options->logprobs >= 0;
}

/* ---- lines ---- */

static void write_batch_line(struct batch_run *r, struct buf *line)
{
    progress_clear(&r->cli.progress);
    if (line->failed)
        fprintf(stderr, "eyelet: no memory for a line of output\n");
    else
        batch_write(&r->output, line->data, line->size);
    buf_free(line);
}

static struct json_writer open_json_line(struct buf *line, const char *image)
{
    struct json_writer w = json_write_to(line, JSON_SPACED);
    struct buf escaped = buf_with_max(EY_MAX_PATH * 4);
    json_open_object(&w);
    json_add_string(&w, "image", batch_json_name(&escaped, image));
    buf_free(&escaped);
    return w;
}

static bool print_json(struct batch_run *r, const struct batch_answer *a, ey_err *e)
{
    const struct image_batch *batch = r->batch;
    struct buf line = buf_with_max(MAX_LINE);
    struct json_writer w = open_json_line(&line, a->image->name);
    if (a->n_pages > 1) json_add_uint(&w, "pages", a->n_pages);
    if (!batch->add_json) json_add_string(&w, batch->field, a->answer->text);
    if (a->answer->n_thought) json_add_string(&w, "thought", a->answer->thought);
    if (batch->add_json && !batch->add_json(&w, a, e)) {
        buf_free(&line);
        return false;
    }
    if (r->cli.options->json)
        answer_add_usage_and_timings(&w, a->answer,
                                     r->wrote_load_time ? 0 : cli_engine_load_seconds(&r->cli));
    r->wrote_load_time = true;
    if (wants_logprobs(r)) {
        json_write_key(&w, "logprobs");
        answer_write_logprobs(&w, a->answer, true);
    }
    json_close_object(&w);
    buf_add_text(&line, "\n");
    write_batch_line(r, &line);
    return true;
}

static bool print_csv(struct batch_run *r, const struct batch_answer *a, ey_err *e)
{
    struct buf line = buf_with_max(MAX_LINE);
    bool ok = true;
    if (r->batch->add_csv) {
        ok = r->batch->add_csv(&line, a, e);
    } else {
        batch_add_cell(&line, a->image->name, strlen(a->image->name));
        buf_add_text(&line, ",");
        batch_add_cell(&line, a->answer->text, a->answer->n_text);
        buf_add_text(&line, "\n");
    }
    if (ok)
        write_batch_line(r, &line);
    else
        buf_free(&line);
    return ok;
}

/* Prints the text. If there are several images, prints the name before and an empty line after it.
 */
static void print_text(struct batch_run *r, const struct batch_answer *a)
{
    size_t n = a->answer->n_text;
    struct buf line = buf_with_max(MAX_LINE);
    if (a->many) {
        term_add_name(&line, a->image->name);
        buf_add_text(&line, ":\n");
    }
    buf_add(&line, a->answer->text, n);
    if (!n || a->answer->text[n - 1] != '\n') buf_add_text(&line, "\n");
    if (a->many) buf_add_text(&line, "\n");
    write_batch_line(r, &line);
}

static bool write_sidecar(struct batch_run *r, const struct batch_answer *a, ey_err *e)
{
    struct buf text = buf_with_max(MAX_LINE);
    bool ok = true;
    if (r->batch->add_sidecar)
        ok = r->batch->add_sidecar(&text, a, e);
    else
        buf_add(&text, a->answer->text, a->answer->n_text);
    if (text.failed) ok = ey_fail_memory(e, "a sidecar file", a->answer->n_text);
    ok = ok &&
         batch_write_sidecar(&r->output, a->image->name, text.size ? text.data : "", text.size, e);
    buf_free(&text);
    return ok;
}

static bool print_in_form(struct batch_run *r, const struct batch_answer *a, ey_err *e)
{
    switch (r->output.form) {
    case BATCH_JSON: return print_json(r, a, e);
    case BATCH_CSV: return print_csv(r, a, e);
    case BATCH_SIDECAR: return write_sidecar(r, a, e);
    case BATCH_TEXT: break;
    }
    progress_clear(&r->cli.progress);
    if (r->batch->print_text)
        r->batch->print_text(r->output.out, a);
    else
        print_text(r, a);
    return true;
}

/* Prints log-probabilities to standard error, because text, CSV and sidecars have no place for
 * them. */
static void print_scores(struct batch_run *r, const struct batch_answer *a)
{
    struct buf name = buf_with_max(EY_MAX_PATH * 4);
    progress_clear(&r->cli.progress);
    term_add_name(&name, a->image->name);
    if (a->many && !name.failed) fprintf(stderr, "%s:\n", name.data);
    buf_free(&name);
    answer_print_logprobs(a->answer);
}

static bool print_item(struct batch_run *r, const struct batch_item *item, ey_err *e)
{
    const struct batch_answer a = {.batch = r->batch,
                                   .cli = &r->cli,
                                   .image = &item->image,
                                   .answer = &item->answer,
                                   .n_pages = item->n_pages,
                                   .many = asks_many(r)};
    if (!print_in_form(r, &a, e)) return false;
    if (wants_logprobs(r) && r->output.form != BATCH_JSON) print_scores(r, &a);
    return true;
}

static void print_csv_header(struct batch_run *r)
{
    struct buf line = buf_with_max(MAX_LINE);
    if (r->output.form != BATCH_CSV || r->output.has_header) return;
    buf_add_text(&line, "image,");
    buf_add_text(&line, r->batch->csv_columns ? r->batch->csv_columns : r->batch->field);
    buf_add_text(&line, "\n");
    write_batch_line(r, &line);
}

/* ---- an image that failed ---- */

static void print_error_json(struct batch_run *r, const char *name, const ey_err *e)
{
    struct buf line = buf_with_max(MAX_LINE);
    struct json_writer w = open_json_line(&line, name);
    json_add_string(&w, "error", e->text);
    json_close_object(&w);
    buf_add_text(&line, "\n");
    write_batch_line(r, &line);
}

static void print_error(struct batch_run *r, const char *name, const ey_err *e)
{
    struct buf line = buf_with_max(MAX_LINE);
    progress_clear(&r->cli.progress);
    term_add_name(&line, name);
    /* Errors about files begin with the name. */
    const bool named = !line.data || strncmp(e->text, line.data, line.size) == 0;
    fprintf(stderr, "eyelet: %s%s%s\n", named ? "" : line.data, named ? "" : ": ", e->text);
    buf_free(&line);
}

static void report_failure(struct batch_run *r, const char *name, const ey_err *e)
{
    r->failed++;
    if (r->output.form == BATCH_JSON)
        print_error_json(r, name, e);
    else
        print_error(r, name, e);
}

/* ---- asking ---- */

/* Opens image i; the first one was read before the model was loaded. */
static bool open_batch_image(struct batch_run *r, size_t i, struct input_document *d, ey_err *e)
{
    if (i) return input_document_open(d, r->list.names[r->first + i], r->cli.options, e);
    *d = r->first_document;
    r->first_document = (struct input_document){0};
    return true;
}

/* Asks one question about images. The caller frees the answer. */
static bool ask_once(struct batch_run *r, const struct input *images, size_t n, ey_answer *answer,
                     ey_err *e)
{
    const struct image_batch *batch = r->batch;
    struct question question = {images, n, batch->prompt, false, batch->greedy, batch->format};
    return cli_engine_ask(&r->cli, &question, answer, e) &&
           (!batch->check || batch->check(&r->cli, answer, e));
}

/* Asks one question about all chosen pages. */
static bool ask_together(struct batch_run *r, struct batch_item *item, ey_err *e)
{
    item->n_pages = item->document.n;
    return input_images_add(&item->pages, &item->document, e) &&
           ask_once(r, item->pages.images, item->pages.n, &item->answer, e);
}

static bool ask_page(struct batch_run *r, struct batch_item *item, size_t i, ey_err *e)
{
    struct input page = {0};
    ey_answer answer = {0};
    bool first = i == 0;
    bool ok = input_document_page(&item->document, i, &page, e) &&
              ask_once(r, &page, 1, first ? &item->answer : &answer, e) &&
              (first || cancel_requested() ||
               joined_answer_add(&item->joined, &item->answer, &answer, e));
    input_free(&page);
    ey_answer_free(&answer);
    return ok;
}

/* Asks about each page. Renders one page at a time, to save memory. */
static bool ask_page_by_page(struct batch_run *r, struct batch_item *item, ey_err *e)
{
    for (size_t i = 0; i < item->document.n && !cancel_requested(); i++) {
        if (!r->cli.shared) progress_count(&r->cli.progress, i, item->document.n);
        if (!ask_page(r, item, i, e)) return false;
    }
    item->n_pages = item->document.n;
    return true;
}

static void ask_item(void *user, size_t i, struct batch_item *item)
{
    struct batch_run *r = user;
    const char *name = r->list.names[r->first + i];
    *item = (struct batch_item){0};
    item->image.name = name;
    if (cancel_requested()) return;
    item->ok = batch_check_sidecar(&r->output, name, &item->error) &&
               open_batch_image(r, i, &item->document, &item->error);
    if (!item->ok) return;
    bool one_by_one = r->batch->pages == PAGES_JOINED && item->document.n > 1;
    item->ok = one_by_one ? ask_page_by_page(r, item, &item->error)
                          : ask_together(r, item, &item->error);
    if (item->pages.n) item->image = item->pages.images[0];
    item->image.name = name;
    item->image.own_name = NULL;
}

static bool take_item(void *user, size_t i, struct batch_item *item)
{
    struct batch_run *r = user;
    ey_err e = item->error;
    if (cancel_requested() || r->output.out->closed) return false;
    if (item->document.animated) progress_clear(&r->cli.progress);
    input_note_animation(&item->document, item->image.name, r->cli.options);
    if (item->ok && print_item(r, item, &e))
        r->done++;
    else
        report_failure(r, r->list.names[r->first + i], &e);
    if (asks_many(r)) progress_count(&r->cli.progress, r->first + i + 1, r->list.n);
    return !r->output.out->closed;
}

/* Asks about one image after the other and shows the phases of each. */
static void ask_in_turn(struct batch_run *r, size_t n)
{
    for (size_t i = 0; i < n && !cancel_requested(); i++) {
        struct batch_item item;
        ask_item(r, i, &item);
        bool on = take_item(r, i, &item);
        batch_item_free(&item);
        if (!on) return;
    }
}

static bool ask_at_once(struct batch_run *r, size_t n, int n_threads, ey_err *e)
{
    const struct batch_work work = {
        .n = n, .n_threads = n_threads, .user = r, .ask = ask_item, .take = take_item};
    r->cli.shared = true;
    cancel_watch();
    bool ok = batch_work_run(&work, e);
    cancel_unwatch();
    return ok;
}

/* Returns whether a question may be about several pages. Standard input and URLs count as
 * several, because their pages are not known before they are read. */
static bool asks_about_pages(const struct batch_run *r)
{
    bool pages = r->first_document.n > 1;
    for (size_t i = r->first + 1; i < r->list.n && !pages; i++)
        pages = !path_is_file(r->list.names[i]) || input_may_have_pages(r->list.names[i]);
    return pages && r->batch->pages == PAGES_TOGETHER && !r->cli.options->each;
}

/* Reads images until one is valid, then loads the model: a batch without a valid image loads
 * nothing. */
static bool load_for_first(struct batch_run *r, ey_err *e)
{
    for (; r->first < r->list.n; r->first++) {
        const char *name = r->list.names[r->first];
        if (input_document_open(&r->first_document, name, r->cli.options, e)) break;
        input_document_close(&r->first_document);
        report_failure(r, name, e);
    }
    if (asks_about_pages(r)) r->cli.max_images = EY_MAX_IMAGES;
    return r->first == r->list.n || cli_engine_load(&r->cli, e);
}

static int at_once(const struct batch_run *r, size_t n)
{
    int most = r->cli.engine ? ey_engine_describe(r->cli.engine).max_num_seqs : 1;
    return n < (size_t)most ? (int)n : most;
}

static bool ask_all(struct batch_run *r, ey_err *e)
{
    if (!load_for_first(r, e) || !batch_output_begin(&r->output, e)) return false;
    size_t n = r->list.n - r->first;
    int n_threads = at_once(r, n);
    print_csv_header(r);
    if (n_threads > 1) return ask_at_once(r, n, n_threads, e);
    ask_in_turn(r, n);
    return true;
}

/* ---- the run ---- */

/* Removes the images that an earlier run has done from the list. */
static void leave_out_done(struct batch_run *r)
{
    size_t kept = 0;
    for (size_t i = 0; i < r->list.n; i++) {
        char *name = r->list.names[i];
        if (batch_is_done(&r->output, name))
            free(name);
        else
            r->list.names[kept++] = name;
    }
    r->skipped = r->list.n - kept;
    r->list.n = kept;
}

static void say_what_is_left_out(const struct batch_run *r)
{
    if (r->cli.options->quiet) return;
    if (r->list.skipped_folders)
        fprintf(stderr, "eyelet: %zu folder%s left out (%s%s); -r includes them\n",
                r->list.skipped_folders, r->list.skipped_folders == 1 ? "" : "s",
                r->list.first_skipped, r->list.skipped_folders == 1 ? "" : ", …");
    if (r->skipped)
        fprintf(stderr, "eyelet: %zu of %zu images are done already\n", r->skipped,
                r->list.n + r->skipped);
}

/* Replaces a document by its pages, except standard input, which can be read only once. */
static bool expand_documents(struct batch_run *r, ey_err *e)
{
    struct image_list whole = r->list;
    r->list.names = NULL;
    r->list.n = 0;
    bool ok = true;
    for (size_t i = 0; i < whole.n; i++) {
        char **pages = NULL;
        size_t n = 0;
        if (ok && input_may_have_pages(whole.names[i]) &&
            !input_page_names(&pages, &n, whole.names[i], r->cli.options, e))
            report_failure(r, whole.names[i], e);
        else if (ok && !n)
            ok = image_list_add(&r->list, strdup(whole.names[i]), e);
        for (size_t k = 0; k < n; k++) {
            ok = ok && pages[k] && image_list_add(&r->list, strdup(pages[k]), e);
            free(pages[k]);
        }
        free(pages);
        free(whole.names[i]);
    }
    free(whole.names);
    if (r->list.n > 1) r->list.from_folder = true;
    return ok;
}

static bool open_batch_output(struct batch_run *r, ey_err *e)
{
    const struct image_batch *batch = r->batch;
    if (!image_list_check_output(&r->list, r->cli.options->output, e)) return false;
    if (!batch_output_open(&r->output, r->cli.options, &r->cli.out, batch->sidecar, e))
        return false;
    if (batch->lines_only && r->output.form == BATCH_TEXT) r->output.form = BATCH_JSON;
    return true;
}

/* Opens the output before documents are expanded, because documents that fail are reported there.
 */
static bool batch_run_open(struct batch_run *r, const struct options *o, char *const *args,
                           size_t n, ey_err *e)
{
    const struct image_batch *batch = r->batch;
    cli_engine_init(&r->cli, o);
    r->cli.at_once = true;
    return input_check_pages(o, e) &&
           image_list_open(&r->list, args, n, o->recursive, batch->command, e) &&
           open_batch_output(r, e) &&
           (!(o->each || batch->pages == PAGES_EACH) || expand_documents(r, e));
}

static int batch_run_close(struct batch_run *r, int status)
{
    progress_clear(&r->cli.progress);
    if (r->failed && asks_many(r) && !r->cli.options->quiet)
        fprintf(stderr, "eyelet: %zu of %zu images failed\n", r->failed, r->done + r->failed);
    if (!batch_output_close(&r->output)) {
        fprintf(stderr, "eyelet: --output %s: the file could not be written completely\n",
                r->cli.options->output);
        status = 1;
    }
    status = term_finish(&r->cli.out, status);
    cli_engine_close(&r->cli);
    input_document_close(&r->first_document);
    image_list_free(&r->list);
    return status;
}

int image_batch_run(const struct options *o, char *const *args, size_t n,
                    const struct image_batch *batch)
{
    struct batch_run r = {.batch = batch};
    ey_err e;
    bool ok = batch_run_open(&r, o, args, n, &e);
    if (ok) leave_out_done(&r);
    if (ok) say_what_is_left_out(&r);
    ok = ok && ask_all(&r, &e);
    progress_clear(&r.cli.progress);
    int status = !ok ? term_complain(&e) : cancel_requested() ? EXIT_INTERRUPTED : r.failed ? 1 : 0;
    return batch_run_close(&r, status);
}
