/* SPDX-License-Identifier: Apache-2.0 */
/* Field readers that APIs share: sampling and the end of an answer. They fit into a dialect's
 * table. */
#ifndef EY_SERVER_SAMPLING_FIELDS_H
#define EY_SERVER_SAMPLING_FIELDS_H

#include "server/api/common/api_parser.h"

api_field_fn read_stream_flag;
api_field_fn read_max_tokens;
api_field_fn read_temperature, read_top_p, read_top_k, read_min_p;
api_field_fn read_repetition_penalty, read_presence_penalty, read_frequency_penalty;
api_field_fn read_seed;         /* -1 requests a random seed */
api_field_fn read_stop;         /* a string or an array of strings */
api_field_fn read_mm_processor; /* the pixel budget of all images */

/* Accepts a field that does not affect the answer. */
api_field_fn accept_field;
/* Refuses a field for an unsupported feature, because an answer without it would mislead the
 * client. */
api_field_fn refuse_field;
/* Refuses false. */
api_field_fn only_true;

#endif
