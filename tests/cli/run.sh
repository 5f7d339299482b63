#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh EYELET MKCHECKPOINT JSON_AT: the commands of the program, as TAP. The model has random weights, so the tests
# check exit statuses, messages and forms of the answers, not their text.
set -u
eyelet=$(realpath "$1") mkcheckpoint=$(realpath "$2") json_at=$(realpath "$3")
. "$(dirname "$(realpath "$0")")/common.sh"
unset EYELET_MODEL HF_HUB_CACHE
export HF_HOME=$work/no-cache HOME=$work

"$mkcheckpoint" --like tiny-gqa4-fp8 --seed 1 tiny >/dev/null || exit 1
sed -i 's/"do_sample": true/"do_sample": false/' tiny/generation_config.json # greedy, else answers are random
base64 -d >red.png <<'END'
iVBORw0KGgoAAAANSUhEUgAAAEAAAAAwCAIAAAAuKetIAAAAQ0lEQVR42u3PQQkAAAgEsEty/UMZxgp+hcEKLNO+FgEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQGBqwX3ryDEVSQZuAAAAABJRU5ErkJggg==
END
base64 -d >blue.png <<'END'
iVBORw0KGgoAAAANSUhEUgAAACgAAAAoCAIAAAADnC86AAAAL0lEQVR42u3NMQ0AAAgDsCmZf1GIwQQJT5P+TTsvIhaLxWKxWCwWi8VisVgsFt9ZMKrWW4tt+gkAAAAASUVORK5CYII=
END
head -c 60 red.png >cut.png
echo 'not an image at all' >text.jpg
: >empty.png
mkdir photos folders && cp red.png photos/a.png
nl=$'\n'

# ---- without a model ----
try "without a command" 2 - 'eyelet ask'
try "help" 0 'eyelet caption +IMAGE' - help
try "--help" 0 'eyelet ask' - --help
for command in ask caption extract tokenize list; do
  try "help $command" 0 '^  --json' - help $command
  cp out by_help
  try "$command --help" 0 '^  --help' - $command --help
  cmp -s by_help out
  say "$command --help is help $command"
done
try "help of an unknown command" 2 - 'no command "nothing"' help nothing
try "--version" 0 '^eyelet [0-9]+\.[0-9]+\.[0-9]+$' - --version
try "unknown command" 2 - 'did you mean caption' captoin x
try "an image as command" 2 - 'eyelet ask red.png' red.png
try "unknown option" 2 - 'did you mean --max-tokens' ask --max-token 3 hello
try "option of another command" 2 - 'not an option of caption' caption --logprobs red.png
try "value out of range" 2 - 'from 1 to 1048576' ask --max-tokens 0 hello
try "value missing" 2 - 'needs a value' ask hello --model
try "ask without arguments" 2 - 'needs a question' ask
try "ask without quotation marks" 2 - 'no file "What"; put several words in quotation marks: eyelet ask red.png "What is this\?"' \
  ask red.png What is 'this?'
try "ask an empty question" 2 - 'question is empty' ask red.png ''
try "ask with an image but no question" 2 - 'question is missing' ask red.png
try "ask with two images but no question" 2 - 'question is missing' ask red.png blue.png
try "ask a directory without images" 2 - 'folders has no images' ask folders what
try "a question that is not UTF-8" 2 - 'not UTF-8' ask red.png $'\xff\xfe'
try "standard input as two images" 2 - 'can be named only once' ask - - what
try "caption without arguments" 2 - 'needs an image' caption
try "caption a directory without images" 2 - 'folders/ has no images' caption folders/
try "tokenize with two arguments" 2 - 'one text, not 2' tokenize a b
try "list with an argument" 2 - 'no arguments' list x
try "a missing image is found before the model is loaded" 1 - 'nope.png: No such file' ask --model nowhere nope.png what
try "missing model" 1 - 'nowhere' ask --model nowhere hello
try "an unknown short name" 1 - 'qwen3-vl:70b is not a directory.* downloads qwen3-vl:2b, :4b' plan qwen3-vl:70b
try "a model that must be pulled" 2 - '"qwen3vl:2b" is not a short name that eyelet knows' pull qwen3vl:2b
try "the question before the image" 2 - 'comes after the image: eyelet ask red.png "What is this\?"$' ask "What is this?" red.png
try "words for the shell's completion" 2 - 'make install installs completions' completion bash
try "one argument too few" 2 - 'takes two arguments, not 1: .* eyelet quantize' quantize demo
try "a model that the cache lacks" 1 - 'Some/Model.*eyelet pull Some/Model' ask --model Some/Model hello
try "a file as model" 1 - 'red.png is a file.*; give' ask --model red.png hello
try "an option before the command" 2 - 'options go after the command' --model tiny ask hello
try "a path longer than a message" 1 - 'File name too long' caption "$(printf 'a%.0s' {1..3000})"
try "the largest seed" 1 - nowhere ask --model nowhere --seed 9223372036854775807 hello
try "one past the largest seed" 2 - 'a number from 0' ask --model nowhere --seed 9223372036854775808 hello
try "unknown device" 2 - 'auto\|cuda\|cpu\|ref' ask --device tpu hello

# ---- ask ----
export EYELET_MODEL=$work/tiny
try "ask text" 0 . - ask --max-tokens 3 hello
try "ask about an image" 0 . - ask red.png --max-tokens 3 'What is this?'
cp out plain
try "the same question again" 0 . - ask --max-tokens=3 --model=tiny red.png -- 'What is this?'
cmp -s plain out
say "the same call gives the same answer"
[ "$(tail -c1 out | od -An -c | tr -d ' ')" = '\n' ]
say "the answer ends with a line end"
status=0
"$eyelet" ask - 'What is this?' --max-tokens 3 <red.png >out 2>err
cmp -s plain out
say "an image from standard input"
try "ask --json" 0 '^\{' - ask red.png blue.png --json --max-tokens 2 --logprobs 3 'What is this?'
same "members of ask --json" "answer,finish_reason,seed,usage,timings,logprobs" keys
same "members of usage" \
  "$(printf 'prompt_tokens,completion_tokens,prompt_tokens_details,images\tcached_tokens,multimodal_tokens\t2')" \
  usage.keys usage.prompt_tokens_details.keys usage.images.length
same "sizes of images" "$(printf '64\t48\t40\t40')" usage.images.0.width usage.images.0.height usage.images.1.width \
  usage.images.1.height
same "members of an image" width,height,used_width,used_height,tokens usage.images.0.keys
same "members of timings" load_s,vision_s,prefill_s,decode_s timings.keys
same "members of logprobs" "$(printf '2\t3\ttoken,logprob,top\ttoken,logprob')" logprobs.length logprobs.1.top.length \
  logprobs.0.keys logprobs.0.top.2.keys
same "finish reason and seed" "$(printf '"length"\tnull')" finish_reason seed
try "without log-probabilities" 0 '"logprobs": null' - ask --json --max-tokens 1 hello
try "log-probabilities of the chosen tokens only" 0 '"top": \[\]' - ask --json --max-tokens 1 --logprobs -- hello
try "log-probabilities as text" 0 . '^-[0-9.]+' ask --max-tokens 2 --logprobs 2 hello
try "--max-pixels" 0 '"used_width": 32, "used_height": 32' - ask --json --max-tokens 1 --max-pixels 1024 blue.png what
try "--max-pixels native" 0 '"images"' - ask --json --max-tokens 1 --max-pixels native red.png what
try "a context length in hexadecimal" 2 - 'takes a number of tokens' ask --max-model-len 0x100 hello
try "an image without a name" 2 - 'name of an image is empty' ask '' what
try "prompt longer than the context" 1 - 'tokens' ask --max-model-len 16 "$(printf 'word %.0s' {1..60})"
try "special tokens in a question stay text" 0 . - ask --json --max-tokens 1 '<|image_pad|>'

# ---- sampling ----
try "a given seed is reported" 0 '"seed": 7,' - ask --json --max-tokens 20 --temperature 1.5 --seed 7 red.png what
"$json_at" answer <out >first
try "the same seed again" 0 '"seed": 7,' - ask --json --max-tokens 20 --temperature 1.5 --seed 7 red.png what
"$json_at" answer <out | cmp -s - first
say "the same seed gives the same answer"
try "a random seed is reported" 0 '"seed": [0-9]+,' - ask --json --max-tokens 2 --temperature 1.5 hello
try "a greedy answer has no seed" 0 '"seed": null' - ask --json --max-tokens 2 hello
try "stop texts" 0 '"finish_reason": "stop"' - ask --json --max-tokens 400 --temperature 3 --seed 1 --stop a --stop e \
  hello
try "a negative top_p" 2 - 'top-p' ask --top-p -0.5 hello
try "an invalid temperature" 2 - 'temperature takes a number' ask --temperature warm hello
try "one stop text too many" 2 - 'at most 16' ask $(printf -- '--stop s%d ' {1..17}) hello
try "read is greedy by default" 0 '"seed": null' - read --json --max-tokens 1 red.png
try "scene without an image" 2 - 'scene needs an image' scene
try "bench" 0 'share_of_limit' - bench --model tiny --json --runs 1 --max-tokens 3
try "bench: streams need a depth" 2 - 'streams needs --depth' bench --model tiny --streams 2
try "bench: one stream's prompt" 0 '"prompt": {"seconds"' - bench --model tiny --json --runs 1 --max-tokens 3 \
  --depth 20

try "a text as an image" 1 - '^eyelet: text.jpg: ' ask text.jpg what
try "an error names the bad image of two" 1 - '^eyelet: cut.png: ' ask red.png cut.png what
try "an empty image" 1 - 'empty.png' ask empty.png what
try "a file name with a line end" 1 - 'new\\x0aline.png: No such' ask "new${nl}line.png" what

# ---- caption ----
try "one caption" 0 . - caption red.png --max-tokens 3
! grep -q 'red.png: ' out
say "the caption of a single image has no file name before it"
try "captions of several images, one of them bad" 1 '^blue.png: ' 'text.jpg: .*' caption red.png text.jpg blue.png --max-tokens 3
[ "$(grep -c '^\(red\|blue\).png: ' out)" -eq 2 ] && grep -q '1 of 3 images failed' err
say "the other images have captions"
try "captions as JSON, one image missing" 1 . - caption red.png nope.png blue.png --max-tokens 3 --json --quiet
[ "$("$json_at" image <out | tr '\n' ' ')" = '"red.png" "nope.png" "blue.png" ' ]
say "one line for each image, in order"
[ "$("$json_at" keys <out | tr '\n' ' ')" = 'image,caption,usage,timings image,error image,caption,usage,timings ' ]
say "members of a caption's line"
try "no model is loaded if all images are missing" 1 - 'a.png.*' caption --model nowhere a.png b.png
cp red.png "odd${nl}name.png"
try "a caption of an image with an odd name" 0 '^odd\\x0aname.png: ' - caption "odd${nl}name.png" red.png --max-tokens 1
try "an odd name in JSON" 0 '^\{"image": "odd\\nname.png"' - caption "odd${nl}name.png" --max-tokens 1 --json

# ---- extract, choices ----
echo '{"type": "object", "properties": {"kind": {"enum": ["heart", "square"], "description": "of shape"}, "count": {"type": "integer", "minimum": 0,
  "maximum": 99}, "words": {"type": "array", "items": {"type": "string", "maxLength": 6}, "maxItems": 2}}, "required": ["kind", "count", "words"],
  "additionalProperties": false}' >fields.json
echo '{"type": "object", "properties": {"x": {"not": {}}}}' >odd.json
try "extract without arguments" 2 - 'needs an image' extract --schema fields.json
try "extract without a schema" 2 - 'extract needs either --fields' extract red.png
try "a missing schema is found before the model is loaded" 1 - 'nope.json: No such' extract --model nowhere red.png --schema \
  nope.json
try "an unsupported keyword is found before the model is loaded" 2 - 'odd.json: .*"not" is not supported' extract --model \
  nowhere red.png --schema odd.json
try "a schema that is not JSON" 2 - 'text.jpg: ' extract --model nowhere red.png --schema text.jpg
try "standard input as schema and image" 2 - 'not both' extract - --schema -
try "extract from a directory without images" 2 - 'folders has no images' extract folders --schema fields.json
try "extract" 0 '^\{"image": "red.png", "data": \{"kind":.*\}\}$' - extract red.png --schema fields.json
same "members of extracted data" "$(printf 'image,data\tkind,count,words')" keys data.keys
try "extract from several images, one of them bad" 1 . '1 of 3 images failed' extract red.png text.jpg blue.png --schema fields.json
[ "$("$json_at" keys <out | tr '\n' ' ')" = 'image,data image,error image,data ' ]
say "one line for each readable image"
try "extract --json with a question" 0 . - extract red.png --schema fields.json --json --prompt 'What is it?'
same "members of extract --json" image,data,usage,timings keys
cp fields.json in
try "a schema from standard input" 0 '"kind"' - extract red.png --schema -
rm in
try "extract with an answer that is cut off" 1 '"error": "the answer was cut after 3 tokens .*--max-tokens"' - extract red.png --schema \
  fields.json --max-tokens 3
for seed in {1..20}; do
  "$eyelet" extract red.png --schema fields.json --temperature 1.5 --seed $seed 2>>err
done >out
[ "$("$json_at" data.keys <out | sort | uniq -c | tr -s ' ')" = ' 20 kind,count,words' ]
say "data are valid at any temperature"
"$json_at" data.kind data.count <out | awk '!/^"(heart|square)"\t[0-9][0-9]?$/ {bad = 1} END {exit bad}'
say "the data's values are those of the schema"
try "one of several choices" 0 '^(yes|no)$' - ask red.png 'Is it red?' --choice yes --choice no
[ "$(wc -c <out)" -le 4 ]
say "the answer is the choice alone"
for seed in {1..10}; do "$eyelet" ask hello --choice yes --choice 'no, never' --choice no --temperature 1.5 --seed \
  $seed; done >out 2>err
[ "$(grep -cxE 'yes|no|no, never' out)" -eq 10 ] && [ "$(wc -l <out)" -eq 10 ]
say "an answer is a choice at any temperature"
try "a choice as JSON" 0 '"answer": "yes", "finish_reason": "stop", "seed": null' - ask --json hello --choice yes
try "ask with a schema" 0 '^\{"kind":.*\}$' - ask red.png what --schema fields.json
try "ask with a schema and an answer that is cut off" 1 . 'cut after 2 tokens' ask red.png what --schema fields.json --max-tokens 2
try "a schema and choices together" 2 - 'cannot be combined' ask hello --choice a --schema fields.json
try "a choice with a line end" 2 - 'takes one line' ask hello --choice "a${nl}b"
try "a choice that is not UTF-8" 2 - 'not UTF-8' ask hello --choice $'\xff'
try "caption has no choices" 2 - 'not an option of caption, but of ask' caption red.png --choice a
for seed in 1 2 3; do
  "$mkcheckpoint" --like tiny-gqa4-fp8 --seed $seed untrained >/dev/null
  "$eyelet" detect --model untrained red.png heart --max-tokens 60 2>>err
  rm -r untrained
done >out
[ "$(grep -cxE '\[.*\]' out)" -eq 3 ]
say "detect with untrained models prints lists"

# ---- tokenize, list ----
try "tokenize" 0 '^[0-9]+	"' - tokenize 'Hello world'
try "tokenize --json" 0 '^\[\{"id": [0-9]+, "text": "' - tokenize --json 'Hello world'
same "members of tokenize --json" id,text 0.keys
try "tokenize an empty text" 0 '^\[\]$' - tokenize --json ''
printf 'Hello world' | "$eyelet" tokenize --json - 2>err | cmp -s - <("$eyelet" tokenize --json 'Hello world')
say "tokenize standard input"
try "tokenize leaves special tokens as text" 0 '"<' - tokenize '<|im_end|>'
try "--parse-special" 0 '^[0-9]+	"<\|im_end\|>"$' - tokenize --parse-special '<|im_end|>'
[ "$(wc -l <out)" -eq 1 ]
say "--parse-special makes one token"
try "tokenize text that is not UTF-8" 2 - 'not UTF-8' tokenize $'\xff'
try "list of an empty cache" 0 - 'no-cache/hub' list
HF_HOME= XDG_CACHE_HOME=$work/xdg try "the cache is below XDG_CACHE_HOME" 0 - 'xdg/huggingface/hub' list
try "list of an empty cache as JSON" 0 '^\[\]$' - list --json --quiet
hub=$work/cache/hub
mkdir -p "$hub/models--Qwen--Tiny-VL/refs" "$hub/models--Qwen--Tiny-VL/snapshots/0123abc" \
  "$hub/models--Other--Text/snapshots/1"
printf 0123abc >"$hub/models--Qwen--Tiny-VL/refs/main"
for file in tiny/*; do ln -s "$work/$file" "$hub/models--Qwen--Tiny-VL/snapshots/0123abc/"; done
echo '{"architectures": ["LlamaForCausalLM"]}' >"$hub/models--Other--Text/snapshots/1/config.json"
export HF_HOME=$work/cache
try "list" 0 'Qwen/Tiny-VL +Qwen3VLForConditionalGeneration +fp8 +9\.1 MB' - list
try "list --json" 0 '^\[' - list --json
same "members of list --json" name,architecture,quantization,directory,bytes,fits,problem 1.keys
same "the list is sorted" "$(printf '"Other/Text"\t"LlamaForCausalLM"\t"Qwen/Tiny-VL"')" 0.name 0.architecture 1.name
try "a cached model by its name" 0 . - ask --model Qwen/Tiny-VL --max-tokens 1 hello
unset EYELET_MODEL
try "the only usable model of the cache needs no name" 0 . - ask --max-tokens 1 hello

# ---- the demo model next to the program ----
broken=$work/cache/hub/models--big--broken/snapshots/aaaa
mkdir -p "$broken" "$work/cache/hub/models--big--broken/refs"
printf aaaa >"$work/cache/hub/models--big--broken/refs/main"
"$mkcheckpoint" --like tiny-gqa4-f32 --seed 1 made >/dev/null
cp made/*.json "$broken" && head -c 20000000 made/model.safetensors >"$broken/model.safetensors"
EYELET_MODEL= try "a half-downloaded model" 0 . 'skipping big/broken in the cache: .*model.safetensors' ask \
  --max-tokens 1 hello
rm "$broken/config.json" && ln -s nowhere "$broken/config.json"
try "a model with a dangling link" 1 - 'config.json: a dangling link' ask --model big/broken hello
rm -r "$work/cache/hub/models--big--broken"
export HF_HOME=$work/no-cache
mkdir -p installed/bin installed/share/eyelet/models folder/models
ln "$eyelet" folder/eyelet 2>/dev/null || cp "$eyelet" folder/eyelet
cp folder/eyelet installed/bin/
cp -r tiny folder/models/demo && cp -r tiny installed/share/eyelet/models/demo
real=$eyelet
mkdir alone && cp folder/eyelet alone/
eyelet=$work/alone/eyelet
try "without any model" 1 - 'no model.*eyelet pull' ask hello
try "--model demo without the demo model" 1 - 'demo' ask --model demo hello
eyelet=$work/folder/eyelet
try "the demo model is used, with a remark" 0 . '^eyelet: using the demo model.*eyelet pull' ask --max-tokens 1 hello
try "--quiet leaves out the remark" 0 . - ask --quiet --max-tokens 1 hello
try "the demo model by its name" 0 . - ask --model demo --max-tokens 1 hello
eyelet=$work/installed/bin/eyelet
try "the demo model of an installed program" 0 . 'using the demo' ask --max-tokens 1 hello
eyelet=$real
export EYELET_MODEL=$work/tiny

# ---- closed pipes, full disks, Ctrl-C ----
"$eyelet" ask --max-tokens 4000 hello 2>err | head -c 5 >out
status=${PIPESTATUS[0]}
[ "$status" -eq 0 ] && [ ! -s err ]
say "a closed pipe ends ask without a message"
"$eyelet" caption red.png red.png red.png red.png --json --max-tokens 4 2>err | head -1 >out
status=${PIPESTATUS[0]}
[ "$status" -eq 0 ] && [ ! -s err ]
say "a closed pipe ends caption without a message"
if [ -w /dev/full ]; then
  "$eyelet" ask --max-tokens 2 hello >/dev/full 2>err
  status=$?
  [ $status -eq 1 ] && grep -q 'cannot write' err
  say "a full disk is an error"
fi

# at_work PID listens|writes: whether the program catches SIGINT and, with `writes`, has written output; or has ended
at_work() { ended $1 || { listens $1 && { [ "$2" = listens ] || [ -s out ]; }; }; }
# interrupted listens|writes ARGUMENT...: sends Ctrl-C when at_work is true; the program catches SIGINT while it answers
interrupted() {
  local when=$1
  shift
  rm -f out
  env --default-signal=INT "$eyelet" "$@" >out 2>err </dev/null &
  local pid=$!
  await at_work $pid "$when"
  kill -INT $pid
  wait $pid
  status=$?
}
cp -r tiny endless && sed -i 's/150[02]\(,\|$\)/1535\1/' endless/generation_config.json \
  # its end token is not in the vocabulary, so answers do not end by themselves
interrupted writes ask --model endless --max-model-len 200000 --max-tokens 190000 hello
[ $status -eq 130 ] && [ -s out ] && [ ! -s err ] && [ "$(tail -c1 out | od -An -c | tr -d ' ')" = '\n' ]
say "Ctrl-C in ask: the answer so far, status 130"
interrupted listens bench --model tiny --runs 1000 --max-tokens 8000
[ $status -eq 130 ] && [ ! -s out ] && grep -q 'stopped before' err
say "Ctrl-C in bench: no figures, status 130"
interrupted listens ask --model endless --json --max-model-len 200000 --max-tokens 190000 hello
[ $status -eq 130 ] && [ "$("$json_at" finish_reason <out)" = '"cancelled"' ]
say "Ctrl-C in ask --json: the answer is marked cancelled"

# ---- a terminal ----
if script -qec true /dev/null </dev/null >/dev/null 2>&1; then # a chroot may have no pseudo-terminals
  script -qec "'$eyelet' caption red.png blue.png text.jpg --max-tokens 4" /dev/null </dev/null >out 2>err
  grep -q '\[.*\] 1/3' out && grep -q 'blue.png: ' out
  say "a progress bar on a terminal"
  TERM=dumb script -qec "'$eyelet' caption red.png blue.png --max-tokens 4" /dev/null </dev/null >out 2>err
  ! grep -q '1/2' out
  say "no progress bar on a dumb terminal"
fi

echo "1..$ran"
[ $failed -eq 0 ]
