#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Whether programs that were compiled with an older libeyelet still run: tools/abi_check.sh [COMMIT] compares this
# tree's library with the last tag's by abidiff. New functions, and new fields at the ends of structs that begin with
# their size, are no difference. Last line: "N passed, N failed".
set -euo pipefail
cd "$(dirname "$0")/.."
before=${1:-$(git describe --tags --abbrev=0 2>/dev/null || true)}
if [ -z "$before" ]; then echo "abi_check: there is no tag yet, so nothing to compare with"; echo "0 passed, 0 failed"; exit; fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

build() { # build SOURCE NAME: with types, which -g1 leaves out
  cmake -G Ninja -S "$1" -B "$work/$2" -DEY_TESTS=OFF -DCMAKE_C_FLAGS_RELEASE='-O1 -g' >/dev/null &&
    ninja -C "$work/$2" --quiet libeyelet >/dev/null
}

mkdir "$work/source"
git archive "$before" | tar -C "$work/source" -x
if [ ! -e "$work/source/cmake/library.cmake" ]; then
  echo "abi_check: $before has no libeyelet"; echo "0 passed, 0 failed"; exit
fi
build "$work/source" before
build . now
if readlink "$work/now/libeyelet.so" | cmp -s - <(readlink "$work/before/libeyelet.so"); then
  status=0
  abidiff --no-added-syms --suppressions tools/abi_growth.txt --headers-dir1 "$work/source/include" \
    --headers-dir2 include "$work/before/libeyelet.so" "$work/now/libeyelet.so" || status=$?
  if [ $status -ne 0 ]; then
    echo "FAILED libeyelet differs from $before's: keep it, or raise EY_SOVERSION (cmake/library.cmake)"
    echo "0 passed, 1 failed"
    exit 1
  fi
fi
echo "1 passed, 0 failed"
