# SPDX-License-Identifier: Apache-2.0
"""The program `eyelet` that pip puts on the path: the bundled one takes this process's place."""
from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> None:
    program = Path(__file__).with_name("_native") / "eyelet"
    os.execv(program, ["eyelet", *sys.argv[1:]])
