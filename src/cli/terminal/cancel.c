/* SPDX-License-Identifier: Apache-2.0 */
/* Turns SIGINT into a flag that is polled at each of the engine's events. */
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
        cancel_unwatch(); /* shells ignore SIGINT for jobs in the background */
}

void cancel_unwatch(void)
{
    sigaction(SIGINT, &before, NULL);
}

/* The handler runs once: a second Ctrl-C ends even a program that never reaches its next event. */
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
