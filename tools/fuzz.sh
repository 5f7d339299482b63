#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs every fuzz target of a build folder for some seconds: tools/fuzz.sh BUILD SECONDS [JOBS], JOBS targets at a time.
# The targets and their seeds are those of the *_corpus tests, or in a folder of tools/fuzz_folder.sh those of its file
# `targets`. Inputs that reach new code are kept in BUILD/found/TARGET, crashes next to that folder. The minutes of
# targets that pass are added to tests/fuzz/hours.json. "fuzz.sh keep BUILD" copies some small inputs that reach new
# code to the seeds.
set -euo pipefail

targets() {
  if [ -f "$1/targets" ]; then cat "$1/targets"; return; fi
  ctest --test-dir "$1" -N -V | sed -n 's/^.*Test command: \(.*\)_corpus "*\(.*[^"]\)"*$/\1 \2/p' | tr -d '"'
}

# fuzz_one BUILD SECONDS TARGET SEEDS...
fuzz_one() {
  local build=$1 seconds=$2 target=$3 name found
  shift 3
  name=$(basename "$target") found=$build/found/$(basename "$target")
  mkdir -p "$found"
  if "$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=4096 -artifact_prefix="$found-" \
    -print_final_stats=1 "$found" "$@" </dev/null >"$found.log" 2>&1
  then echo "passed $name: $seconds s, $(grep -o 'number_of_executed_units: .*' "$found.log")"
  else echo "FAILED $name:"; tail -60 "$found.log"
  fi
}

# keep_one TARGET FOUND CORPUS: adds to CORPUS inputs of FOUND that reach new code, the twelve largest of at most 1 KiB
keep_one() {
  local merged file
  merged=$(mktemp -d)
  cp -r "$3/." "$merged"
  "$1" -merge=1 "$merged" "$2" >/dev/null 2>&1 || true
  find "$merged" -type f -size -1025c -printf '%s %f\n' | sort -rn | cut -d' ' -f2 |
    while read -r file; do [ -e "$3/$file" ] || echo "$merged/$file"; done | sed -n 1,12p | xargs -r cp -t "$3"
  rm -r "$merged"
}

if [ "$1" = keep ]; then
  targets "$2" | while read -r target seeds; do
    if [ -d "$2/found/$(basename "$target")" ]; then keep_one "$target" "$2/found/$(basename "$target")" "${seeds%% *}"; fi
  done
  exit
fi

build=$1 seconds=$2 jobs=${3:-1}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export -f fuzz_one
targets "$build" | xargs -P "$jobs" -L 1 bash -c 'fuzz_one "$@"' fuzz "$build" "$seconds" | tee "$log"
if [ -d tests/fuzz ]; then
  sed -n 's/^passed \([a-z0-9_]*\): .*/\1/p' "$log" | python3 tests/fuzz/add_minutes.py "$seconds"
fi
failed=$(grep -c '^FAILED ' "$log" || true)
echo "$(grep -c '^passed ' "$log" || true) passed, $failed failed"
[ "$failed" -eq 0 ]
