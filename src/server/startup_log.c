/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines about models, memory and throughput. Lines that people search for in vLLM's log have
 * the same wording here. */
#include "server/startup_log.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "server/log.h"

#define THROUGHPUT_SECONDS 10.0
#define GIB 1073741824.0

void startup_url(char out[128], const struct server_options *o, const struct server_socket *l)
{
    bool any = strcmp(l->address, "0.0.0.0") == 0 || strcmp(l->address, "::") == 0;
    const char *address = !any ? l->address : l->v6 ? "::1" : "127.0.0.1";
    bool v6 = strchr(address, ':') != NULL;
    snprintf(out, 128, "%s://%s%s%s:%d", o->ssl_certfile ? "https" : "http", v6 ? "[" : "", address,
             v6 ? "]" : "", l->port);
}

/* Finds this machine's first address in a local network. Returns false if it has none. */
static bool network_address(char out[64])
{
    struct ifaddrs *all = NULL;
    bool found = false;
    if (getifaddrs(&all) != 0) return false;
    for (const struct ifaddrs *a = all; a && !found; a = a->ifa_next) {
        bool up = (a->ifa_flags & (IFF_UP | IFF_LOOPBACK)) == IFF_UP;
        if (!up || !a->ifa_addr || a->ifa_addr->sa_family != AF_INET) continue;
        found = getnameinfo(a->ifa_addr, sizeof(struct sockaddr_in), out, 64, NULL, 0,
                            NI_NUMERICHOST) == 0;
    }
    freeifaddrs(all);
    return found;
}

void log_network_url(const struct server_options *o, const struct server_socket *l)
{
    char address[64];
    bool any = strcmp(l->address, "0.0.0.0") == 0 || strcmp(l->address, "::") == 0;
    if (any && network_address(address))
        log_line("from other devices in this network, such as a phone: %s://%s:%d/",
                 o->ssl_certfile ? "https" : "http", address, l->port);
}

/* 8192 → "8,192" */
static const char *group_digits(char out[32], long long n)
{
    char digits[32];
    int length = snprintf(digits, sizeof(digits), "%lld", n), used = 0;
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0) out[used++] = ',';
        out[used++] = digits[i];
    }
    out[used] = 0;
    return out;
}

static void log_loaded_model(const char *name, const struct model_status *report)
{
    const struct model_info *f = &report->info;
    char pool[32], context[32];
    log_line("model %s (%s) on %s, %s, %d threads; loaded in %.2f s", name, f->architecture,
             f->device, f->device_detail, f->threads, report->load_seconds);
    for (size_t i = 0; i < f->n_items; i++)
        log_line("  %-28s %10.1f MB  %s, %s", f->item[i].name, (double)f->item[i].bytes / 1e6,
                 f->item[i].device, f->item[i].lifetime);
    log_line("  %-28s %10.1f MB of %s", "total", (double)f->total_bytes / 1e6, f->budget_rule);
    for (size_t i = 0; i < f->n_choices; i++)
        log_line("chosen: %s", f->choice[i]);
    log_line("Available KV cache memory: %.2f GiB", (double)f->kv_bytes / GIB);
    log_line("up to %d requests run at the same time (--max-num-seqs)", f->max_num_seqs);
    log_line("GPU KV cache size: %s tokens, Maximum concurrency for %s tokens per request: %.2fx",
             group_digits(pool, f->kv_tokens), group_digits(context, f->max_model_len),
             f->max_model_len ? (double)f->kv_tokens / f->max_model_len : 0.0);
}

void log_loaded_models(const struct server *server)
{
    for (size_t i = 0; i < model_manager_count(server->model_manager); i++) {
        struct model_status report = model_manager_status(server->model_manager, i);
        if (report.info.loaded_once)
            log_loaded_model(server_model_name(server, i), &report);
        else
            log_line("model %s takes turns: it needs %.1f MB and is loaded on demand",
                     server_model_name(server, i), (double)report.info.total_bytes / 1e6);
    }
    log_line("requests in flight may take up to %.1f MB of host memory",
             (double)ey_budget_total(server->budget) / 1e6);
}

static double percent(uint64_t part, uint64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

void log_throughput(struct throughput_log *t, struct model_manager *manager, size_t model)
{
    double now = seconds_now(), seconds = now - t->since;
    if (t->since > 0 && seconds < THROUGHPUT_SECONDS) return;
    ey_stats s = model_manager_stats(manager, model), *b = &t->before;
    uint64_t prompt = s.prompt_tokens - b->prompt_tokens,
             answer = s.generated_tokens - b->generated_tokens;
    if (t->since > 0 && (prompt || answer || s.running || s.waiting))
        log_line(
            "Engine %03zu: Avg prompt throughput: %.1f tokens/s, Avg generation throughput: %.1f "
            "tokens/s, Running: %d reqs, Waiting: %d reqs, "
            "GPU KV cache usage: %.1f%%, Prefix cache hit rate: %.1f%%, MM cache hit rate: %.1f%%",
            model, (double)prompt / seconds, (double)answer / seconds, s.running, s.waiting,
            percent((uint64_t)s.kv_blocks_used, (uint64_t)s.kv_blocks),
            percent(s.cached_tokens, s.prompt_tokens), percent(s.images_cached, s.images));
    t->since = now;
    t->before = s;
}
