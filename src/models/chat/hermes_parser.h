/* SPDX-License-Identifier: Apache-2.0 */
/* Splits an answer's streamed text into content and Hermes tool calls.
 *
 * Content passes through immediately, except what may still become a call's mark and whitespace
 * before a possible call. A call is returned when it is complete; one that cannot be parsed is
 * returned as content, marks included. */
#ifndef EY_MODELS_HERMES_PARSER_H
#define EY_MODELS_HERMES_PARSER_H

#include "eyelet/tool_calls.h"

/* The parser functions of struct tool_call_format. */
void *hermes_parser_open(bool single);
void hermes_parser_close(void *state);
bool hermes_parser_add(void *state, const char *text, size_t n);
void hermes_parser_end(void *state);
bool hermes_parser_next(void *state, ey_answer_piece *piece);

#endif
