/* SPDX-License-Identifier: Apache-2.0 */
/* Any image URL: it reads only what the policy allows, and connects to nothing. URLs of remote
 * files and paths are only parsed and checked. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "media/media_internal.h"

static bool begins(const char *url, size_t n, const char *with)
{
    return n >= strlen(with) && strncasecmp(url, with, strlen(with)) == 0;
}

static void check_media(const char *url, size_t n, const struct media_policy *policy)
{
    struct media m;
    ey_err e = {0};
    bool ok = media_get(&m, url, n, policy, &e);
    if (ok && (!m.n_bytes || m.n_bytes > policy->max_bytes || m.n_bytes > n)) abort();
    if (!ok && (m.bytes || e.code == EY_OK || !e.text[0])) abort();
    media_free(&m);
    if (ey_budget_used(policy->budget)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const domains[] = {"example.com", "*.wild.org"};
    static ey_budget *budget;
    const char *url = (const char *)data;
    char path[EY_MAX_PATH];
    ey_err e;
    if (!budget) budget = ey_budget_create(1 << 20);
    struct media_policy policy = {
        .domains = domains, .n_domains = 2, .max_bytes = 1 << 16, .budget = budget};
    if (begins(url, size, "http:") || begins(url, size, "https:")) {
        if (!memchr(url, 0, size)) media_check_http(url, size, &policy, &e);
        policy.n_domains = 0;
    }
    if (begins(url, size, "file:") && media_file_path(path, url, size, &e) &&
        (path[0] != '/' || strlen(path) >= size))
        abort();
    check_media(url, size, &policy);
    return 0;
}
