/* SPDX-License-Identifier: Apache-2.0 */
/* Detects races in shared memory. Code that is compiled with -fsanitize=thread calls a function
 * before each memory access; this file implements these functions in place of ThreadSanitizer's
 * library, which would watch CPU threads. Each byte of shared memory records its last writer and
 * readers. Two accesses by different threads, at least one of them a write, race unless a
 * __syncthreads is between them or, within a warp, a __syncwarp. Shuffles and matrix instructions
 * order nothing, as on a GPU. EMULATOR_RACES=0 in the environment disables the detector, which
 * takes a third of the time. */
#include <algorithm>
#include <cstdlib>

#include "cuda/emulator_block.h"

namespace emulator
{

#ifdef EY_RACES

/* The last accesses to some bytes of shared memory. */
struct cell {
    uint32_t write_epoch, write_warp_epoch, read_epoch, read_warp_epoch;
    uint32_t reading_warps; /* bit mask of warps that have read in read_epoch */
    uint16_t writer, reader : 15;
    /* several threads of the reader's warp have read in read_warp_epoch */
    uint16_t many_readers : 1;
    uint32_t write_code, read_code; /* addresses for addr2line */
};

/* Shared memory in pieces of 16 bytes, most of which are accessed as words or as a whole. A piece
 * has one cell, or a cell for each word or byte. The arrays are separate so that the common ones
 * stay in cache. */
static const size_t PIECE = 16, WORD = 4;

/* Epochs only grow, so records of earlier blocks and launches never match. */
struct pieces {
    std::vector<uint8_t> step; /* bytes of each piece that share a cell: PIECE, WORD or 1 */
    std::vector<cell> of_piece, of_word, of_byte;

    cell *cells(size_t piece)
    {
        return step[piece] == PIECE  ? &of_piece[piece]
               : step[piece] == WORD ? &of_word[piece * (PIECE / WORD)]
                                     : &of_byte[piece * PIECE];
    }

    void make_room(size_t n)
    {
        if (step.size() >= n) return;
        step.resize(n, PIECE), of_piece.resize(n), of_word.resize(n * (PIECE / WORD)),
            of_byte.resize(n * PIECE);
    }

    void divide(size_t piece, size_t wanted)
    {
        const cell *from = cells(piece);
        const size_t times = step[piece] / wanted;
        step[piece] = (uint8_t)wanted;
        for (size_t i = 0; i < PIECE / wanted; i++)
            cells(piece)[i] = from[i / times];
    }

    /* After a write of all 16 bytes, one cell is enough again if no thread has read them in this
     * epoch. */
    void join(size_t piece, uint32_t epoch)
    {
        const cell *from = cells(piece);
        for (size_t i = 0; i < PIECE / step[piece]; i++)
            if (from[i].read_epoch == epoch) return;
        of_piece[piece] = from[0];
        step[piece] = PIECE;
    }
};

struct race_memory {
    struct pieces dynamic, variables;
};

/* Shared memory of the block that this CPU thread runs; `first` is a multiple of 16. size 0: none.
 */
struct span {
    uintptr_t first, size;
    struct pieces *pieces;
};
static __thread struct span dynamic_span, variable_span;
static __thread const struct block *watched;

extern "C" const char emulator_program_start __asm__("__executable_start");

static uint32_t code_of(const void *pc)
{
    return (uint32_t)(static_cast<const char *>(pc) - &emulator_program_start);
}

static const char *place_name(const void *p, char *text, size_t size)
{
    const unsigned char *byte = static_cast<const unsigned char *>(p);
    snprintf(text, size, "byte %td of dynamic shared memory", byte - watched->dynamic);
    for (const shared_variable &v : watched->variables)
        if (byte >= v.address && byte < v.address + v.size)
            snprintf(text, size, "byte %td of %s", byte - v.address, v.name);
    return text;
}

[[noreturn]] static void race(const void *p, const char *first_did, int first, uint32_t first_code,
                              const char *then_did, int then, uint32_t code)
{
    char place[256];
    fault("race: %s is %s by thread %d and %s by thread %d with no barrier between them; addr2line "
          "-pfie PROGRAM %#x %#x",
          place_name(p, place, sizeof(place)), first_did, first, then_did, then, first_code, code);
}

/* The current access. */
struct now {
    uint32_t epoch, warp_epoch, code;
    int number;
};

static inline bool unordered_write(const struct cell &c, const struct now &n)
{
    return c.write_epoch == n.epoch && c.writer != n.number &&
           (c.writer / 32 != n.number / 32 || c.write_warp_epoch == n.warp_epoch);
}

static inline void note_read(struct cell &c, const void *p, const struct now &n)
{
    if (unordered_write(c, n)) race(p, "written", c.writer, c.write_code, "read", n.number, n.code);
    bool same_time = c.read_epoch == n.epoch && c.reader / 32 == n.number / 32 &&
                     c.read_warp_epoch == n.warp_epoch;
    c.many_readers = same_time && (c.many_readers || c.reader != n.number);
    c.reading_warps = (c.read_epoch == n.epoch ? c.reading_warps : 0) | 1u << n.number / 32;
    c.read_epoch = n.epoch;
    c.read_warp_epoch = n.warp_epoch;
    c.reader = (uint16_t)n.number & 0x7fff;
    c.read_code = n.code;
}

static inline void note_write(struct cell &c, const void *p, const struct now &n)
{
    if (unordered_write(c, n))
        race(p, "written", c.writer, c.write_code, "written", n.number, n.code);
    if (c.read_epoch == n.epoch) {
        bool other_warp = c.reading_warps & ~(1u << n.number / 32);
        bool mate = c.reader / 32 == n.number / 32 && c.read_warp_epoch == n.warp_epoch &&
                    (c.many_readers || c.reader != n.number);
        if (other_warp || mate) race(p, "read", c.reader, c.read_code, "written", n.number, n.code);
    }
    c.write_epoch = n.epoch;
    c.write_warp_epoch = n.warp_epoch;
    c.writer = (uint16_t)n.number;
    c.write_code = n.code;
}

static inline void note_cell(struct cell &c, const void *p, enum access what, const struct now &n)
{
    if (what == ACCESS_READ)
        note_read(c, p, n);
    else
        note_write(c, p, n);
}

/* Records an access to bytes first to end - 1 of the piece at p. */
static void note_piece(struct pieces &all, size_t piece, const char *p, size_t first, size_t end,
                       enum access what, const struct now &n)
{
    size_t step = all.step[piece];
    if (first % step || end % step) all.divide(piece, step = first % WORD || end % WORD ? 1 : WORD);
    struct cell *cells = all.cells(piece);
    for (size_t i = first; i < end; i += step)
        note_cell(cells[i / step], p + i, what, n);
    if (step < PIECE && end - first == PIECE && what == ACCESS_WRITE) all.join(piece, n.epoch);
}

static void note_in(const struct span &s, uintptr_t offset, size_t size,
                    const struct lane_state *who, enum access what, const void *pc)
{
    struct now n = {watched->epoch, watched->warp_epoch[who->number / 32], code_of(pc),
                    who->number};
    size_t end = offset + size < s.size ? offset + size : s.size;
    while (offset < end) {
        size_t start = offset / PIECE * PIECE, stop = end - start < PIECE ? end - start : PIECE;
        note_piece(*s.pieces, start / PIECE, reinterpret_cast<const char *>(s.first) + start,
                   offset - start, stop, what, n);
        offset = start + PIECE;
    }
}

void note_access(const void *p, size_t size, const struct lane_state *who, enum access what,
                 const void *pc)
{
    uintptr_t in_dynamic = (uintptr_t)p - dynamic_span.first,
              in_variables = (uintptr_t)p - variable_span.first;
    if (in_dynamic < dynamic_span.size)
        note_in(dynamic_span, in_dynamic, size, who, what, pc);
    else if (in_variables < variable_span.size)
        note_in(variable_span, in_variables, size, who, what, pc);
}

static struct span span_of(struct pieces &pieces, const unsigned char *first, size_t size)
{
    uintptr_t start = (uintptr_t)first / PIECE * PIECE, all = (uintptr_t)first + size - start;
    pieces.make_room(all / PIECE + 1);
    return {start, size ? all : 0, &pieces};
}

static bool not_wanted(void)
{
    static const char *const wanted = getenv("EMULATOR_RACES");
    return wanted && strcmp(wanted, "0") == 0;
}

void watch_shared(struct block *b)
{
    if (not_wanted()) return;
    const unsigned char *first = nullptr, *end = nullptr;
    for (const shared_variable &v : b->variables) {
        if (!first || v.address < first) first = v.address;
        if (!end || v.address + v.size > end) end = v.address + v.size;
    }
    if (!b->races) b->races = new race_memory;
    dynamic_span = span_of(b->races->dynamic, b->dynamic, b->dynamic_size);
    variable_span = span_of(b->races->variables, first, (size_t)(end - first));
    watched = b;
}

void stop_watching(void)
{
    dynamic_span = variable_span = {};
    watched = nullptr;
}

void free_races(struct block *b)
{
    delete b->races;
}

#else

void note_access(const void *, size_t, const struct lane_state *, enum access, const void *)
{
}

void watch_shared(struct block *)
{
}

void stop_watching(void)
{
}

void free_races(struct block *)
{
}

#endif

} // namespace emulator

#ifdef EY_RACES

static inline void noted(const void *p, size_t size, enum emulator::access what, const void *pc)
{
    using namespace emulator;
    if ((uintptr_t)p - dynamic_span.first < dynamic_span.size ||
        (uintptr_t)p - variable_span.first < variable_span.size)
        note_access(p, size, watched->current, what, pc);
}

#define NOTED(size)                                                          \
    void __tsan_read##size(void *p)                                          \
    {                                                                        \
        noted(p, size, emulator::ACCESS_READ, __builtin_return_address(0));  \
    }                                                                        \
    void __tsan_write##size(void *p)                                         \
    {                                                                        \
        noted(p, size, emulator::ACCESS_WRITE, __builtin_return_address(0)); \
    }                                                                        \
    void __tsan_unaligned_read##size(void *p)                                \
    {                                                                        \
        noted(p, size, emulator::ACCESS_READ, __builtin_return_address(0));  \
    }                                                                        \
    void __tsan_unaligned_write##size(void *p)                               \
    {                                                                        \
        noted(p, size, emulator::ACCESS_WRITE, __builtin_return_address(0)); \
    }

extern "C" {
NOTED(1)
NOTED(2)
NOTED(4)
NOTED(8)
NOTED(16)

void __tsan_read_range(void *p, size_t size)
{
    noted(p, size, emulator::ACCESS_READ, __builtin_return_address(0));
}

void __tsan_write_range(void *p, size_t size)
{
    noted(p, size, emulator::ACCESS_WRITE, __builtin_return_address(0));
}

void *__tsan_memcpy(void *to, const void *from, size_t size)
{
    noted(from, size, emulator::ACCESS_READ, __builtin_return_address(0));
    noted(to, size, emulator::ACCESS_WRITE, __builtin_return_address(0));
    return memcpy(to, from, size);
}

void *__tsan_memset(void *to, int byte, size_t size)
{
    noted(to, size, emulator::ACCESS_WRITE, __builtin_return_address(0));
    return memset(to, byte, size);
}

void __tsan_func_entry(void *)
{
}
void __tsan_func_exit(void)
{
}
void __tsan_init(void)
{
}
}
#endif
