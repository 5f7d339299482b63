/* SPDX-License-Identifier: Apache-2.0 */
#include "server/api/common/api_charge.h"

#include <stdio.h>

#include "server/api/common/api_fields.h"

enum { WAIT_MS = 5000, SLICE_MS = 100 };

static bool fail_charge(struct api_error *error, int status, const char *fmt, uint64_t a,
                        uint64_t b)
{
    char message[256];
    snprintf(message, sizeof(message), fmt, (unsigned long long)a, (unsigned long long)b);
    return api_fail_status(error, status, "", message);
}

bool api_charge_take(struct api_charge *charge, uint64_t n, const ey_request *request,
                     struct api_error *error)
{
    if (!charge->from) return true;
    uint64_t total = ey_budget_total(charge->from), own = charge->held + request->budget_held;
    if (own > total || n > total - own)
        return fail_charge(error, 400,
                           "the request takes %llu bytes of memory, but --host-memory allows %llu "
                           "for all requests together",
                           own + n, total);
    for (int waited = 0; waited < WAIT_MS; waited += SLICE_MS) {
        if (ey_budget_acquire(charge->from, n, SLICE_MS)) {
            charge->held += n;
            return true;
        }
        if (request->gone && request->gone(request->gone_user))
            return api_fail_status(error, 499, "", "the client has left");
    }
    return fail_charge(
        error, 503,
        "the request needs %llu more bytes of memory, but other requests hold too much of the %llu "
        "that --host-memory allows for all; try again soon",
        n, total);
}

void api_charge_keep(struct api_charge *charge, uint64_t kept)
{
    if (charge->held <= kept) return;
    ey_budget_release(charge->from, charge->held - kept);
    charge->held = kept;
}

uint64_t api_json_text_bytes(const char *text, size_t n)
{
    uint64_t bytes = n + 2;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c < 0x20) bytes += 5; /* \u0000 */
        if (c == '"' || c == '\\') bytes++;
        if (c >= 0x80) bytes += 2; /* invalid UTF-8 becomes U+FFFD */
    }
    return bytes;
}
