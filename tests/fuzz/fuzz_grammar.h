/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the fuzz targets of grammars. */
#ifndef EY_TESTS_FUZZ_GRAMMAR_H
#define EY_TESTS_FUZZ_GRAMMAR_H

#include "constrain/constrain.h"

/* `compile` must refuse data[size] as a bad request, or make a grammar without dead ends whose
 * masks contain exactly the tokens that it accepts. Anything else ends the program. */
void fuzz_grammar(bool (*compile)(struct grammar **out, const char *text, size_t n, ey_err *e),
                  const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
