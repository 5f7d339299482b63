/* SPDX-License-Identifier: Apache-2.0 */
/* The eyelet program. */
#include "cli/commands/command.h"

int main(int argc, char **argv)
{
    return cli_run(argc, argv);
}
