#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs every fuzz target of a build folder for some seconds each: tools/fuzz.sh BUILD SECONDS. The targets and their
# seeds are those of the *_corpus tests; what was found worth keeping lies in BUILD/found/TARGET, a crash beside it.
set -eu
build=$1 seconds=$2 ran=0 failed=0

list=$(mktemp)
trap 'rm -f "$list"' EXIT
ctest --test-dir "$build" -N -V | sed -n 's/^.*Test command: \(.*\)_corpus "*\(.*[^"]\)"*$/\1 \2/p' >"$list"
while read -r target seeds; do
  name=$(basename "$target")
  found=$build/found/$name
  mkdir -p "$found"
  echo "$name: $seconds s"
  seeds=$(echo "$seeds" | tr -d '"')
  if "$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=4096 -artifact_prefix="$found-" \
    -print_final_stats=1 \
    "$found" $seeds </dev/null >"$found.log" 2>&1
  then grep -E 'number_of_executed_units|peak_rss' "$found.log" || true
  else failed=$((failed + 1)); tail -60 "$found.log"
  fi
  ran=$((ran + 1))
done <"$list"
echo "$((ran - failed)) passed, $failed failed"
[ "$failed" -eq 0 ]
