/* SPDX-License-Identifier: Apache-2.0 */
/* The table. A row stands for all combinations of its lists. */
#include "kernels/kernel_tests.h"

#define F32 DTYPE_F32
#define F16 DTYPE_F16
#define BF16 DTYPE_BF16
#define FP8 DTYPE_F8_E4M3
#define INT4 DTYPE_INT4
#define MIXED DTYPE_NONE

/* Lists end at END. */
enum { END = -1, MAX_LIST = 16 };

struct sweep {
    const struct op *op;
    int dtypes[MAX_LIST], n[MAX_LIST], k[MAX_LIST], m[MAX_LIST];
    int fills[MAX_LIST];
    bool both; /* the op in both flavours */
};

#define ALL_DTYPES               \
    {                            \
        F32, F16, BF16, FP8, END \
    }
#define ROUNDED             \
    {                       \
        BF16, FP8, F32, END \
    }
#define GGUF_32                                                                   \
    {                                                                             \
        DTYPE_Q4_0, DTYPE_Q4_1, DTYPE_Q5_0, DTYPE_Q5_1, DTYPE_Q8_0, DTYPE_IQ4_NL, \
            DTYPE_GGUF_MXFP4, END                                                 \
    }
#define GGUF_256                                                                              \
    {                                                                                         \
        DTYPE_Q2_K, DTYPE_Q3_K, DTYPE_Q4_K, DTYPE_Q5_K, DTYPE_Q6_K, DTYPE_Q8_K, DTYPE_IQ4_XS, \
            DTYPE_GGUF_NVFP4, END                                                             \
    }
#define RANDOM           \
    {                    \
        FILL_RANDOM, END \
    }

/* Small shapes. 17 rows also cover fewer rows, because runs are cut into calls of each size. Slow
 * sanitizers use the second list. */
static const struct sweep sweeps[] = {
    {&op_project_add, GGUF_32, {17, END}, {32, 64, 96, 320, END}, {3, 67, 130, END}, RANDOM, false},
    {&op_project_add, GGUF_256, {17, END}, {256, 768, END}, {3, 67, 130, END}, RANDOM, false},
    {&op_gate_up, GGUF_32, {17, END}, {64, 320, END}, {67, END}, RANDOM, false},
    {&op_gate_up, GGUF_256, {17, END}, {256, END}, {67, END}, RANDOM, false},
    {&op_project_add, GGUF_32, {1, 33, 70, END}, {352, END}, {67, END}, RANDOM, true},
    {&op_project_add, GGUF_256, {1, 33, 70, END}, {512, END}, {67, END}, RANDOM, true},
    {&op_lm_head, GGUF_256, {17, END}, {256, END}, {65, END}, RANDOM, false},
    {&op_lm_head, GGUF_32, {17, END}, {160, END}, {301, END}, RANDOM, false},
    {&op_lm_head, {DTYPE_MXFP8, END}, {17, END}, {64, 320, END}, {65, END}, RANDOM, false},
    {&op_project_add, {DTYPE_MXFP8, END}, {17, END}, {64, 320, END}, {65, END}, RANDOM, false},
    {&op_project_add,
     ALL_DTYPES,
     {17, END},
     {1, 31, 63, 64, 65, 127, 128, 129, 192, 272, 320, END},
     {1, 3, 4, 5, 63, 64, 65, 130, END},
     {FILL_EXACT, END},
     false},
    {&op_project_add,
     ALL_DTYPES,
     {17, END},
     {1, 63, 65, 128, 192, 320, 1536, END},
     {5, 65, END},
     RANDOM,
     true},
    {&op_project_add,
     ALL_DTYPES,
     {17, END},
     {65, 128, 200, END},
     {7, 260, END},
     {FILL_ALL_VALUES, FILL_LARGE, FILL_TINY, FILL_ZERO, END},
     false},
    {&op_project_add,
     {FP8, END},
     {40, END},
     {257, 384, END},
     {258, END},
     {FILL_ALL_VALUES, END},
     false},
    {&op_project_add, ROUNDED, {1, 2, 3, 4, 5, 7, 8, END}, {320, END}, {67, END}, RANDOM, false},
    {&op_project_add,
     {INT4, END},
     {17, END},
     {32, 64, 96, 128, 160, 192, 320, 384, END},
     {2, 3, 5, 63, 64, 65, 130, END},
     {FILL_EXACT, END},
     false},
    {&op_project_add,
     {INT4, END},
     {17, END},
     {64, 160, 320, 1536, END},
     {5, 65, END},
     {FILL_RANDOM, FILL_LARGE, FILL_TINY, FILL_ZERO, END},
     true},
    {&op_project_add,
     {INT4, END},
     {1, 2, 3, 4, 5, 7, 8, 9, 33, END},
     {320, 512, END},
     {67, END},
     RANDOM,
     false},
    {&op_gate_up,
     {INT4, END},
     {17, END},
     {64, 128, 320, END},
     {3, 63, 130, END},
     {FILL_RANDOM, FILL_TINY, END},
     false},
    {&op_gate_up,
     {F32, F16, BF16, FP8, MIXED, END},
     {17, END},
     {1, 64, 129, 320, END},
     {3, 63, 130, END},
     {FILL_RANDOM, FILL_TINY, END},
     false},
    {&op_project_add,
     {BF16, FP8, INT4, END},
     {36, END},
     {64, 128, 320, END},
     {5, 67, 130, END},
     {FILL_EXACT, END},
     false}, /* 33 rows are many with AMX */
    {&op_gate_up, {FP8, INT4, END}, {36, END}, {128, 320, END}, {67, END}, RANDOM, false},
    {&op_project_add,
     {FP8, END},
     {9, 16, 17, 32, 33, 64, END},
     {48, 128, 336, 1040, END},
     {5, 67, 130, 258, END},
     {FILL_EXACT, FILL_RANDOM, END},
     false}, /* GPUs handle decode steps of several sequences like this */
    {&op_project_add,
     {FP8, END},
     {17, 33, END},
     {192, 320, END},
     {7, 260, END},
     {FILL_ALL_VALUES, FILL_LARGE, FILL_TINY, FILL_ZERO, END},
     false},
    {&op_gate_up,
     {FP8, END},
     {9, 17, 32, 64, END},
     {48, 320, 1040, END},
     {3, 67, 130, END},
     {FILL_RANDOM, FILL_TINY, END},
     false},
    {&op_lm_head, ALL_DTYPES, {17, END}, {31, 64, 192, 272, END}, {1, 65, 301, END}, RANDOM, false},
    {&op_patch_embed,
     ALL_DTYPES,
     {24, END},
     {3, 64, 129, 1536, END},
     {5, 64, 192, END},
     {FILL_RANDOM, FILL_LARGE, END},
     false},
    {&op_vision_mlp, ALL_DTYPES, {20, END}, {64, 72, 192, END}, {3, 64, 272, END}, RANDOM, false},
    {&op_merge, ALL_DTYPES, {9, END}, {20, 64, 272, 768, END}, {3, 65, END}, RANDOM, true},
    {&op_embed,
     ALL_DTYPES,
     {17, END},
     {50, END},
     {1, 63, 129, END},
     {FILL_RANDOM, FILL_ALL_VALUES, END},
     false},
    {&op_add_features, {F32, END}, {17, END}, {9, END}, {1, 65, END}, RANDOM, false},
    {&op_rope, {F32, END}, {17, END}, {1, 32, 36, 64, END}, {1, END}, RANDOM, false},
};

/* Shapes of Qwen3-VL-2B-FP8. */
static const struct sweep real[] = {
    {&op_project_add,
     {FP8, END},
     {5, END},
     {2048, END},
     {2048, END},
     {FILL_EXACT, FILL_RANDOM, END},
     false},
    {&op_project_add, {FP8, END}, {3, END}, {6144, END}, {2048, END}, {FILL_EXACT, END}, false},
    {&op_gate_up, {FP8, END}, {5, END}, {2048, END}, {6144, END}, RANDOM, false},
    {&op_vision_mlp, {BF16, END}, {8, END}, {1024, END}, {4096, END}, RANDOM, false},
    {&op_project_add,
     {INT4, END},
     {5, END},
     {2560, END},
     {2560, END},
     {FILL_EXACT, FILL_RANDOM, END},
     false},
    {&op_project_add, {BF16, END}, {512, END}, {272, END}, {130, END}, {FILL_EXACT, END}, false},
    {&op_project_add, {FP8, END}, {512, END}, {320, END}, {130, END}, RANDOM, false},
    {&op_project_add,
     {FP8, END},
     {70, END},
     {2112, 4352, END},
     {130, END},
     RANDOM,
     false}, /* panels of a part of the columns */
    {&op_gate_up, {FP8, END}, {70, END}, {2240, END}, {130, END}, RANDOM, false},
    {&op_gate_up, {INT4, END}, {70, END}, {2240, END}, {130, END}, RANDOM, false},
    {&op_project_add, {INT4, END}, {70, END}, {4352, END}, {130, END}, RANDOM, false},
};

/* Timed cases: one row, a few, a prefill chunk. */
static const struct sweep timed[] = {
    {&op_project_add,
     {FP8, BF16, END},
     {1, 2, 4, 8, 16, 512, END},
     {2048, END},
     {2048, END},
     RANDOM,
     false},
    {&op_gate_up, {FP8, END}, {1, 2, 4, 8, 16, 512, END}, {2048, END}, {6144, END}, RANDOM, false},
    {&op_project_add,
     {INT4, END},
     {1, 2, 4, 8, 16, 512, END},
     {2048, END},
     {2048, END},
     RANDOM,
     false},
    {&op_gate_up, {INT4, END}, {1, 4, 16, 512, END}, {2048, END}, {6144, END}, RANDOM, false},
    {&op_project_add,
     {DTYPE_Q8_0, DTYPE_Q4_0, DTYPE_Q4_1, DTYPE_Q4_K, DTYPE_Q5_K, DTYPE_Q6_K, DTYPE_IQ4_XS, END},
     {1, 4, 512, END},
     {2048, END},
     {2048, END},
     RANDOM,
     false},
    {&op_project_add, {FP8, END}, {1, 4, 16, 512, END}, {6144, END}, {2048, END}, RANDOM, false},
    {&op_lm_head, {BF16, END}, {1, 4, 8, END}, {2048, END}, {151936, END}, RANDOM, false},
    {&op_project_add, {F32, F16, END}, {1, 512, END}, {1024, END}, {1024, END}, RANDOM, false},
    {&op_vision_mlp, {BF16, END}, {512, END}, {1024, END}, {4096, END}, RANDOM, false},
    {&op_merge, {BF16, END}, {128, END}, {4096, END}, {2048, END}, RANDOM, false},
    {&op_patch_embed, {BF16, END}, {512, END}, {1536, END}, {1024, END}, RANDOM, false},
};

static void each_flavour(const struct sweep *s, struct test_case c, case_fn *fn, void *context)
{
    fn(context, &c);
    if (!s->both) return;
    c.other = true;
    fn(context, &c);
}

static void each_of_sweep(const struct sweep *s, case_fn *fn, void *context)
{
    for (const int *d = s->dtypes; *d != END; d++)
        for (const int *k = s->k; *k != END; k++)
            for (const int *m = s->m; *m != END; m++)
                for (const int *fill = s->fills; *fill != END; fill++)
                    for (const int *n = s->n; *n != END; n++)
                        each_flavour(s,
                                     (struct test_case){s->op, (enum dtype) * d, *n, *k, *m, 0, 0,
                                                        0, (enum fill) * fill, false},
                                     fn, context);
}

/* ---- steps with heads ---- */

static const struct test_case with_heads[] = {
    {&op_qkv, FP8, 70, 192, 0, 4, 2, 64, FILL_RANDOM, false},
    {&op_qkv, FP8, 29, 336, 0, 4, 2, 64, FILL_RANDOM, false},
    {&op_qkv_bias, FP8, 48, 192, 0, 6, 2, 96, FILL_RANDOM, true},
    {&op_qkv, BF16, 17, 129, 0, 4, 4, 96, FILL_RANDOM, true},
    {&op_qkv, F16, 17, 64, 0, 8, 1, 128, FILL_RANDOM, false},
    {&op_qkv, F32, 17, 31, 0, 2, 1, 8, FILL_RANDOM, true},
    {&op_qkv, INT4, 17, 192, 0, 4, 2, 64, FILL_RANDOM, false},
    {&op_qkv, INT4, 33, 128, 0, 4, 2, 128, FILL_RANDOM, true},
    {&op_qkv, MIXED, 9, 272, 0, 4, 2, 64, FILL_RANDOM, false},
    {&op_qkv, DTYPE_Q4_K, 33, 512, 0, 4, 2, 64, FILL_RANDOM, false},
    {&op_qkv_bias, DTYPE_Q5_0, 17, 96, 0, 4, 2, 64, FILL_RANDOM, true},
    {&op_qkv_bias, FP8, 70, 192, 0, 4, 2, 64, FILL_RANDOM, true},
    {&op_qkv_bias, BF16, 17, 129, 0, 8, 1, 128, FILL_RANDOM, true},
    {&op_qkv_bias, F32, 17, 31, 0, 2, 2, 96, FILL_RANDOM, false},
    {&op_attention, F32, 0, 0, 0, 2, 2, 64, FILL_RANDOM, false},
    {&op_attention, F32, 0, 0, 0, 4, 2, 96, FILL_RANDOM, false},
    {&op_attention, F32, 0, 0, 0, 4, 1, 128, FILL_RANDOM, false},
    {&op_attention, F32, 0, 0, 0, 8, 1, 64, FILL_RANDOM, false},
    {&op_attention, F32, 0, 0, 0, 6, 2, 128, FILL_RANDOM, false},
    {&op_attention, F32, 0, 0, 0, 16, 1, 64, FILL_RANDOM, false},
    {&op_attention, F32, 0, 0, 0, 20, 1, 72, FILL_RANDOM, true},
    {&op_attention, F32, 0, 0, 0, 16, 8, 128, FILL_RANDOM, true},
    {&op_attention, F32, 0, 0, 0, 4, 1, 40, FILL_RANDOM, true},
    {&op_attention, F32, 0, 0, 0, 2, 1, 2, FILL_RANDOM, true},
    {&op_attention, F32, 0, 0, 0, 8, 2, 64, FILL_HUGE_SCORES, false},
    {&op_attention, F32, 0, 0, 0, 4, 2, 128, FILL_HUGE_SCORES, true},
    {&op_attention, F32, 0, 0, 0, 4, 2, 128, FILL_EQUAL_SCORES, false},
    {&op_attention, F32, 0, 0, 0, 4, 2, 64, FILL_EQUAL_SCORES, true},
    {&op_attention_window, F32, 0, 0, 0, 4, 4, 96, FILL_RANDOM, false},
    {&op_attention_window, F32, 0, 0, 0, 4, 4, 96, FILL_RANDOM, true},
    {&op_attention_window, F32, 0, 0, 0, 8, 2, 64, FILL_HUGE_SCORES, false},
    {&op_attention_window, F32, 0, 0, 0, 8, 1, 128, FILL_EQUAL_SCORES, true},
    {&op_vision_qkv, F32, 64, 128, 0, 2, 2, 64, FILL_RANDOM, false},
    {&op_vision_qkv, BF16, 68, 144, 0, 2, 2, 72, FILL_RANDOM, false},
    {&op_vision_qkv, FP8, 20, 192, 0, 3, 3, 64, FILL_RANDOM, false},
    {&op_vision_attention, F32, 4, 64, 0, 1, 1, 64, FILL_RANDOM, false},
    {&op_vision_attention, F32, 63, 64, 0, 1, 1, 64, FILL_RANDOM, false},
    {&op_vision_attention, F32, 64, 72, 0, 1, 1, 72, FILL_RANDOM, false},
    {&op_vision_attention, F32, 65, 144, 0, 2, 2, 72, FILL_RANDOM, false},
    {&op_vision_attention, F32, 300, 128, 0, 2, 2, 64, FILL_RANDOM, false},
    {&op_vision_attention, F32, 300, 144, 0, 2, 2, 72, FILL_RANDOM, false},
    {&op_vision_attention, F32, 130, 80, 0, 4, 4, 20, FILL_RANDOM, false},
    {&op_vision_attention, F32, 300, 128, 0, 2, 2, 64, FILL_EQUAL_SCORES, false},
    {&op_vision_attention_images, F32, 300, 128, 0, 2, 2, 64, FILL_RANDOM, false},
    {&op_vision_attention_images, F32, 284, 144, 0, 2, 2, 72, FILL_RANDOM, false},
};

static const struct test_case timed_heads[] = {
    {&op_qkv, FP8, 1, 2048, 0, 16, 8, 128, FILL_RANDOM, false},
    {&op_qkv, FP8, 512, 2048, 0, 16, 8, 128, FILL_RANDOM, false},
    {&op_attention, F32, 1, 4096, 0, 16, 8, 128, FILL_RANDOM, false},
    {&op_attention, F32, 512, 2048, 0, 16, 8, 128, FILL_RANDOM, false},
    {&op_vision_qkv, BF16, 512, 1024, 0, 16, 16, 64, FILL_RANDOM, false},
    {&op_vision_attention, BF16, 1024, 1024, 0, 16, 16, 64, FILL_RANDOM, false},
};

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

void each_test_case(case_fn *fn, void *context)
{
    for (size_t i = 0; i < COUNT(sweeps); i++)
        each_of_sweep(&sweeps[i], fn, context);
    for (size_t i = 0; i < COUNT(with_heads); i++)
        fn(context, &with_heads[i]);
    for (size_t i = 0; i < COUNT(real); i++)
        each_of_sweep(&real[i], fn, context);
}

void each_bench_case(case_fn *fn, void *context)
{
    for (size_t i = 0; i < COUNT(timed); i++)
        each_of_sweep(&timed[i], fn, context);
    for (size_t i = 0; i < COUNT(timed_heads); i++)
        fn(context, &timed_heads[i]);
}
