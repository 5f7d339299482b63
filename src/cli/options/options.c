/* SPDX-License-Identifier: Apache-2.0 */
/* Parses arguments into struct options by the table in options.def. This file knows commands
 * only by their bits. */
#include "cli/options/options.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "cli/options/config_file.h"
#include "cli/options/did_you_mean.h"
#include "cli/options/vllm_flags.h"
#include "eyelet/plan.h"

enum option_type {
    TEXT,
    CHOICE,
    INT,
    OPTIONAL_INT,
    PIXELS,
    TOKENS,
    SIZE,
    NUMBER,
    LIST_OF_TEXTS,
    WORDS,
    FLAG
};

struct option_row {
    const char *name;
    size_t field;
    enum option_type type;
    const char *value, *fallback, *environment;
    int64_t min, max;
    unsigned commands;
    const char *help;
};

static const struct option_row rows[] = {
#define OPTION(name, field, type, value, fallback, environment, min, max, commands, help) \
    {                                                                                     \
        name,     offsetof(struct options, field),                                        \
        type,     value,                                                                  \
        fallback, environment,                                                            \
        min,      max,                                                                    \
        commands, help},
#include "cli/options/options.def"
#undef OPTION
};
enum { N_ROWS = sizeof(rows) / sizeof(rows[0]) };
_Static_assert((int)N_ROWS <= (int)MAX_OPTION_ROWS, "options.given has a bit for each row");

/* ---- finding ---- */

const char *command_name(unsigned bit)
{
    switch (bit) {
#define COMMAND_CASE(name, value, text) \
    case name: return text;
        EY_COMMANDS(COMMAND_CASE)
#undef COMMAND_CASE
    }
    return "";
}

unsigned option_commands(const char *name, size_t n)
{
    unsigned commands = 0;
    for (size_t i = 0; i < N_ROWS; i++)
        if (strlen(rows[i].name) == n && memcmp(rows[i].name, name, n) == 0)
            commands |= rows[i].commands;
    return commands;
}

/* Like vLLM, serve accepts --a_b for --a-b. */
static bool option_is_named(const struct option_row *row, const char *name, size_t n,
                            enum command_bit command)
{
    if (strlen(row->name) != n) return false;
    for (size_t i = 0; i < n; i++)
        if (row->name[i] != name[i] && !(command == SERVE && row->name[i] == '-' && name[i] == '_'))
            return false;
    return true;
}

static const struct option_row *find_row(const char *name, size_t n, enum command_bit command)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if ((rows[i].commands & command) && option_is_named(&rows[i], name, n, command))
            return &rows[i];
    return NULL;
}

static bool fail_unknown_option(const char *name, size_t n, enum command_bit command, ey_err *e)
{
    struct did_you_mean suggestion = did_you_mean_start(name, n);
    unsigned others = option_commands(name, n);
    if (others)
        return ey_fail(e, EY_BAD_REQUEST, "--%.*s is not an option of %s, but of %s", (int)n, name,
                       command_name(command), command_name(others & -others));
    for (size_t i = 0; i < N_ROWS; i++)
        if (rows[i].commands & command) did_you_mean_add(&suggestion, rows[i].name);
    if (suggestion.best)
        return ey_fail(e, EY_BAD_REQUEST, "there is no option --%.*s; did you mean --%s?", (int)n,
                       name, suggestion.best);
    return ey_fail(e, EY_BAD_REQUEST, "there is no option --%.*s", (int)n, name);
}

/* ---- values ---- */

/* Accepts digits with at most one '-' before them; blanks, '+' and trailing text are errors. */
static bool option_read_number(const char *text, int64_t *out)
{
    const char *digits = text + (text[0] == '-');
    size_t n = strspn(digits, "0123456789");
    if (!n || digits[n]) return false;
    errno = 0;
    *out = strtoll(text, NULL, 10);
    return errno == 0;
}

static bool set_number(int64_t *field, const struct option_row *row, const char *value, ey_err *e)
{
    int64_t number;
    if (option_read_number(value, &number) && number >= row->min && number <= row->max) {
        *field = number;
        return true;
    }
    return ey_fail(e, EY_BAD_REQUEST, "--%s takes a number from %lld to %lld%s, not \"%s\"",
                   row->name, (long long)row->min, (long long)row->max,
                   row->type == PIXELS ? " or native" : "", value);
}

/* Accepts a decimal number; blanks, hexadecimal digits, infinity and NaN are errors. */
static bool set_real(double *field, const struct option_row *row, const char *value, ey_err *e)
{
    char *end;
    bool plain = value[0] && strspn(value, "+-.0123456789eE") == strlen(value);
    double number = plain ? strtod(value, &end) : NAN;
    if (plain && !*end && number >= (double)row->min && number <= (double)row->max) {
        *field = number;
        return true;
    }
    return ey_fail(e, EY_BAD_REQUEST, "--%s takes a number from %lld to %lld, not \"%s\"",
                   row->name, (long long)row->min, (long long)row->max, value);
}

bool option_read_amount(const char *text, double *number, const char **unit)
{
    char *end;
    if (!isdigit((unsigned char)text[0])) return false;
    if (text[0] == '0' && tolower((unsigned char)text[1]) == 'x') return false; /* hexadecimal */
    *number = strtod(text, &end);
    *unit = end;
    return isfinite(*number);
}

/* Accepts 4096, 4k (4000), 4K (4096) and 25.6k; auto and -1 are stored as 0. */
static bool set_tokens(int64_t *field, const struct option_row *row, const char *value, ey_err *e)
{
    double number = 0;
    const char *unit = "";
    bool is_auto = strcmp(value, "auto") == 0 || strcmp(value, "-1") == 0,
         ok = is_auto || option_read_amount(value, &number, &unit);
    if (ok && strcmp(unit, "k") == 0)
        number *= 1000;
    else if (ok && strcmp(unit, "K") == 0)
        number *= 1024;
    else
        ok = ok && !*unit;
    if (!ok || (!is_auto && number < (double)row->min) || number > (double)row->max)
        return ey_fail(e, EY_BAD_REQUEST,
                       "--%s takes a number of tokens from %lld to %lld, such as 4096, 4k or 4K, "
                       "or auto, not \"%s\"",
                       row->name, (long long)row->min, (long long)row->max, value);
    *field = (int64_t)number;
    return true;
}

/* Accepts 512M, 2G, 8151MiB and 1073741824; units are powers of 1024. */
static bool set_size(int64_t *field, const struct option_row *row, const char *value, ey_err *e)
{
    static const char units[] = "KMGT";
    double number = 0;
    const char *unit = "";
    bool ok = option_read_amount(value, &number, &unit);
    const char *scale = ok && *unit ? strchr(units, toupper((unsigned char)*unit)) : NULL;
    if (scale) {
        number *= pow(1024, (double)(scale - units + 1));
        unit++;
        if (*unit == 'i') unit++;
    }
    if (ok && *unit == 'B') unit++;
    if (!ok || *unit || number < (double)row->min || number > (double)row->max)
        return ey_fail(
            e, EY_BAD_REQUEST,
            "--%s takes a size from %lldM to %lldG, such as 512M, 2G or 8151MiB, not \"%s\"",
            row->name, (long long)(row->min >> 20), (long long)(row->max >> 30), value);
    *field = (int64_t)number;
    return true;
}

static bool add_text(struct text_list *list, const struct option_row *row, const char *value,
                     ey_err *e)
{
    if (!value[0])
        return ey_fail(e, EY_BAD_REQUEST, "--%s needs a value, %s", row->name, row->value);
    if (list->n == (size_t)row->max)
        return ey_fail(e, EY_BAD_REQUEST, "--%s can be given at most %lld times", row->name,
                       (long long)row->max);
    list->item[list->n++] = value;
    return true;
}

static bool is_choice(const char *choices, const char *value)
{
    size_t n = strlen(value);
    if (!n || strchr(value, '|')) return false;
    for (const char *at = choices; at; at = strchr(at, '|')) {
        at += *at == '|';
        if (strncmp(at, value, n) == 0 && (at[n] == '|' || !at[n])) return true;
    }
    return false;
}

/* Checks a value and stores it in the row's field. `value` is NULL for a FLAG. */
static bool option_set_value(struct options *o, const struct option_row *row, const char *value,
                             ey_err *e)
{
    void *field = (char *)o + row->field;
    switch (row->type) {
    case FLAG: *(bool *)field = true; return true;
    case PIXELS:
        if (strcmp(value, "native") != 0) return set_number(field, row, value, e);
        *(int64_t *)field = MAX_PIXELS_NATIVE;
        return true;
    case INT:
    case OPTIONAL_INT: return set_number(field, row, value, e);
    case NUMBER: return set_real(field, row, value, e);
    case TOKENS: return set_tokens(field, row, value, e);
    case SIZE: return set_size(field, row, value, e);
    case LIST_OF_TEXTS:
    case WORDS: return add_text(field, row, value, e);
    case CHOICE:
        if (!is_choice(row->value, value))
            return ey_fail(e, EY_BAD_REQUEST, "--%s takes %s, not \"%s\"", row->name, row->value,
                           value);
        break;
    case TEXT:
        if (!value[0])
            return ey_fail(e, EY_BAD_REQUEST, "--%s needs a value, %s", row->name, row->value);
    }
    *(const char **)field = value;
    return true;
}

/* A default may lie outside of the range that users may type: -1 means that no value was given. */
static bool option_set_default(struct options *o, const struct option_row *row, ey_err *e)
{
    const char *value = row->environment ? getenv(row->environment) : NULL;
    if (value && value[0])
        return option_set_value(o, row, value, e) || ey_fail_within(e, "in %s", row->environment);
    if (!row->fallback) return true;
    if (row->type == TEXT || row->type == CHOICE || row->type == SIZE)
        return option_set_value(o, row, row->fallback, e);
    if (row->type == NUMBER)
        *(double *)((char *)o + row->field) = strtod(row->fallback, NULL);
    else
        *(int64_t *)((char *)o + row->field) = strtoll(row->fallback, NULL, 10);
    return true;
}

static bool option_set_defaults(struct options *o, enum command_bit command, ey_err *e)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if ((rows[i].commands & command) && !option_set_default(o, &rows[i], e)) return false;
    return true;
}

/* ---- the command line ---- */

/* Returns the value of an option without '=': the next argument, or NULL if there is none or if it
 * is an option itself. */
static const char *next_value(const struct option_row *row, char **next)
{
    int64_t number;
    if (!*next) return NULL;
    if (row->type == OPTIONAL_INT) return option_read_number(*next, &number) ? *next : NULL;
    return strncmp(*next, "--", 2) == 0 ? NULL : *next;
}

/* Adds the words that follow a list's option, up to the next option. */
static bool add_words(struct options *o, const struct option_row *row, char **at, int *used,
                      ey_err *e)
{
    for (*used = 1; at[*used] && at[*used][0] != '-'; ++*used)
        if (!option_set_value(o, row, at[*used], e)) return false;
    return *used > 1 || ey_fail(e, EY_BAD_REQUEST, "--%s needs a value, %s", row->name, row->value);
}

static void mark_given(struct options *o, const struct option_row *row)
{
    size_t i = (size_t)(row - rows);
    o->given[i / 64] |= UINT64_C(1) << i % 64;
}

/* Reads the option at at[0], whose value may be at[1], and writes the number of arguments that it
 * took to *used. */
static bool options_read_option(struct options *o, enum command_bit command, char **at, int *used,
                                ey_err *e)
{
    const char *name = at[0] + 2, *value = strchr(name, '=');
    size_t n = value ? (size_t)(value - name) : strlen(name);
    const struct option_row *row = find_row(name, n, command);
    *used = 1;
    if (!row && command == SERVE) {
        if (!vllm_flag_ignore(o, at, used, e)) return false;
        if (*used) return true;
    }
    *used = 1;
    if (!row) return fail_unknown_option(name, n, command, e);
    mark_given(o, row);
    if (row->type == FLAG)
        return value ? ey_fail(e, EY_BAD_REQUEST, "--%s takes no value", row->name)
                     : option_set_value(o, row, NULL, e);
    if (value) return option_set_value(o, row, value + 1, e);
    if (row->type == WORDS) return add_words(o, row, at, used, e);
    value = next_value(row, at + 1);
    if (value) {
        *used = 2;
        return option_set_value(o, row, value, e);
    }
    if (row->type != OPTIONAL_INT)
        return ey_fail(e, EY_BAD_REQUEST, "--%s needs a value, %s", row->name, row->value);
    *(int64_t *)((char *)o + row->field) = row->min;
    return true;
}

/* Returns the long name of a short option that the command has, "--recursive" for "-r", or NULL. */
static const char *long_name(const char *arg, enum command_bit command)
{
    static const char *const names[][2] = {{"-r", "--recursive"}, {"-o", "--output"}};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(arg, names[i][0]) == 0 &&
            find_row(names[i][1] + 2, strlen(names[i][1] + 2), command))
            return names[i][1];
    return NULL;
}

static bool read_argument(struct options *o, enum command_bit command, char **at, int *used,
                          ey_err *e)
{
    *used = 1;
    if (strncmp(at[0], "--", 2) == 0) return options_read_option(o, command, at, used, e);
    const char *whole = long_name(at[0], command);
    if (whole) {
        char *pair[] = {(char *)(uintptr_t)whole, at[1], NULL};
        return options_read_option(o, command, pair, used, e);
    }
    if (strcmp(at[0], "-h") == 0) {
        o->help = true;
        return true;
    }
    if (at[0][0] == '-' && at[0][1] && command == SERVE) {
        if (!vllm_flag_ignore(o, at, used, e)) return false;
        if (*used) return true;
        *used = 1;
    }
    if (at[0][0] == '-' && at[0][1])
        return ey_fail(e, EY_BAD_REQUEST,
                       "there is no option %s; put a name that begins with - after --", at[0]);
    o->args[o->n_args++] = at[0];
    return true;
}

bool options_parse(struct options *o, enum command_bit command, int argc, char **argv, ey_err *e)
{
    *o = (struct options){.logprobs = -1,
                          .top_k = -1,
                          .seed = -1,
                          .temperature = NAN,
                          .top_p = NAN,
                          .min_p = NAN,
                          .repetition_penalty = NAN,
                          .presence_penalty = NAN,
                          .frequency_penalty = NAN,
                          .gpu_memory_utilization = NAN};
    o->args = calloc((size_t)argc + 1, sizeof(*o->args));
    if (!o->args) return ey_fail_memory(e, "the arguments", (size_t)argc * sizeof(*o->args));
    if (!option_set_defaults(o, command, e)) return false;
    for (int i = 0, used; i < argc; i += used) {
        if (strcmp(argv[i], "--") == 0) {
            while (++i < argc)
                o->args[o->n_args++] = argv[i];
            break;
        }
        if (!read_argument(o, command, argv + i, &used, e)) return false;
    }
    return !o->config || o->help || config_file_apply(o, command, e);
}

/* ---- options by name ---- */

static const struct option_row *row_named(enum command_bit command, const char *name)
{
    return find_row(name, strlen(name), command);
}

bool options_fail_unknown(enum command_bit command, const char *name, ey_err *e)
{
    return fail_unknown_option(name, strlen(name), command, e);
}

enum option_shape option_shape_of(enum command_bit command, const char *name)
{
    const struct option_row *row = row_named(command, name);
    if (!row) return OPTION_UNKNOWN;
    if (row->type == FLAG) return OPTION_FLAG;
    return row->type == LIST_OF_TEXTS || row->type == WORDS ? OPTION_LIST : OPTION_VALUE;
}

bool options_was_given(const struct options *o, enum command_bit command, const char *name)
{
    const struct option_row *row = row_named(command, name);
    size_t i = row ? (size_t)(row - rows) : 0;
    return row && (o->given[i / 64] >> i % 64 & 1);
}

bool options_set(struct options *o, enum command_bit command, const char *name, const char *value,
                 ey_err *e)
{
    const struct option_row *row = row_named(command, name);
    return row ? option_set_value(o, row, value, e) : options_fail_unknown(command, name, e);
}

bool options_value(char out[256], const struct options *o, enum command_bit command,
                   const char *name)
{
    const struct option_row *row = row_named(command, name);
    if (!row) return false;
    const void *field = (const char *)o + row->field;
    const char *text = "";
    out[0] = 0;
    switch (row->type) {
    case FLAG: text = *(const bool *)field ? "on" : "off"; break;
    case NUMBER:
        if (!isnan(*(const double *)field)) snprintf(out, 256, "%g", *(const double *)field);
        return true;
    case INT:
    case OPTIONAL_INT:
    case PIXELS:
    case TOKENS:
    case SIZE:
        if (*(const int64_t *)field >= row->min)
            snprintf(out, 256, "%lld", (long long)*(const int64_t *)field);
        return true;
    case TEXT:
    case CHOICE: text = *(const char *const *)field; break;
    case LIST_OF_TEXTS:
    case WORDS: break;
    }
    snprintf(out, 256, "%s", text ? text : "");
    return true;
}

/* Overwrites an argument. The arguments are writable, although the options declare them const. */
static void wipe_text(const char *text)
{
    explicit_bzero((char *)(uintptr_t)text, strlen(text));
}

static bool hide_key(const char **key, ey_err *e)
{
    char *copy = *key ? strdup(*key) : NULL;
    if (*key && !copy) return ey_fail_memory(e, "the API key", strlen(*key));
    if (*key) wipe_text(*key);
    *key = copy;
    return true;
}

bool options_hide_keys(struct options *o, ey_err *e)
{
    if (!hide_key(&o->api_key, e)) return false;
    for (size_t i = 0; i < o->api_keys.n; i++) {
        if (hide_key(&o->api_keys.item[i], e)) continue;
        o->api_keys.n = i; /* only these are copies */
        o->keys_are_ours = true;
        return false;
    }
    o->keys_are_ours = true;
    return true;
}

void options_wipe_keys(const struct options *o)
{
    if (!o->keys_are_ours) return;
    if (o->api_key) wipe_text(o->api_key);
    for (size_t i = 0; i < o->api_keys.n; i++)
        wipe_text(o->api_keys.item[i]);
}

static void free_keys(struct options *o)
{
    options_wipe_keys(o);
    if (!o->keys_are_ours) return;
    free((char *)(uintptr_t)o->api_key);
    for (size_t i = 0; i < o->api_keys.n; i++)
        free((char *)(uintptr_t)o->api_keys.item[i]);
}

void options_free(struct options *o)
{
    free_keys(o);
    arena_free(&o->memory);
    free(o->args);
    *o = (struct options){0};
}

/* ---- help ---- */

bool option_info(struct option_info *out, size_t i)
{
    if (i >= N_ROWS) return false;
    const struct option_row *row = &rows[i];
    bool shown = row->fallback && row->fallback[0] != '-' && strcmp(row->fallback, "0") != 0;
    *out = (struct option_info){row->name,
                                row->value,
                                row->help,
                                shown ? row->fallback : NULL,
                                row->environment,
                                row->type == CHOICE,
                                row->type == OPTIONAL_INT,
                                row->type == LIST_OF_TEXTS || row->type == WORDS,
                                row->commands};
    return true;
}

enum { LEFT_COLUMN = 26, LEAST_HELP_COLUMNS = 30, MOST_HELP_COLUMNS = 70 };

/* Prints text folded at `columns`, with all lines but the first indented. */
static void print_folded(FILE *out, const char *text, size_t columns)
{
    size_t used = 0;
    while (*text) {
        size_t word = strcspn(text, " ");
        if (used && used + 1 + word > columns) {
            fprintf(out, "\n  %*s ", LEFT_COLUMN, "");
            used = 0;
        }
        if (used) used += (size_t)fprintf(out, " ");
        fprintf(out, "%.*s", (int)word, text);
        used += word;
        text += word;
        text += strspn(text, " ");
    }
}

static void print_option(FILE *out, const struct option_info *row, size_t columns)
{
    char text[1024];
    const int left = fprintf(out, "  --%s%s%s", row->name, row->value ? " " : "",
                             row->value ? row->value : "") -
                     2;
    if (left > LEFT_COLUMN)
        fprintf(out, "\n  %*s ", LEFT_COLUMN, "");
    else
        fprintf(out, "%*s ", LEFT_COLUMN - left, "");
    bool env = row->environment, shown = env || row->fallback;
    snprintf(text, sizeof(text), "%s%s%s%s%s", row->help, shown ? " (default: " : "",
             env ? "$" : "",
             env     ? row->environment
             : shown ? row->fallback
                     : "",
             shown ? ")" : "");
    print_folded(out, text, columns);
    fputc('\n', out);
}

/* Returns whether the option is among those that help lists first. */
static bool is_common(const char *name)
{
    static const char *const common[] = {
        "model", "server", "json",         "detail", "max-tokens", "temperature", "seed",
        "port",  "host",   "api-key-file", "schema", "choice",     "draw",        "recursive"};
    for (size_t i = 0; i < sizeof(common) / sizeof(common[0]); i++)
        if (strcmp(name, common[i]) == 0) return true;
    return false;
}

static void print_options(FILE *out, enum command_bit command, bool common, size_t columns)
{
    struct option_info row;
    for (size_t i = 0; option_info(&row, i); i++)
        if ((row.commands & command) && is_common(row.name) == common)
            print_option(out, &row, columns);
}

void options_print(FILE *out, enum command_bit command, int terminal_columns)
{
    int room = terminal_columns - LEFT_COLUMN - 4;
    size_t columns = room < LEAST_HELP_COLUMNS  ? LEAST_HELP_COLUMNS
                     : room > MOST_HELP_COLUMNS ? MOST_HELP_COLUMNS
                                                : (size_t)room;
    print_options(out, command, true, columns);
    fputc('\n', out);
    print_options(out, command, false, columns);
}
