/* SPDX-License-Identifier: Apache-2.0 */
/* Metadata of a model from the files of its checkpoint, for lists of models. The files are read
 * once, without loading the model. */
#ifndef EY_SERVER_MODEL_CARD_H
#define EY_SERVER_MODEL_CARD_H

#include "server/server_context.h"

struct model_card {
    bool known;           /* its files were read */
    char model_type[48];  /* "qwen3_vl" */
    char family[32];      /* "qwen3vl", the name in llama.cpp and Ollama */
    char format[16];      /* "safetensors" */
    char quantization[8]; /* "BF16", "F16", "F32", "FP8", "INT4" */
    bool vision, tools, thinking;
    ey_task task;
    uint64_t parameters, bytes; /* bytes: size of the weight files */
    int hidden_size, n_layers, n_heads, n_kv_heads, context, vocab_size;
    int64_t modified; /* seconds since 1970 */
    double temperature, top_p;
    int top_k;
    bool has_sampling; /* generation_config.json has temperature and top_p */
};

struct model_cards;
bool model_cards_open(struct model_cards **cards, ey_err *e);
void model_cards_close(struct model_cards **cards);

/* Returns the card. Reads the files at the first call after the model's directory is known. */
struct model_card server_model_card(struct server *server, size_t model);
/* Returns the checkpoint's chat template, or NULL; the caller frees it. */
char *server_model_template(struct server *server, size_t model);

#endif
