/* SPDX-License-Identifier: Apache-2.0 */
/* The table of types.def. */
#include <stdio.h>
#include <string.h>

#include "tensor/tensor.h"

static const struct dtype_traits types[] = {
#define TENSOR_TYPE(id, name, values, bytes, use, scales, dequantizer) \
    {name, #id, values, bytes, use, scales},
#include "tensor/types.def"
#undef TENSOR_TYPE
};

enum { TYPES = sizeof(types) / sizeof(types[0]) };

const struct dtype_traits *dtype_info(enum dtype d)
{
    return &types[(size_t)d < TYPES ? d : DTYPE_NONE];
}

enum dtype dtype_from_name(const char *name)
{
    for (int i = 0; i < TYPES; i++)
        if (types[i].name && strcmp(types[i].name, name) == 0) return (enum dtype)i;
    return DTYPE_NONE;
}

static bool is_listed(int i, unsigned uses)
{
    return types[i].name && (uses >> types[i].use & 1);
}

void dtype_append_names(char *text, size_t size, unsigned uses)
{
    int last = 0;
    for (int i = 0; i < TYPES; i++)
        if (is_listed(i, uses)) last = i;
    for (int i = 0; i < TYPES; i++) {
        const size_t used = strlen(text);
        const char *separator = !used ? "" : i == last ? " or " : ", ";
        if (is_listed(i, uses))
            snprintf(text + used, size - used, "%s%s", separator, types[i].name);
    }
}
