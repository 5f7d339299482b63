/* SPDX-License-Identifier: Apache-2.0 */
/* Core dumps, which would hold prompts and keys. */
#ifndef EY_SERVER_CORE_DUMPS_H
#define EY_SERVER_CORE_DUMPS_H

/* Disables core dumps of this process, to files and to crash handlers, and keeps the user's other
 * processes from reading its memory. */
void core_dumps_forbid(void);

#endif
