/* Options of the commands: one table (options.def) that is parsed by and explained from. */
#ifndef EY_CLI_OPTIONS_H
#define EY_CLI_OPTIONS_H

#include <stdio.h>

#include "base/err.h"

/* One bit a command, for the table's column of who takes an option. */
enum command_bit { ASK = 1, CAPTION = 2, TOKENIZE = 4, LIST = 8 };

enum { MAX_PIXELS_NATIVE = -1 };

struct options {
    const char *model, *device, *detail;
    int64_t threads, max_model_len, max_tokens;
    int64_t max_pixels; /* 0: as detail says */
    int64_t logprobs;   /* < 0: none */
    bool parse_special, json, quiet, help;
    char **args; /* what is no option, in order; points into argv, the array is ours */
    size_t n_args;
};

/* Reads the arguments after the command's name. Errors have code EY_BAD_REQUEST. */
bool options_parse(struct options *o, enum command_bit command, int argc, char **argv, ey_err *e);
void options_free(struct options *o);
/* The options of a command, two columns. */
void options_print(FILE *out, enum command_bit command);
/* Bits of the commands that take the option `name` of n bytes; 0: there is no such option. */
unsigned option_commands(const char *name, size_t n);

#endif
