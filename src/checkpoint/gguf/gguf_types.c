/* SPDX-License-Identifier: Apache-2.0 */
/* The tensor types of GGUF files, indexed by their numbers. */
#include <inttypes.h>

#include "checkpoint/gguf/gguf.h"
#include "checkpoint/gguf/gguf_writer.h"

#define BETTER_SMALL "use a Q4_K_M or IQ4_XS file of the model"
#define REMOVED "was removed from the format in 2024; use a newer Q4_0 file"

static const struct {
    const char *name;
    enum dtype dtype;
    const char *instead; /* advice for unsupported types, else NULL */
} types[] = {
    [0] = {"F32", DTYPE_F32, NULL},
    [1] = {"F16", DTYPE_F16, NULL},
    [2] = {"Q4_0", DTYPE_Q4_0, NULL},
    [3] = {"Q4_1", DTYPE_Q4_1, NULL},
    [4] = {"Q4_2", DTYPE_NONE, REMOVED},
    [5] = {"Q4_3", DTYPE_NONE, REMOVED},
    [6] = {"Q5_0", DTYPE_Q5_0, NULL},
    [7] = {"Q5_1", DTYPE_Q5_1, NULL},
    [8] = {"Q8_0", DTYPE_Q8_0, NULL},
    [9] = {"Q8_1", DTYPE_NONE,
           "is an intermediate type that does not belong in files; use a Q8_0 file"},
    [10] = {"Q2_K", DTYPE_Q2_K, NULL},
    [11] = {"Q3_K", DTYPE_Q3_K, NULL},
    [12] = {"Q4_K", DTYPE_Q4_K, NULL},
    [13] = {"Q5_K", DTYPE_Q5_K, NULL},
    [14] = {"Q6_K", DTYPE_Q6_K, NULL},
    [15] = {"Q8_K", DTYPE_Q8_K, NULL},
    [16] = {"IQ2_XXS", DTYPE_NONE, "is not supported; " BETTER_SMALL},
    [17] = {"IQ2_XS", DTYPE_NONE, "is not supported; " BETTER_SMALL},
    [18] = {"IQ3_XXS", DTYPE_NONE, "is not supported; " BETTER_SMALL},
    [19] = {"IQ1_S", DTYPE_NONE, "is not supported; " BETTER_SMALL},
    [20] = {"IQ4_NL", DTYPE_IQ4_NL, NULL},
    [21] = {"IQ3_S", DTYPE_NONE, "is not supported; " BETTER_SMALL},
    [22] = {"IQ2_S", DTYPE_NONE, "is not supported; " BETTER_SMALL},
    [23] = {"IQ4_XS", DTYPE_IQ4_XS, NULL},
    [24] = {"I8", DTYPE_I8, NULL},
    [25] = {"I16", DTYPE_I16, NULL},
    [26] = {"I32", DTYPE_I32, NULL},
    [27] = {"I64", DTYPE_I64, NULL},
    [28] = {"F64", DTYPE_F64, NULL},
    [29] = {"IQ1_M", DTYPE_NONE, "is not supported; " BETTER_SMALL},
    [30] = {"BF16", DTYPE_BF16, NULL},
    [31] = {"Q4_0_4_4", DTYPE_NONE, REMOVED},
    [32] = {"Q4_0_4_8", DTYPE_NONE, REMOVED},
    [33] = {"Q4_0_8_8", DTYPE_NONE, REMOVED},
    [34] = {"TQ1_0", DTYPE_NONE, "is not supported; " BETTER_SMALL},
    [35] = {"TQ2_0", DTYPE_NONE, "is not supported; " BETTER_SMALL},
    [36] = {"IQ4_NL_4_4", DTYPE_NONE, REMOVED},
    [37] = {"IQ4_NL_4_8", DTYPE_NONE, REMOVED},
    [38] = {"IQ4_NL_8_8", DTYPE_NONE, REMOVED},
    [39] = {"MXFP4", DTYPE_GGUF_MXFP4, NULL},
    [40] = {"NVFP4", DTYPE_GGUF_NVFP4, NULL},
    [41] = {"Q1_0", DTYPE_NONE, "is not supported; " BETTER_SMALL},
    [42] = {"Q2_0", DTYPE_NONE, "is not supported; " BETTER_SMALL},
};

int gguf_type_number(enum dtype dtype)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (types[i].name && types[i].dtype == dtype) return (int)i;
    return -1;
}

enum dtype gguf_dtype(uint32_t type, const char *path, const char *tensor, ey_err *e)
{
    if (type >= sizeof(types) / sizeof(types[0]))
        ey_fail(e, EY_BAD_MODEL, "%s: tensor %s has type %" PRIu32 ", which is unknown; %s", path,
                tensor, type, BETTER_SMALL);
    else if (types[type].dtype != DTYPE_NONE)
        return types[type].dtype;
    else
        ey_fail(e, EY_BAD_MODEL, "%s: tensor %s has type %s, which %s", path, tensor,
                types[type].name, types[type].instead);
    return DTYPE_NONE;
}

const char *gguf_file_type_name(int64_t file_type)
{
    static const char *const names[] = {
        "F32",   "F16",     "Q4_0",   "Q4_1",   NULL,     NULL,      NULL,     "Q8_0",   "Q5_0",
        "Q5_1",  "Q2_K",    "Q3_K_S", "Q3_K_M", "Q3_K_L", "Q4_K_S",  "Q4_K_M", "Q5_K_S", "Q5_K_M",
        "Q6_K",  "IQ2_XXS", "IQ2_XS", "Q2_K_S", "IQ3_XS", "IQ3_XXS", "IQ1_S",  "IQ4_NL", "IQ3_S",
        "IQ3_M", "IQ2_S",   "IQ2_M",  "IQ4_XS", "IQ1_M",  "BF16",    NULL,     NULL,     NULL,
        "TQ1_0", "TQ2_0",   "MXFP4",  "NVFP4",  "Q1_0",   "Q2_0"};
    const int64_t guessed = 1024; /* a flag that llama.cpp adds if it guessed the type */
    const int64_t at = file_type >= guessed ? file_type - guessed : file_type;
    return at >= 0 && at < (int64_t)(sizeof(names) / sizeof(names[0])) ? names[at] : NULL;
}
