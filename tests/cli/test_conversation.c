/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of chat: their ownership, and which name belongs to which image. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/file.h"
#include "cli/chat/conversation.h"

static struct conversation talk;
static ey_err e;

static int begin(void **state)
{
    (void)state;
    return conversation_open(&talk, &e) ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    conversation_close(&talk);
    return 0;
}

static void add_image(const char *name)
{
    ey_part image = ey_image_part(strdup(name), strlen(name));
    assert_true(conversation_add_image(&talk, image, name, &e));
}

static void say(const char *text)
{
    assert_true(conversation_say(&talk, text, strlen(text), &e));
}

static void answer(const char *text)
{
    assert_true(conversation_answer(&talk, text, strlen(text), &e));
}

/* "user: [a.png] text | assistant: text": the messages as the engine gets them. An image is shown
 * by its bytes. */
static void assert_sees(const char *wanted)
{
    struct buf seen = buf_with_max(4096);
    buf_add_text(&seen, "");
    for (size_t i = 0; i < talk.n; i++) {
        buf_printf(&seen, "%s%s:", i ? " | " : "", talk.message[i].role);
        for (size_t k = 0; k < talk.message[i].n_parts; k++) {
            const ey_part *part = &talk.message[i].parts[k];
            buf_printf(&seen, part->type == EY_PART_IMAGE ? " [%.*s]" : " %.*s", (int)part->n_bytes,
                       (const char *)part->bytes);
        }
    }
    assert_string_equal(seen.data ? seen.data : "", wanted);
    buf_free(&seen);
}

/* In these tests an image's bytes are its name. */
static void assert_names_fit(void)
{
    size_t n = 0;
    for (size_t i = 0; i < talk.n; i++)
        for (size_t k = 0; k < talk.message[i].n_parts; k++) {
            const ey_part *part = &talk.message[i].parts[k];
            if (part->type != EY_PART_IMAGE) continue;
            assert_memory_equal(talk.image_names[n], part->bytes, part->n_bytes);
            n++;
        }
    for (size_t i = 0; i < talk.n_draft; i++, n++)
        assert_memory_equal(talk.image_names[n], talk.draft[i].bytes, talk.draft[i].n_bytes);
    assert_int_equal(n, talk.n_images);
}

static void a_system_prompt_stands_first(void **state)
{
    (void)state;
    say("one");
    answer("two");
    assert_null(conversation_system(&talk));
    assert_true(conversation_set_system(&talk, NULL, &e));
    assert_true(conversation_set_system(&talk, "be brief", &e));
    assert_sees("system: be brief | user: one | assistant: two");
    assert_true(conversation_set_system(&talk, "be kind", &e));
    assert_string_equal(conversation_system(&talk), "be kind");
    assert_sees("system: be kind | user: one | assistant: two");
    conversation_clear(&talk);
    assert_sees("system: be kind");
    say("three");
    assert_true(conversation_set_system(&talk, NULL, &e));
    assert_sees("user: three");
}

static void the_last_answer_is_taken_back(void **state)
{
    (void)state;
    ey_message taken = {0};
    assert_false(conversation_take_answer(&talk, &taken));
    assert_true(conversation_set_system(&talk, "be brief", &e));
    assert_false(conversation_take_answer(&talk, &taken));
    add_image("a.png");
    say("one");
    assert_false(conversation_take_answer(&talk, &taken));
    answer("two");
    assert_true(conversation_take_answer(&talk, &taken));
    assert_sees("system: be brief | user: [a.png] one");
    conversation_put_answer(&talk, &taken);
    assert_null(taken.role);
    assert_sees("system: be brief | user: [a.png] one | assistant: two");
    assert_true(conversation_take_answer(&talk, &taken));
    conversation_free_answer(&taken);
    answer("three");
    assert_sees("system: be brief | user: [a.png] one | assistant: three");
    assert_names_fit();
}

/* A question is retried while an image waits for the next message; the retry fails. */
static void images_keep_their_names(void **state)
{
    (void)state;
    for (int keep = 0; keep <= 1; keep++) {
        add_image("a.png");
        say("one");
        answer("two");
        add_image("b.png");
        add_image("c.png");
        say("three");
        answer("four");
        add_image("d.png");
        assert_names_fit();
        ey_message taken;
        assert_true(conversation_take_answer(&talk, &taken));
        conversation_free_answer(&taken);
        conversation_undo(&talk, keep);
        assert_sees("user: [a.png] one | assistant: two");
        assert_int_equal(talk.n_draft, keep ? 3 : 1);
        assert_names_fit();
        add_image("e.png");
        conversation_shorten_draft(&talk, talk.n_draft - 1);
        assert_names_fit();
        say("five");
        assert_sees(keep ? "user: [a.png] one | assistant: two | user: [b.png] [c.png] [d.png] five"
                         : "user: [a.png] one | assistant: two | user: [d.png] five");
        conversation_clear(&talk);
        assert_int_equal(talk.n_images, 0);
    }
}

static void limits(void **state)
{
    (void)state;
    for (int i = 0; i < EY_MAX_IMAGES; i++)
        add_image("a.png");
    ey_part more = ey_image_part("x", 1);
    assert_false(conversation_add_image(&talk, more, "x", &e));
    assert_int_equal(e.code, EY_TOO_LONG);
    while (conversation_say(&talk, "q", 1, &e))
        answer("a");
    assert_int_equal(e.code, EY_TOO_LONG);
    assert_true(talk.n <= EY_MAX_MESSAGES);
    assert_true(conversation_set_system(&talk, "one", &e));
    assert_true(conversation_set_system(&talk, "two", &e) || e.code == EY_TOO_LONG);
    assert_true(talk.n <= EY_MAX_MESSAGES);
}

static void saved_as(const char *path, const char *wanted)
{
    char *text = NULL;
    size_t n = 0;
    assert_true(conversation_save(&talk, path, false, &e));
    assert_true(file_read(&text, &n, path, 1 << 20, &e));
    assert_string_equal(text, wanted);
    free(text);
    assert_false(conversation_save(&talk, path, false, &e));
    assert_non_null(strstr(e.text, "already exists"));
    assert_true(conversation_save(&talk, path, true, &e));
    assert_int_equal(unlink(path), 0);
}

static void files(void **state)
{
    (void)state;
    char folder[] = "/tmp/eyelet-talk-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    add_image("a \"b\".png");
    say("one\nline");
    answer("two");
    snprintf(path, sizeof(path), "%s/talk.md", folder);
    saved_as(path, "## Question\n\n![image](<a \"b\".png>)\n\none\nline\n\n## Answer\n\ntwo\n");
    snprintf(path, sizeof(path), "%s/talk.JSON", folder);
    saved_as(path, "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\", "
                   "\"image_url\": {\"url\": \"a \\\"b\\\".png\"}}, {\"type\": \"text\", \"text\": "
                   "\"one\\nline\"}]}, {\"role\": \"assistant\", \"content\": [{\"type\": "
                   "\"text\", \"text\": \"two\"}]}]}\n");
    assert_int_equal(rmdir(folder), 0);
}

/* No file may become longer than `most` bytes. */
static void limit_files(rlim_t most)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = most == RLIM_INFINITY ? limit.rlim_max : most;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void a_failed_save_leaves_no_part(void **state)
{
    (void)state;
    char folder[] = "/tmp/eyelet-talk-XXXXXX", path[64], *text = NULL;
    size_t n = 0;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/talk.md", folder);
    signal(SIGXFSZ, SIG_IGN);
    say("one");
    limit_files(4);
    assert_false(conversation_save(&talk, path, false, &e));
    assert_int_not_equal(access(path, F_OK), 0);
    limit_files(RLIM_INFINITY);
    assert_true(conversation_save(&talk, path, false, &e));
    limit_files(4);
    assert_false(conversation_save(&talk, path, true, &e));
    limit_files(RLIM_INFINITY);
    assert_true(file_read(&text, &n, path, 1 << 20, &e));
    assert_string_equal(text, "## Question\n\none\n");
    free(text);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_system_prompt_stands_first, begin, end),
        cmocka_unit_test_setup_teardown(the_last_answer_is_taken_back, begin, end),
        cmocka_unit_test_setup_teardown(images_keep_their_names, begin, end),
        cmocka_unit_test_setup_teardown(limits, begin, end),
        cmocka_unit_test_setup_teardown(files, begin, end),
        cmocka_unit_test_setup_teardown(a_failed_save_leaves_no_part, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
