#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bench/gpu_layers_vs_llamacpp.sh EYELET MODEL LLAMA_BIN GGUF [LAYERS]: compares eyelet with llama.cpp, in turns, on a
# text model divided between GPU and CPU. mkcheckpoint --like qwen3-vl-8b-fp8 makes MODEL (random weights), GGUF has the
# same shapes, LLAMA_BIN is the folder of a built llama.cpp. LAYERS (18) of the text model and the head are on the
# GPU. Environment: ROUNDS (3), THREADS (all). Prints medians, minima and maxima.
set -u
[ $# -ge 4 ] || { echo "usage: $0 EYELET MODEL LLAMA_BIN GGUF [LAYERS]" >&2; exit 2; }
eyelet=$1 model=$2 llama=$3 gguf=$4 layers=${5:-18}
rounds=${ROUNDS:-3} threads=${THREADS:-$(nproc)} prompt=512 answer=32
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

for round in $(seq "$rounds"); do
  "$eyelet" bench --model "$model" --device cuda --gpu-layers "$layers" --threads "$threads" --max-model-len 2048 \
    --picture 704x704 --runs 2 --max-tokens $answer \
    >"$out/eyelet-$round" || exit 1
  # llama.cpp counts the head as a layer
  "$llama/llama-bench" -m "$gguf" -ngl $((layers + 1)) -t "$threads" -fa 1 -p $prompt -n $answer -r 2 -o csv \
    >"$out/llama-$round" 2>/dev/null || exit 1
done

summary() { sort -n | awk \
  '{v[NR] = $1} END {if (NR) print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2, v[1], v[NR]}'; }
of_bench() {
  cat "$out"/llama-* | tr -d '"' | awk -F, -v p="$1" -v n="$2" '
    /avg_ts/ {for (i = 1; i <= NF; i++) at[$i] = i; next}
    $at["n_prompt"] == p && $at["n_gen"] == n {print $at["avg_ts"]}'
}
row() {
  read -r a a0 a1 <<<"$(summary <<<"$2")"
  read -r b b0 b1 <<<"$(summary <<<"$3")"
  printf '%-24s eyelet %8s (%s to %s)   llama.cpp %8s (%s to %s) tok/s   ratio %s\n' "$1" "$a" "$a0" "$a1" "$b" "$b0" \
    "$b1" \
    "$(awk -v a="$a" -v b="$b" 'BEGIN {if (b) printf "%.2f", a / b}')"
}
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1
echo "$threads threads, $rounds rounds, $layers layers and the head on the GPU"
row "decode, $answer tokens" "$(cat "$out"/eyelet-* | sed -n 's/^decode  *[0-9.]* s  *\([0-9.]*\) tok.s.*/\1/p')" \
  "$(of_bench 0 $answer)"
row "prefill, about $prompt" "$(cat "$out"/eyelet-* | sed -n 's/^prefill  *[0-9.]* s  *\([0-9.]*\) tok.s.*/\1/p')" \
  "$(of_bench $prompt 0)"
grep -h '^divided' "$out"/eyelet-*
