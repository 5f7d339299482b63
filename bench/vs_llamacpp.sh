#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bench/vs_llamacpp.sh EYELET MODEL LLAMA_BIN GGUF MMPROJ: compares eyelet with llama.cpp on the CPU; each round runs
# both. mkcheckpoint --like qwen3-vl-2b-fp8 makes MODEL (random weights); LLAMA_BIN is the folder of a built llama.cpp,
# GGUF and MMPROJ its files of the same shapes. EYELET and bench_serve must be in their build folder. Prints medians,
# minima, maxima and ratios. Environment:
# ROUNDS (5, which is also the minimum), THREADS (2). KEEP=FOLDER: keep the programs' own output there.
# FROM=N: begin with round N, and read earlier rounds from KEEP; if N is greater than ROUNDS, only print.
# OPTIONS="--head 8bit ...": measure eyelet with these options, too. GGUF_BF16=FILE: measure llama.cpp with these
# unquantized weights, too.
# SERVERS=1: also measure the time until both servers are ready (LLAMA_BIN must have llama-server), and the speed of
# eyelet's server as clients see it. llama-server cannot parse the text of random weights and ends most streams with an
# error, so this speed is compared with that of llama-batched-bench, which has prompts of equal length but no server.
set -u
[ $# -eq 5 ] || { echo "usage: $0 EYELET MODEL LLAMA_BIN GGUF MMPROJ" >&2; exit 2; }
eyelet=$1 model=$2 llama=$3 gguf=$4 mmproj=$5
rounds=${ROUNDS:-5} threads=${THREADS:-2} from=${FROM:-1} prompt=782 answer=64 image=1024x768 depth=128 streams=4 \
  asked=32
[ "$rounds" -ge 5 ] || { echo "$0: ROUNDS is $rounds; fewer than 5 say nothing about the spread" >&2; exit 2; }
[ "$from" = 1 ] || [ -n "${KEEP:-}" ] || { echo "$0: FROM needs KEEP" >&2; exit 2; }
serve=$(dirname "$eyelet")/bench/bench_serve
for program in "$eyelet" "$llama/llama-bench" "$llama/llama-mtmd-cli" "$llama/llama-batched-bench" \
  ${SERVERS:+"$llama/llama-server" "$serve"}; do
  [ -x "$program" ] || { echo "$0: $program is missing or not executable" >&2; exit 2; }
done
out=${KEEP:-$(mktemp -d)} server=
mkdir -p "$out"
leave() {
  [ -z "$server" ] || kill "$server"
  [ -n "${KEEP:-}" ] || rm -rf "$out"
}
trap leave EXIT

# a gray PPM of that size; its content does not affect speed
{ printf 'P6\n%s %s\n255\n' "${image%x*}" "${image#*x}"; head -c $((${image%x*} * ${image#*x} * 3)) /dev/zero |
  tr '\0' '\177'; } >"$out/image.ppm"

# bench_eyelet NAME OPTION...: one run
bench_eyelet() {
  "$eyelet" bench --device cpu --model "$model" --threads "$threads" --picture $image --max-tokens $answer --runs 1 \
    --max-model-len 2048 --kv-tokens 2048 --depth $depth --streams $streams "${@:2}" \
    >"$out/$1-$round.txt" 2>"$out/errors.txt" || { cat "$out/errors.txt" >&2; exit 1; }
}
# bench_llama NAME GGUF: speed of a prompt and of an answer after one of that length, as in eyelet's bench; then an
# image with a question
bench_llama() {
  "$llama/llama-bench" -m "$2" -t "$threads" -ngl 0 -p $prompt -n 0 -r 1 -o csv >"$out/$1-$round.csv" 2>/dev/null ||
    exit 1
  "$llama/llama-bench" -m "$2" -t "$threads" -ngl 0 -p 0 -n $answer -d $prompt -r 1 -o csv >>"$out/$1-$round.csv" \
    2>/dev/null || exit 1
  /usr/bin/time -f 'peak %M KiB' "$llama/llama-mtmd-cli" -m "$2" --mmproj "$mmproj" -t "$threads" -ngl 0 -c 2048 \
    --image "$out/image.ppm" -p 'Describe this image.' \
    -n 2 --temp 0 -lv 4 >"$out/$1-image-$round.txt" 2>&1 || exit 1
}
# batch_llama NAME GGUF PROMPT: several concurrent sequences
batch_llama() {
  "$llama/llama-batched-bench" -m "$2" -t "$threads" -ngl 0 -c 2048 -npp $3 -ntg $answer -npl $streams \
    >"$out/$1-batch-$round.txt" 2>/dev/null || exit 1
}
# start_server NAME READY COMMAND...: prints the seconds until the address READY answers
start_server() {
  local name=$1 ready=$2 start=${EPOCHREALTIME/./}
  shift 2
  "$@" >"$out/$name-log.txt" 2>&1 &
  server=$!
  until curl -fs -o "$out/ready" "$ready"; do
    kill -0 $server || exit 1
    sleep 0.02
  done
  echo "ready $(((${EPOCHREALTIME/./} - start) / 1000)) ms" >"$out/$name-$round.txt"
}
stop_server() {
  kill $server
  wait $server
  server=
}

for round in $(seq "$from" "$rounds"); do
  bench_eyelet eyelet
  [ -z "${OPTIONS:-}" ] || bench_eyelet options $OPTIONS
  bench_llama llama "$gguf"
  batch_llama llama "$gguf" $depth
  [ -z "${GGUF_BF16:-}" ] || { bench_llama bf16 "$GGUF_BF16"; batch_llama bf16 "$GGUF_BF16" $depth; }
  if [ -n "${SERVERS:-}" ]; then
    batch_llama clients "$gguf" $asked
    [ -z "${GGUF_BF16:-}" ] || batch_llama clients-bf16 "$GGUF_BF16" $asked
    start_server eyelet-server http://127.0.0.1:18431/ready "$eyelet" serve --device cpu --threads "$threads" --model \
      "$model" --port 18431 --max-num-seqs $streams --max-model-len 2048
    "$serve" --base-url http://127.0.0.1:18431 --model "$model" --cost 0 --streams $streams --tokens $answer --picture \
      0x0 --rounds 1 --stall-tokens 0 \
      >>"$out/eyelet-server-$round.txt" 2>&1 || { cat "$out/eyelet-server-$round.txt" >&2; exit 1; }
    stop_server
    start_server llama-server http://127.0.0.1:18432/health "$llama/llama-server" -m "$gguf" --mmproj "$mmproj" -t \
      "$threads" -ngl 0 -c $((streams * 2048)) -np $streams --port 18432
    stop_server
  fi
done

# ---- values of the output, one for each round ----

all() { for r in $(seq "$rounds"); do cat "$out/$1-$r.$2" 2>/dev/null; done; }
rate() { all "$1" txt | sed -n "s/^$2  *[0-9.]* s  *\([0-9.]*\) tok.s.*/\1/p"; }
vision() { all "$1" txt | sed -n 's/^vision  *\([0-9.]*\) s .*/\1/p'; }
first() { all "$1" txt | sed -n 's/^first  *\([0-9.]*\) ms .*/\1/p' | awk '{print $1 / 1000}'; }
peak() { all "$1" txt | sed -n 's/^memory  *\([0-9]*\) MB .*/\1/p'; }
# the column avg_ts of the rows with these numbers of prompt and generated tokens
llama_rate() {
  all "$1" csv | tr -d '"' | awk -F, -v p="$2" -v n="$3" '
    /avg_ts/ {for (i = 1; i <= NF; i++) at[$i] = i; next}
    $at["n_prompt"] == p && $at["n_gen"] == n {print $at["avg_ts"]}'
}
together() { all "$1" txt | sed -n "s/^$streams at $depth .* ms  *\([0-9.]*\) tok.s total.*/\1/p"; }
# tokens a second of all answers, including prompts
llama_served() { all "$1-batch" txt | awk -F'|' -v b=$streams -v n=$answer '$4 + 0 == b {print b * n / $10}'; }
llama_together() { all "$1-batch" txt | awk -F'|' -v b=$streams '$4 + 0 == b {print $9 + 0}'; }
llama_vision() { all "$1-image" txt | sed -nE 's/.*(slice encoded|batch encoding done) in ([0-9]+) ms.*/\2/p' |
  awk '{print $1 / 1000}'; }
# The image's vision encoder plus the whole prompt. llama.cpp counts the vision encoder as prompt time if text before
# the image waits in the same queue.
llama_first() {
  for r in $(seq "$rounds"); do
    awk '/(slice encoded|batch encoding done) in/ {for (i = 1; i < NF; i++) if ($i == "in") vision += $(i + 1)}
         /prompt eval time/ {sub(/.*= */, ""); prompt = $1}
         END {if (prompt) print (prompt > vision ? prompt : prompt + vision) / 1000}' "$out/$1-image-$r.txt" 2>/dev/null
  done
}
llama_peak() { all "$1-image" txt | sed -n 's/^peak \([0-9]*\) KiB/\1/p' | awk '{printf "%.0f\n", $1 * 1024 / 1e6}'; }
ready() { all "$1-server" txt | sed -n 's/^ready \([0-9]*\) ms/\1/p' | awk '{print $1 / 1000}'; }
served() { all eyelet-server txt | awk -v n=$streams '$1 == n && $2 == "text" {print $11}'; }
summary() { sort -n | awk '{v[NR] = $1} END {if (NR) printf "%.2f %.2f %.2f %d", NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2, v[1], v[NR], NR}'; }

# row NAME UNIT more|less OURS THEIRS: medians, minima, maxima, and how many times better eyelet is
row() {
  read -r a a0 a1 a_n <<<"$(summary <<<"$4")"
  read -r b b0 b1 b_n <<<"$(summary <<<"$5")"
  if [ "${a_n:-0}" -ne "$rounds" ] || [ "${b_n:-0}" -ne "$rounds" ]; then
    printf '%-30s not all rounds gave a value (eyelet %s, llama.cpp %s of %s)\n' "$1" "${a_n:-0}" "${b_n:-0}" "$rounds"
    return
  fi
  printf '%-30s eyelet %8s (%s to %s)   llama.cpp %8s (%s to %s) %s   ratio %.2f\n' "$1" "$a" "$a0" "$a1" "$b" "$b0" \
    "$b1" "$2" \
    "$(awk -v a="$a" -v b="$b" -v more="$3" 'BEGIN {print more == "more" ? a / b : b / a}')"
}
# rows OURS THEIRS
rows() {
  row "decode, $answer behind $prompt" tok/s more "$(rate "$1" decode)" "$(llama_rate "$2" 0 $answer)"
  row "decode, $streams at $depth in total" tok/s more "$(together "$1")" "$(llama_together "$2")"
  row "prefill, $prompt tokens" tok/s more "$(rate "$1" prefill)" "$(llama_rate "$2" $prompt 0)"
  row "vision, $image" s less "$(vision "$1")" "$(llama_vision "$2")"
  row "image to the first token" s less "$(first "$1")" "$(llama_first "$2")"
  row "memory at the peak" MB less "$(peak "$1")" "$(llama_peak "$2")"
}

sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1
date -u +%F
echo "$threads threads, $rounds rounds; $(basename "$gguf") and $(basename "$mmproj")"
rows eyelet llama
if [ -n "${OPTIONS:-}" ]; then
  echo "eyelet with $OPTIONS"
  rows options llama
fi
if [ -n "${GGUF_BF16:-}" ]; then
  echo "$(basename "$GGUF_BF16")"
  rows eyelet bf16
fi
if [ -n "${SERVERS:-}" ]; then
  echo "the servers"
  row "ready" s less "$(ready eyelet)" "$(ready llama)"
  row "$streams streams of text in total" tok/s more "$(served)" "$(llama_served clients)"
  [ -z "${GGUF_BF16:-}" ] || row "the same, against BF16" tok/s more "$(served)" "$(llama_served clients-bf16)"
fi
grep -h '^limits' "$out/eyelet-1.txt"
