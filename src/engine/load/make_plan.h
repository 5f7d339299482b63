/* SPDX-License-Identifier: Apache-2.0 */
/* Planning steps shared by opening an engine and by planning without one (plan_api.c). */
#ifndef EY_MAKE_PLAN_H
#define EY_MAKE_PLAN_H
#include "engine/engine_internal.h"

bool plan_read_limits(struct plan_limits *out, const ey_engine_options *o, ey_err *e);
/* What the plan needs to know of the device; a simulated GPU is known already. */
bool plan_query_device(struct engine_devices *devices, ey_err *e);
/* Reads a GiB of host memory where layers may be divided between GPU and CPU. */
void plan_measure_cpu_bandwidth(struct engine_devices *devices, const ey_engine_options *o);
/* Marks the matrices that --quantize names. */
bool plan_quantize_on_load(struct engine_devices *devices, const ey_engine_options *o, ey_err *e);
/* After the device is open and the matrices to quantize are marked. */
bool plan_choose_prefill_math(struct plan_limits *out, const struct engine_devices *devices,
                              const ey_engine_options *o, ey_err *e);
/* A GPU described by --vram; asks no driver. */
bool plan_open_simulated_gpu(struct engine_devices *devices, const ey_engine_options *o, ey_err *e);
void plan_export(ey_plan *out, const ey_engine *engine);
/* Options with which a plan that does not fit would; returns how many. */
int plan_find_suggestions(struct plan_suggestion out[PLAN_SUGGESTIONS + 1], const ey_engine *engine,
                          const struct plan_limits *limits);

#endif
