/* SPDX-License-Identifier: Apache-2.0 */
#include "models/pooling/pooling_messages.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"

enum { MIN_PIXELS = 4096, MAX_PIXELS = 1800 * 32 * 32 }; /* pixels of an image: 4 to 1,800 tokens */

static const char embed_instruction[] = "Represent the user's input.";
static const char rerank_instruction[] =
    "Given a search query, retrieve relevant candidates that answer the query.";
static const char rerank_system[] =
    "Judge whether the Document meets the requirements based on the Query and the Instruct "
    "provided. Note that the answer can only be \"yes\" or \"no\".";

/* ---- instructions ---- */

static utf8proc_category_t category_of(const char *text, size_t n)
{
    uint32_t cp;
    return utf8_decode(text, n, &cp) > 0 ? utf8proc_category((utf8proc_int32_t)cp)
                                         : UTF8PROC_CATEGORY_CN;
}

static bool is_blank_at(const char *text, size_t n)
{
    const unsigned char c = (unsigned char)text[0];
    const utf8proc_category_t category = category_of(text, n);
    return (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f) ||
           category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
           category == UTF8PROC_CATEGORY_ZP;
}

/* Returns the offset of the last character. */
static size_t last_character(const char *text, size_t n)
{
    size_t at = n - 1;
    while (at && n - at < 4 && ((unsigned char)text[at] & 0xc0) == 0x80)
        at--;
    return at;
}

static void strip(const char **text, size_t *n)
{
    while (*n && is_blank_at(*text, *n)) {
        int length = utf8_decode(*text, *n, NULL);
        *text += length > 0 ? length : 1;
        *n -= length > 0 ? (size_t)length : 1;
    }
    while (*n && is_blank_at(*text + last_character(*text, *n), *n - last_character(*text, *n)))
        *n = last_character(*text, *n);
}

static bool ends_in_punctuation(const char *text, size_t n)
{
    const size_t at = last_character(text, n);
    const utf8proc_category_t category = category_of(text + at, n - at);
    return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

/* Returns the instruction stripped, with a full stop unless it ends with punctuation; NULL without
 * memory. */
static const char *embedding_instruction(const ey_pooling_input *input, size_t *n,
                                         struct arena *arena)
{
    const char *text = input->instruction;
    *n = text ? input->n_instruction : 0;
    if (text) strip(&text, n);
    if (!*n) return *n = strlen(embed_instruction), embed_instruction;
    if (ends_in_punctuation(text, *n)) return text;
    char *whole = arena_alloc(arena, *n + 1);
    if (!whole) return NULL;
    memcpy(whole, text, *n);
    whole[(*n)++] = '.';
    return whole;
}

/* ---- parts ---- */

static ey_part text_of(const char *text, size_t n)
{
    return (ey_part){.type = EY_PART_TEXT, .bytes = text, .n_bytes = n};
}

static ey_part within_pixels(ey_part image)
{
    if (!image.max_pixels && image.detail == EY_DETAIL_AUTO) image.max_pixels = MAX_PIXELS;
    if (!image.min_pixels) image.min_pixels = MIN_PIXELS;
    return image;
}

static bool has_anything(const ey_part *parts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (parts[i].type == EY_PART_IMAGE || parts[i].n_bytes) return true;
    return false;
}

/* Appends the images, then the texts, or "NULL" if there is neither. */
static ey_part *add_sorted(ey_part *to, const ey_part *parts, size_t n)
{
    if (!has_anything(parts, n)) {
        *to++ = ey_text_part("NULL");
        return to;
    }
    for (size_t i = 0; i < n; i++)
        if (parts[i].type == EY_PART_IMAGE) *to++ = within_pixels(parts[i]);
    for (size_t i = 0; i < n; i++)
        if (parts[i].type == EY_PART_TEXT) *to++ = parts[i];
    return to;
}

/* ---- both prompts ---- */

/* Fills system[1], then the user's parts. Returns their end, or NULL without memory. */
static ey_part *embedding_parts(ey_part *system, const ey_pooling_input *input, struct arena *arena)
{
    size_t n;
    const char *instruction = embedding_instruction(input, &n, arena);
    if (!instruction) return NULL;
    *system = text_of(instruction, n);
    return add_sorted(system + 1, input->parts, input->n_parts);
}

static ey_part *reranking_parts(ey_part *system, const ey_pooling_input *input)
{
    ey_part *to = system;
    *to++ = ey_text_part(rerank_system);
    *to++ = ey_text_part("<Instruct>: ");
    *to++ = input->instruction && input->n_instruction
                ? text_of(input->instruction, input->n_instruction)
                : ey_text_part(rerank_instruction);
    *to++ = ey_text_part("<Query>:");
    to = add_sorted(to, input->query, input->n_query);
    *to++ = ey_text_part("\n<Document>:");
    return add_sorted(to, input->parts, input->n_parts);
}

static bool check_query(const ey_pooling_input *input, ey_task task, ey_err *e)
{
    if (task == EY_TASK_RERANK && !input->query)
        return ey_fail(e, EY_BAD_REQUEST,
                       "this model reranks: a score needs a query and a document");
    return task == EY_TASK_RERANK || !input->query ||
           ey_fail(e, EY_BAD_REQUEST, "this model embeds: send the input without a query");
}

bool pooling_messages(ey_message out[POOLING_MESSAGES], const ey_pooling_input *input, ey_task task,
                      struct arena *arena, ey_err *e)
{
    enum { OWN_PARTS = 8 };
    const size_t most = input->n_parts + input->n_query + OWN_PARTS;
    if (!check_query(input, task, e)) return false;
    ey_part *parts = arena_array(arena, most, sizeof(*parts)), *end = NULL;
    if (parts)
        end = task == EY_TASK_RERANK ? reranking_parts(parts, input)
                                     : embedding_parts(parts, input, arena);
    if (!end) return ey_fail_memory(e, "the prompt", most * sizeof(*parts));
    out[0] = (ey_message){.role = "system", .parts = parts, .n_parts = 1};
    out[1] = (ey_message){.role = "user", .parts = parts + 1, .n_parts = (size_t)(end - parts) - 1};
    return true;
}
