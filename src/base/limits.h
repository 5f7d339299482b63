/* Every maximum of the program, by name. A number from a file, a request or the network is compared with
 * one of these before anything is allocated by it. */
#ifndef EY_BASE_LIMITS_H
#define EY_BASE_LIMITS_H

enum {
    EY_MAX_SHARDS = 1024,
    EY_MAX_TENSORS = 100000,
    EY_MAX_DIMS = 8,
    EY_MAX_JSON_DEPTH = 64,
    EY_MAX_JSON_BYTES = 64 << 20,
    EY_MAX_LAYERS = 256,
    EY_MAX_WIDTH = 65536,          /* hidden sizes, head counts times head sizes, MLP widths */
    EY_MAX_HEAD_DIM = 1024,
    EY_MAX_VOCABULARY = 1 << 20,
    EY_MAX_POSITION_TABLE = 1 << 16,
    EY_MAX_CONTEXT = 1 << 20,
    EY_MAX_DEEPSTACK = 8,
    EY_MAX_EOS = 16,
    EY_MAX_TOKEN_BYTES = 4096,
    EY_MAX_TEXT_BYTES = 64 << 20,  /* one text to tokenise */
    EY_MAX_IMAGES = 64,            /* in one request */
    EY_MAX_MESSAGES = 4096,
    EY_MAX_IMAGE_SIDE = 65500,
    EY_MAX_TOP_LOGPROBS = 20,
    EY_MAX_STOPS = 16,
    EY_MAX_STOP_BYTES = 1024,
    EY_MAX_THREADS = 256,
    EY_MAX_PATH = 4096,
    EY_MAX_BOXES = 1000,           /* that detect reads from one answer */
    EY_MAX_LABEL_BYTES = 1000,     /* of a box; longer ones are cut */
    EY_MAX_LINE_BYTES = 1 << 20,   /* a message of chat */
};
#define EY_MAX_SAFETENSORS_HEADER ((size_t)100000000) /* as the format's own reader */
#define EY_MAX_IMAGE_BYTES ((size_t)256 << 20)        /* a picture's file */
#define EY_MAX_IMAGE_PIXELS ((size_t)178956970)       /* as Pillow's decompression bomb limit, twice its warning */

#endif
