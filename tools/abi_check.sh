#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks that programs compiled with an older libeyelet still run: tools/abi_check.sh [COMMIT]. abidiff compares this
# tree's library with that of COMMIT; without COMMIT, with that of the newest version tag; in a tree without tags, with
# the ABI in tools/libeyelet.abi, which tools/abi_check.sh --store writes. New functions are allowed, and new fields at
# the ends of structs that begin with their size. The last line is "N passed, N failed".
set -euo pipefail
cd "$(dirname "$0")/.."
stored=tools/libeyelet.abi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

describe() { # describe SOURCE BUILD OUT: writes the ABI of the headers, without line numbers, parameter names and paths
  cmake -G Ninja -S "$1" -B "$2" -DEY_TESTS=OFF -DEY_CUDA=OFF -DCMAKE_BUILD_TYPE=Debug \
    -DCMAKE_C_FLAGS_DEBUG='-O1 -g' >/dev/null && # a release's -g1 has no types
    ninja -C "$2" --quiet libeyelet >/dev/null &&
    abidw --headers-dir "$1/include" --drop-private-types --exported-interfaces-only --no-show-locs --no-parameter-names \
      --no-corpus-path --no-comp-dir-path --no-elf-needed --out-file "$3" "$2/libeyelet.so"
}
soname_of() { sed -n "s/.*<abi-corpus [^>]*soname='\([^']*\)'.*/\1/p" "$1"; }

describe "$PWD" build-abi "$work/now.abi" # the folder stays, so that the next build is quick
if [ "${1:-}" = --store ]; then
  cp "$work/now.abi" "$stored"
  echo "$stored: $(wc -c <"$stored") bytes"
  exit
fi

before=${1:-$(git describe --tags --match 'v[0-9]*' --abbrev=0 2>/dev/null || true)}
if [ -n "$before" ]; then
  mkdir "$work/source"
  git archive "$before" | tar -C "$work/source" -x
  if [ ! -e "$work/source/cmake/library.cmake" ]; then
    echo "abi_check: $before has no libeyelet, so there is nothing to compare with"
    echo "0 passed, 0 failed"
    exit
  fi
  describe "$work/source" "$work/before" "$work/before.abi"
else
  before="the stored ABI"
  cp "$stored" "$work/before.abi"
fi

if [ "$(soname_of "$work/before.abi")" = "$(soname_of "$work/now.abi")" ]; then
  status=0
  abidiff --no-added-syms --suppressions tools/abi_growth.txt "$work/before.abi" "$work/now.abi" || status=$?
  if [ $status -ne 0 ]; then
    echo "FAILED libeyelet differs from $before: restore its interface, or raise EY_SOVERSION (cmake/library.cmake)"
    echo "0 passed, 1 failed"
    exit 1
  fi
  echo "abi_check: programs that were compiled with $before run with this tree's libeyelet"
else
  echo "abi_check: the SONAME has changed from $(soname_of "$work/before.abi") ($before) to $(soname_of "$work/now.abi")"
fi
echo "1 passed, 0 failed"
