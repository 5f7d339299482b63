/* Huge pages: for memory of one's own by asking, for maps of files by copies, in their place or elsewhere. */
#include "base/huge.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#include "base/memory.h"

enum {
    PIECE = 16 * HUGE_PAGE, /* that is copied at once: memory that is taken beside the map, for as long as that takes */
    BESIDE = 10,            /* nice: a tenth of a processor that others want; a machine that must find the pages first takes seconds for them */
    GAP = 256 << 10         /* bytes between spans that count as neighbours: scales lie between matrices */
};

struct huge_move {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool has_ended;  /* under the lock */
    size_t moved;    /* bytes; under the lock once it has ended */
    atomic_bool stop;
    struct huge_plan plan;
    size_t n;
    struct huge_span span[]; /* of whole huge pages */
};

static uintptr_t up(uintptr_t x)
{
    return (x + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
}

static uintptr_t down(uintptr_t x)
{
    return x / HUGE_PAGE * HUGE_PAGE;
}

void huge_ask(void *data, size_t size)
{
    uintptr_t begin = up((uintptr_t)data), end = down((uintptr_t)data + size);
    if (begin < end) madvise((void *)begin, end - begin, MADV_HUGEPAGE);
}

/* "always [madvise] never": what is in brackets. */
static bool are_given(void)
{
    char line[64] = "";
    FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
    if (!f) return false;
    bool given = fgets(line, sizeof(line), f) && !strstr(line, "[never]");
    fclose(f);
    return given;
}

/* ---- copies ---- */

void *huge_room(size_t size)
{
    size = up(size);
    char *all = mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) return NULL;
    char *room = (char *)up((uintptr_t)all);
    if (room > all) munmap(all, (size_t)(room - all));
    munmap(room + size, (size_t)(all + HUGE_PAGE - room));
    madvise(room, size, MADV_HUGEPAGE);
    return room;
}

void huge_room_free(void *room, size_t size)
{
    if (room) munmap(room, up(size));
}

/* Readers wait while the kernel exchanges the pages, if they come at all: they see these bytes before and after. */
static bool replace(uint8_t *at, size_t size)
{
    void *copy = huge_room(size);
    if (!copy) return false;
    memcpy(copy, at, size);
    if (mprotect(copy, size, PROT_READ) == 0 && mremap(copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, at) != MAP_FAILED) return true;
    munmap(copy, size);
    return false;
}

static void wait_a_moment(void)
{
    const struct timespec pause = {0, 5000000};
    nanosleep(&pause, NULL);
}

/* False: it was stopped meanwhile. */
static bool may_go_on(struct huge_move *m)
{
    while (!atomic_load(&m->stop) && m->plan.busy && m->plan.busy(m->plan.user)) wait_a_moment();
    return !atomic_load(&m->stop);
}

/* False: it was stopped before it was taken note of. */
static bool tell_copied(struct huge_move *m, size_t n)
{
    while (!atomic_load(&m->stop) && !m->plan.copied(m->plan.user, n)) wait_a_moment();
    return !atomic_load(&m->stop);
}

/* Both return the bytes of what they did before they were stopped, or there was no memory. */
static size_t copy_all(struct huge_move *m)
{
    size_t moved = 0;
    for (size_t i = 0; i < m->plan.n_copies && may_go_on(m); i++) {
        const struct huge_copy *c = &m->plan.copy[i];
        memcpy(c->to, c->from, c->size);
        if (tell_copied(m, i + 1)) moved += c->size;
    }
    return moved;
}

static size_t replace_all(struct huge_move *m)
{
    size_t moved = 0;
    for (size_t i = 0; i < m->n; i++)
        for (size_t at = 0, size; at < m->span[i].size; at += size, moved += size) {
            size = m->span[i].size - at < PIECE ? m->span[i].size - at : PIECE;
            if (!may_go_on(m) || !replace((uint8_t *)m->span[i].data + at, size)) return moved;
        }
    return moved;
}

static void *move_all(void *context)
{
    struct huge_move *m = context;
    if (m->plan.busy) setpriority(PRIO_PROCESS, 0, BESIDE); /* of this thread only */
    size_t moved = copy_all(m) + replace_all(m);
    pthread_mutex_lock(&m->lock);
    m->has_ended = true, m->moved = moved;
    pthread_cond_broadcast(&m->ended);
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

/* ---- which ---- */

static int compare(const void *a, const void *b)
{
    const uint8_t *x = ((const struct huge_span *)a)->data, *y = ((const struct huge_span *)b)->data;
    return (x > y) - (x < y);
}

/* Sorts spans, joins neighbours, and leaves the whole huge pages of these; how many are left. */
static size_t whole_pages(struct huge_span *span, size_t n)
{
    size_t left = 0, whole = 0;
    if (!n) return 0;
    qsort(span, n, sizeof(*span), compare);
    for (size_t i = 0; i < n; i++) {
        struct huge_span *last = left ? &span[left - 1] : NULL;
        if (last && (uintptr_t)span[i].data - (uintptr_t)(last->data + last->size) <= GAP) last->size = (size_t)(span[i].data - last->data) + span[i].size;
        else span[left++] = span[i];
    }
    for (size_t i = 0; i < left; i++) {
        uintptr_t begin = up((uintptr_t)span[i].data), end = down((uintptr_t)span[i].data + span[i].size);
        if (begin < end) span[whole++] = (struct huge_span){(const uint8_t *)begin, end - begin};
    }
    return whole;
}

/* The file's own pages are among those that are said to be available; an eighth stays. */
static bool have_room(size_t bytes)
{
    return bytes + bytes / 8 <= memory_available();
}

struct huge_move *huge_move_start(const struct huge_plan *plan)
{
    size_t bytes = 0, whole = whole_pages(plan->span, plan->n_spans);
    for (size_t i = 0; i < whole; i++) bytes += plan->span[i].size;
    for (size_t i = 0; i < plan->n_copies; i++) bytes += plan->copy[i].size;
    if (!bytes || !are_given() || !have_room(bytes)) return NULL;
    struct huge_move *m = calloc(1, sizeof(*m) + whole * sizeof(*plan->span));
    if (!m) return NULL;
    m->plan = *plan, m->n = whole;
    if (whole) memcpy(m->span, plan->span, whole * sizeof(*plan->span));
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->ended, NULL);
    if (pthread_create(&m->thread, NULL, move_all, m) == 0) return m;
    free(m);
    return NULL;
}

size_t huge_move_wait(struct huge_move *m)
{
    if (!m) return 0;
    pthread_mutex_lock(&m->lock);
    while (!m->has_ended) pthread_cond_wait(&m->ended, &m->lock);
    size_t moved = m->moved;
    pthread_mutex_unlock(&m->lock);
    return moved;
}

void huge_move_stop(struct huge_move **move)
{
    struct huge_move *m = *move;
    if (!m) return;
    atomic_store(&m->stop, true);
    pthread_join(m->thread, NULL);
    pthread_cond_destroy(&m->ended);
    pthread_mutex_destroy(&m->lock);
    free(m);
    *move = NULL;
}
