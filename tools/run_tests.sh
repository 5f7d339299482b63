#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the tests of a build folder: tools/run_tests.sh BUILD [CTEST OPTION...]. Shows the output of tests that fail. The
# last line is "N passed, N failed".
set -eu
build=$1
shift
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# one more than there are processors, because some tests mostly wait
ctest --test-dir "$build" --output-on-failure --timeout 600 -j "$(($(nproc) + 1))" "$@" >"$log" 2>&1 && status=0 ||
  status=$?
if [ $status -ne 0 ]; then cat "$log"; else grep -E '^ *[0-9]+/[0-9]+ Test' "$log" || true; fi
# "83% tests passed, 1 tests failed out of 6"
set -- $(sed -n 's/^.*% tests passed, \([0-9]*\) tests failed out of \([0-9]*\).*/\1 \2/p' "$log")
echo "$((${2:-0} - ${1:-0})) passed, ${1:-0} failed"
exit $status
