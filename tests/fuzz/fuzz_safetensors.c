/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a safetensors file: refused with a message, or opened with views inside the file. */
#include <stdlib.h>
#include <string.h>

#include "checkpoint/checkpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint8_t sink;

static void read_ends(const struct tensor_view *t)
{
    if (!t->size) return;
    sink = t->data[0];
    sink = t->data[t->size - 1];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct safetensors *file = NULL;
    ey_err e = {0};
    if (!safetensors_open_memory(&file, data, size, "fuzz", &e)) {
        if (!e.text[0]) abort();
        return 0;
    }
    for (size_t i = 0; i < safetensors_count(file); i++) {
        const struct tensor_view *t = safetensors_at(file, i);
        read_ends(t);
        if (safetensors_find(file, t->name) != t) abort();
    }
    safetensors_close(file);
    return 0;
}
