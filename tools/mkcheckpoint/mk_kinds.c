/* SPDX-License-Identifier: Apache-2.0 */
/* The table of the models that mkcheckpoint can make. */
#include "mk_kinds.h"

#include <string.h>

#define REAL_VOCABULARY \
    .vocabulary = MK_REAL_VOCABULARY, .first_added = MK_REAL_FIRST_ADDED, .theta = 5000000
/* 1,500 base tokens, 26 added ones, and 10 rows without a token; the real embedding has 267 such
 * rows */
#define TINY_VOCABULARY .vocabulary = 1536, .first_added = 1500

#define OFFICIAL_BUDGET .min_pixels = 65536, .max_pixels = 16777216
#define SMALL_BUDGET .min_pixels = 4096, .max_pixels = 262144

#define TEXT_2B                                                                          \
    .family = "qwen3-vl-2b", REAL_VOCABULARY, .hidden = 2048, .layers = 28, .heads = 16, \
    .kv_heads = 8, .mlp = 6144, .tied = true, .tied_in_text_config = true
#define TEXT_4B                                                                          \
    .family = "qwen3-vl-4b", REAL_VOCABULARY, .hidden = 2560, .layers = 36, .heads = 32, \
    .kv_heads = 8, .mlp = 9728, .tied = true, .tied_in_text_config = true
#define TEXT_8B                                                                          \
    .family = "qwen3-vl-8b", REAL_VOCABULARY, .hidden = 4096, .layers = 36, .heads = 32, \
    .kv_heads = 8, .mlp = 12288, .head_stored = true
#define VISION_2B                                                                       \
    .v_hidden = 1024, .v_mlp = 4096, .v_depth = 24, .v_heads = 16, .v_positions = 2304, \
    .deepstack = {5, 11, 17}, OFFICIAL_BUDGET
#define VISION_8B                                                                       \
    .v_hidden = 1152, .v_mlp = 4304, .v_depth = 27, .v_heads = 16, .v_positions = 2304, \
    .deepstack = {8, 16, 24}, OFFICIAL_BUDGET

/* query width 1,024 is four times the hidden size */
#define TINY_GQA4                                                                         \
    .family = "tiny-gqa4", TINY_VOCABULARY, .theta = 5000000, .hidden = 256, .layers = 3, \
    .heads = 8, .kv_heads = 2, .mlp = 384, .tied = true, .tied_in_text_config = true,     \
    .v_hidden = 128, .v_mlp = 384, .v_depth = 4, .v_heads = 2, .v_positions = 2304,       \
    .deepstack = {0, 1, 2}, OFFICIAL_BUDGET, .shards = 1
/* shapes of the text-only models (spec 9) */
#define TEXT_QWEN25                                                                     \
    .family = "qwen2.5-3b", .architecture = MK_QWEN2, .vocabulary = MK_REAL_VOCABULARY, \
    .first_added = MK_REAL_FIRST_ADDED, .theta = 1000000, .hidden = 2048, .layers = 36, \
    .heads = 16, .kv_heads = 2, .mlp = 11008, .max_position = 32768, .tied = true,      \
    .plain = DTYPE_BF16, .shards = 2
#define TINY_VISION .v_hidden = 128, .v_mlp = 256, .v_depth = 4, .v_heads = 2, .v_positions = 144

static const struct kind kinds[] = {
    {"qwen3-vl-2b-fp8", "official shapes, block FP8, tied head", TEXT_2B, VISION_2B,
     .plain = DTYPE_BF16, .scales = DTYPE_BF16, .shards = 1},
    {"qwen3-vl-4b-fp8", "official shapes, block FP8, tied head", TEXT_4B, VISION_2B,
     .plain = DTYPE_BF16, .scales = DTYPE_BF16, .shards = 2},
    {"qwen3-vl-8b-fp8", "official shapes, block FP8, untied head", TEXT_8B, VISION_8B,
     .plain = DTYPE_BF16, .scales = DTYPE_BF16, .shards = 2},
    {"qwen3-vl-2b-bf16", "official shapes, tied head", TEXT_2B, VISION_2B, .plain = DTYPE_BF16,
     .shards = 1},
    {"qwen3-vl-4b-bf16", "official shapes, tied head", TEXT_4B, VISION_2B, .plain = DTYPE_BF16,
     .shards = 2},
    {"qwen3-vl-8b-bf16", "official shapes, untied head", TEXT_8B, VISION_8B, .plain = DTYPE_BF16,
     .shards = 4},

    {"qwen3-vl-embedding-2b", "official shapes, BF16, pools the last token", TEXT_2B, VISION_2B,
     .task = MK_EMBEDS, .plain = DTYPE_BF16, .shards = 1},
    {"qwen3-vl-embedding-8b", "official shapes, BF16, pools the last token", TEXT_8B, VISION_8B,
     .task = MK_EMBEDS, .plain = DTYPE_BF16, .shards = 4},
    {"qwen3-vl-reranker-2b", "official shapes, BF16", TEXT_2B, VISION_2B, .task = MK_RERANKS,
     .plain = DTYPE_BF16, .shards = 1},
    {"qwen3-vl-reranker-8b", "official shapes, BF16", TEXT_8B, VISION_8B, .task = MK_RERANKS,
     .plain = DTYPE_BF16, .shards = 4},

    {"qwen3-vl-4b-awq", "official shapes, AutoAWQ's gemm in groups of 64", TEXT_4B, VISION_2B,
     .plain = DTYPE_F16, .layout = MK_AWQ, .shards = 1},
    {"qwen3-vl-8b-awq", "official shapes, AutoAWQ's gemm in groups of 64", TEXT_8B, VISION_8B,
     .plain = DTYPE_F16, .layout = MK_AWQ, .shards = 2},
    {"qwen3-vl-4b-fp8rows", "official shapes, compressed-tensors' FP8 with a scale a row", TEXT_4B,
     VISION_2B, .plain = DTYPE_BF16, .layout = MK_FP8_ROWS, .shards = 2},

    {"qwen2.5-3b", "text only, official shapes, BF16, tied head", TEXT_QWEN25},
    {"qwen2.5-3b-fp8", "text only, the same in block FP8", TEXT_QWEN25, .scales = DTYPE_BF16},
    {"phi-3-mini", "text only, official shapes: fused weights, heads of 96, a window of 2,047",
     .family = "phi-3-mini", .architecture = MK_PHI3, .vocabulary = 32064, .first_added = 32000,
     .theta = 10000, .hidden = 3072, .layers = 32, .heads = 32, .kv_heads = 32, .head_dim = 96,
     .mlp = 8192, .max_position = 4096, .window = 2047, .head_stored = true, .plain = DTYPE_BF16,
     .shards = 2},
    {"llama-2-7b", "text only, official shapes, F16", .family = "llama-2-7b",
     .architecture = MK_LLAMA, .vocabulary = 32000, .first_added = 32000, .hidden = 4096,
     .layers = 32, .heads = 32, .kv_heads = 32, .mlp = 11008, .max_position = 4096,
     .head_stored = true, .plain = DTYPE_F16, .shards = 2},

    {"tiny-gqa4-fp8", "4 query heads a KV head, wider than hidden; BF16 scales", TINY_GQA4,
     .plain = DTYPE_BF16, .scales = DTYPE_BF16},
    {"tiny-gqa4-bf16", "the same shapes in BF16", TINY_GQA4, .plain = DTYPE_BF16},
    {"tiny-gqa4-f16", "the same shapes in F16", TINY_GQA4, .plain = DTYPE_F16},
    {"tiny-gqa4-f32", "the same shapes in F32", TINY_GQA4, .plain = DTYPE_F32},
    {"tiny-ragged-fp8", "hidden 192, MLP 320: FP8 blocks cut at the edges; F32 scales",
     .family = "tiny-ragged", TINY_VOCABULARY, .theta = 5000000, .hidden = 192, .layers = 3,
     .heads = 3, .kv_heads = 1, .mlp = 320, .tied = true, .tied_in_text_config = true, TINY_VISION,
     .deepstack = {0, 1, 2}, SMALL_BUDGET, .plain = DTYPE_BF16, .scales = DTYPE_F32, .shards = 1},
    {"tiny-untied-bf16", "its own lm_head; images of at most 262,144 pixels",
     .family = "tiny-untied", TINY_VOCABULARY, .theta = 5000000, .hidden = 256, .layers = 4,
     .heads = 2, .kv_heads = 1, .mlp = 512, .head_stored = true, TINY_VISION,
     .deepstack = {0, 2, 3}, SMALL_BUDGET, .plain = DTYPE_BF16, .shards = 1},
    {"tiny-head72-bf16",
     "vision heads of 72, vision MLP 272, as odd as the 8B; untied",
     .family = "tiny-head72",
     TINY_VOCABULARY,
     .theta = 5000000,
     .hidden = 256,
     .layers = 3,
     .heads = 4,
     .kv_heads = 2,
     .mlp = 512,
     .head_stored = true,
     .v_hidden = 144,
     .v_mlp = 272,
     .v_depth = 4,
     .v_heads = 2,
     .v_positions = 144,
     .deepstack = {1, 2, 3},
     SMALL_BUDGET,
     .plain = DTYPE_BF16,
     .shards = 1},
    {"tiny-shards-fp8", "two shards, F16 scales, tied and yet a copy stored as lm_head",
     .family = "tiny-shards", TINY_VOCABULARY, .theta = 5000000, .hidden = 256, .layers = 3,
     .heads = 4, .kv_heads = 2, .mlp = 512, .tied = true, .tied_in_text_config = true,
     .head_stored = true, TINY_VISION, .deepstack = {0, 1, 2}, SMALL_BUDGET, .plain = DTYPE_BF16,
     .scales = DTYPE_F16, .shards = 2},
    {"tiny-old-bf16", "older tensor names, config as transformers 5 saves it, theta 1,000,000",
     .family = "tiny-old", TINY_VOCABULARY, .theta = 1000000, .hidden = 256, .layers = 3,
     .heads = 2, .kv_heads = 2, .mlp = 384, .tied = true, TINY_VISION, .deepstack = {1, 2, 3},
     SMALL_BUDGET, .plain = DTYPE_BF16, .shards = 1, .old_layout = true},

    {"tiny-embedding-bf16", "pools the last token; an untied model without a head",
     .family = "tiny-untied", .task = MK_EMBEDS, TINY_VOCABULARY, .theta = 5000000, .hidden = 256,
     .layers = 4, .heads = 2, .kv_heads = 1, .mlp = 512, TINY_VISION, .deepstack = {0, 2, 3},
     .min_pixels = 65536, .max_pixels = 16777216, .plain = DTYPE_BF16, .shards = 1},
    {"tiny-reranker-bf16", "a vocabulary with yes and no; tied", TINY_GQA4, .task = MK_RERANKS,
     .plain = DTYPE_BF16},

    {"tiny-qwen2-bf16", "text only, 8 query heads a KV head", .family = "tiny-qwen2",
     .architecture = MK_QWEN2, TINY_VOCABULARY, .theta = 1000000, .hidden = 1024, .layers = 2,
     .heads = 8, .kv_heads = 1, .mlp = 384, .max_position = 32768, .tied = true,
     .plain = DTYPE_BF16, .shards = 1},
    {"tiny-qwen2-fp8", "text only, MLP 320: FP8 blocks cut at the edges; F32 scales",
     .family = "tiny-qwen2-ragged", .architecture = MK_QWEN2, TINY_VOCABULARY, .theta = 1000000,
     .hidden = 384, .layers = 3, .heads = 3, .kv_heads = 1, .mlp = 320, .max_position = 32768,
     .tied = true, .plain = DTYPE_BF16, .scales = DTYPE_F32, .shards = 1},
    {"tiny-qwen3-bf16", "text only, queries twice as wide as hidden", .family = "tiny-qwen3",
     .architecture = MK_QWEN3, TINY_VOCABULARY, .theta = 1000000, .hidden = 256, .layers = 3,
     .heads = 4, .kv_heads = 2, .mlp = 320, .max_position = 40960, .tied = true,
     .plain = DTYPE_BF16, .shards = 1},
    {"tiny-phi3-bf16", "text only, heads of 96, a window of 37", .family = "tiny-phi3",
     .architecture = MK_PHI3, TINY_VOCABULARY, .theta = 10000, .hidden = 384, .layers = 3,
     .heads = 4, .kv_heads = 4, .head_dim = 96, .mlp = 352, .max_position = 4096, .window = 37,
     .head_stored = true, .plain = DTYPE_BF16, .shards = 1},
    {"tiny-llama-f16", "text only, MLP 344, a vocabulary without rows to spare",
     .family = "tiny-llama", .architecture = MK_LLAMA, .vocabulary = 1500, .first_added = 1500,
     .hidden = 256, .layers = 3, .heads = 2, .kv_heads = 2, .mlp = 344, .max_position = 4096,
     .head_stored = true, .plain = DTYPE_F16, .shards = 1},

    {"tiny-phi3-fp8rows", "text only, compressed-tensors' FP8 with a scale a row; fused matrices",
     .family = "tiny-phi3-fp8rows", .architecture = MK_PHI3, TINY_VOCABULARY, .theta = 10000,
     .hidden = 384, .layers = 3, .heads = 4, .kv_heads = 4, .head_dim = 96, .mlp = 352,
     .max_position = 4096, .window = 37, .head_stored = true, .plain = DTYPE_BF16,
     .layout = MK_FP8_ROWS, .shards = 1},
    {"tiny-qwen3-w8a16", "text only, compressed-tensors' eight bits in groups of 32",
     .family = "tiny-qwen3-w8a16", .architecture = MK_QWEN3, TINY_VOCABULARY, .theta = 1000000,
     .hidden = 256, .layers = 3, .heads = 4, .kv_heads = 2, .mlp = 320, .max_position = 40960,
     .tied = true, .plain = DTYPE_BF16, .layout = MK_PACKED8, .shards = 1},
    {"tiny-qwen3-nvfp4", "text only, compressed-tensors' NVFP4", .family = "tiny-qwen3-nvfp4",
     .architecture = MK_QWEN3, TINY_VOCABULARY, .theta = 1000000, .hidden = 256, .layers = 3,
     .heads = 4, .kv_heads = 2, .mlp = 320, .max_position = 40960, .tied = true,
     .plain = DTYPE_BF16, .layout = MK_NVFP4, .shards = 1},
    {"tiny-qwen2-awq", "text only, AutoAWQ's gemm in groups of 64", .family = "tiny-qwen2-awq",
     .architecture = MK_QWEN2, TINY_VOCABULARY, .theta = 1000000, .hidden = 384, .layers = 3,
     .heads = 3, .kv_heads = 1, .mlp = 320, .max_position = 32768, .tied = true, .plain = DTYPE_F16,
     .layout = MK_AWQ, .shards = 1},
    {"tiny-llama-gptq", "text only, GPTQ of four bits with columns in another order",
     .family = "tiny-llama-gptq", .architecture = MK_LLAMA, .vocabulary = 1500, .first_added = 1500,
     .hidden = 256, .layers = 3, .heads = 2, .kv_heads = 2, .mlp = 320, .max_position = 4096,
     .head_stored = true, .plain = DTYPE_F16, .layout = MK_GPTQ, .shards = 1},
};

const struct kind *kind_at(int i)
{
    return i >= 0 && i < (int)(sizeof(kinds) / sizeof(kinds[0])) ? &kinds[i] : NULL;
}

const struct kind *kind_find(const char *name)
{
    for (int i = 0; kind_at(i); i++)
        if (strcmp(kinds[i].name, name) == 0) return &kinds[i];
    return NULL;
}

int kind_token(const struct kind *k, int real_id)
{
    return k->first_added + real_id - MK_REAL_FIRST_ADDED;
}

bool kind_sentencepiece(const struct kind *k)
{
    return k->architecture == MK_PHI3 || k->architecture == MK_LLAMA;
}

int kind_head_dim(const struct kind *k)
{
    return k->head_dim ? k->head_dim : MK_HEAD_DIM;
}
