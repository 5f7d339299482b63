/* SPDX-License-Identifier: Apache-2.0 */
/* The templates that the built-in formats implement are recognized by hash; any other is searched
 * for differences. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "models/own_template.h"

#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/chat/template_check.h"
#include "checkpoint/template_file.h"

enum { MAX_TEMPLATE_BYTES = 1 << 20, MAX_WRITTEN_BYTES = 64 << 10, MAX_DIFFERENCES_BYTES = 4096 };

/* ---- whether it is known ---- */

static bool is_known_hash(const struct family *family, const struct buf *text)
{
    unsigned char digest[SHA256_DIGEST_LENGTH];
    char hex[2 * SHA256_DIGEST_LENGTH + 1];
    if (!SHA256((const unsigned char *)text->data, text->size, digest)) return false;
    for (size_t i = 0; i < sizeof(digest); i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    for (const char *const *known = family->templates; *known; known++)
        if (strcmp(*known, hex) == 0) return true;
    return false;
}

/* Ignores line ends and spaces at the end, which depend on how the template was saved. */
static bool is_known_template(const struct family *family, const struct template_file *t)
{
    struct buf text = buf_with_max(MAX_TEMPLATE_BYTES + 1);
    size_t n = t->n;
    while (n && (t->text[n - 1] == '\n' || t->text[n - 1] == '\r' || t->text[n - 1] == ' '))
        n--;
    bool known = buf_add(&text, t->text, n) && is_known_hash(family, &text);
    known = known || (buf_add(&text, "\n", 1) && is_known_hash(family, &text));
    buf_free(&text);
    return known;
}

/* ---- what the built-in format writes ---- */

static bool add_prompt(struct buf *out, const struct family *family, const ey_request *request)
{
    struct prompt prompt;
    bool ok = family->prompt(&prompt, request, NULL) &&
              prompt_text(&prompt, family->vision_marks, out);
    prompt_free(&prompt);
    return ok;
}

/* Writes two conversations, one without a system prompt, and the tokens that only templates have,
 * such as those for video. */
static bool write_all(struct buf *out, const struct family *family, bool thinks)
{
    const ey_part parts[] = {ey_text_part("x"), ey_image_part("", 0)};
    const size_t n_parts = family->vision_marks ? 2 : 1;
    const ey_tool_call calls[] = {{"x", "{}"}, {"x", "{}"}};
    const size_t n_calls = family->tool_calls ? 2 : 0;
    const ey_message messages[] = {{.role = "system", .parts = parts, .n_parts = 1},
                                   {.role = "user", .parts = parts, .n_parts = n_parts},
                                   {.role = "assistant",
                                    .parts = parts,
                                    .n_parts = 1,
                                    .tool_calls = calls,
                                    .n_tool_calls = n_calls,
                                    .thought = thinks ? "x" : NULL,
                                    .n_thought = thinks},
                                   {.role = "tool", .parts = parts, .n_parts = 1},
                                   {.role = "tool", .parts = parts, .n_parts = 1}};
    const char *const tools[] = {"{}"};
    ey_request request = ey_request_defaults();
    request.add_vision_id = n_parts > 1;
    request.thinking = thinks ? EY_THINKING_ON : EY_THINKING_AUTO;
    request.messages = messages;
    request.n_messages = n_calls ? 5 : 3;
    bool ok = add_prompt(out, family, &request);
    request.messages = messages + 1;
    request.n_messages = 1;
    request.tools = tools;
    request.n_tools = family->tool_calls ? 1 : 0;
    return ok && add_prompt(out, family, &request) &&
           buf_add_text(out, "<|endoftext|>Video <|video_pad|>");
}

/* ---- the remark ---- */

static void remark_on(struct model *model, const struct template_file *t)
{
    const struct family *family = model->family;
    struct buf written = buf_with_max(MAX_WRITTEN_BYTES),
               found = buf_with_max(MAX_DIFFERENCES_BYTES);
    const struct built_in_format format = {&written, family->default_system,
                                           model->thinks ? family->thinking_tail : family->tail,
                                           model->thinks};
    bool ok = write_all(&written, family, model->thinks) &&
              template_differences(&found, t->text, t->n, &format);
    if (ok && found.size)
        model_remark(model,
                     "%s: the checkpoint's chat template is not used; prompts are written in "
                     "eyelet's own format for %s, and the template differs from it in: %s",
                     t->file, family->model_type, found.data);
    else
        model_remark(model,
                     "%s: the checkpoint's chat template is not used; prompts are written in "
                     "eyelet's own format for %s. The template is unknown, but its default system "
                     "prompt, thinking and generation prompt look the same",
                     t->file, family->model_type);
    buf_free(&written);
    buf_free(&found);
}

/* Whether the template always starts an answer with thinking and has no switch for it. */
static bool opens_thought(const struct family *family, const struct template_file *t)
{
    return family->thinking_tail && template_writes(t->text, t->n, family->thinking_tail) &&
           !memmem(t->text, t->n, "enable_thinking", strlen("enable_thinking"));
}

void model_remark_on_template(struct model *model, struct checkpoint *ckpt)
{
    struct template_file t = {0};
    bool found = template_file_find(&t, ckpt) && t.text;
    model->thinks = found && opens_thought(model->family, &t);
    if (found && !is_known_template(model->family, &t)) remark_on(model, &t);
    free(t.text);
}
