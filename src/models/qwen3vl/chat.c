/* The official template (spec 7.1) written down as code, byte for byte. Where it would drop something without a word
 * (a picture in a system message, tool calls of a user, an unknown role) this is an error instead; only later system
 * messages are left out, as clients that follow the template expect. */
#include "models/qwen3vl/chat.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/limits.h"

const struct vision_marks qwen3vl_vision_marks = {"<|vision_start|>", "<|image_pad|>", "<|vision_end|>"};

#define IM_START "<|im_start|>"
#define IM_END "<|im_end|>"
#define CALL_START "<tool_call>"
#define CALL_END "</tool_call>"
#define RESPONSE_START "<tool_response>"
#define RESPONSE_END "</tool_response>"

/* The prompt being written; after a failure all calls do nothing, and the error is the first one's. */
struct writing {
    struct prompt *out;
    const ey_request *request;
    ey_err *e;
    bool ok;
};

static void write_bytes(struct writing *w, const void *text, size_t n)
{
    w->ok = w->ok && prompt_add_text(w->out, text, n, w->e);
}

static void write_text(struct writing *w, const char *text)
{
    write_bytes(w, text, strlen(text));
}

static void write_special(struct writing *w, const char *content)
{
    w->ok = w->ok && prompt_add_special(w->out, content, w->e);
}

static void start_turn(struct writing *w, const char *role)
{
    write_special(w, IM_START);
    write_text(w, role);
    write_text(w, "\n");
}

static void end_turn(struct writing *w)
{
    write_special(w, IM_END);
    write_text(w, "\n");
}

static void write_image(struct writing *w)
{
    if (w->request->add_vision_id) {
        char label[32];
        snprintf(label, sizeof(label), "Picture %d: ", w->out->n_images + 1);
        write_text(w, label);
    }
    w->ok = w->ok && prompt_add_image(w->out, w->e);
}

static void write_parts(struct writing *w, const ey_message *message)
{
    for (size_t i = 0; i < message->n_parts; i++) {
        if (message->parts[i].type == EY_PART_IMAGE) write_image(w);
        else write_bytes(w, message->parts[i].bytes, message->parts[i].n_bytes);
    }
}

/* ---- tools --------------------------------------------------------------------------------------- */

static void write_tool(struct writing *w, const char *text, size_t number)
{
    char what[32];
    snprintf(what, sizeof(what), "tool %zu", number);
    json_object *tool = json_parse(text, strlen(text), what, EY_BAD_REQUEST, w->e);
    struct buf dump = buf_with_max(EY_MAX_TEXT_BYTES);
    if (!tool) w->ok = false;
    else if (!json_object_is_type(tool, json_type_object))
        w->ok = ey_fail(w->e, EY_BAD_REQUEST, "%s is not a JSON object", what);
    else if (!json_dump(&dump, tool)) w->ok = ey_fail_memory(w->e, what, strlen(text));
    else write_bytes(w, dump.data, dump.size);
    buf_free(&dump);
    json_object_put(tool);
}

/* The tokens <tool_call> in this text are tokens for the reference too: it tokenises the rendered whole. */
static void write_tools(struct writing *w)
{
    write_text(w, "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
                  "You are provided with function signatures within <tools></tools> XML tags:\n<tools>");
    for (size_t i = 0; w->ok && i < w->request->n_tools; i++) {
        write_text(w, "\n");
        write_tool(w, w->request->tools[i], i + 1);
    }
    write_text(w, "\n</tools>\n\nFor each function call, return a json object with function name and arguments within ");
    write_special(w, CALL_START);
    write_special(w, CALL_END);
    write_text(w, " XML tags:\n");
    write_special(w, CALL_START);
    write_text(w, "\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n");
    write_special(w, CALL_END);
}

static void write_tool_call(struct writing *w, const ey_tool_call *call)
{
    write_special(w, CALL_START);
    write_text(w, "\n{\"name\": \"");
    write_text(w, call->name);
    write_text(w, "\", \"arguments\": ");
    write_text(w, call->arguments);
    write_text(w, "}\n");
    write_special(w, CALL_END);
}

/* ---- turns --------------------------------------------------------------------------------------- */

static bool has_role(const ey_message *message, const char *role)
{
    return !strcmp(message->role, role);
}

/* The one system turn: the first message when it is the system's, and the tools. Later system messages are
 * dropped, as by the template. */
static void write_system(struct writing *w)
{
    const ey_message *first = &w->request->messages[0];
    bool from_message = has_role(first, "system"), tools = w->request->n_tools > 0;
    if (!from_message && !tools) return;
    start_turn(w, "system");
    if (from_message) write_parts(w, first);
    if (from_message && tools) write_text(w, "\n\n");
    if (tools) write_tools(w);
    end_turn(w);
}

static void write_assistant(struct writing *w, const ey_message *message)
{
    bool empty = true;
    for (size_t i = 0; i < message->n_parts; i++) empty = empty && message->parts[i].n_bytes == 0;
    start_turn(w, "assistant");
    write_parts(w, message);
    for (size_t i = 0; i < message->n_tool_calls; i++) {
        if (i || !empty) write_text(w, "\n");
        write_tool_call(w, &message->tool_calls[i]);
    }
    end_turn(w);
}

static bool is_tool(const ey_request *request, size_t at)
{
    return at < request->n_messages && has_role(&request->messages[at], "tool");
}

/* Tool results in a row share one user turn. */
static void write_tool_result(struct writing *w, size_t at)
{
    if (at == 0 || !is_tool(w->request, at - 1)) {
        write_special(w, IM_START);
        write_text(w, "user");
    }
    write_text(w, "\n");
    write_special(w, RESPONSE_START);
    write_text(w, "\n");
    write_parts(w, &w->request->messages[at]);
    write_text(w, "\n");
    write_special(w, RESPONSE_END);
    if (!is_tool(w->request, at + 1)) end_turn(w);
}

static void write_message(struct writing *w, size_t at)
{
    const ey_message *message = &w->request->messages[at];
    if (has_role(message, "user")) {
        start_turn(w, "user");
        write_parts(w, message);
        end_turn(w);
    } else if (has_role(message, "assistant")) {
        write_assistant(w, message);
    } else if (has_role(message, "tool")) {
        write_tool_result(w, at);
    }
}

/* ---- checks -------------------------------------------------------------------------------------- */

static bool known_role(const char *role)
{
    return role && (!strcmp(role, "system") || !strcmp(role, "user") || !strcmp(role, "assistant") || !strcmp(role, "tool"));
}

static bool check_parts(const ey_message *message, size_t number, ey_err *e)
{
    bool pictures = has_role(message, "user") || has_role(message, "tool");
    for (size_t i = 0; i < message->n_parts; i++) {
        const ey_part *part = &message->parts[i];
        if (part->type != EY_PART_TEXT && part->type != EY_PART_IMAGE)
            return ey_fail(e, EY_BAD_REQUEST, "message %zu, part %zu: neither text nor picture", number, i + 1);
        if (part->type == EY_PART_IMAGE && !pictures)
            return ey_fail(e, EY_BAD_REQUEST,
                           "message %zu: a picture cannot be in a message of the %s; put it in one of the user", number,
                           message->role);
    }
    return true;
}

static bool check_tool_calls(const ey_message *message, size_t number, ey_err *e)
{
    if (message->n_tool_calls && !has_role(message, "assistant"))
        return ey_fail(e, EY_BAD_REQUEST, "message %zu: tool calls belong to the assistant, not to the %s", number,
                       message->role);
    for (size_t i = 0; i < message->n_tool_calls; i++)
        if (!message->tool_calls[i].name || !message->tool_calls[i].arguments)
            return ey_fail(e, EY_BAD_REQUEST, "message %zu: tool call %zu has no %s", number, i + 1,
                           message->tool_calls[i].name ? "arguments" : "name");
    return true;
}

static bool check_request(const ey_request *request, ey_err *e)
{
    if (request->n_messages == 0) return ey_fail(e, EY_BAD_REQUEST, "the request has no messages");
    if (request->n_messages > EY_MAX_MESSAGES)
        return ey_fail(e, EY_BAD_REQUEST, "%zu messages are more than the limit of %d", request->n_messages,
                       EY_MAX_MESSAGES);
    for (size_t i = 0; i < request->n_messages; i++) {
        const ey_message *message = &request->messages[i];
        if (!known_role(message->role))
            return ey_fail(e, EY_BAD_REQUEST, "message %zu: role \"%.60s\" is not system, user, assistant or tool", i + 1,
                           message->role ? message->role : "");
        if (!check_parts(message, i + 1, e) || !check_tool_calls(message, i + 1, e)) return false;
    }
    return true;
}

bool qwen3vl_prompt(struct prompt *out, const ey_request *request, ey_err *e)
{
    *out = prompt_start();
    if (!check_request(request, e)) return false;
    struct writing w = {.out = out, .request = request, .e = e, .ok = true};
    write_system(&w);
    for (size_t i = 0; w.ok && i < request->n_messages; i++) write_message(&w, i);
    start_turn(&w, "assistant");
    return w.ok;
}
