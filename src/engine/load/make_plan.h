/* SPDX-License-Identifier: Apache-2.0 */
/* Planning steps shared by opening an engine and by planning without one (plan_api.c). */
#ifndef EY_MAKE_PLAN_H
#define EY_MAKE_PLAN_H
#include "engine/engine_internal.h"

bool plan_read_limits(struct plan_limits *out, const ey_engine_options *o, ey_err *e);
/* Fills devices->device_info, unless the device is simulated. */
bool plan_query_device(struct engine_devices *devices, ey_err *e);
/* Measures the CPU's memory bandwidth if layers may be divided between GPU and CPU. */
void plan_measure_cpu_bandwidth(struct engine_devices *devices, const ey_engine_options *o);
/* Marks the matrices that --quantize selects. */
bool plan_quantize_on_load(struct engine_devices *devices, const ey_engine_options *o, ey_err *e);
/* Sets out->fp8_prompts from --prefill-math. Called when the device is open and the matrices to
 * quantize are marked. */
bool plan_choose_prefill_math(struct plan_limits *out, const struct engine_devices *devices,
                              const ey_engine_options *o, ey_err *e);
/* Fills the device info of a GPU that --vram describes, without a driver. */
bool plan_open_simulated_gpu(struct engine_devices *devices, const ey_engine_options *o, ey_err *e);
void plan_export(ey_plan *out, const ey_engine *engine);
/* Finds options that would make the plan fit or make it smaller. Returns their number. */
int plan_find_suggestions(struct plan_suggestion out[PLAN_SUGGESTIONS + 1], const ey_engine *engine,
                          const struct plan_limits *limits);

#endif
