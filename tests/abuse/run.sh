#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every attack against a server: tests/abuse/run.sh EYELET, in the source tree. Each is a script of its own that takes a
# minute at most, says one line and exits with 0 when the server has held. The last line is "N passed, N failed".
set -u
eyelet=$(realpath "$1")
passed=0 failed=0
for attack in tests/abuse/*.py; do
  [ "$attack" != tests/abuse/abuse.py ] || continue
  if PYTHONDONTWRITEBYTECODE=1 timeout -k 5 60 python3 "$attack" "$eyelet"; then
    passed=$((passed + 1))
  else
    echo "FAILED $attack"
    failed=$((failed + 1))
  fi
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
