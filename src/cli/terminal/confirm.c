/* SPDX-License-Identifier: Apache-2.0 */
/* Asks on standard error and reads a line of standard input. */
#include "cli/terminal/confirm.h"

#include <stdarg.h>
#include <stdio.h>
#include <strings.h>
#include <unistd.h>

bool confirm_possible(void)
{
    return isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
}

bool confirm(const char *format, ...)
{
    char line[16] = "", word[16] = "";
    va_list args;
    va_start(args, format);
    fputs("eyelet: ", stderr);
    vfprintf(stderr, format, args);
    va_end(args);
    fputs(" [y/N] ", stderr);
    fflush(stderr);
    if (!fgets(line, sizeof(line), stdin)) fputc('\n', stderr);
    sscanf(line, "%15s", word);
    return strcasecmp(word, "y") == 0 || strcasecmp(word, "yes") == 0;
}
