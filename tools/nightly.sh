#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the long checks one after another: tools/nightly.sh [PART...]; without a part, all of them. A part takes at most 30
# minutes on two cores. If it passes, it adds a line to tests/nightly.log: date, commit, processor, counts, seconds.
set -euo pipefail
cd "$(dirname "$0")/.."
parts="release asan tsan clang portable fuzz abi memory python clients newcomer soak scale chaos"
log=$(mktemp)
trap 'rm -f "$log"' EXIT

run_part() {
  case $1 in
    release) EY_ALL_TESTS=1 make --no-print-directory test ;; # all goldens, all of the emulated GPU
    asan | clang) make --no-print-directory "$1" ;;
    tsan) make --no-print-directory tsan && build-tsan/tests/load/load --short --requests 2000 build-tsan/eyelet ;;
    portable) make --no-print-directory portable && tools/compile_kernels.sh all ;;
    abi) tools/setup.sh abi && tools/abi_check.sh ;; # against the last tag
    memory) make --no-print-directory all && # each allocation of a server fails once
      tests/memory/memory_sweep.py build/eyelet build/tests/memory/libfailing_malloc.so all ;;
    # tests the wheel on the CPU; the part `portable` compiles the kernels for all GPUs
    python) make --no-print-directory wheel CUDA_ARCHS=auto && bindings/python/nightly.sh dist ;;
    clients) make --no-print-directory all && tests/clients/python/nightly.sh build/eyelet ;; # clients from PyPI; those from npm run in CI
    newcomer) tools/newcomer.sh ;; # README on a bare Debian 12, as root
    soak) make --no-print-directory all && tests/soak/soak.py build/eyelet --seconds 1500 ;;
    scale) make --no-print-directory all wheel CUDA_ARCHS=auto && tests/scale/nightly.sh build/eyelet dist ;; # Ray, LiteLLM
    chaos) make --no-print-directory all && tests/soak/chaos.py build/eyelet ;; # kills, full disks, no network, attacks
    fuzz) make --no-print-directory fuzz FUZZ_SECONDS=60 ;;
    *) echo "nightly.sh: unknown part $1; the parts are: $parts" >&2; exit 2 ;;
  esac
}

# Prints the sum of all lines "N passed, N failed" of the part.
counts() { awk '/^[0-9]+ passed, [0-9]+ failed/ {p += $1; f += $3} END {printf "%d passed, %d failed", p, f}' "$log"; }

commit() {
  local changed=
  git diff --quiet HEAD -- . ':!tests/nightly.log' ':!tests/cuda/*.stamp' 2>/dev/null || changed=+changes
  echo "$(git rev-parse --short=10 HEAD 2>/dev/null || echo unknown)$changed"
}

processor=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)
status=0
for part in ${*:-$parts}; do
  start=$SECONDS
  echo "== nightly $part"
  if run_part "$part" 2>&1 | tee "$log"; then
    echo "$(date -u +%F) $(commit) $processor, $(nproc) threads: $part: $(counts), $((SECONDS - start)) s" |
      tee -a tests/nightly.log
  else
    echo "== nightly $part: FAILED, $(counts), $((SECONDS - start)) s"
    status=1
  fi
done
exit $status
