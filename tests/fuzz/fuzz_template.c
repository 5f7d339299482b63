/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a chat template: parsed to the end, with printable findings. */
#include <stdint.h>
#include <stdlib.h>

#include "models/chat/template_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf written = buf_with_max(4096), out = buf_with_max(4096);
    buf_add_text(&written, "<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n");
    const struct built_in_format format = {&written, "You are x.", "<|im_start|>assistant\n",
                                           false};
    if (!template_differences(&out, (const char *)data, size, &format)) abort();
    buf_free(&written);
    buf_free(&out);
    return 0;
}
