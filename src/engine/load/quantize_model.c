/* SPDX-License-Identifier: Apache-2.0 */
/* eyelet quantize: writes a checkpoint with the weights that --quantize would compute while
 * loading. */
#include <stdio.h>

#include "convert/quantized_checkpoint.h"
#include "engine/load/load.h"
#include "models/on_load_quantization.h"

bool ey_quantize(const ey_engine_options *given, const char *out, ey_quantize_report *report,
                 ey_err *e)
{
    ey_engine_options own;
    const ey_engine_options *options = &own;
    *report = (ey_quantize_report){0};
    if (!engine_options_read(&own, given, e)) return false;
    struct quantize_choice choice;
    struct quantize_report r = {0};
    ey_engine *engine = engine_new(e);
    uint64_t bytes = 0;
    bool ok = engine && engine_read_quantization(&choice, options, e) &&
              engine_open_headers(&engine->devices, options, e) &&
              engine_open_pool(&engine->devices, options, e);
    if (ok && choice.dtype == DTYPE_NONE)
        ok = ey_fail(e, EY_BAD_REQUEST, "use --quantize int4 or --quantize fp8");
    const uint64_t before = ok ? engine->devices.model.weight_bytes : 0;
    ok = ok && model_quantize_on_load(&engine->devices.model, &choice, &r, engine->devices.pool, e);
    if (ok && !r.n_quantized)
        ok = ey_fail(e, EY_BAD_REQUEST,
                     "nothing to quantize: this model's matrices are that small already, or "
                     "would lose too much");
    if (ok) {
        const struct quantized_source source = {
            .ckpt = engine->devices.ckpt,
            .layers = engine->devices.model.layers,
            .n_layers = engine->devices.model.text.n_layers,
            .max_quantized_bytes = engine->devices.model.max_quantized_bytes,
            .choice = choice,
            .pool = engine->devices.pool,
            .options = options};
        ok = quantized_checkpoint_write(&source, out, &bytes, e);
    }
    if (ok) {
        *report = (ey_quantize_report){.n_quantized = r.n_quantized,
                                       .n_unchanged = r.n_unquantized,
                                       .bytes_before = before,
                                       .bytes = bytes,
                                       .worst_error = r.max_error,
                                       .mean_error = r.mean_error};
        snprintf(report->unchanged_names, sizeof(report->unchanged_names), "%s",
                 r.unquantized_names);
    }
    ey_engine_close(&engine);
    return ok;
}
