/* SPDX-License-Identifier: Apache-2.0 */
/* Readers of fields that APIs share: how tokens are drawn, how an answer ends. Each is of the type
 * that a dialect's table has. */
#ifndef EY_SERVER_SAMPLING_FIELDS_H
#define EY_SERVER_SAMPLING_FIELDS_H

#include "server/api/common/api_parser.h"

api_field_fn read_stream_flag;
api_field_fn read_max_tokens;
api_field_fn read_temperature, read_top_p, read_top_k, read_min_p;
api_field_fn read_repetition_penalty, read_presence_penalty, read_frequency_penalty;
api_field_fn read_seed;         /* -1 asks for a new one */
api_field_fn read_stop;         /* a text or several */
api_field_fn read_mm_processor; /* the pixel budget of all images */

/* Says something about the request, not about the answer. */
api_field_fn accept_field;
/* Asks for what is not there: an answer without it would not be what the client believes. */
api_field_fn refuse_field;
api_field_fn only_true;

#endif
