/* SPDX-License-Identifier: Apache-2.0 */
/* The work of one step: rows of one or several sequences and the logits wanted of them, or patches
 * of one or several images. The arrays are in host memory; a backend reads them before its call
 * returns. */
#ifndef EY_BACKEND_STEP_H
#define EY_BACKEND_STEP_H

#include <stddef.h>
#include <stdint.h>

enum { KV_BLOCK = 64 }; /* tokens of one KV block */

enum step_stage {
    STAGE_DECODE,
    STAGE_PROMPT, /* with limits.fp8_prompts a backend may quantize these rows */
};

/* A sequence's part of a step: adjacent rows that are consecutive in the sequence. */
struct step_seq {
    int32_t first_row, n_rows;
    int32_t first_slot; /* KV slot of its first row. Its row i has slot first_slot + i and attends
                           to slots 0 .. first_slot + i, or with a window to the last of them */
    enum step_stage stage;
};

struct step {
    int n_rows, n_seqs, max_blocks, n_logits;
    const struct step_seq *seq; /* [n_seqs] in the order of their rows, prompts last */
    const int32_t *token;       /* [n_rows] id, or -1 for a visual row */
    const int32_t *feature;     /* [n_rows] row of the visual features, or -1 */
    const int32_t *position;    /* [n_rows, 3] M-RoPE triple T, H, W */
    const int32_t *row_seq;     /* [n_rows] sequence, 0..n_seqs-1, set by step_index_rows() */
    const int32_t *row_slot;    /* [n_rows] KV slot, set by step_index_rows() */
    const int32_t *block_table; /* [n_seqs, max_blocks] KV block of slots 64·i .. 64·i+63 */
    const int32_t *logits_row;  /* [n_logits] rows whose logits are wanted */
};

/* The shape of a captured step: steps of equal shape run the same launches. */
struct step_shape {
    int n_seqs, rows_per_seq;
};

/* Identifies an enqueued step whose results have not been read yet; 0 for none. */
typedef int step_handle;

/* Sets the sequence and the KV slot of each row. */
static inline void step_index_rows(const struct step_seq *seq, int n_seqs, int32_t *row_seq,
                                   int32_t *row_slot)
{
    for (int s = 0; s < n_seqs; s++)
        for (int i = 0; i < seq[s].n_rows; i++) {
            row_seq[seq[s].first_row + i] = s;
            row_slot[seq[s].first_row + i] = seq[s].first_slot + i;
        }
}

/* Returns the number of prompt rows, which are the step's last. */
static inline int step_prompt_rows(const struct step *step)
{
    int rows = 0;
    for (int s = step->n_seqs - 1; s >= 0 && step->seq[s].stage == STAGE_PROMPT; s--)
        rows += step->seq[s].n_rows;
    return rows;
}

/* An image in a run of the vision encoder: adjacent patches in merge-block order that attend only
 * to each other. Each frame of a video is therefore a segment. */
struct vision_segment {
    int first;      /* first patch in the run, a multiple of KV_BLOCK */
    int rows, cols; /* patches */
};

static inline int vision_segment_end(const struct vision_segment *s)
{
    return s->first + s->rows * s->cols;
}

/* Returns how many of the run's patches first .. first+n-1 belong to the segment; *from is the
 * first of them. */
static inline int vision_segment_overlap(const struct vision_segment *s, int first, int n,
                                         int *from)
{
    const int end = vision_segment_end(s) < first + n ? vision_segment_end(s) : first + n;
    *from = s->first > first ? s->first : first;
    return end > *from ? end - *from : 0;
}

/* Returns the KV block that holds `slot` of a row's sequence. */
static inline int step_kv_block(const struct step *step, int row, int slot)
{
    return step->block_table[(size_t)step->row_seq[row] * (size_t)step->max_blocks +
                             (size_t)(slot / KV_BLOCK)];
}

#endif
