#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Tests the wheel with every CPython from 3.9 to 3.13 in PATH or pyenv: bindings/python/nightly.sh DIST. Only the first
# one runs the long tests. numpy, Pillow, pydantic, pytest, mypy and nbclient come from PyPI. The last line of each run
# is "N passed, N failed".
set -euo pipefail
dist=$1
wheel=$(realpath "$dist"/eyelet-*.whl)
unset EYELET_LIBRARY PYTHONPATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PYTHONDONTWRITEBYTECODE=1 EYELET_MKCHECKPOINT # mkcheckpoint of the portable folder from which the wheel was built
EYELET_MKCHECKPOINT=$(realpath "$dist"/eyelet-*-linux-*/mkcheckpoint)
status=0 long=yes # long: only for the first CPython

pythons() {
  local minor found
  for minor in 9 10 11 12 13; do
    found=$(ls -d "$HOME"/.pyenv/versions/3.$minor.*/bin/python3 2>/dev/null | tail -1)
    [ -n "$found" ] || found=$(command -v "python3.$minor" || true)
    [ -z "$found" ] || "$found" -c 'import venv, ensurepip' 2>/dev/null || found=
    [ -z "$found" ] || echo "$found"
  done
}

bindings/python/check_wheel.sh "$dist" || status=1
for python in $(pythons); do
  echo "== $("$python" --version), $python"
  venv=$work/$(echo "$python" | tr / -)
  "$python" -m venv "$venv"
  "$venv/bin/python" -m pip install -q --disable-pip-version-check "$wheel" pytest numpy pillow pydantic \
    ${long:+nbclient ipykernel mypy}
  select=(-m "not long")
  [ -z "$long" ] || select=()
  long=
  bindings/python/pytest_counts.sh "$venv/bin/python" "${select[@]}" || status=1
done
exit $status
