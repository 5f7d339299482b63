/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors and scores as OpenAI, vLLM, llama.cpp, Cohere, Jina and TEI have them. */
#ifndef EY_SERVER_POOLING_DIALECTS_H
#define EY_SERVER_POOLING_DIALECTS_H

#include "server/api/common/api_dialect.h"

/* The kinds: which route a request came by. */
enum embeddings_kind { EMBEDDINGS_OPENAI, EMBEDDINGS_LLAMACPP };
enum scoring_kind { SCORING_RERANK, SCORING_SCORE };

extern const struct api_dialect embeddings_dialects[]; /* by kind, as is the next */
extern const struct api_dialect scoring_dialects[];

#endif
