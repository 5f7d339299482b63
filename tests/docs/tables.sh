#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tests/docs/tables.sh EYELET PAGES MKCHECKPOINT MKGGUF [--write], in the source tree: generates tables of the
# documents from the program's output and compares them with the text between <!-- table --> and <!-- /table -->, or
# replaces it.
set -euo pipefail
eyelet=$(realpath "$1") pages=$(realpath "$2") mkcheckpoint=$(realpath "$3") mkgguf=$(realpath "$4") write=${5-}
source=$PWD
work=$(mktemp -d)
export HF_HUB_CACHE=$work/empty HF_HUB_OFFLINE=1 # as if nothing had been downloaded
trap 'rm -rf "$work"' EXIT
failed=0

number() { sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p" <<<"$plan"; }
mib() { echo $(((($1 + (1 << 20) - 1)) >> 20)); }
grouped() { sed -E ':a; s/([0-9])([0-9]{3})($|,)/\1,\2\3/; ta' <<<"$1"; }

# The options that the plan chose, except --head-rows, which costs nothing.
given_up() {
  local names
  names=$(grep -oE '"choices": \[[^]]*\]' <<<"$plan" | grep -oE '"--[a-z-]+( [a-z0-9]+)?' | tr -d '"' |
    grep -v '^--head-rows' | sed 's/^/`/; s/$/`/' | paste -sd, | sed 's/,/, /g')
  echo "${names:-–}"
}

row() { # row GPU MEMORY MULTIPROCESSORS NAME MODEL
  local download
  plan=$("$eyelet" plan "$4" --vram "$2MiB" --vram-used 1151MiB --sm-count "$3" --json 2>"$work/said") || true
  download=$(sed -n 's/.*is not downloaded (\(.*\) GB).*/\1/p' "$work/said")
  if [[ $plan == '{"fits": true'* ]]; then
    echo "| $1 | $5 | $download GB | $(grouped "$(mib "$(number total_bytes)")") of $(grouped \
      "$(mib "$(number budget_bytes)")") MiB | $(grouped "$(number max_model_len)") | $(given_up) |"
  else
    echo "| $1 | $5 | $download GB | does not fit, $(grouped "$(mib "$(number shortfall_bytes)")") MiB too many | | |"
  fi
}

choosing() {
  local kind gpu memory count size name
  echo '| GPU | model | download | on the GPU | context | given up |'
  echo '| --- | --- | --- | --- | --- | --- |'
  while read -r memory count gpu; do
    for kind in 2B-FP8 4B-FP8 2B-BF16 4B-BF16; do
      size=${kind%-*} name=
      [ "$kind" = "$size-BF16" ] || name=-FP8
      row "$gpu" "$memory" "$count" "Qwen/Qwen3-VL-$size-Instruct$name" "$kind"
    done
  done <<'END'
6141 20 6 GB (RTX 4050)
8151 30 8 GB (RTX 5060)
12282 46 12 GB (RTX 4070)
16311 36 16 GB (RTX 5060 Ti)
END
}

most_seqs() { # most_seqs SIZE MEMORY MULTIPROCESSORS OPTION...: how many requests of 4,096 tokens the plan lets run concurrently
  local kind=$1 memory=$2 count=$3 low=0 high=128 middle
  shift 3
  while [ $low -lt $high ]; do
    middle=$(((low + high + 1) / 2))
    if "$eyelet" plan "qwen3-vl:$kind" --vram "${memory}MiB" --vram-used 0 --sm-count "$count" --max-model-len 4096 \
      --max-num-seqs $middle --kv-tokens $((middle * 4096)) --quiet "$@" >/dev/null; then low=$middle
    else high=$((middle - 1)); fi
  done
  [ $low -gt 0 ] && echo $low || echo –
}

sizing() {
  local kind gpu memory count
  echo '| GPU | 2B-FP8 | 4B-FP8 | 8B-FP8 |'
  echo '| --- | --- | --- | --- |'
  while read -r memory count gpu; do
    printf '| %s |' "$gpu"
    for kind in 2b 4b 8b; do
      printf ' %s, %s |' "$(most_seqs $kind "$memory" "$count" --kv-cache-dtype bf16)" \
        "$(most_seqs $kind "$memory" "$count" --kv-cache-dtype fp8)"
    done
    echo
  done <<'END'
8151 30 8 GB (RTX 5060)
12282 46 12 GB (RTX 4070)
16311 36 16 GB (RTX 5060 Ti)
24564 128 24 GB (RTX 4090)
END
}

# Which of other programs' files fit an 8 GB GPU.
foreign() {
  local size kind made
  echo '| model | file, with the vision encoder | on the GPU | context | given up |'
  echo '| --- | --- | --- | --- | --- |'
  for size in 4b 8b; do
    "$mkcheckpoint" --like "qwen3-vl-$size-bf16" --sparse "$work/$size-plain" >/dev/null
    for kind in Q4_K_M Q6_K Q8_0 awq; do
      made=$work/$size-$kind
      if [ "$kind" = awq ]; then
        "$mkcheckpoint" --like "qwen3-vl-$size-awq" --sparse "$made" >/dev/null
      else
        mkdir "$made"
        "$mkgguf" --mix "$kind" "$work/$size-plain" "$made/model.gguf" "$made/mmproj-BF16.gguf"
      fi
      foreign_row "$size" "$kind" "$made"
      rm -rf "$made"
    done
    rm -rf "$work/$size-plain"
  done
}

foreign_row() { # foreign_row SIZE KIND FOLDER
  local bytes name=${2/awq/AWQ, groups of 64} model=$3
  bytes=$(find "$3" -name '*.gguf' -o -name '*.safetensors' | xargs du -bc | tail -1 | cut -f1)
  [ -f "$3/model.gguf" ] && model=$3/model.gguf
  plan=$("$eyelet" plan "$model" --vram 8151MiB --vram-used 1151MiB --sm-count 30 --json --quiet) || true
  if [[ $plan == '{"fits": true'* ]]; then
    echo "| ${1^^} | $name, $(printf '%d.%d' $((bytes / 1000000000)) $((bytes / 100000000 % 10))) GB | $(grouped "$(mib \
      "$(number total_bytes)")") of $(grouped "$(mib "$(number budget_bytes)")") MiB | $(grouped \
      "$(number max_model_len)") | $(given_up) |"
  else
    echo "| ${1^^} | $name, $(printf '%d.%d' $((bytes / 1000000000)) $((bytes / 100000000 % 10))) GB | does not fit, $(grouped "$(mib \
      "$(number shortfall_bytes)")") MiB too many | | |"
  fi
}

# shown: prints the document's table. put: replaces it with standard input.
shown() { sed -n '/^<!-- table -->$/,/^<!-- \/table -->$/p' "$1" | sed '1d;$d'; }
put() {
  cat >"$work/table"
  sed -i -e '/^<!-- table -->$/,/^<!-- \/table -->$/{/^<!-- /!d}' -e "/^<!-- table -->\$/r $work/table" "$1"
}

document() { # document FILE COMMAND: checks or replaces the table that COMMAND prints
  local file=$source/docs/$1
  "$2" >"$work/made"
  if [ "$write" = --write ]; then put "$file" <"$work/made"; fi
  if ! diff -u --label "docs/$1" --label "what eyelet says" <(shown "$file") "$work/made"; then
    echo "FAILED docs/$1: update it with tests/docs/tables.sh EYELET PAGES MKCHECKPOINT MKGGUF --write"
    failed=1
  fi
}

vllm_flags() { "$pages" vllm; }

document guides/choosing-a-model.md choosing
document guides/from-vllm.md vllm_flags
document guides/operating.md sizing
document guides/from-llama-cpp.md foreign
exit $failed
