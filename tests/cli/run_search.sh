#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run_search.sh EYELET MKCHECKPOINT JSON_AT: embed and search: which inputs get vectors, and the index after changes,
# kills and concurrent runs.
eyelet=$(realpath "$1") mkcheckpoint=$(realpath "$2") json_at=$(realpath "$3")
root=$PWD
here=$(dirname "$(realpath "$0")")
. "$here/common.sh"
export HF_HOME=$work/no-cache
"$mkcheckpoint" --like tiny-embedding-bf16 --seed 17 embedding >/dev/null
"$mkcheckpoint" --like tiny-embedding-bf16 --seed 5 other-embedding >/dev/null
"$mkcheckpoint" --like tiny-untied-bf16 vectors >/dev/null
examples=$root/tests/golden/pictures

# ---- embed ----
try 'embed without a model' 1 - 'eyelet pull Qwen/Qwen3-VL-Embedding-2B' embed hello
export EYELET_MODEL=embedding
mkdir looked && cp "$root/examples/word-1.png" looked
try 'search with the demo model' 2 - 'the demo model is not an embedding model' search looked word --model demo
[ "$(ls -A looked)" = word-1.png ]
say 'a refused search makes no index'
try 'embed with the demo model' 2 - 'the demo model is not an embedding model; get .*eyelet pull' embed hello --model demo
try 'embed with a model that answers' 2 - 'is not an embedding model' embed hello --model "$root/models/demo"
try '--task embed' 0 '^{"text": "hello", "embedding": \[' - embed hello --model vectors --task embed
try 'embed a text' 0 '^{"text": "hello", "embedding": \[-0\.0[0-9]+, ' - embed hello
cp out one
[ "$("$json_at" embedding <out | tr ',' '\n' | wc -l)" -eq 256 ]
say 'the vector has all dimensions'
try '--dimensions' 0 '"prompt_tokens": [0-9]+' - embed hello --dimensions 64 --json
[ "$("$json_at" embedding <out | tr ',' '\n' | wc -l)" -eq 64 ]
say 'the vector has 64 dimensions'
try 'more dimensions than the model has' 2 - "this model's vectors have 256" embed hello --dimensions 1000
mkdir photos photos/more
cp "$examples"/{04-256x256.png,07-300x211.jpg,16-64x64.png} photos
cp "$examples"/{09-224x224.png,11-17x17.png} photos/more
try 'embed texts and images' 0 '^{"image": "photos/16-64x64.png", "embedding"' - embed photos/16-64x64.png hello -r photos/more
[ "$(cut -d'"' -f4 out | paste -sd ' ')" = 'photos/16-64x64.png photos/more/09-224x224.png photos/more/11-17x17.png hello' ]
say 'images come before texts'
tail -1 out | cmp -s - one
say 'the vectors in a batch are the same'
printf 'hello\n{"text": "two", "image": "photos/16-64x64.png", "instruction": "Find it"}\n\n"three"\n' >in
try 'embed lines of standard input' 0 '^{"text": "three", ' - embed
head -1 out | cmp -s - one
say 'a line has the same vector as an argument'
rm in
printf 'hello\n{"image": "nope.png"}\n' >lines
try 'embed a missing image' 1 - '1 of 2 inputs failed' embed --lines lines -o vectors.jsonl
cmp -s <(head -1 vectors.jsonl) one && grep -q '^{"image": "nope.png", "error": "nope.png: No such file' vectors.jsonl
say 'the vectors are written to a file'
for line in '{"text": 5}' '{}' '{"text": "x"'; do
  echo "$line" >lines
  try "an invalid line: $line" 2 - '(line 1|must be)' embed --lines lines
done
try 'a URL in capitals is an image' 1 '^{"image": "HTTP://127.0.0.1:1/x.png", "error"' . embed HTTP://127.0.0.1:1/x.png hello
cp photos/16-64x64.png kept.png
try '--output refuses to replace an image' 2 - 'output would overwrite the image kept.png' embed kept.png -o kept.png
cmp -s kept.png photos/16-64x64.png
say 'the image is unchanged'
echo '{"image": "kept.png"}' >lines
try '--output refuses to replace an image of --lines' 2 - 'output would overwrite the image kept.png' embed --lines lines -o kept.png
try '--output refuses to replace the lines' 2 - 'output would overwrite lines, the file of --lines' embed --lines lines -o lines
cmp -s kept.png photos/16-64x64.png && grep -q kept.png lines
say 'the image and the lines are unchanged'
try 'embed without arguments' 2 - 'needs a text or an image' embed

# ---- search ----
try 'search in a missing folder' 1 - 'no such folder' search nope x
try 'search without a query makes an index' 0 - '5 images: 5 indexed, 0 failed, 0 removed' search photos
try 'search with a query' 0 '^ *-?0\.[0-9]+  photos/' - search photos "red bicycle at night" --top 2
[ "$(wc -l <out)" -eq 2 ] && [ "$(sort -rn out)" = "$(cat out)" ]
say 'the best two images are in order'
cp out before
try 'search --json' 0 '"images": 5, "results": \[{"image": "photos/' - search photos "red bicycle at night" --json
same 'search --json has the same best image' "\"$(sed -n '1s/.*  //p' before)\"" results.0.image
try 'search --like finds the image itself first' 0 '^ 1\.0000  photos/07-300x211.jpg$' - search photos --like photos/07-300x211.jpg --top 1
try 'search with an image and a text' 0 'photos/' - search photos "at night" --like photos/07-300x211.jpg --top 1
echo hello >photos/no.jpg
cp "$examples/19-48x112.png" $'photos/b\xff\x01d.png'
rm photos/16-64x64.png
cp "$examples/17-333x1000.png" photos/04-256x256.png
try 'search after images were added, changed, removed and damaged' 0 - '6 images: 2 indexed, 1 failed, 1 removed' search photos
try 'search without changes indexes nothing' 0 - - search photos
try 'an image whose name has odd bytes' 0 'photos/b' - search photos x --top 9
try '--no-update does not look at the folder' 0 . - search photos x --no-update
try 'search with another model than the index' 2 - 'the index was made with .*/embedding, and .* of .*/other-embedding' search photos x --model other-embedding
(unset EYELET_MODEL; try "search without a model uses that of the index" 0 . - search photos x)
try 'other dimensions need a new index' 0 . 'dimensions 128 is for a new index; this one has vectors of [0-9]+' search photos x \
  --dimensions 128
try '--rebuild makes the index again' 0 . '5 indexed' search photos x --model other-embedding --rebuild --dimensions 64
try '--no-update without an index' 1 - 'there is no index yet' search photos/more x --no-update
try '--index' 0 . '2 indexed' search photos/more x --index elsewhere.sqlite
[ -s elsewhere.sqlite ] && [ ! -e photos/more/.eyelet-index.sqlite ]
say '--index writes no other index'
echo text >index.txt
try '--index with a file that is not an index' 2 - 'not an index' search photos/more x --index index.txt
[ "$(cat index.txt)" = text ]
say 'the file that is not an index is unchanged'
head -c 5000 elsewhere.sqlite >cut.sqlite
try 'a truncated index' 2 - '(no index|damaged)' search photos/more x --index cut.sqlite
mkdir empty
try 'search in a folder without images' 2 - 'has no images' search empty x

# ---- a server that refuses ----
# serve ARGUMENT...: sets pid and port
serve() {
  : >serve.log # else `ready on` of an earlier server may be found
  "$eyelet" serve embedding --port 0 "$@" >serve.log 2>&1 </dev/null &
  pid=$!
  await grep -q 'ready on' serve.log
  port=$(sed -n 's/.*ready on https*:\/\/127\.0\.0\.1:\([0-9]*\) .*/\1/p' serve.log)
}
mkdir refused && cp "$examples/18-1280x720.jpg" refused
serve --language-model-only
try 'a server that takes no images' 0 - '1 image: 0 indexed, 1 failed' search refused --server 127.0.0.1:$port
kill $pid; await ended $pid
serve
try "an image that a server refused is tried again" 0 - '1 image: 1 indexed, 0 failed' search refused --server 127.0.0.1:$port
kill $pid; await ended $pid

# ---- killed while indexing ----
# Work committed (every 2 s) before the kill is not repeated. A machine that indexes all images in less time passes, too.
mkdir many
images=400
for i in $(seq $images); do cp "$examples/18-1280x720.jpg" "many/$i.jpg"; done
"$eyelet" search many --threads 1 >/dev/null 2>&1 &
pid=$!
some_done() { ended $pid || { "$eyelet" search many x --no-update --json 2>/dev/null | grep -q '"images": [1-9]'; }; }
await some_done
kill -9 $pid 2>/dev/null
wait $pid 2>/dev/null
first=$?
"$eyelet" search many >out 2>err
[ $first -eq 0 ] ||
  { grep -qE "$images images: [0-9]+ indexed, 0 failed" err && ! grep -q "$images indexed" err; }
say 'search after a kill continues'
"$eyelet" search many x --top 1 >out 2>err && "$eyelet" search many x --top $images >out 2>err &&
  [ "$(wc -l <out)" -eq $images ]
say 'the continued index has all images'

# Of two concurrent runs, one waits or reports that it cannot write; the index is complete afterwards.
mkdir both
cp many/{1,2,3,4,5,6,7,8}.jpg both
"$eyelet" search both >/dev/null 2>&1 &
first=$!
"$eyelet" search both >/dev/null 2>&1 &
wait $first $!
try 'two concurrent searches' 0 '"images": 8' '*' search both x --json
echo "1..$ran"
exit $((failed > 0))
