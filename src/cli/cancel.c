/* SIGINT as a question that the engine's events ask. */
#include "cli/cancel.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t interrupted; /* the only thing a handler may touch */
static struct sigaction before;

static void note_interrupt(int signal_number)
{
    (void)signal_number;
    interrupted = 1;
}

void cancel_watch(void)
{
    /* One shot: a program that does not come to its next event can still be ended. */
    struct sigaction action = {.sa_handler = note_interrupt, .sa_flags = (int)SA_RESETHAND | SA_RESTART};
    sigaction(SIGINT, &action, &before);
    if (before.sa_handler == SIG_IGN) cancel_unwatch(); /* whoever started us keeps Ctrl-C from us, as shells do with & */
}

void cancel_unwatch(void)
{
    sigaction(SIGINT, &before, NULL);
}

bool cancel_asked(void)
{
    return interrupted;
}
