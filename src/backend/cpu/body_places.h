/* SPDX-License-Identifier: Apache-2.0 */
/* Where products of few rows read weights in place; a part of kernels_body.h. */

/* A block of weight rows is read in several places at once, each of which goes through its share of
 * the rows, one after the other: processors read ahead by themselves in a few long streams, but
 * neither in one alone fast enough, nor where two are in one page. What they miss is asked for. */
enum { MOST_PLACES = LANES == 4 ? 2 : 8, MOST_FEW = LANES == 16 ? 8 : 4 };

/* AMD's processors, which BF16 vectors are for, have few lines on their way to the first-level
 * cache: asked for into the second-level one, earlier, weights come at 36 instead of 31 GB/s (two
 * cores of a Zen 4). Intel's lose a tenth by that. */
#ifdef HAVE_BF16
#define ASK_AHEAD(p) __builtin_prefetch((p) + 4 * CPU_AHEAD, 0, 2)
#else
#define ASK_AHEAD(p) __builtin_prefetch((p) + CPU_AHEAD)
#endif

/* Places that leave registers for what is decoded: each has a sum for each of the n rows. */
#define PLACES(n)                  \
    (LANES == 4   ? MOST_PLACES    \
     : LANES == 8 ? (n == 1   ? 8  \
                     : n == 2 ? 4  \
                              : 2) \
     : n <= 2     ? 8              \
     : n <= 5     ? 4              \
                  : 2)

/* The weight rows that are read now: one every `apart`, from `row` on. Those that are not there are
 * the last one again. */
struct places {
    int row, apart, n;
};

INLINE int place_row(const struct places *p, const struct tile *t, int a)
{
    int row = p->row + a * p->apart;
    return row < t->n_w ? row : t->n_w - 1;
}

INLINE void place_pointers(const uint8_t **w, const struct places *p, const struct tile *t)
{
    UNROLL
    for (int a = 0; a < p->n; a++)
        w[a] = t->w + (size_t)place_row(p, t, a) * t->w_stride;
}

INLINE void ask_ahead(const uint8_t *const *w, int n, size_t at, size_t lines)
{
    UNROLL
    for (int a = 0; a < n; a++)
        UNROLL
    for (size_t i = 0; i < lines; i++)
        ASK_AHEAD(w[a] + at + 64 * i);
}

/* Of a panel's rows LANES are read side by side, too many places for processors to read ahead in:
 * what comes next in a row is asked for, and the same columns of the row that takes its place. */
INLINE void ask_for_panel(const uint8_t *row, size_t stride, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 64) {
        __builtin_prefetch(row + i + CPU_AHEAD);
        __builtin_prefetch(row + i + LANES * stride, 0, 2);
    }
}

/* Lanes [n][places] are added up and go to out[n][rows]; v is used up. */
static __attribute__((noinline, unused)) void add_lanes(float *out, size_t out_stride, vf *v,
                                                        const struct places *p,
                                                        const struct tile *t, int n)
{
    const int at_once = LANES / p->n;
    for (int b = 0, count; b < n; b += count) {
        float sums[LANES];
        count = n - b < at_once ? n - b : at_once;
        store(sums, lanes_sums(v + b * p->n, count * p->n));
        for (int i = 0; i < count; i++)
            for (int a = 0; a < p->n && p->row + a * p->apart < t->n_w; a++)
                out[(size_t)(b + i) * out_stride + (size_t)(p->row + a * p->apart)] =
                    sums[i * p->n + a];
    }
}

/* `call` with the number of rows as a constant, from 1 to MOST_FEW. */
#if LANES == 16
#define FOR_FEW_ROWS(n, call) \
    switch (n) {              \
    case 1: call(1); break;   \
    case 2: call(2); break;   \
    case 3: call(3); break;   \
    case 4: call(4); break;   \
    case 5: call(5); break;   \
    case 6: call(6); break;   \
    case 7: call(7); break;   \
    default: call(8);         \
    }
#else
#define FOR_FEW_ROWS(n, call) \
    switch (n) {              \
    case 1: call(1); break;   \
    case 2: call(2); break;   \
    case 3: call(3); break;   \
    default: call(4);         \
    }
#endif

/* One instance a number of rows, so that the sums stay in registers. */
#define FEW_INSTANCE(body, dtype, rows)                                                       \
    for (int apart = (t->n_w + PLACES(rows) - 1) / PLACES(rows), row = 0; row < apart; row++) \
        body(out, out_stride, t, (struct places){row, apart, PLACES(rows)}, dtype, rows);     \
    break
#if LANES == 16
#define MORE_INSTANCES(body, dtype)       \
    case 5: FEW_INSTANCE(body, dtype, 5); \
    case 6: FEW_INSTANCE(body, dtype, 6); \
    case 7: FEW_INSTANCE(body, dtype, 7); \
    case 8:                               \
        FEW_INSTANCE(body, dtype, 8);
#else
#define MORE_INSTANCES(body, dtype)
#endif
#define FEW_INSTANCES(body, dtype)                                    \
    switch (t->n_x) {                                                 \
    case 1: FEW_INSTANCE(body, dtype, 1);                             \
    case 2: FEW_INSTANCE(body, dtype, 2);                             \
    case 3: FEW_INSTANCE(body, dtype, 3);                             \
    case 4: FEW_INSTANCE(body, dtype, 4); MORE_INSTANCES(body, dtype) \
    }
