#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Lists the Ninja targets that the selected tests of a build folder need, one a line: tools/test_programs.sh BUILD
# CTEST-OPTION... They are the files of BUILD that occur in the commands of the tests. (ctest shows a command only after
# its program is built.)
set -eu
build=$(realpath "$1")
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ninja -C "$build" -t targets all | sed -n 's/: [A-Z].*//p' | sort -u >"$work/targets"
ctest --test-dir "$build" -N "$@" | sed -n 's/^ *Test *#[0-9]*: \([^ ]*\).*/add_test([=[\1]=]/p' >"$work/names"
find "$build" -name CTestTestfile.cmake -exec cat {} + | grep -F -f "$work/names" | grep -o "$build/[^'\" =,;)]*" |
  sed "s|^$build/||" | sort -u | comm -12 - "$work/targets"
