#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A text model split between GPU and CPU: tests/gpu/cpu_layers.sh EYELET MODEL [LAYERS]. Prints what the plan expects
# of LAYERS layers on the GPU (the half where none is said) and what is measured, and fails where they are more than
# 25 % apart. Without MODEL the shapes of Qwen3-VL-8B-FP8 with random weights: tests/gpu/cpu_layers.sh EYELET
# (mkcheckpoint lies next to it).
set -eu
[ $# -ge 1 ] || { echo "usage: $0 EYELET [MODEL [LAYERS]]" >&2; exit 2; }
eyelet=$(realpath "$1") layers=${3:-18}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
model=${2:-$work/8b}
[ -n "${2:-}" ] || "$(dirname "$eyelet")/mkcheckpoint" --like qwen3-vl-8b-fp8 --seed 1 "$model" >/dev/null
"$eyelet" plan "$model" --device cuda --gpu-layers "$layers" --max-model-len 4096 | grep -E 'chosen: --gpu-layers|CPU'
"$eyelet" bench --model "$model" --device cuda --gpu-layers "$layers" --max-model-len 4096 --picture 64x64 --runs 3 --max-tokens 32 | tee "$work/bench"
awk '/^split / { for (i = 1; i < NF; i++) if ($(i + 1) == "%") share = $i } END { exit !(share >= 75 && share <= 125) }' "$work/bench" ||
  { echo "expected and measured are more than 25 % apart" >&2; exit 1; }
