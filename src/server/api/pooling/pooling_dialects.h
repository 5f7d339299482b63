/* SPDX-License-Identifier: Apache-2.0 */
/* Embeddings and scores in the forms of OpenAI, vLLM, llama.cpp, Cohere, Jina and TEI. */
#ifndef EY_SERVER_POOLING_DIALECTS_H
#define EY_SERVER_POOLING_DIALECTS_H

#include "server/api/common/api_dialect.h"

/* Kinds of requests, one per route. */
enum embeddings_kind { EMBEDDINGS_OPENAI, EMBEDDINGS_LLAMACPP };
enum scoring_kind { SCORING_RERANK, SCORING_SCORE };

extern const struct api_dialect embeddings_dialects[]; /* by embeddings_kind */
extern const struct api_dialect scoring_dialects[];    /* by scoring_kind */

#endif
