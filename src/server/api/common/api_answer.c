/* SPDX-License-Identifier: Apache-2.0 */
/* What all answers have: ids and a time. */
#include "server/api/common/api_answer.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "server/api/common/api_dialect.h"

void api_random_id(char out[48], const char *prefix)
{
    unsigned char bytes[16] = {0};
    size_t n = (size_t)snprintf(out, 48, "%s", prefix);
    if (getrandom(bytes, sizeof(bytes), 0) < 0) memset(bytes, 0, sizeof(bytes)); /* only an id */
    for (size_t i = 0; i < sizeof(bytes) && n + 2 * i + 3 <= 48; i++)
        snprintf(out + n + 2 * i, 3, "%02x", bytes[i]);
}

struct api_reply api_reply_start(const struct api_dialect *dialect, const char *model)
{
    struct api_reply reply = {
        .kind = dialect->kind, .created = (int64_t)time(NULL), .model = model};
    api_random_id(reply.id, dialect->id_prefix);
    return reply;
}
