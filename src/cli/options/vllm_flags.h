/* SPDX-License-Identifier: Apache-2.0 */
/* Flags of vLLM that serve passes over, so that scripts made for it work. */
#ifndef EY_CLI_VLLM_FLAGS_H
#define EY_CLI_VLLM_FLAGS_H

#include "cli/options/options.h"

struct vllm_flag {
    const char *name;
    bool has_value;
    const char *ignored_values,
        *reason; /* values that are ignored, "": any; why others are refused */
};
/* A row of the table; NULL: there are no more. */
const struct vllm_flag *vllm_flag_at(size_t i);
/* Takes the flag at at[0], and its value at at[1] where it has one, if it is a flag of vLLM that
 * means nothing here; *used says how many arguments it was, 0: it is none. False: it would have
 * meant something that cannot be. */
bool vllm_flag_ignore(struct options *o, char **at, int *used, ey_err *e);
/* The line that names them; nothing where there were none. */
void vllm_flags_print_ignored(const struct options *o);

#endif
