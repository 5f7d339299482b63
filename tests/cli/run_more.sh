#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run_more.sh EYELET JSON_AT, in the source tree: detect and chat with the demo model, as TAP.
set -u
eyelet=$(realpath "$1") json_at=$(realpath "$2") examples=$PWD/examples
export EYELET_MODEL=$PWD/models/demo
. "$(dirname "$(realpath "$0")")/common.sh"
export HOME=$work HF_HOME=$work/no-cache

# ---- detect ----
scene=$examples/shapes-4.png # 224 x 400; its pink square is at 97, 134, 183, 220
try "detect without WHAT" 2 - 'needs an image and what' detect "$scene"
try "detect without quotation marks" 2 - 'put several words in quotation marks: .*"circle square"$' detect "$scene" circle square
try "detect with a blank WHAT" 2 - 'is empty' detect "$scene" ' , '
try "detect in a directory without images" 2 - 'has no images' detect "$work" circle
try "detect in a missing image" 1 - 'nope.png: No such file' detect nope.png circle
try "detect has no sampling options" 2 - 'not an option of detect' detect "$scene" circle --temperature 1
cp "$scene" scene.png && ln -s scene.png link.png
try "drawing over the image" 2 - 'overwrite the image' detect scene.png circle --draw scene.png
try "drawing over the image through a link" 2 - 'overwrite the image' detect scene.png circle --draw link.png
cmp -s scene.png "$scene"
say "the image is unchanged"
try "drawing to a file that is not a PNG" 2 - 'does not end in .png' detect scene.png circle --draw out.jpg
try "a missing folder is found before the model is loaded" 1 - 'cannot write no/where.png' detect --model nowhere scene.png \
  circle --draw no/where.png
try "a drawing that fails" 1 - 'nowhere' detect --model nowhere scene.png circle --draw new.png
[ ! -e new.png ]
say "a drawing that fails leaves no file"
try "detect" 0 '^\[\{"label": "[^"]+", "box": \[[0-9]+, [0-9]+, [0-9]+, [0-9]+\]\}.*\]$' - detect scene.png \
  'pink square' --draw found.png
[ "$(wc -l <out)" -eq 1 ] && [ "$("$json_at" 0.keys <out)" = label,box ]
say "detect prints one line with label and box"
"$json_at" 0.box.0 0.box.1 0.box.2 0.box.3 <out | awk '
  function least(a, b) { return a < b ? a : b }
  function most(a, b) { return a > b ? a : b }
  { w = least($3, 183) - most($1, 97); h = least($4, 220) - most($2, 134)
    both = w > 0 && h > 0 ? w * h : 0
    ok = both / (($3 - $1) * ($4 - $2) + 86 * 86 - both) > 0.5 }
  END { exit !ok }'
say "the box is at the place of the square"
cp out plain
try "detect --json" 0 . - detect scene.png 'pink square' --json
cmp -s out plain
say "detect --json prints the same line"
try "the drawing is an image" 0 '"width": 224, "height": 400' - ask --json --max-tokens 1 found.png what
! cmp -s found.png scene.png
say "the drawing shows boxes"
try "drawing a rotated photo" 0 '^\[\{.*\}\]$' - detect "$examples/turned.jpg" heart --draw upright.png
try "the drawing of a rotated photo is upright" 0 '"width": 300, "height": 420' - ask --json --max-tokens 1 upright.png what
status=0
"$eyelet" detect - 'pink square' <scene.png >out 2>err
cmp -s out plain
say "an image from standard input"
try "detect with an answer that is cut off" 1 '^\[\]$' 'cut after 5 tokens' detect scene.png 'pink square' --max-tokens 5
grep -q 'no boxes that can be understood: "' err
say "the error shows the beginning of the answer"

try "detect with an answer without boxes" 0 '^\[\]$' - detect "$examples/transparent.png" heart # without a grammar, the demo model says "Please."
try "detect several kinds" 0 '^\[\{.*\}\]$' - detect "$examples/shapes-5.png" 'circle, square'

# ---- chat ----
# talk NAME STATUS STDOUT STDERR LINES ARGUMENT...
talk() {
  local name=$1 status=$2 want_out=$3 want_err=$4
  printf "$5" >in
  shift 5
  try "$name" "$status" "$want_out" "$want_err" chat --temperature 0 "$@"
  rm in
}
lines() { [ "$(wc -l <out)" -eq "$1" ]; }

try "chat with a missing image" 1 - 'nope.png: No such file' chat nope.png
try "chat with standard input as image" 2 - 'chat reads messages from standard input' chat -
try "chat has no --json" 2 - 'not an option of chat' chat --json
talk "chat without input" 0 - - ''
talk "chat with blank lines" 0 - - '\n  \n\n'
talk "two turns about an image" 0 'pink square' - '/image scene.png\nDescribe this image.\nHow many shapes are there?\n'
lines 2
say "chat prints one line for each answer"
tail -1 out >with
cp out turns
talk "chat with an image as argument" 0 'pink square' - 'Describe this image.\nHow many shapes are there?\n' scene.png
cmp -s out turns
say "an image as argument gives the same answers"
talk "DOS line ends, and none after the last line" 0 'pink square' - \
  'Describe this image.\r\nHow many shapes are there?' scene.png
cmp -s out turns
say "other line ends give the same answers"
talk "/clear" 0 . - '/image scene.png\nDescribe this image.\n/clear\nHow many shapes are there?\n'
tail -1 out | cmp -s - with
[ $? -eq 1 ] && lines 2
say "/clear forgets the image"
talk "/quit" 0 - - '/quit\nDescribe this image.\n'
talk "/help" 0 - '^/image PATH' '/help\n'
talk "an unknown command" 1 . 'no command /foo; /help' '/foo\nDescribe this image.\n' scene.png
lines 1
say "an unknown command does not end the conversation"
talk "a mistyped command" 1 - 'did you mean /image' '/imgae x.png\n'
talk "/system" 0 '.' '^Be brief\.$' '/system\n/system Be brief.\nHello\n/system\n/system -\n/system\n' \
  --system 'Be kind.'
[ "$(cat err)" = "$(printf 'Be kind.\nBe brief.\nthere is no system prompt; /system TEXT sets one')" ]
say "/system shows, replaces and drops the system prompt"
talk "/clear keeps the system prompt" 0 - '^Be kind' '/clear\n/system\n' --system 'Be kind.'
try "a system prompt that is not UTF-8" 2 - 'system is not UTF-8' chat --system "$(printf '\377')"
[ ! -e "$HOME/.local/state" ]
say "chat from a pipe makes no folder for a history"
talk "/set" 0 - '^temperature +0$' '/set\n'
talk "/set changes a setting" 0 - '^max-tokens +3$' '/set max-tokens 3\n/set\n'
talk "/set with an underscore and =" 0 - '^top-p +0.5$' '/set top_p=0.5\n/set\n'
talk "/set max-tokens shortens the answer" 0 . 'cut after 3 tokens' '/set max-tokens 3\nDescribe this image.\n' scene.png
talk "/set of an unknown setting" 1 - 'did you mean temperature' '/set temprature 1\n'
talk "/set of a wrong value" 1 - 'takes a number from 0 to 100, not "warm"' '/set temperature warm\n'
talk "/set without a value" 1 - 'takes a number' '/set seed\n'
talk "/set of an option that is not a setting" 1 - 'no setting threads' '/set threads 1\n'
talk "/retry" 0 'pink square' - 'Describe this image.\n/retry\n' scene.png
lines 2 && [ "$(uniq <out | wc -l)" -eq 1 ]
say "/retry gives the same answer at temperature 0"
talk "/retry that fails" 1 'pink square' 'does not think' 'Describe this image.\n/set thinking on\n/retry\n/save kept.md\n' \
  scene.png
grep -q '^## Answer' kept.md && grep -q 'pink square' kept.md
say "/retry that fails keeps the previous answer"
talk "/retry with nothing to try" 1 - 'there is no answer yet' '/retry\n'
talk "/save as Markdown" 0 . - 'Describe this image.\n/save talk.md\n/save talk.md\n' --system 'Be kind.' scene.png
grep -v '^$' talk.md | head -5 >shown
[ "$(cat shown)" = "$(printf '## System\nBe kind.\n## Question\n![image](<scene.png>)\nDescribe this image.')" ]
say "the Markdown file has the whole conversation"
talk "/save over another file" 1 - 'talk.md already exists' '/save talk.md\n'
talk "/save as JSON" 0 . - 'Describe this image.\n/save talk.json\n' scene.png
cp talk.json out
same "messages of the JSON file" $'"user"\t"assistant"' messages.0.role messages.1.role
talk "/save into a missing folder" 1 - 'cannot write nowhere/talk.md' '/save nowhere/talk.md\n'
talk "a message that begins with a slash" 0 . - ' /image is a command\n'
echo 'not an image' >text.png
talk "invalid images" 1 'pink square' 'text.png: ' \
  '/image text.png\n/image nope.png\n/image\n/image scene.png\nDescribe this image.\n'
[ "$(wc -l <err)" -eq 3 ] && lines 1
say "each invalid image gives an error, and the next message is sent"
cp scene.png 'my scene.png'
talk "paths in quotes and with ~" 0 'pink square' - \
  "/image 'my scene.png' \nDescribe this image.\n/image ~/scene.png\nDescribe this image.\n"
lines 2
say "both paths are read"
talk "a message that is not UTF-8" 1 . 'not UTF-8' '\377\nDescribe this image.\n' scene.png
talk "a message with a NUL" 1 . 'NUL byte' 'a\000b\nDescribe this image.\n' scene.png
{ head -c 1048577 /dev/zero | tr '\0' x; printf '\nHello\n'; } >in
try "a line one byte too long" 1 . 'longer than 1048576 bytes' chat --temperature 0
lines 1
say "the line after one that is too long is a message"
rm in
talk "a full context" 1 . '/clear starts over' "$(printf 'What is this?\\n%.0s' {1..20})" --max-model-len 64
talk "/clear empties a full context" 1 . '/clear starts over' "$(printf 'What is this?\\n%.0s' {1..20})/clear\\nHello\\n" \
  --max-model-len 64
cp err errors && tail -1 out | grep -q .
[ "$(wc -l <errors)" -lt 20 ]
say "the first messages had room in the context"
printf 'Hello\nHello\n' | "$eyelet" chat --temperature 0 2>err >/dev/full
status=${PIPESTATUS[1]}
[ "$status" -eq 1 ] && grep -q 'cannot write' err
say "chat on a full disk"
printf 'What is this?\nAnd now?\n' >in
try "chat with a seed" 0 . - chat --temperature 2 --seed 7 --quiet scene.png
cp out first
try "chat with the same seed again" 0 . - chat --temperature 2 --seed 7 --quiet scene.png
cmp -s out first
say "the same seed gives the same conversation"
rm in

# Ctrl-C once the program catches it, as it does while it answers; the reference backend is slow enough
printf '%s\n' "$(printf 'what is this %.0s' {1..800})" Hello >in
env --default-signal=INT "$eyelet" chat --device ref <in >out 2>err &
pid=$!
at_work() { ended $1 || listens $1; }
await at_work $pid
kill -INT $pid 2>/dev/null
wait $pid
status=$?
[ $status -eq 130 ]
say "Ctrl-C ends a conversation from a pipe"
rm in

# ---- doctor on the CPU (a GPU may be missing) ----
try "doctor" 0 '^ok +processor .* kernels for ' - doctor --device cpu
matches out '^models can be run$'
say "doctor says that models can be run"
try "doctor --json" 0 '^.*"usable": true' - doctor --device cpu --json
same "members of doctor --json" usable,findings keys
same "members of a finding" name,level,text,remedy,value,unit findings.0.keys
try "doctor says that the model of EYELET_MODEL fits" 0 '^ok +model .*demo on cpu: the plan needs [0-9]+ MiB; usable' - doctor --device cpu
try "doctor on a model that is not downloaded uses its shapes" 0 '^ok +model +qwen3-vl:2b on cpu: the plan needs [0-9]+ MiB; usable' \
  'is not downloaded .*judged by its built-in shapes' doctor --device cpu --model qwen3-vl:2b
HF_ENDPOINT=http://127.0.0.1:1 try "a model of which nothing can be known" 1 '^bad +model +qwen3-vl:32b cannot be judged' - \
  doctor --device cpu --model qwen3-vl:32b
matches out '^ok +processor'
say "doctor checks the machine in spite of a bad model"
try "doctor on a missing model" 1 '^bad +model .*nowhere' - doctor --device cpu --model /nowhere
try "doctor takes no arguments" 2 - 'doctor takes no arguments' doctor now

# ---- a terminal ----
if script -qec true /dev/null </dev/null >/dev/null 2>&1; then # a chroot may have no pseudo-terminals
  # keys are sent after the prompt appears, because Ctrl-C discards earlier input
  mkfifo keys
  exec 8<>keys # opened for reading and writing, so that opening does not block
  seen() { ended $typing || [ "$(grep -c -- "$1" shown)" -ge "$2" ]; }
  start_typing() { # start_typing ARGUMENT...: starts a chat and sets `typing`
    : >shown
    env --default-signal=INT script -qec "exec '$eyelet' chat --temperature 0 $*" /dev/null <keys >shown 2>err 8>&- &
    typing=$!
  }
  type_when() { await seen "$1" "$2"; printf "$3" >&8; } # type_when PATTERN COUNT KEYS: types once COUNT lines match
  end_chat() { wait $typing; status=$?; cp shown out; }
  start_typing scene.png
  type_when '> ' 1 'half a line\003'
  type_when '> ' 2 'Describe this image.\n'
  type_when 'pink square' 1 '/image nope.png\n'
  type_when 'No such file' 1 '\004'
  end_chat
  grep -q '/help lists the commands, Ctrl-D leaves' shown && grep -q 'pink square' shown && [ "$status" -eq 0 ]
  say "a conversation on a terminal: Ctrl-C at the prompt, Ctrl-D"
  # libedit's keys, a history over two runs, pasted lines, """ and Tab; Ctrl-C discards a line from the history
  export XDG_STATE_HOME=$work/state TERM=xterm
  start_typing --no-history scene.png
  type_when '> ' 1 'Describe this image.\n'
  type_when '2004l' 1 '\004' # the line editor has given the terminal back
  end_chat
  grep -q 'pink square' shown && [ "$status" -eq 0 ]
  say "Ctrl-D during an answer"
  start_typing --quiet
  type_when '> ' 1 'Hxllo\033[D\033[D\033[D\be\n'
  type_when '> ' 2 '\033[200~two\r\n\tlines\033[201~ more\n'
  type_when '> ' 3 '"""thr\303\251\033\n\303\251e\n'
  type_when 'h[.] ' 1 'texts"""\n'
  type_when '> ' 4 '/save typed.md\n'
  type_when 'is written' 1 '/image sce\t\n'
  type_when 'next message' 1 '\004'
  end_chat
  [ "$status" -eq 0 ] && grep -A2 '^## Question' typed.md | grep -qx 'Hello'
  say "keys of the line editor"
  grep -A4 '^## Question' typed.md | tr '\n' '|' | grep -q '|two|| lines more|.*|thré|ée|texts|'
  say "pasted lines, Alt-Enter and \"\"\""
  grep -q 'scene.png, 224 x 400' shown
  say "Tab completes a path"
  [ "$(stat -c %a state/eyelet/chat-history state/eyelet)" = "$(printf '600\n700')" ]
  say "the history is the user's alone"
  start_typing --quiet
  type_when '> ' 1 '\033[A\033[A\033[A\033[A again\n'
  type_when 'again' 1 '/save brought.md\n'
  type_when 'is written' 1 '\004'
  end_chat
  tr '\n' '|' <brought.md | grep -q '|two|| lines more again|'
  say "a later run has the history of the first"
  start_typing --quiet --no-history
  type_when '> ' 1 '\033[Asecret\n'
  type_when '> ' 2 '/save none.md\n'
  type_when 'is written' 1 '\004'
  end_chat
  grep -qx 'secret' none.md && ! grep -q secret state/eyelet/chat-history
  say "without a history nothing is read or written"
  start_typing --quiet --no-history
  await seen '> ' 1
  { printf '\033[200~' && head -c 1100000 /dev/zero | tr '\0' x && printf '\033[201~\n'; } >&8
  type_when 'is longer than' 1 '/quit\n'
  end_chat
  [ "$status" -eq 0 ] && [ "$(grep -c 'is longer than' shown)" -eq 1 ]
  say "a line that is too long is refused, and the next is not"
  start_typing --device ref "$examples"/*.png "$examples"/*.jpg # the reference backend takes a while to encode these
  type_when '> ' 1 'Describe this image.\n'
  type_when 'vision' 1 '\003'
  await seen 'message was removed' 1
  type_when '> ' 2 '/quit\n'
  end_chat
  grep -q 'message was removed' shown && [ "$status" -eq 0 ]
  say "Ctrl-C during the vision encoder; the conversation goes on"
fi

echo "1..$ran"
[ $failed -eq 0 ]
