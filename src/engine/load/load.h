/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of opening an engine, in the order in which open_engine.c calls them. Each fills *e and
 * returns false on failure. */
#ifndef EY_ENGINE_LOAD_H
#define EY_ENGINE_LOAD_H
#include "engine/engine_internal.h"
#include "convert/quantize.h"

/* ---- open_backends.c ---- */

ey_engine *engine_new(ey_err *e);
/* Opens checkpoint and model; weights stay mapped. */
bool engine_open_headers(struct engine_devices *devices, const ey_engine_options *options,
                         ey_err *e);
bool engine_open_pool(struct engine_devices *devices, const ey_engine_options *options, ey_err *e);
/* Opens the device's backend, and with a GPU also the CPU's. */
bool engine_open_backend(struct engine_devices *devices, const ey_engine_options *options,
                         ey_err *e);
bool engine_open_cpu(struct engine_devices *devices, const ey_engine_options *options, ey_err *e);

/* ---- open_pooling.c ---- */

/* Fills the norm and weights from which vectors and scores are computed; needs the buffers. */
bool engine_open_pooling(ey_engine *engine, ey_err *e);

/* ---- gpu_health.c: both do nothing on the CPU ---- */

/* Runs the kernels' self-test if this GPU was not tested before, and reports kernels that
 * failed. */
bool engine_selftest_kernels(struct engine_devices *devices, const ey_engine_options *options,
                             ey_err *e);
/* Measures the GPU's memory after loading. */
bool engine_probe_gpu(ey_engine *engine, const ey_engine_options *options, ey_err *e);

/* ---- make_plan.c ---- */

bool engine_read_quantization(struct quantize_choice *out, const ey_engine_options *options,
                              ey_err *e);
/* Computes engine->buffers.plan and the limits that follow from it, then calls options->planned. */
bool engine_plan(ey_engine *engine, const ey_engine_options *options, ey_err *e);
/* Fails if the plan does not fit: *e says by how much, and which options would help. */
bool engine_check_plan(const ey_engine *engine, const ey_engine_options *options, ey_err *e);

/* ---- buffers.c ---- */

/* Allocates the buffers of engine->buffers.plan. */
bool engine_buffers_open(ey_engine *engine, ey_err *e);
void engine_buffers_close(ey_engine *engine);

#endif
