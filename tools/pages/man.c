/* SPDX-License-Identifier: Apache-2.0 */
/* Writes manual pages in the format of scdoc(5). */
#include <ctype.h>
#include <string.h>

#include "pages.h"

/* Writes n bytes of text, with scdoc's special characters escaped. */
static void add_bytes(FILE *out, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bool first = i == 0 && !isalnum((unsigned char)text[i]) && !((unsigned char)text[i] & 0x80);
        if (first || strchr("\\*_`~<>|[]#", text[i])) fputc('\\', out);
        fputc(text[i], out);
    }
}

static void add_text(FILE *out, const char *text)
{
    add_bytes(out, text, strlen(text));
}

/* Writes the paragraphs of help. Indented lines are examples and stay as they are. */
static void add_paragraphs(FILE *out, const char *text)
{
    bool literal = false;
    for (size_t n; *text; text += n + (text[n] == '\n')) {
        n = strcspn(text, "\n");
        bool example = n > 2 && text[0] == ' ' && text[1] == ' ';
        if (example != literal) fputs("```\n", out);
        literal = example;
        if (example)
            fwrite(text + 2, 1, n - 2, out);
        else if (n)
            add_bytes(out, text, n);
        fputc('\n', out);
    }
    if (literal) fputs("```\n", out);
}

static void add_option(FILE *out, const struct option_info *option)
{
    fputs("*--", out);
    fputs(option->name, out);
    fputc('*', out);
    if (option->value) {
        fputs(" _", out);
        add_text(out, option->value);
        fputc('_', out);
    }
    fputs("\n\t", out);
    add_text(out, option->help);
    if (option->fallback || option->environment) {
        fputs(" (default: ", out);
        add_text(out, option->environment ? "$" : "");
        add_text(out, option->environment ? option->environment : option->fallback);
        fputc(')', out);
    }
    fputs("\n\n", out);
}

static void add_title(FILE *out, const char *dash, const char *name, const char *summary)
{
    fprintf(out, "eyelet%s%s(1) \"eyelet %s\" \"User Commands\"\n\n# NAME\n\neyelet%s%s - ", dash,
            name, EY_VERSION, dash, name);
    add_text(out, summary);
    fputs("\n\n# SYNOPSIS\n\n", out);
}

void write_command_page(FILE *out, const struct command *c)
{
    struct option_info option;
    add_title(out, "-", c->name, c->summary);
    fprintf(out, "*eyelet %s* [_OPTION_...] ", c->name);
    add_text(out, c->arguments);
    fputs("\n\n# DESCRIPTION\n\n", out);
    add_paragraphs(out, c->text);
    fputs("\n# OPTIONS\n\n", out);
    for (size_t i = 0; option_info(&option, i); i++)
        if (option.commands & c->bit) add_option(out, &option);
    fputs("# EXIT STATUS\n\n0 on success, 1 on failure, 2 if the arguments are wrong.\n\n"
          "# SEE ALSO\n\n*eyelet*(1)\n",
          out);
}

/* Writes each variable once, with the option that it sets. */
static void add_environment(FILE *out)
{
    struct option_info option, earlier;
    for (size_t i = 0; option_info(&option, i); i++) {
        bool listed = !option.environment;
        for (size_t k = 0; k < i && option_info(&earlier, k); k++)
            listed = listed ||
                     (earlier.environment && strcmp(earlier.environment, option.environment) == 0);
        if (listed) continue;
        fputc('*', out);
        add_text(out, option.environment);
        fprintf(out, "*\n\tthe default of *--%s*\n\n", option.name);
    }
    fputs("*VLLM\\_API\\_KEY*\n\tthe default of *--api-key* of *eyelet serve*\n\n"
          "*HF\\_HUB\\_CACHE*, *HF\\_HOME*, *XDG\\_CACHE\\_HOME*\n\tthe folder of models: "
          "$HF\\_HUB\\_CACHE, else $HF\\_HOME/hub, else $XDG\\_CACHE\\_HOME/huggingface/hub, "
          "else ~/.cache/huggingface/hub\n\n",
          out);
}

void write_overview_page(FILE *out)
{
    const struct command *c;
    add_title(out, "", "", "answers questions about images with Qwen3-VL models");
    fputs("*eyelet* _COMMAND_ [_OPTION_...] [_ARGUMENT_...]\n\n# DESCRIPTION\n\n"
          "eyelet runs vision-language models on a GPU or a CPU and serves them "
          "through the OpenAI API. "
          "Answers go to standard output, everything else to standard error.\n\n# COMMANDS\n\n",
          out);
    for (size_t i = 0; (c = command_at(i)); i++) {
        fprintf(out, "*eyelet-%s*(1)\n\t", c->name);
        add_text(out, c->summary);
        fputs("\n\n", out);
    }
    fputs("# ENVIRONMENT\n\n", out);
    add_environment(out);
    fputs("# EXIT STATUS\n\n0 on success, 1 on failure, 2 if the arguments are wrong.\n\n"
          "# EXAMPLES\n\n```\neyelet ask photo.jpg \"What is this?\"\n"
          "eyelet serve Qwen/Qwen3-VL-2B-Instruct-FP8\neyelet help serve\n```\n",
          out);
}
