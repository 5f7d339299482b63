#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Says whether what a long test run depends on has changed since that run last passed, so that `make test` can leave
# it out.
#   tools/stamp.sh check  emulated    exit 0: nothing has changed; 1: it must run
#   tools/stamp.sh write  emulated    the run has just passed (only the targets that run it call this)
#   tools/stamp.sh kernels            all .cu files
#   tools/stamp.sh stale-kernels      those that nvcc has not compiled since they or what they include changed
#   tools/stamp.sh write  kernels     nvcc has just compiled all of them
# tests/cuda/emulated.stamp and tests/cuda/kernels.stamp are committed.
set -eu
cd "$(dirname "$0")/.."
stamps=tests/cuda

# Contents and names of the given files, as one hash.
hash_of() { LC_ALL=C sort | xargs sha256sum | sha256sum | cut -d' ' -f1; }

sources() {
  find "$@" -type f \( -name '*.c' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' -o -name '*.cpp' \
    -o -name CMakeLists.txt -o -name list.txt \)
}

# What the emulated GPU runs: kernels, backends, models and the tests themselves.
emulated_hash() {
  sources src/backend src/kernels src/tensor src/models tests/cuda tests/kernels tests/golden | hash_of
}

kernel_files() { find src -name '*.cu' | LC_ALL=C sort; }

# A kernel file with all of ours that it includes.
kernel_hash() { "${CC:-cc}" -x c++ -MM -Isrc "$1" | tr -d "\\\\" | tr " " "\n" | grep "^src/" | hash_of; }

case "$1 ${2:-}" in
  "check emulated") [ "$(cat $stamps/emulated.stamp 2>/dev/null)" = "$(emulated_hash)" ] ;;
  "write emulated") emulated_hash >$stamps/emulated.stamp ;;
  "kernels "*) kernel_files ;;
  "stale-kernels "*)
    for file in $(kernel_files); do
      grep -qxF "$(kernel_hash "$file") $file" $stamps/kernels.stamp 2>/dev/null || echo "$file"
    done ;;
  "write kernels") for file in $(kernel_files); do echo "$(kernel_hash "$file") $file"; done >$stamps/kernels.stamp ;;
  *) sed -n '3,9s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
