/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the doctor's files: the checks, and functions that add findings to a diagnosis. */
#ifndef EY_DOCTOR_DOCTOR_FINDINGS_H
#define EY_DOCTOR_DOCTOR_FINDINGS_H

#include "eyelet.h"

/* Adds a finding, whose texts are set with finding_text() and finding_remedy(). Never returns NULL.
 * If the list is full, the finding is discarded. */
ey_finding *finding_add(ey_diagnosis *out, const char *name, ey_finding_level level);
void finding_text(ey_finding *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void finding_remedy(ey_finding *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void finding_value(ey_finding *f, double value, const char *unit);

/* Checks the GPU, its memory and its kernels (doctor_gpu.c). Returns whether it can be used. */
bool doctor_check_gpu(ey_diagnosis *out, bool kernels);
/* Checks processor, memory and file systems (doctor_host.c). Returns whether the processor can be
 * used. */
bool doctor_check_host(ey_diagnosis *out, const char *model);

#endif
