/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the weights that an embedding or reranking model needs on the host: the final norm, and for
 * reranking the head's "yes" row minus its "no" row. */
#include "engine/load/load.h"
#include "tensor/dequantize.h"

/* Finds the id of a word that is one token. */
static bool find_word(int32_t *id, const struct tokenizer *tok, const char *word, ey_err *e)
{
    struct ids ids = {0};
    bool ok = tokenizer_encode(tok, word, strlen(word), false, &ids, e);
    if (ok && ids.n != 1)
        ok = ey_fail(e, EY_BAD_MODEL,
                     "the tokenizer has no single token for \"%s\", which a reranker's score needs",
                     word);
    if (ok) *id = ids.id[0];
    ids_free(&ids);
    return ok;
}

/* Whether rows can be read from the head as it is stored. */
static bool can_read_head(const struct model *m, ey_err *e)
{
    const struct tensor *head = &m->head;
    return (!head->recipe && head->dtype != DTYPE_I8 && !dtype_is_gguf(head->dtype)) ||
           ey_fail(e, EY_BAD_MODEL,
                   "single rows cannot be read from this LM head, because it is quantized; use "
                   "a checkpoint with a BF16 head to rerank");
}

static bool open_score_weights(ey_engine *engine, ey_err *e)
{
    const struct model *m = &engine->devices.model;
    const size_t hidden = (size_t)m->text.hidden;
    float *yes = engine->buffers.host.score_weights, *no = engine->buffers.host.normed;
    int32_t yes_id, no_id;
    if (!find_word(&yes_id, engine->devices.tok, "yes", e) ||
        !find_word(&no_id, engine->devices.tok, "no", e) || !can_read_head(m, e))
        return false;
    dequantize_columns(yes, &m->head, yes_id, 0, hidden);
    dequantize_columns(no, &m->head, no_id, 0, hidden);
    for (size_t i = 0; i < hidden; i++)
        yes[i] -= no[i];
    return true;
}

bool engine_open_pooling(ey_engine *engine, ey_err *e)
{
    const struct model *m = &engine->devices.model;
    if (m->task == EY_TASK_GENERATE) return true;
    elements_to_f32(engine->buffers.host.rescore_norm, m->final_norm.data, m->final_norm.dtype,
                    (size_t)m->final_norm.cols);
    return m->task != EY_TASK_RERANK || open_score_weights(engine, e);
}
