#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tests/gpu/small_gpus.sh EYELET MKCHECKPOINT [CASE...]: tests what docs/guides/memory.md promises for small GPUs on a
# larger one. Another process fills its memory until only the case's memory is free; eyelet's context uses part of
# that. Each model is made (random weights, official shapes), served, and asked several questions concurrently. Prints
# a line for each case; exits 1 if one failed. EYELET must be in its build folder, next to ballast and make_image.
# Needs curl, and 20 GB of disk for the largest model.
set -u
[ $# -ge 2 ] || { echo "usage: $0 EYELET MKCHECKPOINT [CASE...]" >&2; exit 2; }
here=$(dirname "$(realpath "$0")") eyelet=$(realpath "$1") mkcheckpoint=$(realpath "$2")
shift 2
cases=" $* "
. "$here/beside_ballast.sh"
"$tools/make_image" 1024 1024 image.png || exit 1
image="data:image/png;base64,$(base64 -w0 image.png)"

# post NUMBER: sends $content as a message and writes the answer to answerNUMBER.json
post() {
  printf '{"messages": [{"role": "user", "content": %s}], "max_tokens": 32, "temperature": 0}' "$content" >"answer$1.request"
  curl -sS --max-time 60 -o "answer$1.json" -H 'Content-Type: application/json' --data-binary "@answer$1.request" "http://127.0.0.1:$port/v1/chat/completions" 2>"answer$1.err" &&
    grep -q '"finish_reason": *"\(stop\|length\)"' "answer$1.json"
}
questions() { at_once "$askers" post; }
said() { echo "$askers at once"; }

# fits CASE FREE_MIB KIND CONCURRENT OPTION...: serves the model and asks CONCURRENT questions concurrently, with the
# image if the model has a vision encoder
fits() {
  local name=$1 free=$2 kind=$3 askers=$4 content
  shift 4
  [ "$cases" = "  " ] || [[ $cases == *" $name "* ]] || return 0
  if [ ! -d "$kind" ]; then
    rm -rf "${made:-}" && made=$kind # one at a time: they are large
    "$mkcheckpoint" --like "$kind" --seed 1 "$kind" >mkcheckpoint.log || { tell "$name" FAILED "no checkpoint"; return; }
  fi
  case $kind in
  *-vl-*) content='[{"type": "image_url", "image_url": {"url": "'$image'", "detail": "high"}}, {"type": "text", "text": "What is this?"}]' ;;
  *) content="\"Tell me about this: $(seq -s ' ' 1 400)\"" ;;
  esac
  case_of "$name" "$free" questions said "$kind" "$@"
}

fits 4b-int4 7000 qwen3-vl-4b-fp8 4 --quantize int4
fits 4b-int4-3500 3500 qwen3-vl-4b-fp8 2 --quantize int4 --head 8bit --vision-weights streamed --max-model-len 2048
fits qwen2.5-3b 7000 qwen2.5-3b-fp8 8 --kv-tokens 32768 --max-num-seqs 8
fits phi-3-mini-fp8 7000 phi-3-mini 4 --quantize fp8 --max-model-len 4096
fits llama-2-7b-int4 7000 llama-2-7b 4 --quantize int4 --max-model-len 4096
fits 8b-int4 7000 qwen3-vl-8b-fp8 2 --quantize int4 --max-model-len 4096
exit $failed
