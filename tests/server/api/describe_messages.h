/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the messages that a dialect's parser has read as one line, for comparison. */
#ifndef EY_TESTS_SERVER_API_DESCRIBE_MESSAGES_H
#define EY_TESTS_SERVER_API_DESCRIBE_MESSAGES_H

#include "base/buf.h"
#include "eyelet/request.h"

/* "user: 'text' image(BYTES); assistant: name(ARGUMENTS); " */
void describe_messages(struct buf *out, const ey_request *request);

#endif
