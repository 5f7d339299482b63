/* One row of a matrix of twelve bits: what an embedding is asked for. */
#include "backend/cpu/bf12.h"

#include "backend/convert.h"

void bf12_row(float *out, const struct weight *w, int64_t row)
{
    const struct bf12_strip *s = bf12_strip_at(w, row);
    const size_t cols = (size_t)w->cols, r = (size_t)(row % BF12_ROWS);
    if (s->n_odd == BF12_AS_STORED) {
        weight_floats(out, (const uint8_t *)w->data + (size_t)row * weight_row_bytes(w), DTYPE_BF16, cols);
        return;
    }
    const uint8_t *step = bf12_steps(w, row);
    for (size_t k = 0; k < cols; k += CPU_K_STEP, step += BF12_STEP)
        for (size_t c = 0; c < CPU_K_STEP; c++) {
            const size_t at = cpu_column_at(c);
            const uint8_t byte = step[r * CPU_K_STEP + at], number = (step[BF12_BYTES + r / 2 * CPU_K_STEP + at] >> (r % 2 * 4)) & 15;
            const unsigned high = (byte & 0x80u) | s->row[r].high[number], low = (byte & 0x7fu) | s->row[r].low[number];
            out[k + c] = bf16_float((uint16_t)(high << 8 | low));
        }
    for (uint32_t i = 0; i < s->n_odd; i++)
        if (s->odd[i].at % BF12_ROWS == r) out[s->odd[i].at / BF12_ROWS] = bf16_float((uint16_t)s->odd[i].bits);
}
