# SPDX-License-Identifier: Apache-2.0
"""The command `eyelet` that pip installs: it replaces its own process with the bundled program."""
from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> None:
    program = Path(__file__).with_name("_native") / "eyelet"
    os.execv(program, ["eyelet", *sys.argv[1:]])
