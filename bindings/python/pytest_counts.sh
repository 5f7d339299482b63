#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs pytest and prints "N passed, N failed" as the other tests do: pytest_counts.sh PYTHON [ARGUMENT...].
set -uo pipefail
log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$1" -m pytest -q --no-header -c bindings/python/pytest.ini bindings/python/tests "${@:2}" 2>&1 | tee "$log"
status=${PIPESTATUS[0]}
count() { tail -1 "$log" | grep -oE "[0-9]+ $1" | awk '{n += $1} END {print n + 0}'; }
failed=$(($(count failed) + $(count error)))
[ "$status" -eq 0 ] || [ "$failed" -gt 0 ] || failed=1 # it ended before any test ran
echo "$(count passed) passed, $failed failed"
exit "$status"
