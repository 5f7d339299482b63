#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bench/vs_peers_gpu.sh EYELET MODEL2B MODEL4B [LLAMA_BIN [GGUF_DIR]]: compares eyelet with llama.cpp and transformers
# on one GPU, with models of the same shapes. mkcheckpoint --like qwen3-vl-2b-fp8 and -4b-fp8 makes MODEL2B and MODEL4B
# (random weights). LLAMA_BIN is the folder of a built llama.cpp and GGUF_DIR has 2b.gguf, 4b.gguf, mmproj-2b.gguf and
# mmproj-4b.gguf of the same shapes; without them llama.cpp is left out. The rows of transformers need
# python3 with torch and transformers. Environment: ROUNDS (3), TRANSFORMERS_ROUNDS (as many; 0 leaves transformers
# out), KEEP=FOLDER for the programs' own output.
set -u
[ $# -ge 3 ] || { echo "usage: $0 EYELET MODEL2B MODEL4B [LLAMA_BIN [GGUF_DIR]]" >&2; exit 2; }
eyelet=$1 model_2b=$2 model_4b=$3 llama=${4:-} gguf=${5:-.}
here=$(dirname "$(realpath "$0")")
rounds=${ROUNDS:-3} transformers_rounds=${TRANSFORMERS_ROUNDS:-${ROUNDS:-3}} tokens=1074
out=${KEEP:-$(mktemp -d)}
mkdir -p "$out"
[ -n "${KEEP:-}" ] || trap 'rm -rf "$out"' EXIT
image=$out/image.ppm # its content does not affect speed
{ printf 'P6\n1024 1024\n255\n'; head -c $((3 * 1024 * 1024)) /dev/zero | tr '\0' '\177'; } >"$image"

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
date -u +%F

bench() { "$eyelet" bench --device cuda --model "$1" --picture 1024x1024 --depth 1024 --max-tokens 128 --runs 5 \
  "${@:2}"; }
# most_in_use FILE COMMAND...: runs COMMAND and writes the peak GPU memory in MiB to FILE
most_in_use() {
  local file=$1 watcher
  shift
  nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -lms 50 >"$file.all" &
  watcher=$!
  "$@"
  kill $watcher
  wait $watcher 2>/dev/null
  sort -n "$file.all" | tail -1 >"$file"
}

for round in $(seq "$rounds"); do
  for size in 2b 4b; do
    model=model_$size
    bench "${!model}" --max-model-len 2048 >"$out/eyelet-$size-$round" || exit 1
    if [ -n "$llama" ]; then
      "$llama/llama-bench" -m "$gguf/$size.gguf" -ngl 99 -fa 1 -p $tokens -n 128 -d 0,1024 -r 5 -o csv \
        >"$out/llama-$size-$round" 2>/dev/null
      # the same image twice: cold and warm
      most_in_use "$out/llama-memory-$size-$round" "$llama/llama-mtmd-cli" -m "$gguf/$size.gguf" --mmproj \
        "$gguf/mmproj-$size.gguf" -ngl 99 -fa on -c 4096 \
        --image "$image,$image" -p 'What is this?' -n 2 --temp 0 >"$out/llama-image-$size-$round" 2>&1
    fi
    [ "$round" -gt "$transformers_rounds" ] || python3 "$here/transformers_gpu.py" $size \
      >"$out/transformers-$size-$round" 2>/dev/null
  done
  for streams in 8 32; do
    bench "$model_2b" --max-model-len 2048 --kv-tokens $((streams * 1280)) --streams $streams \
      >"$out/eyelet-$streams-$round" || exit 1
  done
  [ -z "$llama" ] ||
    "$llama/llama-batched-bench" -m "$gguf/2b.gguf" -ngl 99 -fa on -c 40960 -npp 1024 -ntg 64 -npl 8,32 \
      >"$out/llama-batch-$round" 2>/dev/null
done

# ---- values of the output, one for each round ----

value() { sed -n "s/.*$1.*/\1/p"; }
summary() { sort -n | awk \
  '{v[NR] = $1} END {if (NR) print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2, v[1], v[NR]}'; }
of_eyelet() { cat "$out/eyelet-$1"-? | value "$2"; }
of_bench() { # SIZE PROMPT GENERATED DEPTH: tokens a second of llama-bench
  [ -z "$llama" ] || cat "$out/llama-$1"-? | tr -d '"' | awk -F, -v p="$2" -v n="$3" -v d="$4" '
    /avg_ts/ {for (i = 1; i <= NF; i++) at[$i] = i; next}
    $at["n_prompt"] == p && $at["n_gen"] == n && $at["n_depth"] == d {print $at["avg_ts"]}'
}
of_batch() { [ -z "$llama" ] || cat "$out"/llama-batch-? | awk -F'|' -v b="$1" '$4 + 0 == b {print $9 + 0}'; }
# WHICH SIZE: total milliseconds of the first or second image of each round
of_image() {
  [ -z "$llama" ] || for r in $(seq "$rounds"); do
    sed -nE 's/.*(slice encoded|batch encoding done) in ([0-9]+) ms.*/\2/p' "$out/llama-image-$2-$r" | sed -n "$1p"
  done
}
of_transformers() { cat "$out/transformers-$1"-? 2>/dev/null | value "$2"; }

# row NAME UNIT more|less OURS THEIRS [THEIR_NAME]: medians, minima, maxima, and how many times better eyelet is
row() {
  local a a0 a1 b b0 b1
  read -r a a0 a1 <<<"$(summary <<<"$4")"
  read -r b b0 b1 <<<"$(summary <<<"$5")"
  printf '%-36s eyelet %9s (%s to %s)' "$1, $2" "$a" "$a0" "$a1"
  [ -z "${b:-}" ] || printf '   %s %9s (%s to %s)   ratio %s' "${6:-llama.cpp}" "$b" "$b0" "$b1" \
    "$(awk -v a="$a" -v b="$b" -v w="$3" 'BEGIN {printf "%.2f", w == "more" ? a / b : b / a}')"
  echo
}
for size in 2b 4b; do
  decode=$(of_eyelet $size '1 at 1024 .* ms *\([0-9.]*\) tok.s total')
  row "$size decode, 1 at 1,024" tok/s more "$decode" "$(of_bench $size 0 128 1024)"
  row "$size prefill" tok/s more "$(of_eyelet $size 'prefill  *[0-9.]* s *\([0-9.]*\) tok.s')" \
    "$(of_bench $size $tokens 0 0)"
  row "$size image's vision encoder, 1024x1024" ms less \
    "$(of_eyelet $size 'vision  *\([0-9.]*\) s' | awk '{print 1000 * $1}')" "$(of_image 2 $size)"
  row "$size the first image's vision encoder" ms less "$(of_eyelet $size 'first  *\([0-9.]*\) ms to')" \
    "$(of_image 1 $size)"
  row "$size GPU memory in use" MiB less "$(of_eyelet $size 'planned, \([0-9]*\) of')" \
    "$([ -z "$llama" ] || cat "$out/llama-memory-$size"-?)"
  row "$size decode" tok/s more "$decode" "$(of_transformers $size 'decode \([0-9.]*\) tok')" transformers
  row "$size first token" ms less "$(of_eyelet $size 'first  *\([0-9.]*\) ms to')" \
    "$(of_transformers $size 'first token \([0-9.]*\) ms')" transformers
  row "$size GPU memory in use" MiB less "$(of_eyelet $size 'planned, \([0-9]*\) of')" \
    "$(of_transformers $size ' \([0-9]*\) MiB of the GPU')" transformers
  row "$size load without opening the GPU" s less \
    "$(cat "$out/eyelet-$size"-? | sed -n 's/^load *\([0-9.]*\) s, of which \([0-9.]*\) s.*/\1 \2/p' |
    awk '{print $1 - $2}')" ""
done
for streams in 8 32; do
  row "2b decode, $streams at 1,024 in total" tok/s more \
    "$(of_eyelet $streams "$streams at 1024 .* ms *\([0-9.]*\) tok.s total")" "$(of_batch $streams)"
done
echo "(the first image: eyelet to the first token, in total; llama.cpp's vision encoder alone)"
grep -h '^limits' "$out/eyelet-2b-1"
