#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run_pull.sh EYELET MKCHECKPOINT JSON_AT SERVE_FOLDER: pull, list, rm and the offer to pull, with a fake hub, as TAP.
set -u
eyelet=$(realpath "$1") mkcheckpoint=$(realpath "$2") json_at=$(realpath "$3") serve_folder=$(realpath "$4")
seed=$(dirname "$(realpath "$0")")/../fuzz/corpus/gguf/byte-level.gguf
. "$(dirname "$(realpath "$0")")/common.sh"
unset EYELET_MODEL HF_HUB_CACHE HUGGINGFACE_HUB_CACHE HF_TOKEN HF_TOKEN_PATH HUGGING_FACE_HUB_TOKEN HF_HUB_OFFLINE \
  TRANSFORMERS_OFFLINE XDG_CACHE_HOME OLLAMA_MODELS
unset http_proxy HTTP_PROXY https_proxy HTTPS_PROXY all_proxy ALL_PROXY
export HF_HOME=$work/hf HOME=$work
model=Org/Tiny cache=$work/hf/hub/models--Org--Tiny snapshot=snapshots/0123456789abcdef0123456789abcdef01234567
"$mkcheckpoint" --like tiny-shards-fp8 tiny >/dev/null || exit 1

mkfifo orders
start_hub() { \
  # sets hub and HF_ENDPOINT; the previous hub's output is removed first, so that its address is not used
  exec 9<>orders # opened for reading and writing, so that opening does not block
  : >hub.out
  "$serve_folder" $model tiny <orders 9>&- >hub.out &
  hub=$!
  until HF_ENDPOINT=$(grep -m1 http hub.out); do sleep 0.1; done
  export HF_ENDPOINT
}
stop_hub() { exec 9>&-; wait $hub; }
trap 'stop_hub; rm -rf "$work"' EXIT
start_hub
order() { # order WORDS: changes the hub's behaviour; $hub_says gets its reply
  local before
  before=$(wc -l <hub.out)
  echo "$*" >&9
  until [ "$(wc -l <hub.out)" -gt "$before" ]; do sleep 0.02; done
  hub_says=$(tail -1 hub.out)
}
terminals=$(script -qec true /dev/null </dev/null >/dev/null 2>&1 && echo yes) # a chroot may have no pseudo-terminals
mkfifo keys
exec 8<>keys # for reading and writing, as above
asked() { ended $1 || grep -qF '[y/N]' out; }
# at_terminal NAME STATUS PATTERN ANSWER ARGUMENT...: like try, but a user at a terminal types ANSWER to the question
at_terminal() {
  local name=$1 want=$2 pattern=$3 answer=$4 typing
  shift 4
  [ $terminals ] || return 0
  : >out
  script -qec "$eyelet $*" /dev/null <keys >out 2>err 8>&- &
  typing=$!
  await asked $typing
  echo "$answer" >&8
  wait $typing
  status=$?
  [ "$status" -eq "$want" ] && grep -qE -- "$pattern" out
  say "$name"
}

# ---- before anything is downloaded ----
try "a model that is not downloaded" 1 - "not in the Hugging Face cache .*eyelet pull $model" ask --model $model hello
try "serving a model that is not downloaded" 1 - "eyelet pull $model" serve $model --port 0
try "list before any download" 0 - 'eyelet pull Qwen' list
at_terminal "an offer that is declined" 1 "$model is not downloaded. Download it now\? \[y/N\]" n ask --model \
  $model hello
HF_HUB_OFFLINE=1 "$eyelet" pull $model >out 2>err
[ $? -eq 1 ] && grep -q 'HF_HUB_OFFLINE forbids downloads' err
say "pull without a network"
try "pull with two names" 2 - 'takes one model' pull a/b c/d
try "pull of a name with .." 2 - 'not the name of a model' pull ../../x
try "pull of a revision with .." 2 - 'not the name of a model' pull $model --revision ../../x
try "pull with two revisions" 2 - 'given twice' pull $model@a --revision b
try "a model that the hub does not have" 1 - 'no such model' pull Org/Other
[ ! -e "$cache" ]
say "failed pulls write nothing"

# ---- a plan from headers ----
order count
try "pull --dry-run" 0 - 'on this machine \(.*\) it fits' pull $model --dry-run
order show
[ ! -e "$cache" ] && [ "${hub_says#* requests, }" != "$hub_says" ] &&
  [ "$(echo "${hub_says#* requests, }" | cut -d' ' -f1)" -lt 400000 ]
say "the dry run downloads some kilobytes: $hub_says"

try "a plan of a model on the hub" 0 "^$model on " "$model is not downloaded .0.0. GB.; planned from its headers on the hub" plan $model --device cpu
[ ! -e "$cache" ]
say "the dry run stores nothing"

# ---- pulling ----
order cut 4
for run in 1 2 3 4 5 6 7 8 9; do "$eyelet" pull $model >out 2>err && break; done
order cut 0
try "pull" 0 "^$cache/$snapshot\$" 'already downloaded' pull $model
for file in tiny/*; do [ "$(readlink "$cache/$snapshot/${file#*/}" | cut -d/ -f1-3)" = ../../blobs ] &&
  cmp -s "$file" "$cache/$snapshot/${file#*/}" || echo "$file"; done >differ
matches differ -
say "the downloaded files equal the hub's"
try "ask with the pulled model" 0 . - ask --model $model --max-tokens 1 --temperature 0 hello
try "list shows the pulled model" 0 "^$model .*  (yes|no)\$" - list
try "list --json shows the pulled model" 0 '"fits": (true|false)' - list --json
HF_HUB_OFFLINE=1 "$eyelet" pull $model >out 2>err
status=$?
[ $status -eq 0 ] && grep -q "$snapshot" out
say "the cached model works without a network"

"$eyelet" rm $model --yes 2>/dev/null
order hold 2000000
"$eyelet" pull $model >out 2>err & # a shell disables SIGINT in background jobs, so SIGTERM is used
pulling=$!
recorded() { cat "$cache"/blobs/*.ranges.incomplete 2>/dev/null | awk 'NF == 2 {n += $2 - $1} END {exit !n}'; \
  } # whether any bytes are recorded
await recorded
kill -TERM $pulling
wait $pulling
ls "$cache/blobs" | grep -q '\.ranges\.incomplete$'
say "an interrupted pull leaves a record of the downloaded bytes"
order hold 0
order count
try "pull after an interruption" 0 "$snapshot" 'GB left to download' pull $model
order show
[ "$(echo "${hub_says#* requests, }" | cut -d' ' -f1)" -lt "$(du -sb tiny | cut -f1)" ]
say "pull after an interruption downloads only a part: $hub_says"

# ---- removing ----
try "rm asks before it deletes" 2 - 'without one, add --yes' rm $model
at_terminal "rm asks at a terminal; the answer is no" 1 "Remove $model" n rm $model
[ -e "$cache/$snapshot/config.json" ]
say "the model is still there"
try "rm" 0 - 'bytes\) freed' rm $model --yes
[ ! -e "$cache" ]
say "rm deletes the model"
try "rm of a deleted model" 1 - 'not in the Hugging Face cache' rm $model --yes

# ---- the offer ----
at_terminal "an offer that is accepted" 0 'hashes verified' y ask --model $model --max-tokens 1 --temperature 0 hello
[ ! $terminals ] || try "rm of its only revision" 0 - freed rm $model@main --yes
try "rm --yes" 0 . 'hashes verified' ask --model $model --yes --max-tokens 1 --temperature 0 hello
"$eyelet" rm $model --yes 2>/dev/null

# ---- a server that pulls ----
# post METHOD PATH BODY: `out` gets the response with its head
post() {
  exec 7<>"/dev/tcp/127.0.0.1/$port" || return 1
  printf '%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s' "$1" "$2" ${#3} "$3" >&7
  cat <&7 >out
  exec 7>&-
}
served() { port=$(sed -n 's/.*listening on http:..127.0.0.1:\([0-9]*\).*/\1/p' "$1" 2>/dev/null); [ "$port" ]; } # served LOG
"$eyelet" rm $model --yes >/dev/null 2>&1
"$eyelet" serve tiny --served-model-name here --port 0 --allow-pull 2>served.log &
serving=$!
await served served.log
post POST /api/pull "{\"model\": \"$model\"}" &&
  grep -q '"status":"pulling manifest"' out && grep -q '"total":[0-9]*,"completed":[0-9]' out &&
  grep -q '"status":"success"' out && [ -e "$cache/$snapshot/config.json" ]
say "/api/pull downloads with lines of progress"
post POST /api/pull '{"model": "Org/Other"}' && grep -q '{"error":"pull model manifest: file does not exist: .*no such model' out
say "/api/pull of a model that the hub lacks"
post POST /api/pull '{"model": "nobody"}' && grep -q '{"error":"pull model manifest: file does not exist: .*owner/name' out
say "/api/pull of an invalid name"
post POST /api/pull '{"model": "here", "stream": false}' && grep -q '{"status":"success"}' out
say "/api/pull of a served model"
post DELETE /api/delete '{"model": "here"}' && grep -q ' 400 ' out
say "/api/delete of a served model"
# served under another name, so the repository's name is not one of the server's models
"$eyelet" serve $model --served-model-name mine --port 0 --allow-pull 2>other.log &
other=$!
first=$port
await served other.log
post DELETE /api/delete "{\"model\": \"$model\"}" && grep -q ' 400 ' out && grep -q 'is being served' out &&
  [ -e "$cache/$snapshot/config.json" ]
say "/api/delete of a model that is served under another name"
post DELETE /api/delete "{\"model\": \"$model:Q8_0\"}" && grep -q ' 400 ' out
say "/api/delete of a single file of a repository"
kill -TERM $other
wait $other
port=$first
post DELETE /api/delete "{\"model\": \"$model\"}" && grep -q ' 200 ' out && [ ! -e "$cache" ]
say "/api/delete"
post DELETE /api/delete "{\"model\": \"$model\"}" && grep -q ' 404 ' out
say "/api/delete again"
kill -TERM $serving
wait $serving

# ---- unsupported models ----
sed -i 's/Qwen3VLForConditionalGeneration/LlamaForCausalLM/; s/"qwen3_vl"/"llama"/' tiny/config.json
order misbehave 0
stop_hub
start_hub
try "a model that eyelet does not run" 1 - 'this machine cannot run it: .*' pull $model
[ ! -e "$cache/snapshots" ]
say "a model that eyelet does not run is not downloaded"
try "--yes downloads it anyway" 0 "$snapshot" 'cannot run it' pull $model --yes

# ---- GGUF files ----
"$eyelet" rm $model --yes 2>/dev/null
rm -rf tiny/*
cp "$seed" tiny/Tiny-Q4_K_M.gguf
cp "$seed" tiny/Tiny-Q8_0.gguf
stop_hub
start_hub
try "pull of a tag without a file" 1 - "no GGUF file with the tag Q5_K_M; the tags are: Q4_K_M, Q8_0" pull $model:Q5_K_M
try "pull of a GGUF file" 0 "^$cache/$snapshot\$" 'hashes verified' pull hf.co/$model:Q8_0
[ -e "$cache/$snapshot/Tiny-Q8_0.gguf" ] && [ ! -e "$cache/$snapshot/Tiny-Q4_K_M.gguf" ]
say "only the file of the tag is downloaded"
try "a GGUF file is listed by its tag" 0 "^$model:Q8_0 .* Q4_0 .*yes\$" - list
try "a GGUF file is found by its tag" 0 "Tiny-Q8_0.gguf on cpu" - plan --model $model:Q8_0 --device cpu
try "pull without a tag gets Q4_K_M" 0 . '1 files' pull $model
[ -e "$cache/$snapshot/Tiny-Q4_K_M.gguf" ]
say "the Q4_K_M file is downloaded"
try "rm of a single GGUF file" 2 - 'name it without ":Q8_0"' rm $model:Q8_0 --yes
cp "$seed" damaged.gguf # sets the scale of the first block of attn_q to NaN
printf '\377\174' | dd of=damaged.gguf bs=1 seek=14336 conv=notrunc 2>/dev/null
try "pull of a file with a scale that is NaN" 1 - "damaged.gguf: a scale in the weights of layer 0 is not a finite number" ask --model \
  damaged.gguf --device cpu hello

echo "1..$ran"
exit $((failed > 0))
