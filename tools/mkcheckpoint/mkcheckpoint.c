/* SPDX-License-Identifier: Apache-2.0 */
/* mkcheckpoint: writes a checkpoint of random weights with the names, shapes, dtypes and files of a
 * supported model, so that everything but the quality of answers can be tested and measured without
 * real weights. The same kind and seed give the same bytes on every machine. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "mk_config.h"
#include "mk_tokenizer.h"
#include "mk_write.h"

struct options {
    const struct kind *kind;
    const char *dir, *tokenizer;
    uint64_t seed;
    int shards, threads;
    bool sparse, help;
};

static const char usage[] =
    "usage: mkcheckpoint --like KIND [options] DIR\n"
    "Writes a checkpoint of random weights to DIR, which must be new or empty.\n"
    "\n"
    "  --like KIND        the model whose shapes, dtypes and files to use (below)\n"
    "  --seed N           the random seed (default 0)\n"
    "  --tokenizer FILE   the tokenizer.json to copy (default: the real one if the kind has its "
    "vocabulary and the\n"
    "                     file is found, else a made-up one)\n"
    "  --shards N         the number of safetensors files (default: that of the kind)\n"
    "  --sparse           write sparse files of the right length, which read as zeros and take "
    "no disk space\n"
    "  --threads N        the number of threads (default: all processors)\n"
    "  --help             print this text\n"
    "\n"
    "kinds:\n";

static bool print_help(ey_err *e)
{
    fputs(usage, stdout);
    for (int i = 0; kind_at(i); i++) {
        struct mk_list list;
        if (!mk_list_make(&list, kind_at(i), 0, e)) return false;
        printf("  %-17s %9.1f MB  %s\n", kind_at(i)->name, (double)mk_list_bytes(&list) / 1e6,
               kind_at(i)->summary);
        mk_list_free(&list);
    }
    return true;
}

static bool parse_number(const char *option, const char *text, uint64_t lo, uint64_t hi,
                         uint64_t *out, ey_err *e)
{
    char *end;
    uint64_t n = strtoull(text, &end, 10);
    if (text[0] >= '0' && text[0] <= '9' && !*end && strlen(text) < 20 && n >= lo && n <= hi)
        return *out = n, true;
    return ey_fail(e, EY_BAD_REQUEST, "%s %s: it must be an integer from %" PRIu64 " to %" PRIu64,
                   option, text, lo, hi);
}

static bool parse_kind(struct options *o, const char *name, ey_err *e)
{
    o->kind = kind_find(name);
    return o->kind || ey_fail(e, EY_BAD_REQUEST,
                              "--like %s: no such kind; mkcheckpoint --help lists them", name);
}

static bool parse_option(struct options *o, int letter, ey_err *e)
{
    uint64_t n = 0;
    switch (letter) {
    case 'l': return parse_kind(o, optarg, e);
    case 's': return parse_number("--seed", optarg, 0, UINT64_MAX / 10, &o->seed, e);
    case 't': return o->tokenizer = optarg, true;
    case 'n':
        return parse_number("--shards", optarg, 1, MK_MAX_SHARDS, &n, e) &&
               (o->shards = (int)n, true);
    case 'j':
        return parse_number("--threads", optarg, 1, EY_MAX_THREADS, &n, e) &&
               (o->threads = (int)n, true);
    case 'p': return o->sparse = true;
    case 'h': return o->help = true;
    default:
        return ey_fail(e, EY_BAD_REQUEST,
                       "see mkcheckpoint --help"); /* getopt has printed the error */
    }
}

static bool parse_command_line(struct options *o, int argc, char **argv, ey_err *e)
{
    static const struct option known[] = {{"like", required_argument, NULL, 'l'},
                                          {"seed", required_argument, NULL, 's'},
                                          {"tokenizer", required_argument, NULL, 't'},
                                          {"shards", required_argument, NULL, 'n'},
                                          {"threads", required_argument, NULL, 'j'},
                                          {"sparse", no_argument, NULL, 'p'},
                                          {"help", no_argument, NULL, 'h'},
                                          {0}};
    for (int letter; (letter = getopt_long(argc, argv, "", known, NULL)) != -1;)
        if (!parse_option(o, letter, e)) return false;
    if (o->help) return true;
    if (!o->kind)
        return ey_fail(e, EY_BAD_REQUEST, "--like KIND is missing; see mkcheckpoint --help");
    if (optind + 1 != argc)
        return ey_fail(e, EY_BAD_REQUEST, "give one directory; see mkcheckpoint --help");
    o->dir = argv[optind];
    if (!o->shards) o->shards = o->kind->shards;
    return true;
}

static bool write_all(const struct options *o, struct mk_list *list, struct pool *pool, ey_err *e)
{
    struct mk_output out;
    enum { SMALL_FILES = 32 << 20 }; /* tokenizer and configs */
    uint64_t needed = SMALL_FILES + (o->sparse ? 0 : mk_list_bytes(list));
    struct mk_write_options options = {.shards = o->shards, .sparse = o->sparse};
    output_catch_signals();
    if (!output_open(&out, o->dir, needed, e)) return false;
    bool ok = tokenizer_write(&out, o->kind, o->tokenizer, e) && config_write(&out, o->kind, e) &&
              checkpoint_write(&out, list, options, pool, e);
    if (!ok) output_discard(&out);
    return ok;
}

static bool make(const struct options *o, ey_err *e)
{
    double start = seconds_now();
    struct mk_list list;
    struct pool *pool = NULL;
    if (!mk_list_make(&list, o->kind, o->seed, e)) return false;
    bool ok = pool_create(&pool, o->threads, e) && write_all(o, &list, pool, e);
    if (ok)
        printf("%s: %zu tensors, %" PRIu64 " bytes, %.1f s\n", o->dir, list.n, mk_list_bytes(&list),
               seconds_now() - start);
    pool_destroy(&pool);
    mk_list_free(&list);
    return ok;
}

int main(int argc, char **argv)
{
    struct options o = {0};
    ey_err e = {0};
    if (parse_command_line(&o, argc, argv, &e) && (o.help ? print_help(&e) : make(&o, &e)))
        return 0;
    fprintf(stderr, "mkcheckpoint: %s\n", e.text);
    return ey_code_exit_status(e.code);
}
