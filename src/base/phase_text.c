/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of phases and finish reasons, for all output. */
#include "eyelet/phase.h"

#include <stddef.h>

static const char *const phase_texts[] = {
#define EY_PHASE_TEXT(name, text) [name] = text,
    EY_PHASES(EY_PHASE_TEXT)
#undef EY_PHASE_TEXT
};

static const char *const finish_texts[] = {
#define EY_FINISH_TEXT(name, text) [name] = text,
    EY_FINISHES(EY_FINISH_TEXT)
#undef EY_FINISH_TEXT
};

const char *ey_phase_text(ey_phase phase)
{
    size_t i = (size_t)phase;
    return i < sizeof(phase_texts) / sizeof(phase_texts[0]) ? phase_texts[i] : "";
}

const char *ey_finish_text(ey_finish finish)
{
    size_t i = (size_t)finish;
    return i < sizeof(finish_texts) / sizeof(finish_texts[0]) ? finish_texts[i] : "";
}
