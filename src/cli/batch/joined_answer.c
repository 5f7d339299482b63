/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/batch/joined_answer.h"

#include <stdlib.h>

enum { MAX_JOINED = 256 << 20 };

/* Takes ownership of the page's answer, which owns the texts of its tokens. */
static bool keep_page(struct joined_answer *joined, ey_answer *page, ey_err *e)
{
    ey_answer *pages = realloc(joined->pages, (joined->n + 1) * sizeof(*pages));
    if (pages) {
        joined->pages = pages;
        joined->pages[joined->n++] = *page;
    } else {
        ey_answer_free(page);
    }
    *page = (ey_answer){0};
    return pages || ey_fail_memory(e, "a document's text", (joined->n + 1) * sizeof(*pages));
}

static struct joined_answer empty_joined(void)
{
    const struct buf empty = buf_with_max(MAX_JOINED);
    return (struct joined_answer){empty, empty, empty, empty, NULL, 0};
}

/* Adds a text, after an empty line if it is not the first. */
static void join_text(struct buf *joined, const char *text, size_t n)
{
    if (!n) return;
    while (joined->size && joined->data[joined->size - 1] == '\n')
        joined->size--;
    if (joined->size) buf_add_text(joined, "\n\n");
    buf_add(joined, text, n);
}

static void add_lists(struct joined_answer *joined, const ey_answer *page)
{
    if (page->n_images)
        buf_add(&joined->images, page->images, page->n_images * sizeof(*page->images));
    if (page->n_logprobs)
        buf_add(&joined->logprobs, page->logprobs, page->n_logprobs * sizeof(*page->logprobs));
}

static void add_numbers(ey_answer *whole, const ey_answer *page)
{
    if (page->finish_reason == EY_FINISH_LENGTH) whole->finish_reason = EY_FINISH_LENGTH;
    whole->approximate |= page->approximate;
    whole->prompt_tokens += page->prompt_tokens;
    whole->completion_tokens += page->completion_tokens;
    whole->thought_tokens += page->thought_tokens;
    whole->image_tokens += page->image_tokens;
    whole->cached_tokens += page->cached_tokens;
    whole->vision_seconds += page->vision_seconds;
    whole->prefill_seconds += page->prefill_seconds;
    whole->decode_seconds += page->decode_seconds;
}

static void point_to_joined(ey_answer *whole, const struct joined_answer *joined)
{
    whole->text = joined->text.data;
    whole->n_text = joined->text.size;
    whole->thought = joined->thought.data;
    whole->n_thought = joined->thought.size;
    whole->images = (ey_image_usage *)(void *)joined->images.data;
    whole->n_images = joined->images.size / sizeof(*whole->images);
    whole->logprobs = (ey_token_logprobs *)(void *)joined->logprobs.data;
    whole->n_logprobs = joined->logprobs.size / sizeof(*whole->logprobs);
}

bool joined_answer_add(struct joined_answer *joined, ey_answer *whole, ey_answer *page, ey_err *e)
{
    if (!joined->n) {
        *joined = empty_joined();
        buf_add(&joined->text, whole->text, whole->n_text);
        join_text(&joined->thought, whole->thought, whole->n_thought);
        add_lists(joined, whole);
    }
    join_text(&joined->text, page->text, page->n_text);
    join_text(&joined->thought, page->thought, page->n_thought);
    add_lists(joined, page);
    add_numbers(whole, page);
    if (!keep_page(joined, page, e)) return false;
    if (joined->text.failed || joined->thought.failed || joined->images.failed ||
        joined->logprobs.failed)
        return ey_fail_memory(e, "a document's text", MAX_JOINED);
    point_to_joined(whole, joined);
    return true;
}

void joined_answer_free(struct joined_answer *joined)
{
    for (size_t i = 0; i < joined->n; i++)
        ey_answer_free(&joined->pages[i]);
    free(joined->pages);
    buf_free(&joined->text);
    buf_free(&joined->thought);
    buf_free(&joined->images);
    buf_free(&joined->logprobs);
    *joined = (struct joined_answer){0};
}
