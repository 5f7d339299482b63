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

/* Bytes of a read-only map of a file (file_map_open). */
struct huge_span {
    const uint8_t *data;
    size_t size;
};

/* Whether copies are to wait; asked before each, every few milliseconds until they need not. Called by the thread that copies. */
typedef bool huge_busy_fn(void *user);

/* A thread that copies maps into huge pages, in place. */
struct huge_move;

/* Starts to replace what lies in `spans` (any order, sorted here; no two overlap) by copies in huge pages: addresses and bytes stay the same, also for those who
 * read them meanwhile. What lies between spans that are nearly neighbours is copied along; only whole huge pages are. file_map_forget() must not be told
 * of any of it afterwards: copies do not come back. They belong to the map and go with file_map_close(), before which huge_move_stop() is to be called. What cannot be replaced stays in
 * the file. NULL: this machine gives no huge pages, they are more than the memory that is left, or there is nothing to do. `busy` NULL: copies never wait; else they have
 * low priority as well. */
struct huge_move *huge_move_start(struct huge_span *spans, size_t n, huge_busy_fn *busy, void *user);
/* Waits until all is replaced that will be, and returns the bytes of that; NULL is 0. Any thread may call. */
size_t huge_move_wait(struct huge_move *move);
/* Ends the thread within some milliseconds and frees it; *move may be NULL and is afterwards. */
void huge_move_stop(struct huge_move **move);

#endif
