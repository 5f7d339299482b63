/* SPDX-License-Identifier: Apache-2.0 */
/* arc4random() for the libstdc++ of the portable folder, because glibc has it only since 2.36. */
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
