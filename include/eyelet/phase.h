/* SPDX-License-Identifier: Apache-2.0 */
/* What a load or a request is doing, and how an answer ended.
 *
 * Programs compare the values. The texts are for people; the API, the metrics and the command line
 * use them. */
#ifndef EYELET_PHASE_H
#define EYELET_PHASE_H

#include "eyelet/api.h"

EY_BEGIN_DECLS

/* X(name, text) */
#define EY_PHASES(X)                                                                            \
    X(EY_PHASE_NONE, "")                         /* not known */                                \
    X(EY_PHASE_LOADING, "loading")               /* load: weights */                            \
    X(EY_PHASE_CHECKING_GPU, "checking the GPU") /* load: self-test of its kernels */           \
    X(EY_PHASE_QUANTIZING, "quantizing")         /* ey_quantize */                              \
    X(EY_PHASE_QUEUE, "queue")                   /* request: waits for others */                \
    X(EY_PHASE_VISION, "vision")                 /* request: units of its images */             \
    X(EY_PHASE_PREFILL, "prefill")               /* request: tokens of its prompt */            \
    X(EY_PHASE_DECODE, "decode")                 /* request: tokens of its answer */            \
    X(EY_PHASE_SENDING, "sending")               /* request to a server: bytes of the upload */ \
    X(EY_PHASE_WAITING, "waiting")               /* request to a server: for the first token */ \
    X(EY_PHASE_CONVERTING, "converting")         /* ey_convert */

typedef enum {
#define EY_PHASE_ENUM(name, text) name,
    EY_PHASES(EY_PHASE_ENUM)
#undef EY_PHASE_ENUM
} ey_phase;

/* A static string; "" for a value that is none of these. */
EY_API const char *ey_phase_text(ey_phase phase);

/* X(name, text) */
#define EY_FINISHES(X)                                                                 \
    X(EY_FINISH_STOP, "stop")           /* a stop token or text, or a whole grammar */ \
    X(EY_FINISH_LENGTH, "length")       /* max_tokens, or the context is full */       \
    X(EY_FINISH_CANCELLED, "cancelled") /* the caller canceled, or the engine closed */

typedef enum {
#define EY_FINISH_ENUM(name, text) name,
    EY_FINISHES(EY_FINISH_ENUM)
#undef EY_FINISH_ENUM
} ey_finish;

/* A static string; "" for a value that is none of these. */
EY_API const char *ey_finish_text(ey_finish finish);

EY_END_DECLS

#endif
