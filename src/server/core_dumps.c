/* SPDX-License-Identifier: Apache-2.0 */
/* RLIMIT_CORE alone has no effect if /proc/sys/kernel/core_pattern is a pipe. */
#include "server/core_dumps.h"

#include <sys/prctl.h>
#include <sys/resource.h>

void core_dumps_forbid(void)
{
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
#ifndef EY_SANITIZED /* the leak sanitizer traces its own process */
    prctl(PR_SET_DUMPABLE, 0);
#endif
}
