/* What ask and caption share: an engine opened as the options say, and questions about pictures put to it. */
#ifndef EY_CLI_SESSION_H
#define EY_CLI_SESSION_H

#include "cli/input.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/term.h"

struct session {
    const struct options *options; /* borrowed */
    struct term out;
    struct progress progress;
    ey_engine *engine; /* NULL until session_load */
    char model[4096];  /* EY_MAX_PATH */
};

void session_open(struct session *s, const struct options *options);
/* Loads the model, unless that was done. */
bool session_load(struct session *s, ey_err *e);
void session_close(struct session *s);

struct question {
    const struct input *pictures; /* in order, before the text */
    size_t n_pictures;
    const char *text;
    bool stream; /* print the answer as it grows */
};

/* Puts one question; Ctrl-C and a reader that went away cancel it. The answer is the caller's, also after an error. */
bool session_ask(struct session *s, const struct question *question, ey_answer *answer, ey_err *e);

#endif
