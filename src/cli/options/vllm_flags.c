/* SPDX-License-Identifier: Apache-2.0 */
/* Ignores options of vLLM, by the table in vllm_flags.def. */
#include "cli/options/vllm_flags.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static const struct vllm_flag flags[] = {
#define VLLM_FLAG(name, has_value, passed_over, reason) {name, has_value, passed_over, reason},
#include "cli/options/vllm_flags.def"
#undef VLLM_FLAG
};
enum { N_FLAGS = sizeof(flags) / sizeof(flags[0]) };

const struct vllm_flag *vllm_flag_at(size_t i)
{
    return i < N_FLAGS ? &flags[i] : NULL;
}

/* Compares names as vLLM does, which accepts --a_b for --a-b. */
static bool is_vllm_flag_name(const char *typed, size_t n, const char *name)
{
    if (strlen(name) != n) return false;
    for (size_t i = 0; i < n; i++)
        if (typed[i] != name[i] && !(typed[i] == '_' && name[i] == '-')) return false;
    return true;
}

static const struct vllm_flag *find_vllm_flag(const char *typed, size_t n)
{
    bool negated = n > 3 && (strncmp(typed, "no-", 3) == 0 || strncmp(typed, "no_", 3) == 0);
    for (size_t i = 0; i < N_FLAGS; i++)
        if (is_vllm_flag_name(typed, n, flags[i].name) ||
            (negated && !flags[i].has_value && is_vllm_flag_name(typed + 3, n - 3, flags[i].name)))
            return &flags[i];
    return NULL;
}

static bool is_boolean(const char *text)
{
    return strcasecmp(text, "true") == 0 || strcasecmp(text, "false") == 0;
}

static bool is_ignored_value(const struct vllm_flag *flag, const char *value)
{
    size_t n = strlen(value);
    if (!flag->ignored_values[0]) return true;
    for (const char *at = flag->ignored_values; at; at = strchr(at, '|')) {
        at += *at == '|';
        bool same = is_boolean(value) ? strncasecmp(at, value, n) == 0 : strncmp(at, value, n) == 0;
        if (same && (!at[n] || at[n] == '|')) return true;
    }
    return false;
}

/* Returns the length of the flag's name, which ends before a value (=), a member of a value (.) or
 * a level (-O3). */
static size_t name_length(const char *name)
{
    size_t n = strcspn(name, "=.");
    return name[0] == 'O' && n > 1 && strspn(name + 1, "0123") == n - 1 ? 1 : n;
}

bool vllm_flag_ignore(struct options *o, char **at, int *used, ey_err *e)
{
    const char *name = at[0] + strspn(at[0], "-");
    size_t n = name_length(name);
    const struct vllm_flag *flag = find_vllm_flag(name, n);
    *used = 0;
    if (!flag) return true;
    const char *value = strchr(name, '='), *next = at[1];
    bool takes_next = !value && !(name[0] == 'O' && name[n]) && next &&
                      (flag->has_value ? next[0] != '-' : is_boolean(next));
    if (value)
        value++;
    else if (takes_next)
        value = next;
    *used = takes_next ? 2 : 1;
    /* A flag without a value, such as --enable-lora, turns its feature on. */
    bool meant = !value && !flag->has_value && flag->ignored_values[0] &&
                 is_vllm_flag_name(name, n, flag->name);
    if (meant || (value && !is_ignored_value(flag, value)))
        return ey_fail(e, EY_BAD_REQUEST, "%s%s%.60s is not possible: %s", at[0],
                       takes_next ? " " : "", takes_next ? next : "", flag->reason);
    if (o->n_ignored_flags < sizeof(o->ignored_flags) / sizeof(o->ignored_flags[0]))
        o->ignored_flags[o->n_ignored_flags++] = at[0];
    return true;
}

void vllm_flags_print_ignored(const struct options *o)
{
    if (!o->n_ignored_flags) return;
    fprintf(stderr, "eyelet: ignored options of vLLM:");
    for (size_t i = 0; i < o->n_ignored_flags; i++)
        fprintf(stderr, "%s %.*s", i ? "," : "", (int)strcspn(o->ignored_flags[i], "="),
                o->ignored_flags[i]);
    fprintf(stderr, "\n");
}
