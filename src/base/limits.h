/* SPDX-License-Identifier: Apache-2.0 */
/* Every limit of the program. A number from a file, a request or the network is checked against
 * one of these before it sizes an allocation. */
#ifndef EY_BASE_LIMITS_H
#define EY_BASE_LIMITS_H

enum {
    EY_MAX_SHARDS = 1024,
    EY_MAX_TENSORS = 100000,
    EY_MAX_DIMS = 8,
    EY_MAX_JSON_DEPTH = 64,
    EY_MAX_JSON_BYTES = 64 << 20,
    EY_MAX_LAYERS = 256,
    EY_MAX_WIDTH = 65536, /* hidden sizes, head counts times head sizes, MLP widths */
    EY_MAX_HEAD_DIM = 1024,
    EY_MAX_VOCAB_SIZE = 1 << 20,
    EY_MAX_MERGES = 4 << 20, /* some tokenizers list every way to merge a token */
    EY_MAX_POSITION_TABLE = 1 << 16,
    EY_MAX_CONTEXT = 1 << 20,
    EY_MAX_DEEPSTACK = 8,
    EY_MAX_EOS = 17, /* 16 from the configuration, and the end-of-turn token */
    EY_MAX_TOKEN_BYTES = 4096,
    EY_MAX_TEXT_BYTES = 64 << 20, /* of one text to tokenize */
    EY_MAX_IMAGES = 64,           /* in one request */
    EY_MAX_MESSAGES = 4096,
    EY_MAX_IMAGE_SIDE = 65500,
    EY_MAX_TOP_LOGPROBS = 20,
    EY_MAX_STOP_STRINGS = 16,
    EY_MAX_STOP_BYTES = 1024,
    EY_MAX_STOP_IDS = 64,
    EY_MAX_LOGIT_BIAS = 1024,
    EY_MAX_KEPT_TOKENS = 1024, /* that EY_KEEP_ANSWER reserves for the answer */
    EY_MAX_SEQS = 256,         /* requests that run at once */
    EY_MAX_QUEUED = 65536,
    EY_MAX_BATCHED_TOKENS = 4096, /* in one engine step */
    EY_MAX_THREADS = 256,
    EY_MAX_PATH = 4096,
    EY_MAX_BOXES = 1000,          /* boxes that `eyelet detect` reads from one answer */
    EY_MAX_LABEL_BYTES = 1000,    /* of a box; longer labels are truncated */
    EY_MAX_LINE_BYTES = 1 << 20,  /* of one message typed in `eyelet chat` */
    EY_MAX_URL_BYTES = 8192,      /* of an http(s) URL */
    EY_MAX_BODY_BYTES = 64 << 20, /* of an HTTP request's body */
    EY_BODY_BYTES_PER_SECOND =
        16 << 10, /* a body that keeps arriving at this rate may exceed its deadline */
    EY_MAX_HEADER_BYTES = 32 << 10, /* of an HTTP request's line and headers together */
    EY_MAX_HEADERS = 100,
    EY_SLOW_BYTES_PER_SECOND =
        4 << 10, /* a slower connection may be closed to make room for a new one */
    EY_MAX_CONNECTIONS = 1024,
    EY_SPARE_CONNECTIONS = 16, /* above --max-connections: for /health and /metrics, and for
                                  replies that there are too many connections */
    EY_CLIENT_SHARE = 15,      /* one client may hold at most this many times as much as is free,
                                  or 15/16 of all, so that others find a free part */
    EY_MAX_API_KEY_BYTES = 1024,
    /* a request to the server */
    EY_MAX_REQUEST_CHOICES = 8,  /* `n` */
    EY_MAX_PROMPTS = 64,         /* of one completion request */
    EY_MAX_CONTENT_PARTS = 4096, /* of a message */
    EY_MAX_TOOLS = 512,
    EY_MAX_TOOL_CALLS = 128,         /* of a message */
    EY_MAX_NAME_BYTES = 256,         /* of a tool or a model */
    EY_MAX_REQUEST_VALUES = 1 << 18, /* JSON values; one takes many times its bytes when parsed */
    EY_MAX_REQUEST_CONTAINERS = 1 << 15, /* JSON objects and arrays, about 1 KiB each */
    EY_MAX_TOKENIZE_BYTES = 4 << 20,     /* of a text to tokenize */
    EY_MAX_RESPONSE_BYTES = 256 << 20,
    EY_MAX_UNKNOWN_FIELD_BYTES = 512, /* of the unknown fields' names in one reply */
    /* a grammar that constrains an answer */
    EY_MAX_SCHEMA_BYTES = 256 << 10, /* of a JSON schema, or of all choices together */
    EY_MAX_SCHEMA_BRANCHES = 1024,   /* of anyOf, oneOf or prefixItems; properties of an object */
    EY_MAX_SCHEMA_DEPTH =
        64, /* nested alternatives and references without an object or array in between */
    EY_MAX_SCHEMA_VISITS = 1 << 17, /* schemas reached by references and alternatives in total */
    EY_MAX_SCHEMA_COUNT = 1 << 30,  /* of maxLength and the like; larger values become this */
    EY_MAX_PROPERTY_BYTES = 512,
    EY_MAX_MULTIPLE_OF = 1000,
    EY_MAX_PATTERN_BYTES = 8 << 10,   /* of a regular expression */
    EY_MAX_PATTERN_DEPTH = 64,        /* nested groups */
    EY_MAX_PATTERN_PRODUCT = 1 << 21, /* states of a pattern times text lengths */
    EY_MAX_CHOICES = 4096,
    EY_MAX_GRAMMAR_RULES = 1 << 14,      /* distinct objects, arrays and strings */
    EY_MAX_GRAMMAR_NFA_STATES = 1 << 18, /* states of the NFA */
    EY_MAX_GRAMMAR_DFA_STATES = 1 << 17, /* states of the DFA */
    EY_MAX_GRAMMAR_EDGES = 1 << 20,
    EY_MAX_GRAMMAR_SET_MEMBERS = 1 << 22, /* NFA states in all DFA states together */
    EY_MAX_GRAMMAR_BUILD_STEPS = 1 << 24, /* steps of the subset construction */
    EY_MAX_GRAMMAR_NESTING = 32,          /* nested objects, arrays and strings in an answer */
    EY_MAX_GRAMMAR_PARTS = 2048,          /* parts that a grammar is composed of */
};
#define EY_MAX_SAFETENSORS_HEADER ((size_t)100000000) /* the limit of the safetensors library */
#define EY_MAX_IMAGE_BYTES ((size_t)256 << 20)        /* of an image file */
#define EY_MAX_IMAGE_PIXELS \
    ((size_t)178956970) /* where Pillow refuses an image; it warns at half as many */

#endif
