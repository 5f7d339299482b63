#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tests/gpu/text_families.sh BUILD [KIND...]: compares a full-size random checkpoint of each text-only family on a real
# GPU with transformers in F32 (tools/golden/text_golden.py). Also prints the error of transformers in BF16. Exits 1 if
# a family's error exceeds test_golden's bound. Needs torch, transformers, a GPU of about 40 GB for the largest model,
# and 30 GB of disk.
set -u
[ $# -ge 1 ] || { echo "usage: $0 BUILD [KIND...]" >&2; exit 2; }
build=$(realpath "$1") root=$(realpath "$(dirname "$0")/../..") failed=0
shift
[ $# -gt 0 ] || set -- qwen2.5-3b qwen2.5-3b-fp8 phi-3-mini llama-2-7b
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" && mkdir -p tests/golden || exit 1
for kind; do
  "$build/mkcheckpoint" --like "$kind" "$kind" || { failed=1; continue; }
  python3 "$root/tools/golden/text_golden.py" "$kind" "$kind" tests/golden --made-by "mkcheckpoint --like $kind" &&
    python3 "$root/tools/golden/text_golden.py" "$kind" "$kind" tests/golden --bf16-error &&
    "$build/tests/golden/test_golden" "$kind" "$kind" cuda || failed=1
  rm -rf "$kind"
done
exit $failed
