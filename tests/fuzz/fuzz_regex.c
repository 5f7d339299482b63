/* SPDX-License-Identifier: Apache-2.0 */
/* Regular expressions as grammars. */
#include "fuzz/fuzz_grammar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_grammar(grammar_of_regex, data, size);
    return 0;
}
