/* Products of many rows in FP16, with panels of weights. As in body_blocks.h the lanes are weight rows, and what few() has in one lane of its float32 sums is a
 * pass, in the same order: the products of GROUPS of its FP16 lanes, TERMS of each at a time.
 *
 * Packed rows lie in parts of a few, [part][pass][steps][rows of the part] FP16, then a factor for the sums of each row; panels are [pass][strip][steps][STRIP], then a
 * factor for each weight row. Steps are [chunk][group: 0, 2, 1, 3][TERMS]. */
#include "backend/cpu/body_fp16.h"

#define STRIP_ROWS (2 * HALVES)
#include "backend/cpu/body_parts.h"

enum { VECTORS = STRIP / LANES };

/* Steps of a group of the chunk that begins with column k. */
INLINE size_t group_steps(size_t k, size_t padded)
{
    return (padded - k < CHUNK ? padded - k : CHUNK) / HALVES;
}

/* Where the first step of each of the HALVES columns lies that begin a chunk, in steps from the first of a pass; the next of these columns are a step on.
 * `passes`: from one pass to the next. */
INLINE void chunk_steps(size_t at[HALVES], size_t k, size_t padded, size_t passes)
{
    for (size_t column = 0; column < HALVES; column++) {
        const size_t group = column / PASSES, turn = group / 2 + group % 2 * 2;
        at[column] = pass_of(column % PASSES) * passes + k / PASSES + turn * group_steps(k, padded);
    }
}

/* ---- packing ---- */

static float *factors_after(void *halves, size_t n)
{
    return (float *)(void *)((uint16_t *)halves + n);
}

/* HALVES columns of each row of a part, to these steps. */
INLINE void put_columns(uint16_t *part, const __m256i rows[2][LANES], const size_t at[HALVES], int n)
{
    for (size_t i = 0; i < 2; i++) {
        __m512i pairs[LANES];
        for (int b = 0; b < LANES; b++) pairs[b] = _mm512_cvtepu16_epi32(rows[i][b]);
        transpose(pairs);
        for (size_t l = 0; l < LANES; l++)
            _mm256_mask_storeu_epi16(part + at[i * LANES + l] * (size_t)n, (__mmask16)((1u << n) - 1), _mm512_cvtepi32_epi16(pairs[l]));
    }
}

void cpu_pack_block_fp16(void *out, const struct packing *p)
{
    float *factors = factors_after(out, (size_t)p->n * p->padded);
    for (int part = 0; part < n_parts(p->n); part++) {
        const int begin = part_begin(p->n, part), n = part_begin(p->n, part + 1) - begin;
        size_t at[HALVES];
        float unit[PART_ROWS];
        uint16_t *to = (uint16_t *)out + (size_t)begin * p->padded;
        for (int b = 0; b < n; b++) {
            const int exponent = row_exponent(p, begin + b);
            unit[b] = power_of_two(exponent), factors[begin + b] = power_of_two(-exponent);
        }
        for (size_t k = 0; k < p->padded; k += HALVES) {
            __m256i rows[2][LANES] = {{{0}}};
            if (k % CHUNK == 0) chunk_steps(at, k, p->padded, p->padded / PASSES);
            for (int b = 0; b < n; b++)
                for (size_t i = 0; i < 2; i++) rows[i][b] = halves_of(row_floats(p, begin + b, k + i * LANES) * unit[b]);
            put_columns(to + k % CHUNK / HALVES * (size_t)n, rows, at, n);
        }
    }
}

/* n numbers times a factor. */
INLINE void scale_some(uint16_t *out, const uint16_t *x, size_t n, __m512h factor)
{
    for (size_t i = 0; i < n; i += HALVES) {
        const __mmask32 there = n - i < HALVES ? (__mmask32)((1u << (n - i)) - 1) : ~0u;
        _mm512_mask_storeu_epi16(out + i, there, (__m512i)_mm512_mul_ph((__m512h)_mm512_maskz_loadu_epi16(there, x + i), factor));
    }
}

/* A pass of a part of n rows, times the multipliers. */
static void scale_pass(uint16_t *out, const uint16_t *x, size_t padded, size_t n, const float *scale, float unit)
{
    __m512h factors[CHUNK / FP8_BLOCK];
    for (size_t k = 0; k < padded; k += CHUNK) {
        const size_t end = padded - k < CHUNK ? padded - k : CHUNK;
        for (size_t i = 0; i < end; i += FP8_BLOCK) factors[i / FP8_BLOCK] = scale_halves(*scale++, unit);
        for (int group = 0; group < GROUPS; group++)
            for (size_t i = 0, many; i < end; i += FP8_BLOCK, out += many, x += many) {
                many = (end - i < FP8_BLOCK ? end - i : FP8_BLOCK) / HALVES * n;
                scale_some(out, x, many, factors[i / FP8_BLOCK]);
            }
    }
}

/* ---- panels ---- */

/* 32 rows of 32 columns become columns. */
INLINE void transpose_halves(__m512i v[HALVES])
{
    __m512i low[LANES], high[LANES];
    for (int i = 0; i < LANES; i++) low[i] = _mm512_unpacklo_epi16(v[2 * i], v[2 * i + 1]), high[i] = _mm512_unpackhi_epi16(v[2 * i], v[2 * i + 1]);
    transpose(low); /* word 4q + i: of column 8q + i */
    transpose(high);
    for (int column = 0; column < HALVES; column++) {
        const int word = column / 8 * 4 + column % 4;
        v[column] = column / 4 % 2 ? high[word] : low[word];
    }
}

/* 64 columns of a weight row from k on, zeros after its end. */
INLINE void weights_step(__m512h out[2], const struct weight *w, enum dtype dtype, int64_t row, size_t k, __m512i minus, __m512i *most)
{
    const size_t cols = (size_t)w->cols, size = dtype_size(dtype), n = k >= cols ? 0 : cols - k < CPU_K_STEP ? cols - k : CPU_K_STEP;
    const uint8_t *in = (const uint8_t *)w->data + ((size_t)row * cols + k) * size;
    uint8_t tail[2 * CPU_K_STEP] = {0};
    if (n < CPU_K_STEP) in = memcpy(tail, in, n * size);
    else for (size_t i = 0; i < size; i++) __builtin_prefetch(in + 64 * i + CPU_AHEAD);
    if (dtype == DTYPE_F8_E4M3) *most = larger_codes(*most, in), out[0] = fp8_halves(in), out[1] = fp8_halves(in + HALVES);
    else out[0] = bf16_halves(in, minus, most), out[1] = bf16_halves(in + 64, minus, most);
}

/* Where HALVES weight rows go in a panel, the first `n` of which are there. */
struct panel {
    uint16_t *out; /* where the first pass has them */
    const struct weight *w;
    int64_t row;
    size_t n, padded, strips;
};

/* minus, most: of a row each. */
INLINE void panel_rows(const struct panel *p, enum dtype dtype, const __m512i minus[HALVES], __m512i most[HALVES])
{
    size_t at[HALVES];
    for (size_t k = 0; k < p->padded; k += CPU_K_STEP) {
        __m512h values[HALVES][2];
        if (k % CHUNK == 0) chunk_steps(at, k, p->padded, p->strips * p->padded / PASSES);
        for (size_t a = 0; a < HALVES; a++) {
            if (a < p->n) weights_step(values[a], p->w, dtype, p->row + (int64_t)a, k, minus[a], &most[a]);
            else values[a][0] = values[a][1] = _mm512_setzero_ph();
        }
        for (size_t i = 0; i < 2; i++) {
            __m512i v[HALVES];
            uint16_t *to = p->out + (k % CHUNK / HALVES + i) * STRIP;
            for (size_t a = 0; a < HALVES; a++) v[a] = (__m512i)values[a][i];
            transpose_halves(v);
            for (size_t column = 0; column < HALVES; column++) _mm512_storeu_si512(to + at[column] * STRIP, v[column]);
        }
    }
}

static void panel_of(const struct panel *p, const __m512i minus[HALVES], __m512i most[HALVES])
{
    if (p->w->dtype == DTYPE_F8_E4M3) panel_rows(p, DTYPE_F8_E4M3, minus, most);
    else panel_rows(p, DTYPE_BF16, minus, most);
}

/* Whether a row has numbers that the usual unit does not bring into FP16: NaN codes, or BF16 too large or all too small. */
INLINE bool beyond(enum dtype dtype, __m512i most)
{
    return dtype == DTYPE_F8_E4M3 ? any_nan_code(most) : bf16_is_unusual(largest_word(most));
}

/* Columns are all there are. */
void cpu_panel_fp16(void *out, const struct weight *w, int64_t row, int n, size_t k0, size_t k)
{
    const size_t strips = ((size_t)n + STRIP - 1) / STRIP;
    float *factors = factors_after(out, strips * STRIP * k);
    (void)k0;
    for (size_t at = 0; at < strips * STRIP; at += HALVES) {
        const struct panel p = {(uint16_t *)out + at / STRIP * (k / PASSES) * STRIP + at % STRIP, w, row + (int64_t)at, (size_t)n > at ? (size_t)n - at : 0, k, strips};
        __m512i minus[HALVES], most[HALVES];
        bool again = false;
        for (size_t a = 0; a < HALVES; a++) minus[a] = minus_vector(BF16_MINUS), most[a] = _mm512_setzero_si512(), factors[at + a] = 1;
        panel_of(&p, minus, most);
        for (size_t a = 0; a < HALVES; a++) {
            if (!beyond(w->dtype, most[a])) continue;
            const int less = w->dtype == DTYPE_BF16 ? bf16_minus(largest_word(most[a])) : BF16_MINUS;
            minus[a] = minus_vector(less), factors[at + a] = w->dtype == DTYPE_BF16 ? power_of_two(less - BF16_MINUS) : NAN;
            again = w->dtype == DTYPE_BF16;
        }
        if (again) panel_of(&p, minus, most);
    }
}

/* ---- products ---- */

/* acc[n][2] += a step of a strip times those of n rows. */
INLINE void multiply_step(__m512h (*acc)[2], const uint16_t *w, const uint16_t *x, int n)
{
    const __m512h w0 = load_halves(w), w1 = load_halves(w + HALVES);
    UNROLL
    for (int b = 0; b < n; b++) {
        __asm__("vfmadd231ph %2%{1to32%}, %1, %0" : "+v"(acc[b][0]) : "v"(w0), "m"(x[b]));
        __asm__("vfmadd231ph %2%{1to32%}, %1, %0" : "+v"(acc[b][1]) : "v"(w1), "m"(x[b]));
    }
}

/* sums[n][2] += acc[n], by way of memory, from where halves are converted in one instruction each. */
INLINE void add_halves(vf (*sums)[2], const __m512h *acc, int n)
{
    for (int i = 0; i < n; i++) {
        const __m256i *lanes = (const __m256i *)(const void *)(acc + i);
        sums[i][0] += (vf)_mm512_cvtxph_ps((__m256h)_mm256_load_si256(lanes));
        sums[i][1] += (vf)_mm512_cvtxph_ps((__m256h)_mm256_load_si256(lanes + 1));
    }
}

/* Where a part's sums go in the end, and what they are multiplied with then. */
struct last {
    const float *x_factors, *w_factors;
    float unit;
};

/* One pass of a strip of weight rows with n packed rows. sums: of level 0; those that wait for this pass are added to it. */
INLINE void multiply_part(float *sums, unsigned pass, const uint16_t *w, const uint16_t *x, size_t padded, int n, const struct ahead *next, const struct last *last)
{
    vf mine[2 * PART_ROWS][2];
    __m512h groups[2][2 * PART_ROWS]; /* sums of those before */
    const char *ahead[2] = {next->from[0], next->from[1]};
    for (int i = 0; i < 2 * n; i++) mine[i][0] = mine[i][1] = (vf){0};
    for (size_t k = 0; k < padded; k += CHUNK) {
        for (int turn = 0; turn < GROUPS; turn++) {
            __m512h acc[PART_ROWS][2], *to = groups[turn / 2];
            UNROLL
            for (int b = 0; b < n; b++) acc[b][0] = acc[b][1] = _mm512_setzero_ph();
            for (size_t steps = group_steps(k, padded); steps; steps -= 2, ahead[0] += next->step[0], ahead[1] += next->step[1]) {
                __builtin_prefetch(ahead[0], 0, 2), __builtin_prefetch(ahead[1], 0, 2);
                for (int i = 0; i < 2; i++, x += n, w += STRIP) multiply_step(acc, w, x, n);
            }
            if (turn % 2) {
                UNROLL
                for (int i = 0; i < 2 * n; i++) acc[i / 2][i % 2] = _mm512_add_ph(acc[i / 2][i % 2], to[i]);
            }
            if (turn == GROUPS - 1) {
                UNROLL
                for (int i = 0; i < 2 * n; i++) acc[i / 2][i % 2] = _mm512_add_ph(acc[i / 2][i % 2], groups[0][i]);
            }
            UNROLL
            for (int i = 0; i < 2 * n; i++) to[i] = acc[i / 2][i % 2];
        }
        add_halves(mine, groups[1], 2 * n);
    }
    float *to = sums + (size_t)__builtin_popcount(pass) * TILE_SUMS;
    for (unsigned left = pass; left & 1; left >>= 1) {
        to -= TILE_SUMS;
        for (int i = 0; i < VECTORS * n; i++) mine[i / 2][i % 2] = load(to + i * LANES) + mine[i / 2][i % 2];
    }
    for (int i = 0; i < VECTORS * n; i++) {
        vf sum = mine[i / 2][i % 2];
        if (pass == PASSES - 1) sum = sum * (last->x_factors[i / VECTORS] * last->unit) * load(last->w_factors + i % VECTORS * LANES);
        store(to + i * LANES, sum);
    }
}

INLINE void multiply_rows(float *sums, unsigned pass, const uint16_t *w, const uint16_t *x, size_t padded, int n, const struct ahead *next, const struct last *last)
{
#define MULTIPLY_PART(rows) multiply_part(sums, pass, w, x, padded, rows, next, last)
    FOR_ROWS_OF_PART(n, MULTIPLY_PART)
}

/* A block's rows, part by part. */
struct part {
    size_t begin, n;
    const uint16_t *x; /* of this pass, scaled */
    struct ahead next;
};

/* Numbers of a pass, which are scaled into `room`: part by part, so that they are near when the first strip is multiplied. */
static void part_enter(struct part *p, const struct block *b, size_t pass, uint16_t *room, size_t strips, float scale_unit)
{
    const size_t steps = b->k / PASSES, bytes = p->n * sizeof(uint16_t);
    const uint16_t *at = (const uint16_t *)b->x + p->begin * b->k + pass * p->n * steps;
    p->next = (struct ahead){{(const char *)at + steps * bytes}, {2 * bytes / strips}};
    p->x = at;
    if (!b->scale) return;
    p->x = room + p->begin * steps;
    scale_pass(room + p->begin * steps, at, b->k, p->n, b->scale, scale_unit);
}

void cpu_multiply_fp16(float *sums, const struct block *b)
{
    const size_t steps = b->k / PASSES, strips = ((size_t)b->n_w + STRIP - 1) / STRIP;
    const size_t n = (size_t)n_parts(b->n_x), share = 2 * STRIP * sizeof(uint16_t) / n; /* of the next strip, that each part asks for */
    const int scales = b->scale ? scale_exponent(b->scale, b->k) : 0;
    const float *x_factors = (const float *)(const void *)((const uint16_t *)b->x + (size_t)b->n_x * b->k);
    const float *w_factors = (const float *)(const void *)((const uint16_t *)b->w + strips * STRIP * b->k);
    const struct last last = {x_factors, w_factors, weight_unit(b->scale ? DTYPE_F8_E4M3 : DTYPE_BF16, scales)};
    struct part parts[BLOCK_ROWS / PART_ROWS + 1] = {{0}};
    const uint16_t *w = b->w;
    for (int i = 0; i < (int)n; i++) parts[i].begin = (size_t)part_begin(b->n_x, i), parts[i].n = (size_t)part_begin(b->n_x, i + 1) - parts[i].begin;
    for (unsigned pass = 0; pass < PASSES; pass++)
        for (size_t strip = 0; strip < strips; strip++, w += steps * STRIP)
            for (size_t i = 0; i < n; i++) {
                struct part *p = &parts[i];
                const struct last mine = {last.x_factors + p->begin, last.w_factors + strip * STRIP, last.unit};
                if (!strip) part_enter(p, b, pass, (uint16_t *)(void *)(sums + DEPTH * TILE_SUMS), strips, power_of_two(scales));
                p->next.from[1] = (const char *)(w + steps * STRIP) + i * steps / 2 * share, p->next.step[1] = share;
                multiply_rows(sums + (strip * BLOCK_ROWS + p->begin) * STRIP, pass, w, p->x, b->k, (int)p->n, &p->next, &mine);
                p->next.from[0] += steps / 2 * p->next.step[0];
            }
}

void cpu_put_fp16(float *out, size_t out_stride, const float *sums, int n_w, int first, int n)
{
    put_block(out, out_stride, sums, n_w, first, n);
}

size_t cpu_sums_fp16(size_t width)
{
    return block_sums(width);
}
