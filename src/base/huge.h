/* Huge pages beneath what is read over and over. A virtual machine, as WSL2 is one, translates addresses twice, and the pages of a file lie scattered:
 * weights that are read there in pages of 4 KiB come at half the speed. */
#ifndef EY_BASE_HUGE_H
#define EY_BASE_HUGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HUGE_PAGE = 2 << 20 };

/* Asks for huge pages beneath memory that is still to be written. Smaller ones do as well, but slower. */
void huge_ask(void *data, size_t size);

/* Memory that begins with a huge page, and has them beneath what is written of it; NULL: there is none. */
void *huge_room(size_t size);
/* room NULL: nothing happens. */
void huge_room_free(void *room, size_t size);

/* Bytes of a read-only map of a file (file_map_open). */
struct huge_span {
    const uint8_t *data;
    size_t size;
};

/* What gets a place of its own, within a room. */
struct huge_copy {
    const uint8_t *from;
    uint8_t *to;
    size_t size;
};

/* What is to be moved. All functions are called by the thread that copies. */
struct huge_plan {
    const struct huge_copy *copy; /* first, one after the other; must stay until the move is stopped */
    size_t n_copies;
    struct huge_span *span; /* in place (any order, sorted here; no two overlap) */
    size_t n_spans;
    bool (*busy)(void *user); /* whether to wait; asked before each, every few milliseconds until not. NULL: never; else the thread has low priority as well */
    bool (*copied)(void *user, size_t n); /* so many copies are there; false: asked again in a moment, and nothing else is done until then */
    void *user;
};

/* A thread that copies. */
struct huge_move;

/* Starts to replace spans by copies in huge pages: addresses and bytes stay the same, also for those who
 * read them meanwhile. What lies between spans that are nearly neighbours is copied along; only whole huge pages are. file_map_forget() must not be told
 * of any of it afterwards: copies do not come back. They belong to the map and go with file_map_close(), before which huge_move_stop() is to be called. What cannot be replaced stays in
 * the file. NULL: this machine gives no huge pages, they are more than the memory that is left, or there is nothing to do. */
struct huge_move *huge_move_start(const struct huge_plan *plan);
/* Waits until all is copied that will be, and returns the bytes of that; NULL is 0. Any thread may call. */
size_t huge_move_wait(struct huge_move *move);
/* Ends the thread within some milliseconds and frees it; *move may be NULL and is afterwards. */
void huge_move_stop(struct huge_move **move);

#endif
