/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the doctor share: adding findings. */
#ifndef EY_ENGINE_DOCTOR_H
#define EY_ENGINE_DOCTOR_H

#include "eyelet.h"

/* The next finding; its texts are added with finding_text() and finding_remedy(). Never NULL: what
 * is too much goes nowhere. */
ey_finding *finding_add(ey_diagnosis *out, const char *name, ey_finding_level level);
void finding_text(ey_finding *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void finding_remedy(ey_finding *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void finding_value(ey_finding *f, double value, const char *unit);

/* doctor_gpu.c: the GPU, its memory and kernels. True: it can be used. */
bool doctor_check_gpu(ey_diagnosis *out, bool kernels);
/* doctor_check_host.c: processor, memory, file systems. True: the processor can be used. */
bool doctor_check_host(ey_diagnosis *out, const char *model);

#endif
