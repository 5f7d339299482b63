/* SPDX-License-Identifier: Apache-2.0 */
#include "server/http/zstd_body.h"

#include <dlfcn.h>
#include <pthread.h>
#include <zstd.h>
#include <zstd_errors.h>

enum { PIECE_BYTES = 32 << 10 };

#define ZSTD_FUNCTIONS(X)     \
    X(ZSTD_createDCtx)        \
    X(ZSTD_freeDCtx)          \
    X(ZSTD_DCtx_setParameter) \
    X(ZSTD_decompressStream)  \
    X(ZSTD_isError)           \
    X(ZSTD_getErrorCode)

static struct {
#define ZSTD_FIELD(function) __typeof__(&function) function;
    ZSTD_FUNCTIONS(ZSTD_FIELD)
#undef ZSTD_FIELD
} library;
static bool loaded;

static void open_library(void)
{
    void *handle = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
    bool all = handle;
#define ZSTD_LOOK_UP(function)                                       \
    if (all) *(void **)&library.function = dlsym(handle, #function); \
    all = all && library.function;
    ZSTD_FUNCTIONS(ZSTD_LOOK_UP)
#undef ZSTD_LOOK_UP
    loaded = all;
}

bool zstd_load(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_library);
    return loaded;
}

static enum zstd_result result_of_error(size_t code)
{
    switch (library.ZSTD_getErrorCode(code)) {
    case ZSTD_error_frameParameter_windowTooLarge: return ZSTD_TOO_LARGE;
    case ZSTD_error_memory_allocation: return ZSTD_NO_MEMORY;
    default: return ZSTD_BROKEN;
    }
}

/* A frame is over when `left` is 0, and another may follow. */
static enum zstd_result decode_frames(ZSTD_DCtx *context, ZSTD_inBuffer in,
                                      bool (*take)(void *user, const char *bytes, size_t n),
                                      void *user)
{
    char piece[PIECE_BYTES];
    size_t total = 0, left = 1;
    bool full = false;
    while (in.pos < in.size || full) {
        ZSTD_outBuffer out = {.dst = piece, .size = sizeof(piece)};
        left = library.ZSTD_decompressStream(context, &out, &in);
        if (library.ZSTD_isError(left)) return result_of_error(left);
        total += out.pos;
        if (total > ZSTD_MAX_BODY_BYTES) return ZSTD_TOO_LARGE;
        if (out.pos && !take(user, piece, out.pos)) return ZSTD_STOPPED;
        full = out.pos == out.size && left;
    }
    return left ? ZSTD_BROKEN : ZSTD_DECODED;
}

enum zstd_result zstd_decode(const char *body, size_t n,
                             bool (*take)(void *user, const char *bytes, size_t n), void *user)
{
    ZSTD_DCtx *context = library.ZSTD_createDCtx();
    if (!context) return ZSTD_NO_MEMORY;
    size_t set = library.ZSTD_DCtx_setParameter(context, ZSTD_d_windowLogMax, ZSTD_MAX_WINDOW_LOG);
    enum zstd_result result = library.ZSTD_isError(set)
                                  ? ZSTD_BROKEN
                                  : decode_frames(context, (ZSTD_inBuffer){body, n, 0}, take, user);
    library.ZSTD_freeDCtx(context);
    return result;
}
