#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The package's tests: run_tests.sh LIBRARY [PYTEST-ARGUMENT...], in the source tree, with the first python3 that has
# pytest and the package as it stands here. Last line: "N passed, N failed".
set -euo pipefail
export EYELET_LIBRARY PYTHONPATH=$PWD/bindings/python PYTHONDONTWRITEBYTECODE=1
EYELET_LIBRARY=$(realpath "$1")
shift
for python in python3 /usr/bin/python3; do
  if "$python" -c 'import pytest' 2>/dev/null; then break; fi
done
bindings/python/pytest_counts.sh "$python" "$@"
