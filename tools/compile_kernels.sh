#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compiles CUDA kernels with nvcc for the oldest supported GPUs and the newest with kernels of their own (sm_80,
# sm_90a): tools/compile_kernels.sh [all]. Without `all`, compiles the kernels that have changed since
# tests/cuda/kernels.stamp was written. With `all`, compiles all of them, and writes the stamp if they pass. The last
# line is "N passed, N failed".
set -eu
cd "$(dirname "$0")/.."
nvcc=$(command -v nvcc || ls /usr/local/cuda*/bin/nvcc 2>/dev/null | tail -1 || true)
if [ "${1:-}" = all ]; then files=$(tools/stamp.sh kernels); else files=$(tools/stamp.sh stale-kernels); fi
if [ -z "$files" ]; then
  echo "no kernel has changed since nvcc compiled it"
  echo "1 passed, 0 failed"
  exit 0
fi
if [ -z "$nvcc" ]; then
  echo "nvcc is not installed, so these were not compiled:" $files
  echo "0 passed, 0 failed, 1 skipped"
  exit 0
fi
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# Files named _smNN need compute capability N.N or newer; those named _sm90 use instructions that only sm_90a has.
for file in $files; do echo "$file"; done | xargs -P "$(nproc)" -I FILE sh -c '
  out=$(mktemp -d); trap "rm -rf $out" EXIT
  archs="80 90a"
  case $2 in *_sm90.cu) archs=90a ;; *_sm89.cu) archs="89 90a" ;; esac
  for arch in $archs; do
    if "$1" -fatbin -O3 -std=c++17 -Isrc -gencode "arch=compute_$arch,code=sm_$arch" -o "$out/kernel" "$2" >"$out/log" 2>&1
    then echo "ok $2 sm_$arch"; else cat "$out/log"; echo "FAILED $2 sm_$arch"; fi
  done' sh "$nvcc" FILE >"$out/all"
cat "$out/all"
passed=$(grep -c '^ok ' "$out/all" || true) failed=$(grep -c '^FAILED ' "$out/all" || true)
if [ "${1:-}" = all ] && [ "$failed" -eq 0 ]; then tools/stamp.sh write kernels; fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
