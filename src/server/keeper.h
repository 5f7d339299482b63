/* The engine's keeper: loads it behind the server's back, lends it to requests, puts it away when nobody wants it. */
#ifndef EY_SERVER_KEEPER_H
#define EY_SERVER_KEEPER_H

#include "server/server.h"

struct keeper;

enum keeper_state { KEEPER_LOADING, KEEPER_READY, KEEPER_UNLOADED, KEEPER_FAILED, KEEPER_CLOSING };

struct keeper_report {
    enum keeper_state state;
    const char *stage; /* "loading" … */
    int percent;
    double load_seconds; /* of the last load */
    ey_err error;        /* FAILED */
};

/* Starts loading on a thread of its own. */
bool keeper_open(struct keeper **keeper, const struct server_options *options, ey_err *e);
void keeper_close(struct keeper **keeper);
struct keeper_report keeper_state(struct keeper *keeper);

/* The engine, for as long as it is not given back; waits while it is loading (asking `gone` every 100 ms, which stops the
 * wait when true), wakes it up when it was unloaded. NULL: *e says why. */
ey_engine *keeper_borrow(struct keeper *keeper, bool (*gone)(void *user), void *user, ey_err *e);
void keeper_return(struct keeper *keeper);

#endif
