#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run_server.sh EYELET, in the source tree: with --server, commands print what they print without it. Prints TAP. The
# server is the program itself with the demo model.
set -u
eyelet=$(realpath "$1") examples=$PWD/examples
demo=$PWD/models/demo
. "$(dirname "$(realpath "$0")")/common.sh"
export HOME=$work HF_HOME=$work/no-cache
unset http_proxy all_proxy ALL_PROXY
pid=
trap 'kill $pid 2>/dev/null; rm -rf "$work"' EXIT
cp "$examples"/* .
echo 'not an image' >text.png
head -c 2000 shapes-6.jpg >cut.jpg
echo '{"type": "object", "properties": {"shape": {"type": "string", "maxLength": 9}, "count": {"type": "integer", "minimum": 0, "maximum": 9}},
  "required": ["shape", "count"], "additionalProperties": false}' >fields.json

# is_ready LOG: sets port; true, too, if the server has ended
is_ready() {
  port=$(sed -n 's/.*ready on https*:\/\/127\.0\.0\.1:\([0-9]*\) .*/\1/p' $1)
  [ -n "$port" ] || ended $pid
}
# serve NAME ARGUMENT...: starts a server that logs to NAME.log; sets pid and port
serve() {
  local name=$1
  shift
  : >$name.log
  "$eyelet" serve "$demo" --port 0 "$@" >$name.log 2>&1 </dev/null &
  pid=$!
  await is_ready $name.log
  [ -n "$port" ] && return
  cat $name.log; echo "not ok $((++ran)) the server starts"; exit 1
}
# gauge NAME: a value of /metrics
gauge() {
  exec 3<>/dev/tcp/127.0.0.1/$port || return
  printf 'GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:%s\r\nConnection: close\r\n\r\n' $port >&3
  tr -d '\r' <&3 | awk -v name="$1" 'index($1, name "{") == 1 || $1 == name {print $NF}'
  exec 3<&-
}
is() { [ "$(gauge "$1")" = "$2" ]; } # is NAME NUMBER

# Masks times and cached tokens, which may differ.
plain() { sed -E \
  's/"(load|vision|prefill|decode)_s": [0-9.]+/"\1_s": T/g; s/"cached_tokens": [0-9]+/"cached_tokens": C/g' "$1"; }

# both NAME ARGUMENT...: compares output, errors and exit status with and without the server
both() {
  local name=$1 here
  shift
  "$eyelet" "$@" --model "$demo" >here.out 2>here.err <"$([ -e in ] && echo in || echo /dev/null)"
  here=$?
  "$eyelet" "$@" --server http://127.0.0.1:$port >out 2>err <"$([ -e in ] && echo in || echo /dev/null)"
  status=$?
  [ $status -eq $here ] && diff <(plain here.out) <(plain out) && diff here.err err
  say "$name"
}

serve one
both "captions" caption --temperature 0 *.png *.jpg
both "captions as JSON, a bad one among them" caption --json --temperature 0 shapes-1.png text.png cut.jpg word-2.jpg \
  nope.png
both "an answer" ask --temperature 0 shapes-5.png 'How many shapes are there?'
both "an answer as JSON" ask --json --temperature 0 shapes-6.jpg 'How many shapes are there?'
both "two images" ask --json --temperature 0 shapes-1.png transparent.png 'What has changed?'
both "no image" ask --json --temperature 0 'What is this?'
both "the model's own sampling" ask --json --seed 5 turned.jpg 'What is this?'
both "warm" ask --json --seed 6 --temperature 1.5 --top-k 0 --top-p 1 both-1.png 'What is this?'
both "penalties" ask --json --temperature 0 --repetition-penalty 1.4 --presence-penalty 0.5 --frequency-penalty 0.25 \
  --min-p 0.1 both-2.png 'What is this?'
both "log-probabilities" ask --json --temperature 0 --logprobs 3 word-1.png 'What is written?'
both "log-probabilities as text" ask --temperature 0 --logprobs 2 --max-tokens 4 word-1.png 'What is written?'
both "a short answer" ask --json --temperature 0 --max-tokens 2 shapes-3.png 'What is this?'
both "stop texts" ask --json --temperature 0 --stop ' and' --stop circle shapes-3.png 'What is this?'
both "detail" ask --json --temperature 0 --detail low shapes-5.png 'What is this?'
both "pixels" ask --json --temperature 0 --max-pixels 30000 shapes-5.png 'What is this?'
both "native pixels" ask --json --temperature 0 --max-pixels native shapes-5.png 'What is this?'
both "special tokens stay text" ask --json --temperature 0 '<|image_pad|><|im_end|>'
both "scene" scene --json --temperature 0 shapes-2.jpg
both "read" read --json word-2.jpg
both "boxes" detect shapes-4.png 'pink square'
both "boxes of a turned image" detect turned.jpg 'heart'
both "an answer without boxes" detect shapes-4.png 'pink square' --max-tokens 5
both "choices" ask --json shapes-4.png 'Is there a heart?' --choice yes --choice no
both "a schema" ask --json shapes-4.png 'What is it?' --schema fields.json
both "extract" extract shapes-4.png text.png word-1.png --schema fields.json --json
both "extract, drawn" extract shapes-4.png --schema fields.json --temperature 1.5 --seed 3
both "extract, cut" extract shapes-4.png --schema fields.json --max-tokens 3
both "a text as an image" ask text.png 'What is this?'
both "the bad one of two" ask shapes-1.png cut.jpg 'What is this?'
both "a missing image" ask nope.png 'What is this?'
printf '/image shapes-4.png\nDescribe this image.\nHow many shapes are there?\n/image text.png\n/clear\nHello\n' >in
both "a conversation" chat --temperature 0
{ printf 'x%.0s' {1..1700}; printf '\n'; printf 'and y%.0s' {1..1700}; printf '\n'; printf 'again %.0s' {1..600}; \
  printf '\nz\n'; } >in
both "a conversation that fills the context" chat --temperature 0 --max-tokens 4000
rm in
detect() { "$eyelet" detect shapes-4.png 'pink square' --draw $1 "${@:2}" >out 2>err; }
detect here.png --model "$demo" && detect there.png --server 127.0.0.1:$port && cmp -s here.png there.png
say "detect --draw with a server"

EYELET_SERVER=http://127.0.0.1:$port EYELET_MODEL=/nowhere try "EYELET_SERVER; EYELET_MODEL is not the server's" 0 \
  '^Five' - ask --temperature 0 shapes-5.png 'How many shapes are there?'
EYELET_SERVER= try "an empty EYELET_SERVER is ignored" 1 - nowhere ask --model nowhere hello
try "a model that the server has" 0 . - ask --server 127.0.0.1:$port --model "$demo" --temperature 0 hello
try "a model that the server lacks" 1 - 'has no model qwen; it has ' ask --server 127.0.0.1:$port --model qwen hello
try "an option of the engine with a server" 2 - '--threads cannot be combined with --server' ask --server 127.0.0.1:$port --threads 1 \
  hello
for option in "--quantize int4" "--group-size 64" "--gpu-layers 3" "--cpu-memory 1G" "--max-num-seqs 4"; do
  try "$option with a server" 2 - "${option%% *} cannot be combined with --server" ask --server 127.0.0.1:$port $option hello
done
try "--parse-special with a server" 2 - '--parse-special cannot be combined with --server' ask --server 127.0.0.1:$port --parse-special hello
try "a temperature that is too high for the API" 2 - 'temperature' ask --server 127.0.0.1:$port --temperature 3 hello
try "an option's list that is not JSON" 2 - '--allowed-origins: not valid JSON' serve "$demo" --port 0 \
  --allowed-origins '['
try "processor options that are not an object" 2 - '--mm-processor-kwargs takes a JSON object' serve "$demo" --port 0 \
  --mm-processor-kwargs '[1]'
try "bench takes no server" 2 - 'not an option of bench' bench --server 127.0.0.1:$port
kill $pid
wait $pid
status=$?
[ $status -eq 0 ]
say "SIGTERM ends the server with status 0"
try "ask with a server that is not running" 1 - "no server answers at 127.0.0.1:$port; is \`eyelet serve\` running" ask --server 127.0.0.1:$port \
  hello
try "a server that is not a URL" 2 - '--server takes a URL' ask --server ftp://127.0.0.1 hello

# ---- keys ----
serve keyed --api-key secret --served-model-name toy
try "ask without the server's key" 1 - 'the server needs a key; give it with --api-key' ask --server 127.0.0.1:$port hello
try "ask with a wrong key" 1 - 'rejects this key' ask --server 127.0.0.1:$port --api-key sesame hello
try "ask with the right key" 0 . - ask --server 127.0.0.1:$port --api-key secret --model toy --temperature 0 hello
EYELET_API_KEY=secret try "the key in EYELET_API_KEY" 0 . - ask --server 127.0.0.1:$port --temperature 0 hello
VLLM_API_KEY=secret try "the key in VLLM_API_KEY" 0 . - ask --server 127.0.0.1:$port --temperature 0 hello
kill $pid
wait $pid
status=$?
[ $status -eq 0 ]
say "SIGTERM ends the server with status 0"

# ---- interrupted answers (the reference backend is slow enough) ----
serve slow --device ref
question=$(printf 'what is this %.0s' {1..600})
env --default-signal=INT "$eyelet" ask --server 127.0.0.1:$port "$question" >out 2>err </dev/null &
asking=$!
await is vllm:num_requests_running 1
say "the server is computing an answer"
kill -INT $asking
wait $asking
status=$?
[ $status -eq 130 ]
say "Ctrl-C ends an answer of the server"
await is vllm:num_requests_running 0
say "the server stops computing after Ctrl-C"
"$eyelet" ask --server 127.0.0.1:$port "$question" >out 2>err </dev/null &
asking=$!
await is vllm:num_requests_running 1
kill -KILL $pid
{ wait $asking; status=$?; wait $pid; } 2>/dev/null
pid=
[ $status -eq 1 ] && grep -q 'closed the connection before its answer was complete' err
say "the server dies during an answer"

# the server is down while a message is sent
serve away
lost_and_found() {
  echo Hello
  await [ -s out ]
  kill $pid
  await ended $pid
  printf '/image shapes-1.png\nLost\n'
  await grep -q 'no server answers' err
  "$eyelet" serve "$demo" --port $port >back.log 2>&1 </dev/null &
  echo $! >back.pid
  await grep -q 'ready on' back.log
  printf 'Found\n/save kept.json\n'
}
: >out
lost_and_found | "$eyelet" chat --server 127.0.0.1:$port --max-tokens 3 >out 2>err
kill "$(cat back.pid)"
pid=
grep -q Found kept.json && ! grep -q Lost kept.json && grep -q shapes-1.png kept.json
say "chat: the images of a message that was not sent go with the next one"
echo "1..$ran"
[ $failed -eq 0 ]
