#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tests/abuse/run.sh EYELET, in the source tree: runs every attack against a server. Each is a script that takes at
# most a minute, prints one line and exits with 0 if the server has held. Most of them wait, so two run concurrently,
# the longest first; those in `alone` run one by one. The last line is "N passed, N failed".
set -u
eyelet=$(realpath "$1")
long="slow_readers trickles slow_connections slow_bodies"
alone="busy_processors endless_media"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

attack() { # attack NAME: prints the script's output in one piece
  if PYTHONDONTWRITEBYTECODE=1 timeout -k 5 60 python3 "tests/abuse/$1.py" "$eyelet" >"$work/$1.said" 2>&1; then
    touch "$work/$1.held"
  else
    echo "FAILED tests/abuse/$1.py" >>"$work/$1.said"
  fi
  cat "$work/$1.said"
}
export -f attack
export eyelet work

all=$(basename -s .py tests/abuse/*.py | grep -vx abuse)
beside=$(printf '%s\n' $long; grep -vxF -f <(printf '%s\n' $long $alone) <<<"$all")
xargs -P 2 -I NAME bash -c 'attack NAME' <<<"$beside"
for name in $alone; do attack "$name"; done

passed=$(find "$work" -name '*.held' | wc -l) failed=0
for name in $all; do [ -e "$work/$name.held" ] || failed=$((failed + 1)); done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
