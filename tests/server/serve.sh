#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# serve.sh EYELET, in the source tree: the command line of serve. Other tests cover the server.
set -u
eyelet=$1 json_at=
model=$PWD/models/demo
. "$(dirname "$0")/../cli/common.sh"

refused() { # refused PATTERN ARGUMENT...: serve exits with an error that matches PATTERN
  local pattern=$1
  shift
  try "refused: $*" 2 - "$pattern" serve "$model" --port 0 "$@"
}
refused 'takes 0 to 64 images' --limit-mm-per-prompt x
refused 'takes 0 to 64 images' --limit-mm-per-prompt image=-1
refused 'takes 0 to 64 images' --limit-mm-per-prompt '{"image": "many"}'
refused 'not valid JSON' --limit-mm-per-prompt '{"image": 1'
refused 'takes a number from 0 to 65535' --port 65536
refused 'takes a number of tokens from 16' --max-model-len 4q
refused 'takes a number of tokens from 16' --max-model-len 3
refused 'takes a number of tokens from 16' --kv-tokens 99999K
refused 'this model has at most' --max-model-len 64K
refused 'takes a time' --idle-unload 5x
refused '--ollama takes a port' --ollama x
refused '--ollama takes a port' --ollama 127.0.0.1:70000
refused '--ollama takes a port' --ollama :11434
refused 'set --ollama-insecure' --ollama 0.0.0.0:0
refused 'takes a time' --idle-unload 0.5
refused 'takes a size' --host-memory 3
refused 'takes a size' --host-memory 1X
refused 'takes a number from 0 to 1' --gpu-memory-utilization 1.5
refused 'above 0' --gpu-memory-utilization 0
refused 'give one of them' --gpu-memory-utilization 0.5 --gpu-memory 4G
refused 'takes a size' --gpu-memory 4X
refused 'takes auto|bf16' --kv-cache-dtype int4
refused 'max_pixels' --mm-processor-kwargs '{"max_pixels": 1}'
refused 'two models are called' "$model"
refused 'has 3 names for 2 models' models/other --served-model-name a b c
refused 'takes a number from 1 to 16' --max-loaded-models 0
refused 'needs a value' --served-model-name
refused 'takes strings' --allowed-origins '[null]'
refused 'needs both' --ssl-keyfile x
refused 'no such folder' --allowed-local-media-path /nonexistent
refused 'API key 1 is empty' --api-key 'a b'
refused 'runs on one device' --tensor-parallel-size 2
refused 'runs on one device' -tp 2
refused 'runs on one device' --pipeline_parallel_size=4
refused 'detects the format' --load-format dummy
refused 'adapters' --enable-lora
refused 'there is no option --no-such' --no-such
refused 'give it an --api-key' --host 0.0.0.0
printf '\n' >keys
refused 'has no key' --api-key-file keys
HF_HOME=$PWD/none try 'a short name' 1 - 'Qwen/Qwen3-VL-4B-Thinking-FP8 is not' serve qwen3-vl:4b-thinking --port 0
try 'no such model' 1 - 'nonexistent' serve /nonexistent --port 0

# A server with the options of typical vLLM scripts starts, lists those that it ignores, and stops on request.
printf 'first\r\nsecond\n' >keys
"$eyelet" serve "$model" --port 0 --trust-remote-code --swap-space 4 --enforce-eager --gpu-memory-utilization 0.9 -O3 -tp 1 \
  --tensor_parallel_size=1 --dtype auto --max_model_len 2k --kv-tokens 4K --enable-chunked-prefill False --no-enable-prefix-caching \
  --limit-mm-per-prompt '{"image": 2, "video": 0}' --served-model-name one two --allowed-origins '["https://a.example", "*"]' \
  --mm-processor-kwargs '{"max_pixels": 200000}' --max-num-batched-tokens 8192 --max-num-seqs 2 --api-key-file keys --seed 7 \
  --allowed-media-domains a.example b.example --idle-unload 5m --host-memory 64M --drain-seconds 1 --compilation-config.mode 3 \
  >out 2>err </dev/null &
server=$!
is_ready() { ended $server || grep -q 'eyelet ready on http://127.0.0.1:' err; }
await is_ready
kill "$server"
wait "$server"
status=$?
[ $status -eq 0 ]
say 'SIGTERM stops the server'
grep -qF 'eyelet: ignored options of vLLM: --trust-remote-code, --swap-space, -O3, -tp, --tensor_parallel_size, --dtype, --enable-chunked-prefill, --no-enable-prefix-caching, --compilation-config.mode' err
say 'the log lists ignored options'
grep -q -- '--gpu-memory-utilization, --gpu-memory: only for a GPU, not used here' err
say 'the log says which options need a GPU'
grep -q 'model one (Qwen3VL' err
say 'the log names the model'
grep -q 'Available KV cache memory: 0\.02 GiB' err && grep -q 'GPU KV cache size: 4,096 tokens, Maximum concurrency for 2,000 tokens per request: 2.05x' err
say 'the log has the lines that scripts search for'
[ ! -s out ]
say 'standard output is empty'

# On a CPU, the log mentions GPUs only in lines that scripts search vLLM's log for. Options come from a file; the
# server listens on all interfaces.
printf 'port: 0\nmax-num-seqs: 2\nserved-model-name: [from-file]\ndevice: cpu\nhost: 0.0.0.0\ninsecure: true\n' >serve.yaml
: >err # the first server has logged "ready", too; a SIGTERM before the program runs may be lost
"$eyelet" serve "$model" --config serve.yaml --max-num-seqs 1 >out 2>err </dev/null &
server=$!
await is_ready
kill "$server"
wait "$server"
status=$?
[ $status -eq 0 ] && grep -q 'model from-file (Qwen3VL' err
say 'options come from a file'
! grep GPU err | grep -vE 'GPU KV cache (size|usage): '
say 'the log does not mention GPUs on a CPU'
if [ -n "$(hostname -I 2>/dev/null)" ]; then
  grep -qE 'from other devices in this network, such as a phone: http://[0-9.]+:[0-9]+/$' err
  say 'the log has the address for other devices'
fi

echo "1..$ran"
exit $((failed > 0))
