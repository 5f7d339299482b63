#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tells whether the sources of a long test run have changed since it last passed; if not, `make test` skips the run.
#   tools/stamp.sh check  emulated    exits with 0 if no source has changed, with 1 if the run is needed
#   tools/stamp.sh write  emulated    records that the run has passed (only the targets that run it call this)
#   tools/stamp.sh kernels            lists all .cu files
#   tools/stamp.sh stale-kernels      lists those that have changed, or include a changed file, since nvcc compiled them
#   tools/stamp.sh write  kernels     records that nvcc has compiled all of them
#
# tests/cuda/emulated.stamp and tests/cuda/kernels.stamp are committed.
set -eu
cd "$(dirname "$0")/.."
stamps=tests/cuda

# Hashes the contents and names of the files that standard input lists.
hash_of() { LC_ALL=C sort | xargs sha256sum | sha256sum | cut -d' ' -f1; }

sources() {
  find "$@" -type f \( -name '*.c' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' -o -name '*.cpp' \
    -o -name CMakeLists.txt -o -name list.txt \)
}

# Hashes the sources that the emulated GPU runs: kernels, backends, models and the tests themselves.
emulated_hash() {
  sources src/backend src/kernels src/tensor src/models tests/cuda tests/kernels tests/golden | hash_of
}

kernel_files() { find src -name '*.cu' | LC_ALL=C sort; }

# Hashes a kernel file and all files of src that it includes.
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
  *) sed -n '3,8s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
