#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Tests the package in the source tree: run_tests.sh LIBRARY [PYTEST-ARGUMENT...]. Uses the first python3 with pytest.
# The last line is "N passed, N failed".
set -euo pipefail
export EYELET_LIBRARY PYTHONPATH=$PWD/bindings/python PYTHONDONTWRITEBYTECODE=1
EYELET_LIBRARY=$(realpath "$1")
shift
for python in python3 /usr/bin/python3; do
  if "$python" -c 'import pytest' 2>/dev/null; then break; fi
done
bindings/python/pytest_counts.sh "$python" "$@"
