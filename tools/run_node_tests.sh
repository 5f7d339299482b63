#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a folder's tests with Node: tools/run_node_tests.sh tests/ui build/eyelet. Its npm packages are installed when
# they are missing or not those of its lock file. The last line is "N passed, N failed".
set -eu
folder=$1
EYELET=$(realpath "$2")
export EYELET

stamp=$folder/node_modules/.installed-lock
if ! cmp -s "$folder/package-lock.json" "$stamp"; then
  log=$(mktemp)
  if ! npm ci --prefix "$folder" >"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    exit 1
  fi
  rm -f "$log"
  cp "$folder/package-lock.json" "$stamp"
fi
exec node --test --test-reporter=./tests/node/reporter.mjs "$folder"/*.test.mjs
