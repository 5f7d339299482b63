/* SPDX-License-Identifier: Apache-2.0 */
/* llama.cpp's /completion, and the error format of its routes. */
#ifndef EY_SERVER_LLAMACPP_DIALECT_H
#define EY_SERVER_LLAMACPP_DIALECT_H

#include "server/api/common/api_dialect.h"

extern const struct api_dialect llamacpp_dialect;

/* {"error": {"code", "message", "type"}} */
error_form_fn write_llamacpp_error;

#endif
