/* eyelet list: the models of the Hugging Face cache. */
#include <stdlib.h>
#include <string.h>

#include "checkpoint/checkpoint.h"
#include "cli/answer_json.h"
#include "cli/command.h"
#include "cli/term.h"

/* ---- a table for people ---- */

static void add_size(struct buf *out, uint64_t bytes)
{
    double b = (double)bytes;
    if (b >= 1e9) buf_printf(out, "%8.2f GB", b / 1e9);
    else if (b >= 1e6) buf_printf(out, "%8.1f MB", b / 1e6);
    else buf_printf(out, "%8.1f kB", b / 1e3);
}

static int longest_name(const struct model_listing *list, size_t n)
{
    size_t longest = 4;
    for (size_t i = 0; i < n; i++)
        if (strlen(list[i].name) > longest) longest = strlen(list[i].name);
    return (int)longest;
}

static void add_row(struct buf *out, const struct model_listing *m, int width)
{
    struct buf name = buf_with_max(1 << 16);
    term_add_name(&name, m->name);
    buf_printf(out, "%-*s  %-32s  %-8s ", width, name.data ? name.data : "", m->architecture ? m->architecture : "-",
               m->quantization ? m->quantization : "-");
    add_size(out, m->bytes);
    buf_add_text(out, "\n");
    buf_free(&name);
}

static void add_table(struct buf *out, const struct model_listing *list, size_t n)
{
    int width = longest_name(list, n);
    buf_printf(out, "%-*s  %-32s  %-8s %11s\n", width, "name", "architecture", "weights", "size");
    for (size_t i = 0; i < n; i++) add_row(out, &list[i], width);
}

static void explain_empty(void)
{
    ey_err e;
    char cache[EY_MAX_PATH];
    if (model_cache_directory(cache, &e))
        ey_fail(&e, EY_NOT_FOUND, "no models in %.300s (set HF_HUB_CACHE or HF_HOME to look elsewhere); get one with: "
                "hf download Qwen/Qwen3-VL-2B-Instruct-FP8", cache);
    fprintf(stderr, "eyelet: %s\n", e.text);
}

/* ---- JSON ---- */

static void add_member(struct buf *out, const char *key, const char *text)
{
    buf_printf(out, "\"%s\": ", key);
    if (text) json_add_text(out, text);
    else buf_add_text(out, "null");
    buf_add_text(out, ", ");
}

static void add_json(struct buf *out, const struct model_listing *list, size_t n)
{
    buf_add_text(out, "[");
    for (size_t i = 0; i < n; i++) {
        buf_add_text(out, i ? ", {" : "{");
        add_member(out, "name", list[i].name);
        add_member(out, "architecture", list[i].architecture);
        add_member(out, "quantization", list[i].quantization);
        add_member(out, "directory", list[i].directory);
        buf_printf(out, "\"bytes\": %llu}", (unsigned long long)list[i].bytes);
    }
    buf_add_text(out, "]\n");
}

/* ---- the command ---- */

int cmd_list(const struct options *o)
{
    ey_err e;
    struct model_listing *list = NULL;
    size_t n = 0;
    struct term term = term_stdout();
    struct buf out = buf_with_max(64 << 20);
    if (o->n_args) {
        ey_fail(&e, EY_BAD_REQUEST, "list takes no arguments, such as %s", o->args[0]);
        return term_complain(&e);
    }
    if (!model_list(&list, &n, &e)) return term_complain(&e);
    if (o->json) add_json(&out, list, n);
    else if (n) add_table(&out, list, n);
    if (!n && !o->quiet) explain_empty();
    if (out.data) term_write(&term, out.data, out.size);
    buf_free(&out);
    model_list_free(list, n);
    return term_finish(&term, 0);
}
