/* SPDX-License-Identifier: Apache-2.0 */
/* eyelet: the program's door. */
#include "cli/command.h"

int main(int argc, char **argv)
{
    return cli_run(argc, argv);
}
