/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the tests of the tokenizer. */
#include "tokenizer/tok_fixture.h"

int main(void)
{
    int failed = run_load_tests() + run_pretok_tests() + run_bpe_tests() + run_encode_tests() +
                 run_detok_tests() + run_sentencepiece_tests();
    close_fixtures();
    return failed;
}
