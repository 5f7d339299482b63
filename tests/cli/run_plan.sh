#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run_plan.sh EYELET MKCHECKPOINT JSON_AT: plans for simulated GPUs from the headers of the official models, as TAP.
set -u
eyelet=$(realpath "$1") mkcheckpoint=$(realpath "$2") json_at=$(realpath "$3")
. "$(dirname "$(realpath "$0")")/common.sh"
unset EYELET_MODEL HF_HUB_CACHE
export HF_HOME=$work/no-cache HOME=$work

"$mkcheckpoint" --like qwen3-vl-2b-fp8 --sparse 2b >/dev/null &&
  "$mkcheckpoint" --like qwen3-vl-4b-fp8 --sparse 4b >/dev/null || exit 1
desktop='--vram 8151MiB --vram-used 1151MiB --sm-count 30'

# ---- settings that must fit: model, share, context, pattern of the choices ----
while read -r model share context chosen; do
  # shellcheck disable=SC2086
  try "$model at $share, $context" 0 'fits; usable memory: ' - plan $model $desktop --gpu-memory-utilization "$share" \
    --max-model-len "$context"
  [ "$chosen" = - ] || grep -q -- "chosen: $chosen" out
  say "$model at $share, $context: chosen $chosen"
  ! grep -qE 'chosen: --(vision-weights|kv-cache-dtype)' out
  say "$model at $share, $context: no choice that is not needed"
done <<'END'
2b 0.40 2048 -
2b 0.70 auto -
2b 0.75 auto -
4b 0.80 4096 -
4b 0.75 512 -
4b 0.70 2048 -
4b 0.65 1024 --head 8bit
END

# ---- models that are not downloaded: their shapes are built in ----
mkdir temporary
export TMPDIR=$work/temporary
for size in 2b 4b 8b; do
  for kind in fp8 bf16; do
    "$mkcheckpoint" --like qwen3-vl-$size-$kind --sparse like >/dev/null
    suffix=
    [ $kind = bf16 ] || suffix=-FP8
    # shellcheck disable=SC2086
    "$eyelet" plan like --vram 12282MiB --json >out 2>err
    mv out wanted
    "$eyelet" plan Qwen/Qwen3-VL-${size^^}-Thinking$suffix --vram 12282MiB --json >out 2>err
    cmp wanted out >>err && grep -q 'is not downloaded (.* GB); planned from its built-in shapes' err
    say "$size $kind: the plan equals that from the headers"
    rm -r like
  done
done
# shellcheck disable=SC2086
try "a plan for a short name" 0 '^Qwen/Qwen3-VL-4B-Thinking-FP8 on cuda' - plan qwen3-vl:4b-thinking $desktop --quiet
HF_HUB_OFFLINE=1 "$eyelet" plan Org/Unknown >out 2>err
[ $? -eq 1 ] && grep -q 'not in the Hugging Face cache' err
say "an unknown model has no plan without a network"
[ -z "$(ls temporary)" ]
say "plans leave no temporary folder"
try "the best model for this machine" 0 - '^  qwen3-vl:2b +2.85 GB  ' pull
grep -qE '^eyelet: the best one for this machine is qwen3-vl:[248]b, .*: eyelet pull qwen3-vl:[248]b$' err
say "the best model for this machine is named"

# ---- as JSON ----
# shellcheck disable=SC2086
try "a plan as JSON" 0 '"fits": true' - plan 4b $desktop --json
same "members of plan --json" fits,device,budget_rule,budget_bytes,total_bytes,file_bytes,shortfall_bytes,items,max_model_len,kv_tokens,max_num_seqs,max_pixels,n_layers,gpu_layers,tokens_per_second,choices,suggestions keys
same "default options in plan --json" 16384$'\t'16384$'\t'16$'\t'0 max_model_len kv_tokens max_num_seqs shortfall_bytes
same "context in plan --json" '"context"'$'\t''"cuda:0"'$'\t'125829120 items.0.name items.0.device items.0.bytes
grep -q '"choices": \["--head 8bit: .*", "--vision-weights streamed: .*", "--kv-cache-dtype fp8: ' out
say "choices in plan --json are in order"
awk '{ n = split($0, at, /"device": "cuda:0", "bytes": /); sum = 0; for (i = 2; i <= n; i++) sum += at[i]; match($0, /"total_bytes": [0-9]+/);
       exit sum != substr($0, RSTART + 15, RLENGTH - 15) + 0 }' out
say "the total is the sum of the GPU's rows"

# ---- models that do not fit ----
try "too small a GPU" 1 'does not fit, [0-9.]+ MiB too many' - plan 4b --vram 3000MiB
grep -qE 'with --model Qwen/Qwen3-VL-2B-Instruct-FP8 +[0-9.]+ MiB  fits' out && grep -qE 'with --device cpu ' out &&
  grep -qE 'with --max-num-seqs 1 ' out
say "a plan that does not fit names changes"
# shellcheck disable=SC2086
try "too small a share" 1 'with --gpu-memory-utilization 0\.[0-9]+ +[0-9.]+ MiB  fits' - plan 2b $desktop \
  --gpu-memory-utilization 0.2
# shellcheck disable=SC2086
try "options of the user are not changed" 1 'with --vision-weights streamed +[0-9.]+ MiB  fits' - plan 4b $desktop --gpu-memory 4800M \
  --max-model-len 1024 --vision-weights resident
# shellcheck disable=SC2086
try "one option is given, and the others are chosen" 0 'chosen: --head 8bit' - plan 4b $desktop --kv-cache-dtype bf16

# ---- BF16 head rows of an 8-bit head ----
try "head rows in pinned memory" 0 'chosen: --head-rows pinned: 741 MiB of the file stay in memory for the GPU to read, if the system allows it; else host' - plan 4b $desktop --head 8bit --max-model-len 4096
grep -qE "^  head's stored rows, pinned +host +741.9 MiB  always" out &&
  grep -qE '^  weights read when needed +file +0.0 MiB' out
say "pinned head rows count as host memory"
# shellcheck disable=SC2086
try "head rows that the host reads" 0 '^  weights read when needed +file +741.9 MiB' - plan 4b $desktop --head 8bit --head-rows \
  host --max-model-len 4096
# shellcheck disable=SC2086
try "an unknown value of --head-rows" 2 - 'takes auto.pinned.host' plan 4b $desktop --head-rows gpu

# shellcheck disable=SC2086
try "the vision encoder on the CPU" 0 '^  vision workspace +host ' - plan 4b $desktop --vision-weights host
grep -qE '^  prefill workspace +cuda:0 ' out && ! grep -q 'vision weights' out
say "a vision encoder on the CPU takes no GPU memory"

# ---- on-load quantization ----
"$mkcheckpoint" --like qwen3-vl-4b-bf16 --sparse 4b-bf16 >/dev/null
# shellcheck disable=SC2086
try "4B in BF16 does not fit" 1 'does not fit' - plan 4b-bf16 $desktop --max-model-len 4096 --head bf16 \
  --vision-weights resident
# shellcheck disable=SC2086
try "4B in BF16 fits if it is quantized to FP8" 0 '^  one quantized matrix +host +[0-9.]+ MiB  loading' - plan 4b-bf16 $desktop \
  --quantize fp8 --max-model-len 4096 --gpu-memory-utilization 0.80
grep -E '^  (text model weights|all on the GPU)' out > made
# shellcheck disable=SC2086
"$eyelet" plan 4b $desktop --max-model-len 4096 --gpu-memory-utilization 0.80 |
  grep -E '^  (text model weights|all on the GPU)' | cmp -s - made
say "quantized to FP8, it takes the memory of the FP8 files"

# ---- layers on the CPU ----
try "half of the layers on the GPU" 0 'chosen: --gpu-layers 18 of 36: the first 18 are on the CPU .at least 3, which take the images., with [0-9]+ MiB of its memory(; at most [0-9.]+ tokens a second)?$' - plan 4b --vram 6GiB --gpu-layers 18 --max-model-len 4096
grep -qE "^  KV cache of the CPU's layers +host " out && grep -qE "^  workspace, the CPU's layers +host " out
say "the plan shows GPU and CPU"
try "as many layers on the GPU as fit" 0 'chosen: --gpu-layers [0-9]+ of 36' - plan 4b --vram 3500MiB --gpu-layers auto --max-model-len \
  4096
try "a plan that does not fit offers layers on the CPU" 1 'with --gpu-layers auto .[0-9]+ of 36.* fits' - plan 4b --vram 3500MiB \
  --max-model-len 4096
try "layers that cannot be separated" 2 - 'use 1 to 33, or 36' plan 4b --vram 8GiB --gpu-layers 35
try "more layers than the model has" 2 - 'this model has 36' plan 4b --vram 8GiB --gpu-layers 40
try "layers on the CPU within the host's memory" 1 'does not fit: layers on the CPU take more than --cpu-memory' - plan 4b --vram \
  6GiB --gpu-layers 18 --cpu-memory 1GiB --max-model-len 4096
try "--gpu-layers that is not a number" 2 - 'takes auto or a number' plan 4b --vram 8GiB --gpu-layers few

# ---- several models ----
# shellcheck disable=SC2086
try "two models that fit together" 0 '; all stay loaded' - plan 2b 2b $desktop
[ "$(grep -cE '^  resident +[0-9.]+ MiB' out)" = 2 ]
say "both models stay loaded"
# shellcheck disable=SC2086
try "two models that do not fit together" 0 '^  on demand +[0-9.]+ MiB  .*4b' - plan 2b 4b $desktop
# shellcheck disable=SC2086
try "two models as JSON" 0 '^."together": false' - plan 2b 4b $desktop --json
same "members about the models that stay loaded" true$'\t'false models.0.resident models.1.resident
try "two models, one of which never fits" 1 'never fits' - plan 2b 4b --vram 4000MiB
try "two models, one of them with a shorter context" 2 - 'the context of this model|this model has at most' plan 2b 4b --vram 24GiB \
  --max-model-len 999999

# ---- wrong calls ----
try "--vram-used without --vram" 2 - 'describe a simulated GPU and need --vram' plan 2b --vram-used 1G
try "more memory in use than the GPU has" 2 - 'more than --vram' plan 2b --vram 1G --vram-used 2G
try "a GPU and another device" 2 - 'describes a GPU' plan 2b --vram 8G --device cpu
try "a size that is not valid" 2 - 'takes a size from 64M to 16384G' plan 2b --vram 8151QiB
try "an unknown choice" 2 - 'takes auto.bf16.8bit' plan 2b --head 4bit
try "a share above 1" 2 - 'takes a number from 0 to 1' plan 2b --gpu-memory-utilization 2
try "a pool smaller than a request" 2 - 'does not hold one request' plan 2b --vram 8G --max-model-len 4096 --kv-tokens \
  2048

# ---- plans for the CPU ----
try "a plan for the CPU" 0 'on cpu: context 8192 tokens, KV pool 8192 tokens, 1 request at once' - plan 2b --device cpu
try "GPU options in a plan for the CPU" 0 'chosen: .*only for a GPU, not used here' - plan 2b --device cpu --kv-cache-dtype fp8
try "an 8-bit head on the CPU" 0 '^  head +host +297.3 MiB' - plan 2b --device cpu --head 8bit

echo "1..$ran"
exit $((failed > 0))
