#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the tests of a folder with Node: tools/run_node_tests.sh tests/ui build/eyelet. Installs the npm packages of the
# folder's lock file if they are missing or outdated. The last line is "N passed, N failed".
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

# Clients mostly wait for a server, so two files run at the same time, if Node can do so. The page's tests depend on
# timing.
together=
case $folder in */clients) if node --help | grep -q -e --test-concurrency; then together=--test-concurrency=2; fi ;; esac
exec node --test $together --test-reporter=./tests/node/reporter.mjs "$folder"/*.test.mjs
