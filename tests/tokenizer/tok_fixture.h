/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the tokenizer's tests: tokenizers, comparisons, and the groups of cases. */
#ifndef EY_TESTS_TOK_FIXTURE_H
#define EY_TESTS_TOK_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tokenizer/tokenizer.h"

#define SMALL_DIR "tests/tokenizer/data/small"
#define SENTENCEPIECE_DIR "tests/tokenizer/data/sentencepiece"
#define QWEN_DIR "../shared/data/tokenizers/qwen3-vl"
#define LLAMA_DIR "../shared/data/tokenizers/llama-2"
#define PHI3_DIR "../shared/data/tokenizers/phi-3"

/* The committed tokenizer of tests/tokenizer/data; opened at the first call. */
const struct tokenizer *small_tokenizer(void);
/* A tokenizer with byte fallback: mkcheckpoint's of tiny-phi3. */
const struct tokenizer *sentencepiece_tokenizer(void);
/* Tokenizers of real models, or NULL after a line on stdout that it is missing. */
const struct tokenizer *qwen_tokenizer(void);
const struct tokenizer *llama_tokenizer(void);
const struct tokenizer *phi3_tokenizer(void);
/* Qwen2.5's, which is Qwen3's without the tags of results and thoughts. */
const struct tokenizer *qwen2_5_tokenizer(void);
void close_fixtures(void);
/* Opens tokenizer.json of `directory` without n of its added tokens. */
struct tokenizer *open_tokenizer_without(const char *directory, const char *const *contents,
                                         size_t n);

struct ids encode_ok(const struct tokenizer *tok, const char *text, size_t n, bool parse_special);
void assert_ids(const char *label, const struct ids *got, const int32_t *want, size_t n);
/* Decodes ids with the streaming detokenizer; the caller frees the text. */
struct buf decode_ok(const struct tokenizer *tok, const struct ids *ids);

/* Pseudo-random number, the same on every machine for a seed. */
uint32_t next_random(uint64_t *state);

int run_encode_tests(void);
int run_load_tests(void);
int run_detok_tests(void);
int run_pretok_tests(void);
int run_bpe_tests(void);
int run_sentencepiece_tests(void);

#endif
