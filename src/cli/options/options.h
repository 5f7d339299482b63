/* SPDX-License-Identifier: Apache-2.0 */
/* Options of the commands. One table, options.def, drives parsing, help, manuals and completions.
 */
#ifndef EY_CLI_OPTIONS_H
#define EY_CLI_OPTIONS_H

#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/limits.h"

/* X(constant, bit, name): each command has a bit; options.def combines the bits of the commands
 * that take an option. */
#define EY_COMMANDS(X)            \
    X(ASK, 1, "ask")              \
    X(CAPTION, 2, "caption")      \
    X(TOKENIZE, 4, "tokenize")    \
    X(LIST, 8, "list")            \
    X(SCENE, 16, "scene")         \
    X(READ, 32, "read")           \
    X(DETECT, 64, "detect")       \
    X(CHAT, 128, "chat")          \
    X(BENCH, 256, "bench")        \
    X(SERVE, 512, "serve")        \
    X(PLAN, 1024, "plan")         \
    X(EXTRACT, 2048, "extract")   \
    X(DOCTOR, 4096, "doctor")     \
    X(QUANTIZE, 8192, "quantize") \
    X(PULL, 16384, "pull")        \
    X(RM, 32768, "rm")            \
    X(CONVERT, 65536, "convert")  \
    X(EMBED, 131072, "embed")     \
    X(SEARCH, 262144, "search")

enum command_bit {
#define COMMAND_BIT(name, bit, text) name = bit,
    EY_COMMANDS(COMMAND_BIT)
#undef COMMAND_BIT
};
/* Returns the name of the command with this bit. */
const char *command_name(unsigned bit);

/* Commands that answer questions about images, and those of them that sample as the model
 * recommends. */
enum {
    ANSWERS = ASK | CAPTION | SCENE | READ | DETECT | CHAT | EXTRACT,
    SAMPLED = ASK | CAPTION | SCENE | CHAT
};
/* Commands that take many images. */
enum { BATCHES = ASK | CAPTION | SCENE | READ | DETECT | EXTRACT };
/* Commands that use a model, and may have to download it. */
enum { USERS = ANSWERS | BENCH | SERVE | TOKENIZE | EMBED | SEARCH };
/* Commands that open an engine or plan one. */
enum { ENGINES = ANSWERS | BENCH | PLAN | SERVE | EMBED | SEARCH };

enum { MAX_PIXELS_NATIVE = -1 };

enum { MAX_OPTION_ROWS = 256 };

enum { MAX_LISTED = 64 }; /* values of an option that may be given several times */

struct text_list {
    const char *item[MAX_LISTED];
    size_t n;
};

struct options {
    const char *server, *api_key, *model, *device, *cpu_mask, *detail, *draw;
    int64_t threads, max_model_len, max_tokens, runs, depth, streams;
    const char *image_size;
    int64_t kv_tokens, max_num_seqs, max_num_batched_tokens; /* 0 if not given */
    const char *kv_cache_dtype, *lm_head, *lm_head_rows, *vision_weights, *prefill_math,
        *gpu_layers, *quantize, *task;
    int64_t group_size; /* 0 if not given */
    bool float32;
    double gpu_memory_utilization;  /* NaN if not given */
    int64_t gpu_memory, cpu_memory; /* bytes; 0 if not given */
    bool enforce_eager;
    int64_t vram, vram_used, sm_count; /* of a simulated GPU; 0 if not given */
    int64_t max_pixels;                /* 0 if `detail` decides */
    int64_t logprobs;                  /* negative if not wanted */
    int64_t top_k, seed;               /* negative if not given */
    double temperature, top_p, min_p, repetition_penalty, presence_penalty,
        frequency_penalty; /* NaN if not given */
    struct text_list stop, choices;
    const char *thinking, *loop_guard;
    const char *schema, *prompt;
    /* chat */
    const char *system;
    bool no_history;
    /* embed, search */
    const char *instruction, *lines, *index, *like;
    int64_t dimensions, top; /* dimensions is 0 for all */
    bool rebuild, no_update;
    /* serve */
    const char *config;
    const char *host, *ssl_keyfile, *ssl_certfile, *api_key_file, *local_media_path, *image_limit,
        *processor_kwargs;
    const char *idle_unload, *ollama;
    int64_t host_memory, responses_store, max_loaded, max_connections, port, max_num_queued,
        drain_seconds;
    struct text_list names, api_keys, origins, hosts, media_domains, proxies;
    const char *thinking_end;
    bool language_only, allow_pull, insecure, ollama_insecure, strict, log_requests,
        allow_core_dumps, thinking_reserve, effort_budgets;
    const char *ignored_flags[64]; /* options of vLLM that were given and have no effect here */
    size_t n_ignored_flags;
    bool kernels;         /* doctor */
    const char *revision; /* pull, rm */
    bool yes, dry_run;
    bool no_huge_pages, parse_special, json, show, quiet, help;
    bool recursive, each, jsonl, csv, sidecar, resume, overwrite; /* many images */
    const char *output, *fields, *as, *pages;
    int64_t dpi; /* of a PDF's pages */
    /* [n_args] arguments that are not options. This struct owns the array; the texts are argv's. */
    char **args;
    size_t n_args;
    bool keys_are_ours;                   /* api_key and api_keys are copies */
    uint64_t given[MAX_OPTION_ROWS / 64]; /* a bit for each row that the command line had */
    struct arena memory;                  /* owns texts from the file of --config */
};

/* Parses the arguments that follow the command's name. Errors have the code EY_BAD_REQUEST. */
bool options_parse(struct options *o, enum command_bit command, int argc, char **argv, ey_err *e);
/* Sets one option, as `--name value` does. `value` must live as long as *o, and is NULL for a flag.
 */
bool options_set(struct options *o, enum command_bit command, const char *name, const char *value,
                 ey_err *e);
/* Writes an option's value as text, or "" if the model or the machine decides it. Returns false if
 * the command has no such option. Lists are not supported. */
bool options_value(char out[256], const struct options *o, enum command_bit command,
                   const char *name);
/* Returns whether the command line has this option of the command, lists included. */
bool options_was_given(const struct options *o, enum command_bit command, const char *name);
/* How an option of the command takes values. OPTION_UNKNOWN means that there is no such option. */
enum option_shape { OPTION_UNKNOWN, OPTION_FLAG, OPTION_VALUE, OPTION_LIST };
enum option_shape option_shape_of(enum command_bit command, const char *name);
/* Fails for an option that the command does not have, with a suggestion if one is near. */
bool options_fail_unknown(enum command_bit command, const char *name, ey_err *e);
/* Moves API keys from the arguments, which every user can see, into memory of our own. */
bool options_hide_keys(struct options *o, ey_err *e);
/* Overwrites the API keys once they are no longer needed. */
void options_wipe_keys(const struct options *o);
void options_free(struct options *o);
/* Prints the options of a command, the common ones first, folded at terminal_columns. */
void options_print(FILE *out, enum command_bit command, int terminal_columns);
/* A row of the table, for manuals and completions. */
struct option_info {
    const char *name, *value, *help;    /* `value` is as help shows it, or NULL for a flag */
    const char *fallback, *environment; /* the default and its variable; NULL if help shows none */
    bool is_choice;                     /* `value` lists the words that the option takes */
    bool is_optional;                   /* the option may stand without a value */
    bool is_repeated;                   /* the option may be given several times */
    unsigned commands;
};
/* Fills *out with row i. Returns false if there are not that many rows. */
bool option_info(struct option_info *out, size_t i);
/* Returns the bits of the commands that take the option name[n], or 0 if there is none. */
unsigned option_commands(const char *name, size_t n);

/* Reads a decimal number of 0 or more and writes the text after it to *unit. Returns false if the
 * text does not begin with one. */
bool option_read_amount(const char *text, double *number, const char **unit);

#endif
