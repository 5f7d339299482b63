#!/bin/bash
# eyelet beside llama.cpp on the CPU, one after the other in every round: bench/vs_llamacpp.sh EYELET MODEL LLAMA_BIN GGUF MMPROJ
# MODEL is made by mkcheckpoint --like qwen3-vl-2b-fp8 (random weights); LLAMA_BIN is the folder of a built llama.cpp, GGUF and MMPROJ its files of
# the same shapes. ROUNDS (at least 5) and THREADS (2) may be set; KEEP is a folder for the programs' own output. Prints medians, spread and ratios.
set -u
[ $# -eq 5 ] || { echo "usage: $0 EYELET MODEL LLAMA_BIN GGUF MMPROJ" >&2; exit 2; }
eyelet=$1 model=$2 llama=$3 gguf=$4 mmproj=$5
rounds=${ROUNDS:-5} threads=${THREADS:-2} prompt=782 answer=64 picture=1024x768
[ "$rounds" -ge 5 ] || { echo "$0: ROUNDS is $rounds; fewer than 5 say nothing about the spread" >&2; exit 2; }
for program in "$eyelet" "$llama/llama-bench" "$llama/llama-mtmd-cli"; do
  [ -x "$program" ] || { echo "$0: $program is not a program" >&2; exit 2; }
done
out=${KEEP:-$(mktemp -d)}
mkdir -p "$out"
[ -n "${KEEP:-}" ] || trap 'rm -rf "$out"' EXIT

# a picture of that size as a PPM: what is on it costs nothing
{ printf 'P6\n%s %s\n255\n' "${picture%x*}" "${picture#*x}"; head -c $((${picture%x*} * ${picture#*x} * 3)) /dev/zero | tr '\0' '\177'; } >"$out/picture.ppm"

for round in $(seq "$rounds"); do
  "$eyelet" bench --device cpu --model "$model" --threads "$threads" --picture $picture --max-tokens $answer --runs 1 --max-model-len 2048 \
    >"$out/eyelet-$round.txt" || exit 1
  "$llama/llama-bench" -m "$gguf" -t "$threads" -ngl 0 -p $prompt -n $answer -r 1 -o csv >"$out/llama-$round.csv" 2>/dev/null || exit 1
  "$llama/llama-mtmd-cli" -m "$gguf" --mmproj "$mmproj" -t "$threads" -ngl 0 -c 2048 --image "$out/picture.ppm" -p 'Describe this image.' -n 2 --temp 0 \
    >"$out/llama-picture-$round.txt" 2>&1 || exit 1
done

eyelet_value() { cat "$out"/eyelet-*.txt | sed -n "s/^$1  *[0-9.]* s  *\([0-9.]*\) tok.s.*/\1/p"; }
# the column avg_ts of the rows with so many prompt and generated tokens
llama_value() {
  cat "$out"/llama-?.csv "$out"/llama-??.csv 2>/dev/null | tr -d '"' | awk -F, -v p="$1" -v n="$2" '
    /avg_ts/ {for (i = 1; i <= NF; i++) at[$i] = i; next}
    $at["n_prompt"] == p && $at["n_gen"] == n {print $at["avg_ts"]}'
}
summary() { sort -n | awk '{v[NR] = $1} END {if (NR) printf "%.2f %.2f %.2f %d", NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2, v[1], v[NR], NR}'; }

# row NAME UNIT FASTER_IS EYELET LLAMA: medians, least and most, and how many times faster eyelet is
row() {
  read -r a a0 a1 a_n <<<"$4"
  read -r b b0 b1 b_n <<<"$5"
  if [ "${a_n:-0}" -ne "$rounds" ] || [ "${b_n:-0}" -ne "$rounds" ]; then
    printf '%-22s not all rounds gave a value (eyelet %s, llama.cpp %s of %s)\n' "$1" "${a_n:-0}" "${b_n:-0}" "$rounds"
    return
  fi
  printf '%-22s eyelet %8s (%s to %s)   llama.cpp %8s (%s to %s) %s   ratio %.2f\n' "$1" "$a" "$a0" "$a1" "$b" "$b0" "$b1" "$2" \
    "$(awk -v a="$a" -v b="$b" -v more="$3" 'BEGIN {print more == "more" ? a / b : b / a}')"
}

grep -h . /proc/cpuinfo | sed -n 's/^model name[^:]*: //p' | head -1
date -u +%F
echo "$threads threads, $rounds rounds"
row "decode, $answer tokens" tok/s more "$(eyelet_value decode | summary)" "$(llama_value 0 $answer | summary)"
row "prefill, $prompt tokens" tok/s more "$(eyelet_value prefill | summary)" "$(llama_value $prompt 0 | summary)"
row "vision, $picture" s less "$(cat "$out"/eyelet-*.txt | sed -n 's/^vision  *\([0-9.]*\) s .*/\1/p' | summary)" \
  "$(cat "$out"/llama-picture-*.txt | sed -n 's/^.*image slice encoded in \([0-9]*\) ms.*/\1/p' | awk '{print $1 / 1000}' | summary)"
grep -h '^limits' "$out/eyelet-1.txt"
