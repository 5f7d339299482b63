/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between the server and its children; the first byte selects the message type. A message
 * that was read is written back identically. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox/sandbox_message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_job(const uint8_t *data, size_t n)
{
    uint8_t again[JOB_MESSAGE_BYTES];
    const char *argument[MAX_PROGRAM_ARGUMENTS + 1];
    struct job_message job;
    size_t length = 0;
    if (!job_message_read(&job, argument, data, n)) return;
    job_message_write(again, &job);
    assert(memcmp(again, data, sizeof(again)) == 0);
    for (uint32_t i = 0; i < job.n_arguments; i++)
        length += strlen(argument[i]) + 1;
    assert(!argument[job.n_arguments] && JOB_MESSAGE_BYTES + length == n);
}

static void read_reply(const uint8_t *data, size_t n)
{
    uint8_t again[REPLY_MESSAGE_BYTES];
    struct reply_message reply;
    if (!reply_message_read(&reply, data, n)) return;
    reply_message_write(again, &reply);
    assert(memcmp(again, data, sizeof(again)) == 0);
}

static void read_bitmap(const uint8_t *data, size_t n)
{
    struct bitmap_header header;
    if (!bitmap_header_read(&header, data, n)) return;
    assert((size_t)header.width * header.height * header.channels + BITMAP_HEADER_BYTES == n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size) return 0;
    /* a block of this size, so that a sanitizer sees reads past its end */
    uint8_t *copy = malloc(size);
    if (!copy) return 0;
    memcpy(copy, data + 1, size - 1);
    switch (data[0]) {
    case 'j': read_job(copy, size - 1); break;
    case 'r': read_reply(copy, size - 1); break;
    default: read_bitmap(copy, size - 1);
    }
    free(copy);
    return 0;
}
