/* SPDX-License-Identifier: Apache-2.0 */
/* The door of a regular expression. */
#include "fuzz/grammar_door.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_grammar_door(grammar_of_regex, data, size);
    return 0;
}
