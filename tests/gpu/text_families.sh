#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A full-size checkpoint of random numbers of each text-only family on a real GPU, against transformers in float32
# (tools/golden/text_golden.py): tests/gpu/text_families.sh BUILD [KIND...]. Needs torch and transformers, a GPU of
# about 40 GB for the largest, 30 GB of disk. Prints what transformers in BF16 is off by, too; the exit status is 1
# when a family is off by more than test_golden allows.
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
