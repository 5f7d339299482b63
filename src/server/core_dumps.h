/* SPDX-License-Identifier: Apache-2.0 */
/* What a crash leaves on the disk. */
#ifndef EY_SERVER_CORE_DUMPS_H
#define EY_SERVER_CORE_DUMPS_H

/* From here on a crash of this process leaves no core dump, neither in a file nor with a program
 * that the system gives them to; and other processes of the user cannot read its memory. */
void core_dumps_forbid(void);

#endif
