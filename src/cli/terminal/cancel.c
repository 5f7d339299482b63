/* SPDX-License-Identifier: Apache-2.0 */
/* SIGINT as a question that the engine's events ask. */
#include "cli/terminal/cancel.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t interrupted; /* the only thing a handler may touch */
static struct sigaction before;

static void note_interrupt(int signal_number)
{
    (void)signal_number;
    interrupted = 1;
}

static void install_sigint_handler(int flags)
{
    struct sigaction action = {.sa_handler = note_interrupt, .sa_flags = flags};
    sigaction(SIGINT, &action, &before);
    if (before.sa_handler == SIG_IGN)
        cancel_unwatch(); /* whoever started us keeps Ctrl-C from us, as shells do with & */
}

void cancel_unwatch(void)
{
    sigaction(SIGINT, &before, NULL);
}

/* One shot: a program that does not come to its next event can still be ended. */
void cancel_watch(void)
{
    install_sigint_handler((int)SA_RESETHAND | SA_RESTART);
}

void cancel_watch_reading(void)
{
    install_sigint_handler(0);
}

void cancel_reset(void)
{
    interrupted = 0;
}

bool cancel_requested(void)
{
    return interrupted;
}
