/* SPDX-License-Identifier: Apache-2.0 */
/* The table of the dialects of Responses, and their errors. */
#include "server/api/openai_responses/responses_dialect.h"

#include <string.h>

#include "base/text/json_writer.h"

#define RESPONSES_DIALECT(the_kind)                                  \
    [the_kind] = {.kind = the_kind,                                  \
                  .id_prefix = "resp_",                              \
                  .call_prefix = "call_",                            \
                  .json_type = "application/json",                   \
                  .stream_type = "text/event-stream; charset=utf-8", \
                  .clips = true,                                     \
                  .keeps_answer = true,                              \
                  .more_copies = 8,                                  \
                  .keeps_request = true,                             \
                  .state_bytes = sizeof(struct responses_state),     \
                  .read = responses_read,                            \
                  .write_whole = responses_write_whole,              \
                  .write_event = responses_write_event,              \
                  .close_state = responses_close_state}

const struct api_dialect responses_dialects[] = {RESPONSES_DIALECT(RESPONSES_CREATE),
                                                 RESPONSES_DIALECT(RESPONSES_COUNT)};

const char *responses_error_code(const struct api_error *error)
{
    switch (error->code) {
    case API_ERROR_TOO_LONG: return "context_length_exceeded";
    case API_ERROR_IMAGE: return "invalid_image";
    case API_ERROR_IMAGE_FETCH: return "failed_to_download_image";
    case API_ERROR_UNSUPPORTED: return "unsupported_value";
    case API_ERROR_MODEL: return "model_not_found";
    case API_ERROR_OTHER: break;
    }
    if (!strcmp(error->type, RESPONSES_PREVIOUS_GONE)) return RESPONSES_PREVIOUS_GONE;
    if (error->status == 401) return "invalid_api_key";
    if (error->status == 503) return "server_is_overloaded";
    return error->status >= 500 ? "server_error" : NULL;
}

int write_responses_error(struct buf *out, const struct api_error *error)
{
    struct json_writer w = json_write_to(out, JSON_COMPACT);
    json_open_object(&w);
    json_write_key(&w, "error");
    json_open_object(&w);
    json_add_string(&w, "message", api_error_text(error));
    json_add_string(&w, "type", error->status < 500 ? "invalid_request_error" : "server_error");
    json_add_string(&w, "param", error->param[0] ? error->param : NULL);
    json_add_string(&w, "code", responses_error_code(error));
    json_close_object(&w);
    json_close_object(&w);
    return error->status == 422 || error->status == 501 ? 400 : error->status;
}
