#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks that eyelet and huggingface_hub share one cache: tools/check_hub.sh BUILD. A local hub (tests/hub) serves a
# small checkpoint. eyelet pulls it, and huggingface_hub must find every file without downloading it again; then vice
# versa. Needs python3 with huggingface_hub.
set -u
[ $# = 1 ] || { echo "usage: $0 BUILD" >&2; exit 2; }
build=$(realpath "$1") work=$(mktemp -d) model=Org/Tiny
cd "$work" || exit 1
unset HF_HUB_OFFLINE HF_TOKEN HF_HUB_CACHE http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY
"$build/mkcheckpoint" --like tiny-shards-fp8 tiny >/dev/null || exit 1
mkfifo orders
"$build/tests/hub/serve_folder" $model tiny <orders >hub.out &
exec 9>orders
trap 'exec 9>&-; wait; rm -rf "$work"' EXIT
until HF_ENDPOINT=$(grep -m1 http hub.out); do sleep 0.1; done
export HF_ENDPOINT HF_HUB_DISABLE_XET=1 HF_HUB_DISABLE_TELEMETRY=1

# fetch_by_python offline|online: prints the snapshot's folder
fetch_by_python() {
  python3 - "$1" <<'PYTHON'
import os, sys
from huggingface_hub import hf_hub_download
paths = [hf_hub_download("Org/Tiny", name, local_files_only=sys.argv[1] == "offline") for name in sorted(os.listdir("tiny"))]
print(os.path.dirname(paths[0]))
PYTHON
}
same() { diff -r "$1" "$2" >/dev/null && echo "ok       $3" || { echo "FAILED   $3"; exit 1; }; }

export HF_HOME=$work/by-eyelet
ours=$("$build/eyelet" pull --yes $model 2>pull.log) || { cat pull.log; exit 1; }
theirs=$(fetch_by_python offline) || exit 1
[ "$ours" -ef "$theirs" ] && same "$ours" "$theirs" \
  "huggingface_hub finds the $(ls "$theirs" | wc -l) files that eyelet pulled" || { echo "FAILED: $ours is not $theirs"; \
  exit 1; }
python3 -c 'from huggingface_hub import scan_cache_dir; r = scan_cache_dir(); assert not r.warnings, r.warnings; print("ok       its scan finds", len(r.repos), "repository,", r.size_on_disk, "bytes, no warning")' || exit 1

export HF_HOME=$work/by-python
theirs=$(fetch_by_python online 2>python.log) || { tail -3 python.log; exit 1; }
"$build/eyelet" list 2>/dev/null | grep -q "$model" &&
  echo "ok       eyelet lists the model that huggingface_hub downloaded" || { echo "FAILED   eyelet does not list it"; exit 1; }
HF_HUB_OFFLINE=1 "$build/eyelet" tokenize --model $model hello >/dev/null 2>tokenize.log &&
  echo "ok       and opens it" || { cat tokenize.log; exit 1; }
again=$("$build/eyelet" pull --yes $model 2>pull.log) && [ "$again" -ef "$theirs" ] &&
  echo "ok       and does not download it again" || { cat pull.log; exit 1; }
