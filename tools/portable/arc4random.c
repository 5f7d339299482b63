/* SPDX-License-Identifier: Apache-2.0 */
/* arc4random for the portable folder's libstdc++: glibc has it since 2.36 only. Random numbers from
 * the kernel. */
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

uint32_t arc4random(void);

uint32_t arc4random(void)
{
    uint32_t number;
    if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number)) abort();
    return number;
}
