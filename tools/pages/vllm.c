/* SPDX-License-Identifier: Apache-2.0 */
/* The table of docs/from-vllm.md: what becomes of each flag of vLLM that is no option of serve. */
#include <string.h>

#include "cli/options/vllm_flags.h"
#include "pages.h"

/* "a|b" as `a`, `b`. */
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

void write_vllm_table(FILE *out)
{
    const struct vllm_flag *flag;
    const char *separator = "";
    fputs("| flag | passed over with | other values are refused, because |\n| --- | --- | --- |\n",
          out);
    for (size_t i = 0; (flag = vllm_flag_at(i)); i++)
        if (flag->ignored_values[0]) add_refused(out, flag);
    fputs("\nPassed over with any value: ", out);
    for (size_t i = 0; (flag = vllm_flag_at(i)); i++) {
        if (flag->ignored_values[0]) continue;
        fprintf(out, "%s`%s%s`", separator, strlen(flag->name) < 3 ? "-" : "--", flag->name);
        separator = ", ";
    }
    fputs(".\n", out);
}
