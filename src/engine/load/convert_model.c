/* SPDX-License-Identifier: Apache-2.0 */
/* eyelet convert: writes a model's checkpoint in another format. */
#include <string.h>

#include "convert/convert_model.h"
#include "engine/load/load.h"
#include "models/quantization_config.h"

static bool convert_opened(const ey_engine *engine, const ey_engine_options *options,
                           const char *out, bool to_float32, ey_convert_report *report, ey_err *e)
{
    const struct model *m = &engine->devices.model;
    const size_t n = strlen(out);
    char path[EY_MAX_PATH];
    struct convert_source source = {.ckpt = engine->devices.ckpt,
                                    .text = &m->text,
                                    .vision = &m->vision,
                                    .pool = engine->devices.pool,
                                    .options = options,
                                    .to_float32 = to_float32};
    if (!checkpoint_json_path(path, source.ckpt, "config.json", e) ||
        !config_read_quantization(&source.quantization, source.ckpt, path, e))
        return false;
    return n > 5 && strcmp(out + n - 5, ".gguf") == 0
               ? convert_to_gguf(&source, out, report, e)
               : convert_to_safetensors(&source, out, report, e);
}

bool ey_convert(const ey_engine_options *given, const char *out, bool to_float32,
                ey_convert_report *report, ey_err *e)
{
    ey_engine_options options;
    *report = (ey_convert_report){0};
    if (!engine_options_read(&options, given, e)) return false;
    ey_engine *engine = engine_new(e);
    const bool ok = engine && engine_open_headers(&engine->devices, &options, e) &&
                    engine_open_pool(&engine->devices, &options, e) &&
                    convert_opened(engine, &options, out, to_float32, report, e);
    ey_engine_close(&engine);
    return ok;
}
