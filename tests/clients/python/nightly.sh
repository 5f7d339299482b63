#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tests/clients/python/nightly.sh PROGRAM: Python's client libraries against the server. Installs them from PyPI, in
# the versions of requirements.txt, into a folder outside the tree. Last line: "N passed, N failed".
set -euo pipefail
program=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PYTHONDONTWRITEBYTECODE=1
python3 -m venv "$work/venv"
"$work/venv/bin/python" -m pip install -q --disable-pip-version-check -r "$here/requirements.txt"
"$work/venv/bin/python" "$here/libraries.py" "$program"
