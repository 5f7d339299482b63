#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# pooling.sh EYELET MKCHECKPOINT JSON_AT, in the source tree: a server with models that embed, rerank and chat.
# Batches, images and dialects must agree; tests/golden checks the values.
set -u
eyelet=$(realpath "$1") mkcheckpoint=$(realpath "$2") json_at=$(realpath "$3") root=$PWD
. "$(dirname "$(realpath "$0")")/../cli/common.sh"
export HOME=$work HF_HOME=$work/no-cache
pid=
trap 'kill $pid 2>/dev/null; rm -rf "$work"' EXIT
"$mkcheckpoint" --like tiny-embedding-bf16 --seed 17 embedding >/dev/null
"$mkcheckpoint" --like tiny-reranker-bf16 --seed 18 tiny-reranker >/dev/null
"$mkcheckpoint" --like tiny-untied-bf16 vectors >/dev/null

# Wrong options are refused before a port is opened.
try 'a task of several models' 2 - 'is for one model' serve embedding tiny-reranker --port 0 --task embed
try 'no such task' 2 - 'takes auto' serve embedding --port 0 --task draw
"$mkcheckpoint" --like tiny-qwen3-bf16 text >/dev/null
try 'a family that only answers' 2 - 'only Qwen3-VL models embed' plan text --task embed

"$eyelet" serve embedding tiny-reranker "$root/models/demo" --port 0 --device cpu >log 2>&1 </dev/null &
pid=$!
is_ready() {
  port=$(sed -n 's/.*ready on http:\/\/127\.0\.0\.1:\([0-9]*\) .*/\1/p' log)
  [ -n "$port" ] || ended $pid
}
await is_ready
post() { # post PATH BODY: writes the answer to `out` and sets status
  status=$(curl -s -o out -w '%{http_code}' -H 'Content-Type: application/json' "http://127.0.0.1:$port$1" -d "$2" 2>err)
}
answers() { # answers NAME STATUS PATTERN PATH BODY
  post "$4" "$5"
  [ "$status" = "$2" ] && grep -qE -- "$3" out
  say "$1"
}
bytes=$(base64 -w0 "$root/tests/golden/pictures/16-64x64.png")
image="data:image/png;base64,$bytes"

# ---- vectors ----
answers 'a text' 200 '"prompt_tokens":[0-9]+,"total_tokens"' /v1/embeddings '{"model":"embedding","input":"hello"}'
"$json_at" data.0.embedding <out >one
post /v1/embeddings '{"model":"embedding","input":["a red car on the street","hello","","the house"]}'
[ "$("$json_at" data.1.embedding <out)" = "$(cat one)" ]
say 'the same vector in a batch'
same 'vectors are in the order of the inputs' '0	1	2	3' data.0.index data.1.index data.2.index data.3.index
many=$(for i in $(seq 300); do printf '"text %d",' "$i"; done)
answers '301 inputs' 200 '"index":300' /v1/embeddings "{\"model\":\"embedding\",\"input\":[$many\"hello\"]}"
[ "$("$json_at" data.300.embedding <out)" = "$(cat one)" ]
say 'the same vector as the last of 301'
post /api/embed '{"model":"embedding","input":["x","hello"]}'
[ "$("$json_at" embeddings.1 <out)" = "$(cat one)" ]
say "the same vector from /api/embed"
post /api/embeddings '{"model":"embedding","prompt":"hello"}'
[ "$("$json_at" embedding <out)" = "$(cat one)" ]
say "the same vector from /api/embeddings"
post /embeddings '{"model":"embedding","content":"hello"}'
[ "$("$json_at" 0.embedding.0 <out)" = "$(cat one)" ]
say "the same vector from /embeddings"
post /v1/embeddings '{"model":"embedding","messages":[{"role":"user","content":"hello"}]}'
[ "$("$json_at" data.0.embedding <out)" = "$(cat one)" ]
say "the same vector from vLLM's messages"

post /v1/embeddings "{\"model\":\"embedding\",\"input\":[{\"image\":\"$bytes\",\"text\":\"at the lake\"}]}"
"$json_at" data.0.embedding <out >one
post /v1/embeddings "{\"model\":\"embedding\",\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"at the lake\"},
  {\"type\":\"image_url\",\"image_url\":{\"url\":\"$image\"}}]}]}"
[ "$("$json_at" data.0.embedding <out)" = "$(cat one)" ] && [ "$(wc -c <one)" -gt 2000 ]
say 'the same vector for image and text as input or as message'
post /api/embed "{\"model\":\"embedding\",\"input\":\"at the lake\",\"images\":[\"$bytes\"]}"
[ "$("$json_at" embeddings.0 <out)" = "$(cat one)" ]
say "the same vector for image and text from /api/embed"
post /embedding "{\"model\":\"embedding\",\"content\":[{\"prompt_string\":\"<__media__>\nat the lake\",\"multimodal_data\":[\"$bytes\"]}]}"
[ "$("$json_at" 0.embedding.0 <out)" = "$(cat one)" ]
say "the same vector for image and text from /embedding"

long=$(printf 'the house and the tree %.0s' $(seq 3000))
answers 'an input that is too long' 400 'the input has [0-9]+ tokens; at most 8191' /v1/embeddings "{\"model\":\"embedding\",\"input\":\"$long\"}"
answers 'an input that may be truncated' 200 '"prompt_tokens":100,' /v1/embeddings \
  "{\"model\":\"embedding\",\"input\":\"$long\",\"truncate_prompt_tokens\":100}"
answers "/api/embed truncates by default" 200 '"prompt_eval_count":8191}' /api/embed "{\"model\":\"embedding\",\"input\":\"$long\"}"
answers '/api/embed with truncate false' 400 '"error":"the input length exceeds the context length"' /api/embed \
  "{\"model\":\"embedding\",\"input\":\"$long\",\"truncate\":false}"
answers 'an input whose image is not an image' 400 '"param": "input\[1\].image"' /v1/embeddings \
  '{"model":"embedding","input":["x",{"image":"aGVsbG8="}]}'

# ---- scores ----
answers "rerank, Cohere's client with a base that ends in /v1" 200 '"relevance_score":' /v1/v2/rerank \
  '{"model":"tiny-reranker","query":"a","documents":["b"]}'
answers 'rerank' 200 '"relevance_score":' /v1/rerank \
  '{"model":"tiny-reranker","query":"where is the cat?","documents":["The cat is on the house.","Water is near the tree."]}'
same 'order by the scores of tests/golden: 0.4361 before 0.1131' '1	0' results.0.index results.1.index
post /v1/score '{"model":"tiny-reranker","text_1":"where is the cat?","text_2":["The cat is on the house.","Water is near the tree."]}'
case $("$json_at" data.0.score data.1.score <out) in 0.1[012]*$'\t'0.4[234]*) true ;; *) false ;; esac
say '/v1/score: the same scores in the order of the request'
answers 'an image as a document' 200 '"multi_modal":null' /rerank \
  "{\"model\":\"tiny-reranker\",\"query\":\"red car\",\"documents\":[{\"image\":\"$image\"},\"a\"]}"
answers 'a document whose image is not an image' 400 '"param": "documents\[1\].image"' /rerank \
  "{\"model\":\"tiny-reranker\",\"query\":{\"image\":\"$image\"},\"documents\":[{\"image\":\"$image\"},{\"image\":\"aGVsbG8=\"}]}"
answers 'rerank with an embedding model, by cosines' 200 '"index":1,"relevance_score":(1|0.99)' /rerank \
  '{"model":"embedding","query":"a","documents":["b","a"],"top_n":1}'

# ---- tasks of the models ----
answers 'chat with a chat model' 200 '"content":' /v1/chat/completions \
  '{"model":"demo","messages":[{"role":"user","content":"hi"}],"max_tokens":2}'
answers 'a chat model makes no vectors' 400 'The model `demo` does not make embeddings' /v1/embeddings '{"model":"demo","input":"x"}'
answers "a chat model makes no vectors: Ollama's error" 400 '"error":"\\"demo\\" does not support embedding"' /api/embed '{"model":"demo","input":"x"}'
answers "a chat model makes no vectors: llama.cpp's error" 501 'not_supported_error' /embedding '{"model":"demo","content":"x"}'
answers 'a chat model makes no scores' 400 'does not rerank' /rerank '{"model":"demo","query":"x","documents":["y"]}'
answers 'a reranker makes no vectors' 400 'does not make embeddings' /v1/embeddings '{"model":"tiny-reranker","input":"x"}'
answers 'a reranker does not chat' 400 'scores documents and does not answer' /v1/chat/completions \
  '{"model":"tiny-reranker","messages":[{"role":"user","content":"hi"}]}'
answers "an embedding model does not chat: Ollama's error" 400 '\\"embedding\\" does not support chat' /api/chat \
  '{"model":"embedding","messages":[{"role":"user","content":"hi"}]}'
curl -s "http://127.0.0.1:$port/api/tags" >out
grep -q '"capabilities":\["embedding","vision"\]' out && grep -q '"capabilities":\["rerank","vision"\]' out
say "each model's tasks are listed"

# ---- eyelet embed, with and without a server ----
"$eyelet" embed --model embedding --device cpu --dimensions 64 hello "$root/tests/golden/pictures/16-64x64.png" >here 2>err
EYELET_SERVER=http://127.0.0.1:$port "$eyelet" embed --model embedding --dimensions 64 hello \
  "$root/tests/golden/pictures/16-64x64.png" >out 2>err
status=$?
[ "$status" -eq 0 ] && [ "$(wc -l <out)" -eq 2 ] && cmp -s here out
say 'eyelet embed --server gives the same vectors'
try "eyelet embed with a chat model on a server" 1 '"error": ".*(embed|does not)' - embed --server "http://127.0.0.1:$port" --model "$root/models/demo" hello
mkdir photos photos-here
cp "$root"/tests/golden/pictures/{04-256x256.png,07-300x211.jpg,16-64x64.png} photos
cp photos/* photos-here
try 'search with a server' 0 'photos/' '3 images: 3 indexed' search photos "a red car" --server "http://127.0.0.1:$port" --model embedding
cp out there
"$eyelet" search photos-here "a red car" --model embedding --device cpu 2>err | sed 's/photos-here/photos/' >here
cmp -s here there && [ -s here ]
say 'finds what a search here finds'
try 'the index knows its model' 0 'photos/' - search photos --like photos/07-300x211.jpg --server "http://127.0.0.1:$port" --top 1
try 'another model of the server' 2 - 'was made with embedding, and .* of tiny-reranker' search photos x --server "http://127.0.0.1:$port" --model tiny-reranker

kill $pid
wait $pid

# ---- the task as an option ----
: >log # else the wait could find the first server's line
"$eyelet" serve vectors --port 0 --device cpu --task embed >log 2>&1 </dev/null &
pid=$!
await is_ready
answers '--task embed' 200 '"embedding":\[' /v1/embeddings '{"input":"x"}'
kill $pid
wait $pid
echo "1..$ran"
exit $((failed > 0))
