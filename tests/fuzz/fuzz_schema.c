/* SPDX-License-Identifier: Apache-2.0 */
/* JSON schemas as grammars. */
#include "fuzz/fuzz_grammar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_grammar(grammar_of_schema, data, size);
    return 0;
}
