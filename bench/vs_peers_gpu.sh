#!/bin/bash
# eyelet beside llama.cpp and transformers on one card, the same shapes, in one run: bench/vs_peers_gpu.sh EYELET MODEL2B MODEL4B [LLAMA_BIN [GGUF_DIR]]
# MODEL2B and MODEL4B are made by mkcheckpoint --like qwen3-vl-2b-fp8 and -4b-fp8 (random weights). LLAMA_BIN is the folder of a built llama.cpp and
# GGUF_DIR has 2b.gguf, 4b.gguf and their mmproj; without them its rows are left out. transformers' rows need python3 with torch and transformers.
set -u
[ $# -ge 3 ] || { echo "usage: $0 EYELET MODEL2B MODEL4B [LLAMA_BIN [GGUF_DIR]]" >&2; exit 2; }
eyelet=$1 model_2b=$2 model_4b=$3 llama=${4:-} gguf=${5:-.}
here=$(dirname "$(realpath "$0")")
rounds=${ROUNDS:-3}

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
date -u +%F

bench() { "$eyelet" bench --device cuda --model "$1" --picture 1024x1024 --depth 1024 --max-tokens 128 --runs 5 "${@:2}"; }
median() { sort -n | awk '{v[NR] = $1} END {print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }
value() { sed -n "s/.*$1.*/\1/p"; }

for round in $(seq "$rounds"); do
  for size in 2b 4b; do
    model=model_$size
    bench "${!model}" --max-model-len 2048 >"/tmp/peers-$size-$round.txt" || exit 1
  done
  for streams in 8 32; do bench "$model_2b" --max-model-len 2048 --kv-tokens $((streams * 1280)) --streams $streams >"/tmp/peers-2b-$streams-$round.txt" || exit 1; done
  if [ -n "$llama" ]; then
    for size in 2b 4b; do
      "$llama/llama-bench" -m "$gguf/$size.gguf" -ngl 99 -fa 1 -p 1074 -n 128 -d 0,1024 -r 3 -o csv >"/tmp/peers-llama-$size-$round.csv"
    done
    "$llama/llama-batched-bench" -m "$gguf/2b.gguf" -ngl 99 -fa on -c 40960 -npp 1024 -ntg 64 -npl 8,32 >"/tmp/peers-llama-batch-$round.txt"
  fi
  for size in 2b 4b; do python3 "$here/transformers_gpu.py" $size >"/tmp/peers-transformers-$size-$round.txt" 2>/dev/null; done
done

# ratio NAME OURS THEIRS: how often theirs goes into ours; nothing where a peer was not run
ratio() { [ -z "$2" ] || [ -z "$3" ] || printf '%-52s %10s\n' "$1" "$(awk -v ours="$2" -v theirs="$3" 'BEGIN {printf "%.2fx", ours / theirs}')"; }
# llama_rate SIZE: llama-bench's tokens a second at a depth of 1,024, a line a round
llama_rate() {
  [ -z "$llama" ] || cat /tmp/peers-llama-"$1"-*.csv |
    python3 -c 'import csv, sys; [print(r["avg_ts"]) for r in csv.DictReader(sys.stdin) if r["n_gen"] == "128" and r["n_depth"] == "1024"]'
}
median_of() { [ -z "$1" ] || printf '%s\n' $1 | median; }
row() { printf '%-52s %10s  (%s)\n' "$1" "$(printf '%s\n' $2 | median)" "$(printf '%s\n' $2 | sort -n | sed -n '1p;$p' | paste -sd ' ' | sed 's/ / to /')"; }
for size in 2b 4b; do
  files=$(for r in $(seq "$rounds"); do echo "/tmp/peers-$size-$r.txt"; done)
  row "eyelet $size decode, 1 sequence at 1,024 (tok/s)" "$(cat $files | value '1 at 1024 .* ms *\([0-9.]*\) tok.s in all')"
  row "eyelet $size tower, 1024x1024 (s)" "$(cat $files | value 'vision  *\([0-9.]*\) s')"
  row "eyelet $size prefill of picture and question (s)" "$(cat $files | value 'prefill  *\([0-9.]*\) s')"
  row "eyelet $size first picture after the start (ms)" "$(cat $files | value 'first  *\([0-9.]*\) ms to')"
  row "eyelet $size load without the device's own (s)" "$(cat $files | sed -n 's/^load *\([0-9.]*\) s, of which \([0-9.]*\) s.*/\1 \2/p' | awk '{print $1 - $2}')"
  row "eyelet $size card in use by all (MiB)" "$(cat $files | value 'planned, \([0-9]*\) of')"
  cat /tmp/peers-transformers-$size-*.txt
  ours=$(cat $files | value '1 at 1024 .* ms *\([0-9.]*\) tok.s in all' | median)
  ratio "eyelet $size decode to transformers'" "$ours" "$(median_of "$(cat /tmp/peers-transformers-$size-*.txt | value 'decode \([0-9.]*\) tok')")"
  ratio "eyelet $size decode to llama.cpp's" "$ours" "$(median_of "$(llama_rate $size)")"
done
for streams in 8 32; do row "eyelet 2b decode, $streams sequences at 1,024 (tok/s)" "$(cat /tmp/peers-2b-$streams-*.txt | value "$streams at 1024 .* ms *\([0-9.]*\) tok.s in all")"; done
[ -z "$llama" ] || cat /tmp/peers-llama-*
grep -h '^limits' /tmp/peers-2b-1.txt
