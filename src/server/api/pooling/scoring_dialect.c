/* SPDX-License-Identifier: Apache-2.0 */
/* POST /v1/rerank (Cohere's, Jina's and vLLM's form, or TEI's) and vLLM's /v1/score. The scores of
 * an embedding model are cosine similarities. */
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/text/json_writer.h"
#include "server/api/common/pooling_inputs.h"
#include "server/api/common/sampling_fields.h"
#include "server/api/pooling/pooling_dialects.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { MAX_DOCUMENTS = 1000 };

/* One side of a comparison. */
struct scored_side {
    const char *name;
    struct pooling_parts *item; /* [n] */
    size_t n;
    bool is_list;
};

struct scoring_form {
    struct scored_side left;  /* queries: one, or as many as documents */
    struct scored_side right; /* documents */
    bool cosine; /* compares embeddings; the prompts are the left items, then the right ones */
    bool tei;    /* TEI's form: a bare list of "score" and "text" */
    bool hides_documents;
    int64_t top_n; /* 0: all */
};

static struct scoring_form *scoring_form_of(const struct api_reading *r)
{
    return r->out->own;
}

/* ---- single fields ---- */

static bool read_top_n(struct api_parser *p, const char *path, json_object *value)
{
    return field_int(&p->reading, path, value, 0, INT32_MAX, &scoring_form_of(&p->reading)->top_n);
}

static bool read_return_documents(struct api_parser *p, const char *path, json_object *value)
{
    bool given;
    if (!field_bool(&p->reading, path, value, &given)) return false;
    scoring_form_of(&p->reading)->hides_documents = !given;
    return true;
}

/* If the request asks for a reranker's logits, notes that it gets scores instead. For an embedding
 * model there is nothing to note, because cosine similarities are not computed from logits. */
static bool note_logits(const struct api_reading *r, const char *path, bool wanted)
{
    if (wanted && r->limits->task == EY_TASK_RERANK)
        api_note(r, "%s was ignored: scores are from 0 to 1, not logits", path);
    return true;
}

static bool read_raw_scores(struct api_parser *p, const char *path, json_object *value)
{
    bool given;
    return field_bool(&p->reading, path, value, &given) && note_logits(&p->reading, path, given);
}

static bool read_use_activation(struct api_parser *p, const char *path, json_object *value)
{
    bool given;
    return field_bool(&p->reading, path, value, &given) && note_logits(&p->reading, path, !given);
}

static bool read_template_arguments(struct api_parser *p, const char *path, json_object *value)
{
    const struct field_path whole = field_root(path), name = field_member(&whole, "instruction");
    json_object *instruction = json_member(value, "instruction");
    return !instruction || pooling_read_instruction(p, name.text, instruction);
}

/* ---- both sides ---- */

static bool read_side(struct api_parser *p, const char *name, json_object *value, size_t most,
                      struct scored_side *out)
{
    const struct field_path path = field_root(name);
    size_t n = 1;
    out->name = name;
    out->is_list = json_object_is_type(value, json_type_array);
    if (out->is_list && !field_array(&p->reading, name, value, 1, most, &n)) return false;
    out->item = arena_array(p->reading.passing, n, sizeof(*out->item));
    if (!out->item) return api_fail_memory(p->reading.error);
    for (; out->n < n; out->n++) {
        const struct field_path item = out->is_list ? field_item(&path, out->n) : path;
        json_object *one = out->is_list ? json_object_array_get_idx(value, out->n) : value;
        if (!pooling_read_parts(p, &item, one, &out->item[out->n])) return false;
    }
    return true;
}

/* Reads the first of the named fields that the request has. */
static bool read_named_side(struct api_parser *p, const char *const *names, size_t n, size_t most,
                            struct scored_side *out)
{
    for (size_t i = 0; i < n; i++) {
        json_object *value = json_member(p->json, names[i]);
        if (value) return read_side(p, names[i], value, most, out);
    }
    return api_fail_value(p->reading.error, names[0], "%s is missing", names[0]);
}

/* The left item that is compared with right item i. */
static const struct pooling_parts *left_of(const struct scored_side *left, size_t i)
{
    return &left->item[left->n == 1 ? 0 : i];
}

static bool check_sides(const struct api_reading *r, const struct scoring_form *form)
{
    return form->left.n == 1 || form->left.n == form->right.n ||
           api_fail(r->error, form->right.name,
                    "%s has %zu items and %s has %zu; %s must have one item, or as many as %s",
                    form->left.name, form->left.n, form->right.name, form->right.n, form->left.name,
                    form->right.name);
}

static bool add_pairs(struct api_parser *p, const struct scoring_form *form)
{
    if (!pooling_open_prompts(p, form->right.name, form->right.n)) return false;
    for (size_t i = 0; i < form->right.n; i++)
        if (!pooling_add_input(p, &form->right.item[i], left_of(&form->left, i))) return false;
    return true;
}

static bool add_each(struct api_parser *p, const struct scored_side *side)
{
    for (size_t i = 0; i < side->n; i++)
        if (!pooling_add_input(p, &side->item[i], NULL)) return false;
    return true;
}

static bool add_scored(struct api_parser *p, struct scoring_form *form)
{
    form->cosine = p->reading.limits->task == EY_TASK_EMBED;
    if (!check_sides(&p->reading, form)) return false;
    if (!form->cosine) return add_pairs(p, form);
    return pooling_open_prompts(p, "the inputs", form->left.n + form->right.n) &&
           add_each(p, &form->left) && add_each(p, &form->right);
}

/* ---- the tables ---- */

enum { RERANK = 1 << SCORING_RERANK, SCORE = 1 << SCORING_SCORE, EITHER = RERANK | SCORE };

static const char *const queries[] = {"query"}, *const documents[] = {"documents", "texts"},
                         *const lefts[] = {"text_1", "queries", "data_1"},
                         *const rights[] = {"text_2", "documents", "items", "data_2"};

static const struct api_field fields[] = {
    {"model", EITHER, accept_field},
    {"instruction", EITHER, pooling_read_instruction},
    {"chat_template_kwargs", EITHER, read_template_arguments},
    {"truncate_prompt_tokens", EITHER, pooling_read_truncation},
    {"mm_processor_kwargs", EITHER, read_mm_processor},
    {"truncate", EITHER, pooling_read_truncate_flag},
    {"top_n", RERANK, read_top_n},
    {"return_documents", RERANK, read_return_documents},
    {"return_text", RERANK, read_return_documents},
    {"max_tokens_per_doc", RERANK, accept_field},
    {"rank_fields", RERANK, accept_field},
    {"raw_scores", RERANK, read_raw_scores},
    {"use_activation", EITHER, read_use_activation},
    {"priority", EITHER, accept_field},
    {"user", EITHER, accept_field},
    {"query", RERANK, accept_field},
    {"documents", EITHER, accept_field},
    {"texts", RERANK, accept_field},
    {"text_1", SCORE, accept_field},
    {"text_2", SCORE, accept_field},
    {"queries", SCORE, accept_field},
    {"items", SCORE, accept_field},
    {"data_1", SCORE, accept_field},
    {"data_2", SCORE, accept_field},
};

static bool read_sides(struct api_parser *p, struct scoring_form *form)
{
    if (p->reading.out->kind == SCORING_SCORE)
        return read_named_side(p, lefts, COUNT(lefts), API_MAX_INPUTS, &form->left) &&
               read_named_side(p, rights, COUNT(rights), API_MAX_INPUTS, &form->right);
    form->tei = json_member(p->json, "texts") && !json_member(p->json, "documents");
    if (form->tei && !json_member(p->json, "return_text")) form->hides_documents = true;
    if (!read_named_side(p, queries, COUNT(queries), 1, &form->left) ||
        !read_named_side(p, documents, COUNT(documents), MAX_DOCUMENTS, &form->right))
        return false;
    return form->right.is_list || api_fail_field(p->reading.error, form->right.name, "a list",
                                                 json_member(p->json, form->right.name));
}

static bool read_scoring(struct api_parser *p)
{
    struct api_request *out = p->reading.out;
    out->own = arena_array(p->reading.lasting, 1, sizeof(struct scoring_form));
    if (!out->own) return api_fail_memory(p->reading.error);
    return pooling_begin(p, EY_TASK_RERANK,
                         "The model `%.200s` does not rerank; serve a checkpoint of "
                         "Qwen3-VL-Reranker or Qwen3-VL-Embedding") &&
           api_read_fields(p, fields, COUNT(fields)) &&
           api_note_unknown_fields(p, fields, COUNT(fields)) && read_sides(p, out->own) &&
           add_scored(p, out->own);
}

/* ---- scores ---- */

struct scored_item {
    size_t index;
    double score;
};

/* The dot product; vectors have length 1. */
static double cosine(ey_pooled a, ey_pooled b)
{
    double sum = 0;
    for (size_t i = 0; i < a.n_vector && i < b.n_vector; i++)
        sum += (double)a.vector[i] * (double)b.vector[i];
    return sum;
}

static double score_of(const struct scoring_form *form, const struct api_choice *choices, size_t i)
{
    const size_t n_left = form->left.n;
    if (!form->cosine) return choices[i].pooled.score;
    return cosine(choices[n_left == 1 ? 0 : i].pooled, choices[n_left + i].pooled);
}

static int compare_scored_items(const void *a, const void *b)
{
    const struct scored_item *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* Returns all items, best first, or NULL if memory runs out. The HTTP answer lists the first *n. */
static struct scored_item *ranked(const struct scoring_form *form, const struct api_choice *choices,
                                  size_t *n)
{
    struct scored_item *items = calloc(form->right.n + 1, sizeof(*items));
    for (size_t i = 0; items && i < form->right.n; i++)
        items[i] = (struct scored_item){i, score_of(form, choices, i)};
    if (items) qsort(items, form->right.n, sizeof(*items), compare_scored_items);
    *n = form->top_n && (size_t)form->top_n < form->right.n ? (size_t)form->top_n : form->right.n;
    return items;
}

/* ---- answers ---- */

/* Writes the first text, or null if there are only images. */
static void add_document_text(struct json_writer *w, const struct pooling_parts *parts)
{
    json_write_key(w, "text");
    for (size_t i = 0; i < parts->n; i++)
        if (parts->part[i].type == EY_PART_TEXT) {
            json_write_text(w, parts->part[i].bytes, parts->part[i].n_bytes);
            return;
        }
    json_write_null(w);
}

/* Images are not returned, because they may be megabytes. */
static void write_document(struct json_writer *w, const struct pooling_parts *parts)
{
    json_write_key(w, "document");
    json_open_object(w);
    add_document_text(w, parts);
    if (parts->n_images) json_add_null(w, "multi_modal");
    json_close_object(w);
}

static void write_rerank_result(struct json_writer *w, const struct scoring_form *form,
                                const struct scored_item *item)
{
    const struct pooling_parts *document = &form->right.item[item->index];
    json_open_object(w);
    json_add_uint(w, "index", item->index);
    json_add_digits(w, form->tei ? "score" : "relevance_score", item->score, 9);
    if (!form->hides_documents && form->tei) add_document_text(w, document);
    if (!form->hides_documents && !form->tei) write_document(w, document);
    json_close_object(w);
}

static void add_scoring_usage(struct json_writer *w, const struct api_usage *usage, bool completion)
{
    json_write_key(w, "usage");
    json_open_object(w);
    json_add_int(w, "prompt_tokens", usage->prompt_tokens);
    json_add_int(w, "total_tokens", usage->prompt_tokens);
    if (completion) json_add_int(w, "completion_tokens", 0);
    json_close_object(w);
}

/* Cohere's clients require this member. */
static void add_rerank_meta(struct json_writer *w)
{
    json_write_key(w, "meta");
    json_open_object(w);
    json_write_key(w, "api_version");
    json_open_object(w);
    json_add_string(w, "version", "2");
    json_close_object(w);
    json_write_key(w, "billed_units");
    json_open_object(w);
    json_add_int(w, "search_units", 1);
    json_close_object(w);
    json_close_object(w);
}

static void write_rerank_results(struct json_writer *w, const struct scoring_form *form,
                                 const struct scored_item *items, size_t n)
{
    json_open_array(w);
    for (size_t i = 0; i < n; i++)
        write_rerank_result(w, form, &items[i]);
    json_close_array(w);
}

static void write_rerank(struct buf *out, struct api_reply *reply, const struct api_choice *choices,
                         size_t n_choices, const struct api_usage *usage)
{
    const struct scoring_form *form = reply->request->own;
    struct json_writer w = json_write_to(out, JSON_COMPACT);
    size_t n;
    struct scored_item *items = ranked(form, choices, &n);
    (void)n_choices; /* the form has the numbers of items */
    if (!items) {
        buf_fail(out);
    } else if (form->tei) {
        write_rerank_results(&w, form, items, n);
    } else {
        json_open_object(&w);
        json_add_string(&w, "id", reply->id);
        json_add_string(&w, "model", reply->model);
        add_scoring_usage(&w, usage, false);
        add_rerank_meta(&w);
        json_write_key(&w, "results");
        write_rerank_results(&w, form, items, n);
        json_close_object(&w);
    }
    free(items);
}

static void write_scores(struct buf *out, struct api_reply *reply, const struct api_choice *choices,
                         size_t n_choices, const struct api_usage *usage)
{
    const struct scoring_form *form = reply->request->own;
    struct json_writer w = json_write_to(out, JSON_COMPACT);
    (void)n_choices;
    json_open_object(&w);
    json_add_string(&w, "id", reply->id);
    json_add_string(&w, "object", "list");
    json_add_int(&w, "created", reply->created);
    json_add_string(&w, "model", reply->model);
    json_write_key(&w, "data");
    json_open_array(&w);
    for (size_t i = 0; i < form->right.n; i++) {
        json_open_object(&w);
        json_add_uint(&w, "index", i);
        json_add_string(&w, "object", "score");
        json_add_digits(&w, "score", score_of(form, choices, i), 9);
        json_close_object(&w);
    }
    json_close_array(&w);
    add_scoring_usage(&w, usage, true);
    json_close_object(&w);
}

const struct api_dialect scoring_dialects[] = {[SCORING_RERANK] = {.kind = SCORING_RERANK,
                                                                   .id_prefix = "rerank-",
                                                                   .call_prefix = "",
                                                                   .json_type = "application/json",
                                                                   .read = read_scoring,
                                                                   .write_whole = write_rerank},
                                               [SCORING_SCORE] = {.kind = SCORING_SCORE,
                                                                  .id_prefix = "score-",
                                                                  .call_prefix = "",
                                                                  .json_type = "application/json",
                                                                  .read = read_scoring,
                                                                  .write_whole = write_scores}};
