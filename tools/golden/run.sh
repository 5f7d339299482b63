#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes all goldens: tools/golden/run.sh MKCHECKPOINT OUT. They are those of tests/golden/list.txt (KIND SEED [FLAGS]) and
# pooling.txt (KIND SEED TASK), and that of the demo model if it exists. mkcheckpoint makes the checkpoints from the same
# kinds and seeds as in the tests. Needs torch, transformers and a CUDA GPU.
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
