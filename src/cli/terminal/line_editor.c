/* SPDX-License-Identifier: Apache-2.0 */
/* A line editor on top of libedit, with Emacs's keys or those of ~/.editrc. libedit does not know
 * bracketed paste, so its start sequence is bound to a function that inserts everything up to the
 * end of the paste. */
#include "cli/terminal/line_editor.h"

#include <errno.h>
#include <fcntl.h>
#include <histedit.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

#include "base/limits.h"

#define PASTE_ON "\033[?2004h"
#define PASTE_OFF "\033[?2004l"

enum { MAX_HISTORY = 1000 };

struct line_editor {
    EditLine *edit;
    History *lines;
    char *history; /* the file's name, or NULL if no history is kept */
    const char *prompt;
    bool pastes; /* the terminal supports bracketed paste */
};

/* ---- keys ---- */

static char *current_prompt(EditLine *edit)
{
    struct line_editor *l = NULL;
    el_get(edit, EL_CLIENTDATA, &l);
    return (char *)(uintptr_t)l->prompt;
}

static unsigned char break_line(EditLine *edit, int key)
{
    (void)key;
    return el_winsertstr(edit, L"\n") ? CC_ERROR : CC_REFRESH;
}

/* Inserts a pasted character. Tabs become blanks; control characters other than newlines are
 * skipped. */
static bool insert_pasted(EditLine *edit, wchar_t one)
{
    wchar_t text[2] = {one == L'\r' ? L'\n' : one == L'\t' ? L' ' : one, 0};
    if (text[0] < L' ' && text[0] != L'\n') return true;
    return el_winsertstr(edit, text) == 0;
}

/* Inserts pasted text up to ESC [ 201 ~, which ends it. Its start, ESC [ 200 ~, has been read. */
static unsigned char insert_paste(EditLine *edit, int key)
{
    static const wchar_t end[] = L"\033[201~";
    size_t matched = 0;
    wchar_t one;
    (void)key;
    while (end[matched]) {
        if (el_wgetc(edit, &one) != 1) return CC_ERROR;
        if (one == end[matched]) {
            matched++;
            continue;
        }
        for (size_t i = 0; i < matched; i++)
            insert_pasted(edit, end[i]);
        matched = one == end[0];
        if (!matched && !insert_pasted(edit, one)) return CC_ERROR;
    }
    return CC_REFRESH;
}

static void bind_keys(EditLine *edit)
{
    static const char *const keys[][2] = {
        {"\033[200~", "eyelet-paste"},
        {"\033\n", "eyelet-break"},
        {"\033\r", "eyelet-break"},
        {"\t", "eyelet-complete"},
        {"\022", "em-inc-search-prev"},
        {"\027", "ed-delete-prev-word"},
        {"\033[1;5C", "em-next-word"},
        {"\033[1;5D", "ed-prev-word"},
        {"\033[3~", "ed-delete-next-char"},
        /* a Ctrl-D that was typed during an answer arrives as NUL */
        {"^@", "em-delete-or-list"},
    };
    el_set(edit, EL_ADDFN, "eyelet-paste", "insert pasted text", insert_paste);
    el_set(edit, EL_ADDFN, "eyelet-break", "begin a new line", break_line);
    el_set(edit, EL_ADDFN, "eyelet-complete", "complete a file's name", _el_fn_complete);
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        el_set(edit, EL_BIND, keys[i][0], keys[i][1], NULL);
}

/* ---- history ---- */

/* Makes the parent folders of the file `path`, accessible to the user alone. */
static void make_parents(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0700);
        *slash = '/';
    }
}

bool line_history_path(char *out)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    bool given = state && state[0] == '/'; /* XDG says to ignore relative paths */
    if (!given && (!home || home[0] != '/')) return false;
    int n = snprintf(out, EY_MAX_PATH, "%s%s/eyelet/chat-history", given ? state : home,
                     given ? "" : "/.local/state");
    if (n >= EY_MAX_PATH) return false;
    make_parents(out);
    return true;
}

/* Writes a new file and renames it, so that neither a full disk nor a second chat can damage the
 * history. */
static void save_history(struct line_editor *l)
{
    HistEvent event;
    char *path = NULL;
    if (!l->history || asprintf(&path, "%s.%ld", l->history, (long)getpid()) < 0) return;
    unlink(path); /* left behind by a killed run with the same process id */
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (file) {
        bool ok = history(l->lines, &event, H_SAVE_FP, file) >= 0;
        if (fclose(file) != 0) ok = false;
        if (!ok || rename(path, l->history) != 0) unlink(path);
    } else if (fd >= 0) {
        close(fd);
    }
    free(path);
}

void line_editor_remember(struct line_editor *l, const char *line)
{
    HistEvent event;
    history(l->lines, &event, H_ENTER, line);
    save_history(l);
}

static bool open_history(struct line_editor *l, const char *path)
{
    HistEvent event;
    l->lines = history_init();
    if (!l->lines) return false;
    history(l->lines, &event, H_SETSIZE, MAX_HISTORY);
    history(l->lines, &event, H_SETUNIQUE, 1);
    l->history = path ? strdup(path) : NULL;
    if (l->history) history(l->lines, &event, H_LOAD, l->history);
    return true;
}

/* ---- lines ---- */

static bool open_editor(struct line_editor *l)
{
    const char *kind = getenv("TERM");
    l->pastes = kind && kind[0] && strcmp(kind, "dumb") != 0;
    l->edit = el_init("eyelet", stdin, stderr, stderr);
    if (!l->edit) return false;
    el_set(l->edit, EL_CLIENTDATA, l);
    el_set(l->edit, EL_PROMPT, current_prompt);
    el_set(l->edit, EL_SIGNAL, 0); /* cancel.c handles Ctrl-C */
    el_set(l->edit, EL_EDITOR, "emacs");
    el_set(l->edit, EL_HIST, history, l->lines);
    el_source(l->edit, NULL);
    bind_keys(l->edit);
    return true;
}

struct line_editor *line_editor_open(const char *history)
{
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO)) return NULL;
    struct line_editor *l = calloc(1, sizeof(*l));
    if (!l) return NULL;
    /* Our text is always UTF-8, but libedit uses the encoding of the locale. */
    setlocale(LC_CTYPE, "C.UTF-8");
    if (open_history(l, history) && open_editor(l)) return l;
    line_editor_close(l);
    return NULL;
}

void line_editor_close(struct line_editor *l)
{
    if (!l) return;
    if (l->edit) el_end(l->edit);
    if (l->lines) history_end(l->lines);
    free(l->history);
    free(l);
}

static void tell_terminal(const struct line_editor *l, const char *what)
{
    if (!l->pastes) return;
    fputs(what, stderr);
    fflush(stderr);
}

bool line_editor_read(struct line_editor *l, const char *prompt, struct buf *out)
{
    int n = 0;
    l->prompt = prompt;
    tell_terminal(l, PASTE_ON);
    el_resize(l->edit);
    errno = 0;
    const char *line = el_gets(l->edit, &n);
    const int error = errno;
    tell_terminal(l, PASTE_OFF);
    errno = error;
    if (!line || n <= 0) return false;
    if (line[n - 1] == '\n') n--;
    buf_add(out, line, (size_t)n);
    return true;
}
