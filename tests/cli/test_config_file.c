/* SPDX-License-Identifier: Apache-2.0 */
/* serve --config: YAML lines with the options that they set, and the errors of all others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/options/options.h"

static char path[] = "/tmp/eyelet-config-XXXXXX";

static int make_file(void **state)
{
    (void)state;
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

static bool read_config(struct options *o, const char *yaml, char *const *more, ey_err *e)
{
    char *argv[16] = {"--config", path};
    int argc = 2;
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(yaml, file);
    fclose(file);
    for (; more && *more; more++)
        argv[argc++] = *more;
    return options_parse(o, SERVE, argc, argv, e);
}

static void values_of_all_kinds(void **state)
{
    (void)state;
    struct options o;
    ey_err e;
    static const char yaml[] = "# a comment\n"
                               "model: \"owner/name\"\n"
                               "port: 8010\n"
                               "max_model_len: 4K\n"
                               "gpu-memory-utilization: 0.85\n"
                               "strict: yes\n"
                               "insecure: false\n"
                               "thinking: on\n"
                               "enable-prefix-caching: true\n"
                               "dtype: bfloat16\n"
                               "served-model-name: [a, 'b c']\n"
                               "allowed-origins:\n"
                               "  - https://a.example\n"
                               "  - https://b.example\n"
                               "allowed-hosts: one.example\n"
                               "limit-mm-per-prompt: {image: 2, video: 0}\n"
                               "mm-processor-kwargs:\n"
                               "  size: {longest_edge: 262144}\n";
    assert_true(read_config(&o, yaml, NULL, &e));
    assert_string_equal(o.model, "owner/name");
    assert_int_equal(o.port, 8010);
    assert_int_equal(o.max_model_len, 4096);
    assert_true(o.gpu_memory_utilization == 0.85);
    assert_true(o.strict);
    assert_false(o.insecure);
    assert_string_equal(o.thinking, "on");
    assert_int_equal(o.n_ignored_flags, 2);
    assert_int_equal(o.names.n, 2);
    assert_string_equal(o.names.item[1], "b c");
    assert_int_equal(o.origins.n, 2);
    assert_string_equal(o.origins.item[1], "https://b.example");
    assert_string_equal(o.hosts.item[0], "one.example");
    assert_string_equal(o.image_limit, "{\"image\":2,\"video\":0}");
    assert_string_equal(o.processor_kwargs, "{\"size\":{\"longest_edge\":262144}}");
    options_free(&o);
}

/* Numbers as PyYAML reads them, in JSON's spelling. */
static void numbers_are_json(void **state)
{
    (void)state;
    struct options o;
    ey_err e;
    assert_true(read_config(&o,
                            "mm-processor-kwargs: [1, -2, 0, 1.5, 1e5, 2.5E-3, 007, -010, +5, .5, "
                            "1., 08, 1.2.3, -, ., 1e, 0x10, '007']\n",
                            NULL, &e));
    assert_string_equal(o.processor_kwargs,
                        "[1,-2,0,1.5,1e5,2.5E-3,7,-8,5,0.5,1,\"08\",\"1.2.3\",\"-\",\".\",\"1e\","
                        "\"0x10\",\"007\"]");
    options_free(&o);
}

static void booleans_of_vllm_flags(void **state)
{
    (void)state;
    struct options o;
    ey_err e;
    static const char *const texts[] = {"False", "false", "FALSE"};
    for (size_t i = 0; i < 3; i++) {
        char *const more[] = {"--enable-lora", (char *)(uintptr_t)texts[i], NULL};
        if (!read_config(&o, "port: 1\n", more, &e)) fail_msg("%s: %s", texts[i], e.text);
        options_free(&o);
    }
    char *const more[] = {"--enable-lora=true", NULL};
    assert_false(read_config(&o, "port: 1\n", more, &e));
    options_free(&o);
}

static void the_command_line_wins(void **state)
{
    (void)state;
    struct options o;
    ey_err e;
    char *const more[] = {
        "--port=1", "--served-model-name", "mine", "--no-huge-pages", "--max-num-seqs", "2", NULL};
    assert_true(read_config(&o, "port: 2\nserved_model_name: [a, b]\nmax-num-seqs: 3\nseed: 5\n",
                            more, &e));
    assert_int_equal(o.port, 1);
    assert_int_equal(o.names.n, 1);
    assert_string_equal(o.names.item[0], "mine");
    assert_int_equal(o.max_num_seqs, 2);
    assert_int_equal(o.seed, 5);
    options_free(&o);
}

static void errors_name_the_line(void **state)
{
    (void)state;
    static const struct {
        const char *yaml, *error;
    } cases[] = {
        {"port: 1\nmax-modl-len: 4\n", "line 2: there is no option --max-modl-len; did you mean "
                                       "--max-model-len?"},
        {"temperature: 1\n", "line 1: --temperature is not an option of serve, but of ask"},
        {"\n\nport: x\n", "line 3: --port takes a number from 0 to 65535, not \"x\""},
        {"port: 70000\n", "line 1: --port takes a number"},
        {"port: [1, 2]\n", "line 1: --port takes a number from 0 to 65535, not \"[1,2]\""},
        {"strict: maybe\n", "line 1: strict takes true or false"},
        {"strict: \"true\"\n", "line 1: strict takes true or false"},
        {"host:\n", "line 1: host has no value"},
        {"host: ~\n", "line 1: host has no value"},
        {"host: ''\n", "line 1: --host needs a value"},
        {"port: 1\nport: 2\n", "line 2: port is already set in line 1"},
        {"max_model_len: 1K\n\nmax-model-len: 2K\n",
         "line 3: max-model-len is already set in line 1"},
        {"--port: 1\n", "line 1: write the option without leading dashes here: port"},
        {"config: other.yaml\n", "line 1: config is accepted on the command line only"},
        {"tensor-parallel-size: 2\n", "line 1: --tensor-parallel-size=2 is not possible: eyelet "
                                      "runs on one device"},
        {"enable-lora: true\n", "is not possible: adapters are not supported"},
        {"- port\n", "line 1: the file must consist of lines \"option: value\""},
        {"port\n", "line 1: the file must consist of lines \"option: value\""},
        {"port: 1\nallowed-hosts: [a\n", "not YAML"},
        {"port: 1\n\tseed: 2\n", "line 2: the file is not YAML"},
        {"? [a, b]\n: 1\n", "line 1: the name of an option is missing"},
        {"mm-processor-kwargs: &a {b: *a}\n", "line 1: the value is too long, nested too deeply"},
        {"host: \"a\\0b\"\n", "line 1: the value is too long, nested too deeply, or not text"},
        {"\xff: 1\n", "line 1: the file is not YAML"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct options o;
        ey_err e = {0};
        bool ok = read_config(&o, cases[i].yaml, NULL, &e);
        if (ok || !strstr(e.text, cases[i].error) || !strstr(e.text, path))
            fail_msg("%s: %s", cases[i].yaml, ok ? "accepted" : e.text);
        assert_int_equal(ey_code_exit_status(e.code), 2);
        options_free(&o);
    }
}

static void empty_files_set_nothing(void **state)
{
    (void)state;
    static const char *const files[] = {"", "\n", "# port: 1\n", "---\n", "{}\n"};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        struct options o;
        ey_err e;
        bool ok = read_config(&o, files[i], NULL, &e);
        if (!ok && strcmp(files[i], "---\n") != 0) fail_msg("%s: %s", files[i], e.text);
        if (ok) assert_int_equal(o.port, 8000);
        options_free(&o);
    }
}

static void chat_takes_no_config_file(void **state)
{
    (void)state;
    struct options o;
    ey_err e;
    char *argv[] = {"--config", path, NULL};
    assert_false(options_parse(&o, CHAT, 2, argv, &e));
    options_free(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_json),          cmocka_unit_test(booleans_of_vllm_flags),
        cmocka_unit_test(values_of_all_kinds),       cmocka_unit_test(the_command_line_wins),
        cmocka_unit_test(errors_name_the_line),      cmocka_unit_test(empty_files_set_nothing),
        cmocka_unit_test(chat_takes_no_config_file),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
