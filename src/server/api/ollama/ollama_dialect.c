/* SPDX-License-Identifier: Apache-2.0 */
/* The table of Ollama's dialects, one per kind of request. */
#include "server/api/ollama/ollama_dialect.h"

#define OLLAMA_DIALECT(the_kind)                                  \
    [the_kind] = {.kind = the_kind,                               \
                  .id_prefix = "",                                \
                  .call_prefix = "call_",                         \
                  .json_type = "application/json; charset=utf-8", \
                  .stream_type = "application/x-ndjson",          \
                  .clips = true,                                  \
                  .keeps_answer = true,                           \
                  .lenient = true,                                \
                  .state_bytes = sizeof(struct ollama_state),     \
                  .read = ollama_read,                            \
                  .write_whole = ollama_write_whole,              \
                  .write_event = ollama_write_event,              \
                  .write_unknown_model = ollama_write_unknown_model}

#define OLLAMA_VECTORS(the_kind)                                  \
    [the_kind] = {.kind = the_kind,                               \
                  .id_prefix = "",                                \
                  .call_prefix = "",                              \
                  .json_type = "application/json; charset=utf-8", \
                  .lenient = true,                                \
                  .read = ollama_read_embed,                      \
                  .write_whole = ollama_write_embed,              \
                  .write_unknown_model = ollama_write_unknown_model}

const struct api_dialect ollama_dialects[] = {
    OLLAMA_DIALECT(OLLAMA_CHAT), OLLAMA_DIALECT(OLLAMA_GENERATE), OLLAMA_DIALECT(OLLAMA_NAME),
    OLLAMA_VECTORS(OLLAMA_EMBED), OLLAMA_VECTORS(OLLAMA_EMBEDDINGS)};
