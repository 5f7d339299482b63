#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes every golden of tests/golden/list.txt (KIND SEED [FLAGS]) and, when it is there, the demo model's.
#     tools/golden/run.sh MKCHECKPOINT OUT
# Needs torch, transformers and a CUDA GPU. The checkpoints are made here, from the same kind and seed as the tests'.
set -eu
mkcheckpoint=$1 out=$2 here=$(dirname "$0") work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
while read -r kind seed flags; do
    "$mkcheckpoint" --like "$kind" --seed "$seed" "$work/$kind" >/dev/null
    made_by="mkcheckpoint --like $kind --seed $seed"
    if [ -f "$work/$kind/preprocessor_config.json" ]; then
        python3 "$here/make_golden.py" "$work/$kind" "$kind" tests/golden/pictures "$out" --made-by "$made_by" $flags
    else
        python3 "$here/text_golden.py" "$work/$kind" "$kind" "$out" --made-by "$made_by"
    fi
    rm -rf "${work:?}/$kind"
done <tests/golden/list.txt
while read -r kind seed task; do
    "$mkcheckpoint" --like "$kind" --seed "$seed" "$work/$kind" >/dev/null
    python3 "$here/pooling_golden.py" "$work/$kind" "$kind" tests/golden/pictures "$out" "$task" \
        --made-by "mkcheckpoint --like $kind --seed $seed"
    rm -rf "${work:?}/$kind"
done <tests/golden/pooling.txt
if [ -f models/demo/config.json ]; then
    python3 "$here/make_golden.py" models/demo demo tests/golden/pictures "$out" --made-by "models/demo" --amount all
fi
