/* SPDX-License-Identifier: Apache-2.0 */
/* Reads metadata values of any width, because programs that write GGUF choose it freely. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "checkpoint/gguf/gguf.h"

bool gguf_is_integer(enum gguf_value_type type)
{
    return type != GGUF_F32 && type != GGUF_F64 && type != GGUF_STRING && type != GGUF_ARRAY;
}

bool gguf_is_real(enum gguf_value_type type)
{
    return type == GGUF_F32 || type == GGUF_F64;
}

/* A u64 above INT64_MAX becomes INT64_MAX. */
static int64_t integer_at(const uint8_t *p, enum gguf_value_type type)
{
    static const uint8_t bytes[GGUF_VALUE_TYPES] = {1, 1, 2, 2, 4, 4, 0, 1, 0, 0, 8, 8, 0};
    uint64_t word = 0;
    memcpy(&word, p, bytes[type]); /* little-endian, like the file */
    switch (type) {
    case GGUF_I8: return (int8_t)word;
    case GGUF_I16: return (int16_t)word;
    case GGUF_I32: return (int32_t)word;
    case GGUF_U64: return word > INT64_MAX ? INT64_MAX : (int64_t)word;
    default: return (int64_t)word;
    }
}

static double real_at(const uint8_t *p, enum gguf_value_type type)
{
    float narrow;
    double wide;
    if (type == GGUF_F32) return memcpy(&narrow, p, sizeof(narrow)), narrow;
    if (type == GGUF_F64) return memcpy(&wide, p, sizeof(wide)), wide;
    return (double)integer_at(p, type);
}

static size_t element_bytes(enum gguf_value_type type)
{
    static const uint8_t bytes[GGUF_VALUE_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return bytes[type];
}

int64_t gguf_array_int(const struct gguf_value *a, uint64_t i)
{
    return integer_at(a->data + i * element_bytes(a->element), a->element);
}

double gguf_array_real(const struct gguf_value *a, uint64_t i)
{
    return real_at(a->data + i * element_bytes(a->element), a->element);
}

/* Accepts an integer or an array of equal integers: some files store one per layer. */
static bool value_as_integer(const struct gguf_value *v, int64_t *out)
{
    if (gguf_is_integer(v->type)) return *out = integer_at(v->data, v->type), true;
    if (v->type != GGUF_ARRAY || !gguf_is_integer(v->element) || !v->n) return false;
    *out = gguf_array_int(v, 0);
    for (uint64_t i = 1; i < v->n; i++)
        if (gguf_array_int(v, i) != *out) return false;
    return true;
}

bool gguf_int(const struct gguf *f, const char *key, int64_t lo, int64_t hi, int64_t *out,
              ey_err *e)
{
    const struct gguf_value *v = gguf_find(f, key);
    int64_t value;
    if (!v) return ey_fail(e, EY_BAD_MODEL, "%s: the key %s is missing", gguf_path(f), key);
    if (!value_as_integer(v, &value))
        return ey_fail(e, EY_BAD_MODEL, "%s: %s must be an integer or an array of equal integers",
                       gguf_path(f), key);
    if (value < lo || value > hi)
        return ey_fail(e, EY_BAD_MODEL,
                       "%s: %s is %" PRId64 "; it must be from %" PRId64 " to %" PRId64,
                       gguf_path(f), key, value, lo, hi);
    *out = value;
    return true;
}

bool gguf_optional_int(const struct gguf *f, const char *key, int64_t lo, int64_t hi, int64_t *out,
                       ey_err *e)
{
    return !gguf_find(f, key) || gguf_int(f, key, lo, hi, out, e);
}

bool gguf_optional_bool(const struct gguf *f, const char *key, bool *out, ey_err *e)
{
    int64_t value = *out;
    if (!gguf_optional_int(f, key, 0, 1, &value, e)) return false;
    *out = value != 0;
    return true;
}

bool gguf_optional_real(const struct gguf *f, const char *key, double *out, ey_err *e)
{
    const struct gguf_value *v = gguf_find(f, key);
    if (!v) return true;
    const bool number = gguf_is_integer(v->type) || gguf_is_real(v->type);
    const double value = number ? real_at(v->data, v->type) : NAN;
    if (!isfinite(value))
        return ey_fail(e, EY_BAD_MODEL, "%s: %s must be a finite number", gguf_path(f), key);
    *out = value;
    return true;
}

bool gguf_text_is(const struct gguf *f, const char *key, const char *text)
{
    const struct gguf_value *v = gguf_find(f, key);
    return v && v->type == GGUF_STRING && v->n == strlen(text) &&
           memcmp(v->data, text, (size_t)v->n) == 0;
}

bool gguf_strings_of(const struct gguf *f, const char *key, struct gguf_strings *out, ey_err *e)
{
    const struct gguf_value *v = gguf_find(f, key);
    if (!v || v->type != GGUF_ARRAY || v->element != GGUF_STRING)
        return ey_fail(e, EY_BAD_MODEL, "%s: %s is %s", gguf_path(f), key,
                       v ? "not an array of strings" : "missing");
    *out = (struct gguf_strings){v->data, v->n};
    return true;
}

bool gguf_next_string(struct gguf_strings *s, const char **text, size_t *n)
{
    uint64_t length;
    if (!s->left) return false;
    memcpy(&length, s->at, sizeof(length));
    *text = (const char *)s->at + sizeof(length);
    *n = (size_t)length;
    s->at += sizeof(length) + length;
    s->left--;
    return true;
}
