#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tests/gpu/cpu_layers.sh EYELET MODEL [LAYERS]: a text model divided between GPU and CPU. Prints the expected and the
# measured speed with LAYERS layers on the GPU (default: half), and fails if they differ by more than 25 %. Without
# MODEL it makes Qwen3-VL-8B-FP8 with random weights (mkcheckpoint must be next to EYELET).
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
  { echo "expected and measured speed differ by more than 25 %" >&2; exit 1; }
