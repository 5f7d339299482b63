#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tests/gpu/eight_gb.sh EYELET MODEL2B MODEL4B: tests the 2B and the 4B model as on an 8 GB GPU. Another process fills
# a larger GPU's memory until 7,000 MiB are free, as on an 8,151 MiB GPU whose desktop uses 1,151 MiB. eyelet's context
# also uses part of them. Prints a line for each case; exits 1 if one failed. EYELET must be in its build folder, next
# to ballast and make_image.
set -u
[ $# = 3 ] || { echo "usage: $0 EYELET MODEL2B MODEL4B" >&2; exit 2; }
here=$(dirname "$(realpath "$0")") eyelet=$(realpath "$1") model2b=$(realpath "$2") model4b=$(realpath "$3")
. "$here/beside_ballast.sh"

"$tools/make_image" 1024 1024 small.png && "$tools/make_image" 4096 4096 large.png || exit 1
long_question="$(seq -s ' ' 1 500) What is in the image?"

# ask NAME IMAGE QUESTION TOKENS: writes the answer to NAME.json; it may be cut off by TOKENS
ask() {
  "$eyelet" ask --server "http://127.0.0.1:$port" --json --temperature 0 --detail high --max-tokens "$4" "$2" "$3" >"$1.json" 2>"$1.err"
  grep -q '"finish_reason": "\(stop\|length\)"' "$1.json"
}
# number NAME MEMBER: prints a number from NAME.json
number() { sed -n "s/.*\"$2\": \([0-9]*\).*/\1/p" "$1.json"; }

many() { ask "many$1" small.png "$1 $long_question" "$answer_tokens"; }
# One small and one very large image, then four concurrent requests with long questions.
questions() {
  local status=0
  ask small small.png 'What is this?' 32 || status=1
  ask large large.png 'What is this?' 32 || status=1
  at_once 4 many && return $status
}
said() {
  echo "4096x4096 read as $(number large used_width)x$(number large used_height), $(number large tokens) tokens; four at once:" \
    "$(for i in 1 2 3 4; do number "many$i" completion_tokens; done | paste -sd ' ') tokens"
}
# answers CASE FREE_MIB MODEL OPTION...
answers() { case_of "$1" "$2" questions said "${@:3}"; }

# refuses CASE FREE_MIB MODEL: --device cuda must fail, and its message must name the shortfall and changes with their
# totals, at least one of which fits
refuses() {
  local name=$1 free=$2 status ok=ok
  fill "$free"
  "$eyelet" ask --device cuda --model "$3" small.png 'What is this?' >refused.out 2>refused.err
  status=$?
  empty
  [ "$status" -ne 0 ] && grep -q 'too many' refused.err && grep -q 'MiB, fits' refused.err && grep -q -- '--device cpu' refused.err || ok=FAILED
  tell "$name" "$ok" "took $((free_mib - least)) MiB of $free_mib, exit status $status"
  sed 's/^/    /' refused.err
}

answer_tokens=900
answers '2B, 7000 MiB free, pool of 16384 for four' 7000 "$model2b" --kv-tokens 16384 --max-num-seqs 4
answer_tokens=200
answers '4B, 7000 MiB free, 4096 tokens' 7000 "$model4b" --max-model-len 4096 --kv-tokens 4096 --max-num-seqs 4
answers '2B, 3500 MiB free, by what auto chooses' 3500 "$model2b"
refuses '2B, 2000 MiB free, refused' 2000 "$model2b"
exit $failed
