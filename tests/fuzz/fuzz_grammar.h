/* SPDX-License-Identifier: Apache-2.0 */
/* What the fuzz targets of grammars share. */
#ifndef EY_TESTS_FUZZ_GRAMMAR_H
#define EY_TESTS_FUZZ_GRAMMAR_H

#include "constrain/constrain.h"

/* `compile` refuses data[size] as a bad request, or makes a grammar of it that never runs into a
 * dead end and whose masks hold exactly what it accepts; anything else ends the program. */
void fuzz_grammar(bool (*compile)(struct grammar **out, const char *text, size_t n, ey_err *e),
                  const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
