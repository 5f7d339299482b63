/* SPDX-License-Identifier: Apache-2.0 */
/* Compressed bodies: frames with raw and repeated blocks, assembled by RFC 8878. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "server/http/zstd_body.h"

enum { RAW = 0, REPEATED = 1, MAX_BLOCK = 128 << 10 };

/* Frame header without a content size: magic, descriptor, window. */
static void begin_frame(struct buf *out, int window_log)
{
    const unsigned char header[] = {0x28, 0xb5, 0x2f,
                                    0xfd, 0,    (unsigned char)((window_log - 10) << 3)};
    buf_add(out, header, sizeof(header));
}

static void add_block(struct buf *out, int type, size_t size, const char *bytes, bool last)
{
    const uint32_t word = (uint32_t)last | (uint32_t)type << 1 | (uint32_t)size << 3;
    const unsigned char header[] = {word & 0xff, word >> 8 & 0xff, word >> 16 & 0xff};
    buf_add(out, header, sizeof(header));
    buf_add(out, bytes, type == RAW ? size : 1);
}

static bool keep(void *user, const char *bytes, size_t n)
{
    struct buf *kept = user;
    return buf_add(kept, bytes, n);
}

static enum zstd_result decode(const struct buf *body, struct buf *kept)
{
    return zstd_decode(body->data ? body->data : "", body->size, keep, kept);
}

static void frames_are_decoded(void **state)
{
    struct buf body = buf_with_max(1 << 20), kept = buf_with_max(1 << 20);
    (void)state;
    assert_true(zstd_load());
    begin_frame(&body, 20);
    add_block(&body, RAW, 3, "abc", false);
    add_block(&body, REPEATED, 100000, "d", true);
    begin_frame(&body, ZSTD_MAX_WINDOW_LOG);
    add_block(&body, RAW, 2, "ef", true);
    assert_int_equal(decode(&body, &kept), ZSTD_DECODED);
    assert_int_equal(kept.size, 100005);
    assert_memory_equal(kept.data, "abcddd", 6);
    assert_memory_equal(kept.data + 100000, "dddef", 5);
    buf_free(&kept);
    /* every prefix is broken, except the whole first frame */
    for (size_t n = 0; n < body.size; n++) {
        const struct buf part = {.data = body.data, .size = n};
        kept = buf_with_max(1 << 20);
        const bool first_frame = n == 6 + 3 + 3 + 3 + 1;
        assert_int_equal(decode(&part, &kept), first_frame ? ZSTD_DECODED : ZSTD_BROKEN);
        buf_free(&kept);
    }
    buf_free(&body);
}

static void bombs_are_refused(void **state)
{
    struct buf body = buf_with_max(1 << 20), kept = buf_with_max(ZSTD_MAX_BODY_BYTES);
    (void)state;
    begin_frame(&body, 20);
    for (int i = 0; i < ZSTD_MAX_BODY_BYTES / MAX_BLOCK; i++)
        add_block(&body, REPEATED, MAX_BLOCK, "0", false);
    const size_t n = body.size;
    add_block(&body, RAW, 0, "", true);
    assert_int_equal(decode(&body, &kept), ZSTD_DECODED); /* exactly the limit */
    assert_int_equal(kept.size, ZSTD_MAX_BODY_BYTES);
    body.size = n;
    add_block(&body, RAW, 1, "1", true);
    buf_clear(&kept);
    assert_int_equal(decode(&body, &kept), ZSTD_TOO_LARGE);
    buf_clear(&body);
    begin_frame(&body, ZSTD_MAX_WINDOW_LOG + 1);
    add_block(&body, RAW, 1, "1", true);
    assert_int_equal(decode(&body, &kept), ZSTD_TOO_LARGE);
    buf_free(&body);
    buf_free(&kept);
}

static void other_bodies_are_refused(void **state)
{
    static const char json[] = "{\"model\": \"demo\"}";
    struct buf body = buf_with_max(1 << 10), kept = buf_with_max(2);
    (void)state;
    buf_add_text(&body, json);
    assert_int_equal(decode(&body, &kept), ZSTD_BROKEN);
    buf_clear(&body);
    begin_frame(&body, 20);
    add_block(&body, RAW, 3, "abc", true); /* more than `kept` holds */
    assert_int_equal(decode(&body, &kept), ZSTD_STOPPED);
    buf_free(&body);
    buf_free(&kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(frames_are_decoded),
                                       cmocka_unit_test(bombs_are_refused),
                                       cmocka_unit_test(other_bodies_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
