/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the table of docs/guides/from-vllm.md: how serve treats the options of vLLM that it lacks.
 */
#include <stdbool.h>
#include <string.h>

#include "cli/options/vllm_flags.h"
#include "pages.h"

/* Writes "a|b" as `a`, `b`. */
static void add_values(FILE *out, const char *values)
{
    fputc('`', out);
    for (; *values; values++)
        if (*values == '|')
            fputs("`, `", out);
        else
            fputc(*values, out);
    fputc('`', out);
}

static void add_refused(FILE *out, const struct vllm_flag *flag)
{
    fprintf(out, "| `%s%s` | ", strlen(flag->name) < 3 ? "-" : "--", flag->name);
    if (flag->has_value)
        add_values(out, flag->ignored_values);
    else
        fputs("off", out);
    fprintf(out, " | %s |\n", flag->reason);
}

/* Lists the options that are ignored with any value, in lines of at most WIDTH columns. */
static void add_ignored(FILE *out)
{
    enum { WIDTH = 120 };
    const struct vllm_flag *flag;
    const char *separator = "";
    int column = fprintf(out, "\nIgnored with any value:");
    for (size_t i = 0; (flag = vllm_flag_at(i)); i++) {
        if (flag->ignored_values[0]) continue;
        const char *dashes = strlen(flag->name) < 3 ? "-" : "--";
        int length = (int)(strlen(dashes) + strlen(flag->name)) + 3; /* two backquotes, a comma */
        fputs(separator, out);
        bool fits = column + 1 + length <= WIDTH;
        fputc(fits ? ' ' : '\n', out);
        fprintf(out, "`%s%s`", dashes, flag->name);
        column = fits ? column + 1 + length : length;
        separator = ",";
    }
    fputs(".\n", out);
}

void write_vllm_table(FILE *out)
{
    const struct vllm_flag *flag;
    fputs("| option | ignored with | other values are refused, because |\n| --- | --- | --- |\n",
          out);
    for (size_t i = 0; (flag = vllm_flag_at(i)); i++)
        if (flag->ignored_values[0]) add_refused(out, flag);
    add_ignored(out);
}
