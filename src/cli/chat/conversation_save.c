/* SPDX-License-Identifier: Apache-2.0 */
/* Saves a conversation as Markdown, or as JSON in the form of the API's messages. The file has the
 * images' names, not their contents. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/text/json_writer.h"
#include "cli/chat/conversation.h"

enum { MAX_SAVED_BYTES = 1 << 30 };

static bool is_text_part(const ey_part *part)
{
    return part->type == EY_PART_TEXT;
}

static void write_markdown(struct buf *out, const struct conversation *c)
{
    size_t image = 0;
    for (size_t i = 0; i < c->n; i++) {
        const ey_message *m = &c->message[i];
        const bool asked = strcmp(m->role, "user") == 0;
        const char *title = asked                            ? "Question"
                            : strcmp(m->role, "system") == 0 ? "System"
                                                             : "Answer";
        buf_printf(out, "%s## %s\n\n", i ? "\n" : "", title);
        for (size_t k = 0; k < m->n_parts; k++) {
            if (is_text_part(&m->parts[k])) {
                buf_add(out, m->parts[k].bytes, m->parts[k].n_bytes);
                buf_add_text(out, "\n");
            } else {
                buf_printf(out, "![image](<%s>)\n\n", c->image_names[image++]);
            }
        }
    }
}

static void write_json_part(struct json_writer *w, const ey_part *part, const char *image)
{
    json_open_object(w);
    json_add_string(w, "type", image ? "image_url" : "text");
    if (image) {
        json_write_key(w, "image_url");
        json_open_object(w);
        json_add_string(w, "url", image);
        json_close_object(w);
    } else {
        json_write_key(w, "text");
        json_write_text(w, part->bytes, part->n_bytes);
    }
    json_close_object(w);
}

static void write_json_messages(struct buf *out, const struct conversation *c)
{
    size_t image = 0;
    struct json_writer w = json_write_to(out, JSON_SPACED);
    json_open_object(&w);
    json_write_key(&w, "messages");
    json_open_array(&w);
    for (size_t i = 0; i < c->n; i++) {
        const ey_message *m = &c->message[i];
        json_open_object(&w);
        json_add_string(&w, "role", m->role);
        json_write_key(&w, "content");
        json_open_array(&w);
        for (size_t k = 0; k < m->n_parts; k++)
            write_json_part(&w, &m->parts[k],
                            is_text_part(&m->parts[k]) ? NULL : c->image_names[image++]);
        json_close_array(&w);
        json_close_object(&w);
    }
    json_close_array(&w);
    json_close_object(&w);
    buf_add_text(out, "\n");
}

/* Creates the file. Fails if it exists, so that no file is replaced. */
static bool claim_file(const char *path, ey_err *e)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_EXCL, 0666);
    if (fd >= 0) close(fd);
    if (fd < 0 && errno == EEXIST)
        return ey_fail(e, EY_IO, "%s already exists; give /save another name", path);
    return fd >= 0 || ey_fail(e, EY_IO, "cannot write %s: %s", path, strerror(errno));
}

static bool save_text(const char *path, const struct buf *text, bool overwrite, ey_err *e)
{
    if (!overwrite && !claim_file(path, e)) return false;
    if (file_replace(path, text->data, text->size)) return true;
    ey_fail(e, EY_IO, "cannot write %s: %s", path, strerror(errno));
    if (!overwrite) unlink(path);
    return false;
}

bool conversation_save(const struct conversation *c, const char *path, bool overwrite, ey_err *e)
{
    struct buf text = buf_with_max(MAX_SAVED_BYTES);
    size_t n = strlen(path);
    if (n > 5 && strcasecmp(path + n - 5, ".json") == 0)
        write_json_messages(&text, c);
    else
        write_markdown(&text, c);
    bool ok = text.failed ? ey_fail_memory(e, "the saved conversation", text.max)
                          : save_text(path, &text, overwrite, e);
    buf_free(&text);
    return ok;
}
