/* SPDX-License-Identifier: Apache-2.0 */
/* A caption for each image: caption MODEL IMAGE...
 *
 *     cc caption.c -o caption $(pkg-config --cflags --libs eyelet)
 *     ./caption /usr/share/eyelet/models/demo photo.jpg */
#include <eyelet.h>
#include <stdio.h>
#include <stdlib.h>

/* The whole file; NULL: it cannot be read. The caller frees. */
static char *read_file(const char *path, size_t *n)
{
    FILE *file = fopen(path, "rb");
    char *bytes = NULL;
    if (!file) return NULL;
    long size = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    if (size > 0) bytes = malloc((size_t)size);
    rewind(file);
    *n = bytes ? fread(bytes, 1, (size_t)size, file) : 0;
    fclose(file);
    return bytes;
}

static bool caption(ey_engine *engine, const char *path)
{
    ey_err err = {.text = "cannot be read"};
    ey_answer answer = {0};
    size_t n = 0;
    char *bytes = read_file(path, &n);
    ey_part parts[] = {ey_image_part(bytes, n), ey_text_part(ey_caption_prompt())};
    ey_message message = {.role = "user", .parts = parts, .n_parts = 2};
    ey_request request = ey_request_defaults();
    request.messages = &message;
    request.n_messages = 1;
    bool ok = bytes && ey_ask(engine, &request, &answer, &err);
    printf("%s: %s\n", path, ok ? answer.text : err.text);
    ey_answer_free(&answer);
    free(bytes);
    return ok;
}

int main(int argc, char **argv)
{
    ey_err err;
    ey_engine *engine = NULL;
    ey_engine_options options = ey_engine_defaults();
    options.model = argc > 1 ? argv[1] : NULL;
    if (!ey_engine_open(&engine, &options, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    int failed = 0;
    for (int i = 2; i < argc; i++)
        failed += !caption(engine, argv[i]);
    ey_engine_close(&engine);
    return failed > 0;
}
