/* SPDX-License-Identifier: Apache-2.0 */
/* Builds short names and repositories from one table of sizes, variants and formats. */
#include "base/text/short_names.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char family[] = "qwen3-vl", repository_begin[] = "Qwen/Qwen3-VL-";

/* Sizes, in order of preference for a name without a size. */
static const struct {
    const char *name, *of_repository;
} sizes[] = {{"8b", "8B"}, {"4b", "4B"}, {"2b", "2B"}, {"32b", "32B"}};

/* Variants; of two names for the same variant, the shorter comes first. */
static const struct {
    const char *name, *of_repository;
} variants[] = {{"", "-Instruct"}, {"-instruct", "-Instruct"}, {"-thinking", "-Thinking"}};

/* Formats and the suffixes of their repositories; NULL where there is no second one. */
static const struct {
    const char *name, *of_repository[SHORT_NAME_REPOSITORIES];
} formats[] = {{"", {"-FP8", ""}},
               {"-fp8", {"-FP8", NULL}},
               {"-q8_0", {"-FP8", NULL}},
               {"-bf16", {"", NULL}},
               {"-fp16", {"", NULL}}};

/* Models that embed or rerank, each in a single variant and format. */
static const struct {
    const char *name, *repository;
} others[] = {{"qwen3-vl-embedding:2b", "Qwen/Qwen3-VL-Embedding-2B"},
              {"qwen3-vl-embedding:8b", "Qwen/Qwen3-VL-Embedding-8B"},
              {"qwen3-vl-reranker:2b", "Qwen/Qwen3-VL-Reranker-2B"},
              {"qwen3-vl-reranker:8b", "Qwen/Qwen3-VL-Reranker-8B"}};

static void write_name(char out[SHORT_NAME_BYTES], size_t size, size_t variant, size_t format)
{
    snprintf(out, SHORT_NAME_BYTES, "%s:%s%s%s", family, sizes[size].name, variants[variant].name,
             formats[format].name);
}

static size_t write_repositories(char out[SHORT_NAME_REPOSITORIES][SHORT_NAME_BYTES], size_t size,
                                 size_t variant, size_t format)
{
    size_t n = 0;
    for (size_t i = 0; i < SHORT_NAME_REPOSITORIES && formats[format].of_repository[i]; i++)
        snprintf(out[n++], SHORT_NAME_BYTES, "%s%s%s%s", repository_begin,
                 sizes[size].of_repository, variants[variant].of_repository,
                 formats[format].of_repository[i]);
    return n;
}

size_t short_name_find(const char *name,
                       char repositories[SHORT_NAME_REPOSITORIES][SHORT_NAME_BYTES])
{
    char row[SHORT_NAME_BYTES];
    for (size_t i = 0; i < COUNT(others); i++)
        if (strcasecmp(others[i].name, name) == 0) {
            snprintf(repositories[0], SHORT_NAME_BYTES, "%s", others[i].repository);
            return 1;
        }
    for (size_t s = 0; s < COUNT(sizes); s++)
        for (size_t v = 0; v < COUNT(variants); v++)
            for (size_t f = 0; f < COUNT(formats); f++) {
                write_name(row, s, v, f);
                if (strcasecmp(row, name) == 0) return write_repositories(repositories, s, v, f);
            }
    return 0;
}

bool short_name_of(char out[SHORT_NAME_BYTES], const char *repository)
{
    char rows[SHORT_NAME_REPOSITORIES][SHORT_NAME_BYTES];
    for (size_t i = 0; i < COUNT(others); i++)
        if (strcasecmp(others[i].repository, repository) == 0) {
            snprintf(out, SHORT_NAME_BYTES, "%s", others[i].name);
            return true;
        }
    for (size_t s = 0; s < COUNT(sizes); s++)
        for (size_t v = 0; v < COUNT(variants); v++)
            for (size_t i = write_repositories(rows, s, v, 0); i-- > 0;)
                if (strcasecmp(rows[i], repository) == 0) return write_name(out, s, v, 0), true;
    return false;
}

bool short_name_each(const char *name, bool (*visit)(void *user, const char *name), void *user)
{
    char row[SHORT_NAME_BYTES];
    const size_t n = strlen(name);
    for (size_t i = 0; i < COUNT(others); i++)
        if (strncasecmp(others[i].name, name, n) == 0 && others[i].name[n] == ':' &&
            visit(user, others[i].name))
            return true;
    if (strcasecmp(name, family) != 0) return false;
    for (size_t v = 0; v < COUNT(variants); v++)
        for (size_t s = 0; s < COUNT(sizes); s++) {
            write_name(row, s, v, 0);
            if (visit(user, row)) return true;
        }
    return false;
}

size_t name_without_latest(const char *name)
{
    static const char tag[] = ":latest";
    const size_t n = strlen(name), n_tag = sizeof(tag) - 1;
    return n > n_tag && strcasecmp(name + n - n_tag, tag) == 0 ? n - n_tag : n;
}
