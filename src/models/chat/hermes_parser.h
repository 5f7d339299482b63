/* SPDX-License-Identifier: Apache-2.0 */
/* Hermes tool calls in an answer's text → content and calls, as the text comes.
 *
 * What is not a call is content and goes through at once, but for what may still become a call's
 * mark and for white space that a call may follow. A call is given when it is whole; one that
 * cannot be read is content, marks and all. */
#ifndef EY_MODELS_HERMES_PARSER_H
#define EY_MODELS_HERMES_PARSER_H

#include "eyelet/tool_calls.h"

/* The parser of struct tool_call_format. */
void *hermes_parser_open(bool single);
void hermes_parser_close(void *state);
bool hermes_parser_add(void *state, const char *text, size_t n);
void hermes_parser_end(void *state);
bool hermes_parser_next(void *state, ey_answer_piece *piece);

#endif
