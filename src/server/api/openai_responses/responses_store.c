/* SPDX-License-Identifier: Apache-2.0 */
/* A list of entries under one lock, sorted by last use, oldest first. The texts of an entry have
 * pages of their own: in the heap, small texts that stay for an hour would keep malloc from
 * returning memory to the system. */
#include "server/api/openai_responses/responses_store.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct store_entry {
    struct stored_response response; /* its texts lie in the pages of `item` */
    uint32_t *item; /* [n_items] offsets of output items, then the texts of input and response */
    size_t n_items;
    unsigned char owner[RESPONSES_OWNER_BYTES];
    size_t n_bytes; /* whole pages */
    double used;
};

struct responses_store {
    pthread_mutex_t lock;
    struct store_entry *entry; /* [n], sorted by `used` */
    size_t n, n_bytes, max_bytes;
};

bool responses_store_open(struct responses_store **store, size_t max_bytes, ey_err *e)
{
    struct responses_store *s = calloc(1, sizeof(*s));
    struct store_entry *entries = calloc(RESPONSES_STORE_COUNT, sizeof(*entries));
    if (!s || !entries) {
        free(s);
        free(entries);
        return ey_fail_memory(e, "the store of responses",
                              RESPONSES_STORE_COUNT * sizeof(*entries));
    }
    s->entry = entries;
    s->max_bytes = max_bytes;
    pthread_mutex_init(&s->lock, NULL);
    *store = s;
    return true;
}

void responses_store_free(struct stored_response *response)
{
    free(response->input);
    free(response->response);
    *response = (struct stored_response){0};
}

static void free_entry(struct store_entry *entry)
{
    munmap(entry->item, entry->n_bytes);
}

void responses_store_close(struct responses_store **store)
{
    struct responses_store *s = *store;
    if (!s) return;
    for (size_t i = 0; i < s->n; i++)
        free_entry(&s->entry[i]);
    pthread_mutex_destroy(&s->lock);
    free(s->entry);
    free(s);
    *store = NULL;
}

bool responses_store_keeps(const struct responses_store *store, size_t n_bytes)
{
    return store && store->max_bytes && n_bytes <= store->max_bytes;
}

static size_t whole_pages(size_t n_bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (n_bytes + page - 1) / page * page;
}

static const char item_mark[] = "{\"id\":\"";

/* Stores the offsets of the output's items in offset[], unless it is NULL, and returns their
 * number. No text can look like the beginning of an item, because quotes in texts are escaped. */
static size_t find_items(const char *response, uint32_t *offset)
{
    const char *at = strstr(response, "\"output\":["),
               *end = at ? strstr(at, "],\"previous_response_id\":") : NULL;
    size_t n = 0;
    if (!end) end = response + strlen(response);
    for (; at && (at = strstr(at, item_mark)) && at < end; at++, n++)
        if (offset) offset[n] = (uint32_t)(at - response);
    return n;
}

static bool fill_entry(struct store_entry *entry, const struct stored_response *response)
{
    size_t n_input = strlen(response->input) + 1, n_response = strlen(response->response) + 1;
    void *pages = mmap(NULL, entry->n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                       -1, 0);
    if (pages == MAP_FAILED) return false;
    entry->item = pages;
    find_items(response->response, entry->item);
    char *texts = (char *)(entry->item + entry->n_items);
    entry->response = *response;
    entry->response.input = memcpy(texts, response->input, n_input);
    entry->response.response = memcpy(texts + n_input, response->response, n_response);
    return true;
}

static bool copy_stored(struct stored_response *out, const struct stored_response *in)
{
    *out = *in;
    out->input = strdup(in->input);
    out->response = strdup(in->response);
    if (out->input && out->response) return true;
    responses_store_free(out);
    return false;
}

/* ---- under the lock ---- */

static void remove_entry(struct responses_store *s, size_t i)
{
    s->n_bytes -= s->entry[i].n_bytes;
    free_entry(&s->entry[i]);
    memmove(&s->entry[i], &s->entry[i + 1], (s->n - i - 1) * sizeof(*s->entry));
    s->n--;
}

static void drop_expired(struct responses_store *s, double now)
{
    while (s->n && now - s->entry[0].used > RESPONSES_STORE_SECONDS)
        remove_entry(s, 0);
}

static bool is_owned(const struct store_entry *entry, const unsigned char *owner)
{
    return memcmp(entry->owner, owner, RESPONSES_OWNER_BYTES) == 0;
}

/* Returns the index, or s->n if there is none. */
static size_t find_entry(const struct responses_store *s, const unsigned char *owner,
                         const char *id)
{
    size_t i = 0;
    while (i < s->n && !(is_owned(&s->entry[i], owner) && !strcmp(s->entry[i].response.id, id)))
        i++;
    return i;
}

static bool has_item(const struct store_entry *entry, const char *id)
{
    const size_t n = strlen(id);
    for (size_t i = 0; i < entry->n_items; i++) {
        const char *at = entry->response.response + entry->item[i] + strlen(item_mark);
        if (strncmp(at, id, n) == 0 && at[n] == '"') return true;
    }
    return false;
}

/* Finds the last response that has the item. */
static size_t find_entry_of_item(const struct responses_store *s, const unsigned char *owner,
                                 const char *id)
{
    size_t i = s->n;
    while (i && !(is_owned(&s->entry[i - 1], owner) && has_item(&s->entry[i - 1], id)))
        i--;
    return i ? i - 1 : s->n;
}

static void use_entry(struct responses_store *s, size_t i, double now)
{
    struct store_entry entry = s->entry[i];
    memmove(&s->entry[i], &s->entry[i + 1], (s->n - i - 1) * sizeof(entry));
    entry.used = now;
    s->entry[s->n - 1] = entry;
}

static bool take_copy(struct responses_store *s, size_t i, double now, struct stored_response *out)
{
    if (i == s->n || !copy_stored(out, &s->entry[i].response)) return false;
    use_entry(s, i, now);
    return true;
}

static bool take_link(struct responses_store *s, size_t i, double now, struct stored_link *out)
{
    if (i == s->n) return false;
    const struct stored_response *r = &s->entry[i].response;
    out->n_bytes = s->entry[i].n_bytes;
    snprintf(out->id, sizeof(out->id), "%s", r->id);
    snprintf(out->previous, sizeof(out->previous), "%s", r->previous);
    use_entry(s, i, now);
    return true;
}

/* ---- interface ---- */

bool responses_store_put(struct responses_store *store, const unsigned char *owner,
                         const struct stored_response *response, double now)
{
    struct store_entry entry = {.used = now};
    entry.n_items = find_items(response->response, NULL);
    entry.n_bytes = whole_pages(entry.n_items * sizeof(*entry.item) + strlen(response->input) +
                                strlen(response->response) + 2);
    if (!responses_store_keeps(store, entry.n_bytes) || !fill_entry(&entry, response)) return false;
    memcpy(entry.owner, owner, RESPONSES_OWNER_BYTES);
    pthread_mutex_lock(&store->lock);
    drop_expired(store, now);
    while (store->n &&
           (store->n == RESPONSES_STORE_COUNT || store->n_bytes + entry.n_bytes > store->max_bytes))
        remove_entry(store, 0);
    store->entry[store->n++] = entry;
    store->n_bytes += entry.n_bytes;
    pthread_mutex_unlock(&store->lock);
    return true;
}

bool responses_store_get(struct responses_store *store, const unsigned char *owner, const char *id,
                         double now, struct stored_response *out)
{
    pthread_mutex_lock(&store->lock);
    drop_expired(store, now);
    bool found = take_copy(store, find_entry(store, owner, id), now, out);
    pthread_mutex_unlock(&store->lock);
    return found;
}

bool responses_store_find(struct responses_store *store, const unsigned char *owner, const char *id,
                          double now, struct stored_link *out)
{
    pthread_mutex_lock(&store->lock);
    drop_expired(store, now);
    bool found = take_link(store, find_entry(store, owner, id), now, out);
    pthread_mutex_unlock(&store->lock);
    return found;
}

bool responses_store_find_item(struct responses_store *store, const unsigned char *owner,
                               const char *item_id, double now, struct stored_link *out)
{
    if (strlen(item_id) >= RESPONSES_ID_BYTES || strpbrk(item_id, "\"\\")) return false;
    pthread_mutex_lock(&store->lock);
    drop_expired(store, now);
    bool found = take_link(store, find_entry_of_item(store, owner, item_id), now, out);
    pthread_mutex_unlock(&store->lock);
    return found;
}

bool responses_store_delete(struct responses_store *store, const unsigned char *owner,
                            const char *id, double now)
{
    pthread_mutex_lock(&store->lock);
    drop_expired(store, now);
    size_t i = find_entry(store, owner, id);
    bool found = i < store->n;
    if (found) remove_entry(store, i);
    pthread_mutex_unlock(&store->lock);
    return found;
}
