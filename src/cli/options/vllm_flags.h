/* SPDX-License-Identifier: Apache-2.0 */
/* Flags of vLLM that serve ignores, so that scripts written for vLLM work. */
#ifndef EY_CLI_VLLM_FLAGS_H
#define EY_CLI_VLLM_FLAGS_H

#include "cli/options/options.h"

struct vllm_flag {
    const char *name;
    bool has_value;
    const char *ignored_values, *reason; /* the values that are ignored, "" for any, and
                                            the reason why others are refused */
};
/* Returns row i of the table, or NULL past its end. */
const struct vllm_flag *vllm_flag_at(size_t i);
/* If at[0] is a flag of vLLM that has no effect here, skips it and its value, which may be at[1].
 * Writes the number of skipped arguments to *used, 0 for any other argument. Fails if the flag asks
 * for something that eyelet cannot do. */
bool vllm_flag_ignore(struct options *o, char **at, int *used, ey_err *e);
/* Prints a line that names the ignored flags, if there were any. */
void vllm_flags_print_ignored(const struct options *o);

#endif
