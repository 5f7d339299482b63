#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run_batch.sh EYELET JSON_AT: many images with the demo model: folders, output formats, resuming, several requests in
# flight.
eyelet=$(realpath "$1") json_at=$(realpath "$2")
root=$PWD
here=$(dirname "$(realpath "$0")")
. "$here/common.sh"
export EYELET_MODEL=$root/models/demo

mkdir -p photos/more empty folders/only
cp "$root"/examples/shapes-1.png photos/b.png
cp "$root"/examples/word-2.jpg photos/a.JPG
cp "$root"/examples/shapes-4.png photos/more/c.png
echo hello >photos/notes.txt
ln -s .. photos/more/up
options=(--temperature 0 --max-tokens 24)

# ---- folders ----
try "a folder's images are sorted, and its subfolders reported" 0 '^photos/a.JPG: .*FRAGILE' '1 folder left out \(photos/more\); -r' \
  caption photos "${options[@]}"
[ "$(cut -d: -f1 out | paste -sd ' ')" = 'photos/a.JPG photos/b.png' ]
say "images are in order, without other files"
try "-r includes subfolders" 0 '^photos/more/c.png: ' - caption -r photos/ "${options[@]}"
[ "$(wc -l <out)" -eq 3 ]
say "-r does not follow a link to a folder"
rm -f photos/notes.txt
try "files and a folder from the pattern *" 0 '^photos/a.JPG: ' '1 folder left out' caption photos/* --max-tokens 2
try "an image without a name" 2 - 'name of an image is empty' caption '' photos/b.png
try "a folder without images" 2 - 'empty has no images' caption empty
try "a folder that contains only folders" 2 - 'has only folders; -r' caption folders
try "a missing folder" 1 - 'nope: No such file' caption nope

# ---- questions ----
try "ask --each" 0 '^photos/b.png:$' - ask photos "How many shapes?" "${options[@]}" --quiet
try "ask --each without an image" 2 - 'name images or a folder' ask --each "How many?"
try "ask without --each is one question" 0 . - ask photos/a.JPG photos/b.png "What is this?" "${options[@]}"
[ "$(grep -c 'photos/' out)" -eq 0 ]
say "ask without --each gives one answer about both images"
try "ask with choices as CSV" 0 '^photos/a.JPG,(yes|no)$' - ask --each photos/a.JPG photos/b.png "Is there a word?" --choice yes --choice no --csv
[ "$(head -1 out)" = image,answer ]
say "CSV begins with a header"
try "scene of two images" 0 '^photos/b.png:$' - scene photos/a.JPG photos/b.png "${options[@]}"
try "read as JSON lines" 0 '^\{"image": "photos/a.JPG", "answer": "' - read photos/a.JPG photos/b.png --jsonl --max-tokens 24
try "log-probabilities of each image as JSON lines" 0 '"logprobs": \[\{"token": ' - read photos/a.JPG photos/b.png --jsonl --logprobs 1 --max-tokens 2
try "log-probabilities of each image as text" 0 '^FR' '^photos/b.png:$' read photos/a.JPG photos/b.png --logprobs --max-tokens 2
try "detect in a folder" 0 '^\{"image": "photos/b.png", "boxes": \[' - detect photos "square, heart" --quiet
try "detect as CSV" 0 '^photos/b.png,.*,[0-9]+,[0-9]+,[0-9]+,[0-9]+$' - detect photos/a.JPG photos/b.png "circle, square, heart, triangle, star, ring" --csv
try "detect --draw takes only one image" 2 - 'draw takes one image' detect photos square --draw x.png
try "detect without WHAT" 2 - 'the last argument must say what to look for, but photos/b.png is a file' detect photos/a.JPG photos/b.png
echo '{"type": "object", "properties": {"a, b": {"enum": ["x\"y"]}, "n": {"enum": [7]}, "l": {"enum": [[1, 2]]}}, "required": ["a, b", "n", "l"]}' >schema.json
try "extract as CSV" 0 '^photos/a.JPG,"x""y",7,"\[1,2\]"$' - extract photos/a.JPG photos/b.png --schema schema.json --csv
[ "$(head -1 out)" = 'image,"a, b",n,l' ]
say "the CSV header has the names of the schema's fields"

# ---- sidecar files ----
try "sidecars" 0 - - caption photos "${options[@]}" --sidecar --quiet
grep -q FRAGILE photos/a.txt && [ -s photos/b.txt ]
say "photo.txt is next to photo.jpg"
try "sidecars are not overwritten" 1 - 'photos/a.txt already exists; --resume' caption photos --sidecar --quiet
echo mine >photos/a.txt
try "--resume skips images with a sidecar" 0 - '2 of 2 images are done' caption photos --sidecar --resume
[ "$(cat photos/a.txt)" = mine ]
say "the sidecars are unchanged"
try "--overwrite" 0 - - caption photos "${options[@]}" --sidecar --overwrite --quiet
grep -q FRAGILE photos/a.txt
say "--overwrite replaces sidecars"
try "--overwrite without --sidecar" 2 - 'overwrite is for --sidecar' caption photos --overwrite
mkdir twins
cp "$root"/examples/shapes-1.png twins/t.png
cp "$root"/examples/shapes-6.jpg twins/t.jpg
try "two concurrent images with the same sidecar" 1 - 't.png: twins/t.txt already exists' caption twins --sidecar --max-num-seqs 2 \
  --max-tokens 2
rm -r twins
try "extract --sidecar writes photo.json" 0 - - extract photos --schema schema.json --sidecar --quiet
grep -q '"n": *7' photos/a.json
say "photo.json has the data"

# ---- resuming ----
try "resume without an output" 2 - 'use it with --sidecar, or with --output' caption photos --resume
try "--jsonl and --csv together" 2 - 'cannot be combined' caption photos --csv --jsonl
echo mine >kept.txt
try "an existing output and a model that cannot be loaded" 1 - 'nowhere' caption nope.png photos/a.JPG --jsonl -o kept.txt --model nowhere
try "a new output and a model that cannot be loaded" 1 - 'nowhere' caption photos/a.JPG -o new.txt --model nowhere
[ "$(cat kept.txt)" = mine ] && [ ! -e new.txt ]
say "a model that cannot be loaded leaves the outputs unchanged"
try "errors before the model is loaded are in the file" 1 - '1 of 2 images failed' caption nope.png photos/a.JPG --jsonl -o kept.txt \
  --max-tokens 2
[ "$(cut -c 1-30 kept.txt | paste -sd ' ')" = '{"image": "nope.png", "error": {"image": "photos/a.JPG", "cap' ]
say "the errors and answers are in order"
try "standard output by its names" 0 '^\{"image": "photos/a.JPG"' - caption photos/a.JPG --jsonl -o - --max-tokens 2
try "/dev/stdout" 0 '^\{"image": "photos/a.JPG"' - caption photos/a.JPG --jsonl -o /dev/stdout --max-tokens 2
printf 'image,label,x1,y1,x2,y2\nphotos/a.JPG,x,1,2,3,4\nphotos/b.png,y,1,2,3,4\nphotos/b.png,z,1,2' >rows.csv
try "--resume after a kill between the rows of an image" 0 - '1 of 2 images are done' detect photos/a.JPG photos/b.png \
  "circle, square, heart, triangle, star, ring" --csv -o rows.csv --resume
[ "$(head -2 rows.csv | tail -1)" = photos/a.JPG,x,1,2,3,4 ] && grep -q ^photos/b.png rows.csv && ! grep -q ',[yz],' rows.csv
say "the rows of a killed image are written again"
try "JSON lines to a file" 0 - - caption photos/a.JPG --jsonl -o all.jsonl "${options[@]}"
printf '{"image": "photos/b.png", "capt' >>all.jsonl # killed while writing a line
try "--resume continues after an incomplete line" 0 - '1 of 3 images are done' caption -r photos --jsonl -o all.jsonl --resume "${options[@]}"
cp all.jsonl out
[ "$(sed 's/^{"image": "\([^"]*\)".*/\1/' out | paste -sd ' ')" = 'photos/a.JPG photos/b.png photos/more/c.png' ]
say "the JSON lines have each image once"
cp photos/a.JPG $'odd\xff.jpg'
try "a name that is not UTF-8" 0 - - caption $'odd\xff.jpg' --jsonl -o odd.jsonl --max-tokens 2
try "--resume finds a name that is not UTF-8" 0 - '1 of 1 images are done' caption $'odd\xff.jpg' --jsonl -o odd.jsonl --max-tokens 2 --resume
grep -qF '"odd\\xff.jpg"' odd.jsonl
say "JSON lines write such bytes as \\\\xff"
try "CSV to a file" 0 - - caption photos/a.JPG --csv -o all.csv "${options[@]}"
printf 'photos/b.png,"two\n' >>all.csv # killed after a line of a cell
try "--resume continues a CSV file" 0 - '1 of 2 images are done' caption photos --csv -o all.csv --resume "${options[@]}" 
[ "$(grep -c ^image, all.csv)" -eq 1 ] && [ "$(wc -l <all.csv)" -eq 3 ]
say "the CSV file has one header and each image once"
printf 'image,caption\n' >only-header.csv # killed before the first row
try "--resume continues a CSV file that holds only the header" 0 - - caption photos/a.JPG --csv -o only-header.csv --resume --max-tokens 2
[ "$(cut -d, -f1 only-header.csv | paste -sd ' ')" = 'image photos/a.JPG' ]
say "the CSV file still has one header"
cp photos/a.JPG image
printf 'image,caption\nphotos/b.png,x\n' >header.csv
try "--resume does not take a CSV header for an image named image" 0 - '1 of 2 images are done' caption image photos/b.png --csv \
  -o header.csv --resume --max-tokens 2
: >photos/bad.png
try "JSON lines with a failed image" 1 - '1 of 3 images failed' caption photos/*.png photos/*.JPG --jsonl -o bad.jsonl --max-tokens 2
cp "$root"/examples/shapes-3.png photos/bad.png
try "--resume skips finished images and retries failed ones" 0 - '2 of 3 images are done' caption photos/*.png photos/*.JPG --jsonl -o bad.jsonl --resume --max-tokens 2
try "--output refuses to replace an image" 2 - 'output would overwrite the image photos/b.png' caption photos -o photos/b.png --max-tokens 2
[ -s photos/b.png ]
say "the image is unchanged"
try "output on a full disk" 1 - '/dev/full' caption photos/a.JPG photos/b.png --csv -o /dev/full --max-tokens 2

# ---- several requests in flight ----
caption_all() { "$eyelet" caption "$root"/examples/*.png "$root"/examples/*.jpg "${options[@]}" --quiet "$@"; }
caption_all >one 2>err
caption_all --max-num-seqs 4 >out 2>err
cmp one out >>err 2>&1
say "four in flight: the same answers in the same order"
try "several in flight, one of them bad" 1 '^\{"image": "nope.png", "error"' 'images failed' \
  caption photos/a.JPG nope.png photos/b.png photos/more/c.png --jsonl --max-num-seqs 3 --max-tokens 2

# ---- documents ----
cp "$root"/tests/document/data/two.tif scan.tif
documents=scan.tif
if "$eyelet" read "$root"/tests/document/data/two.pdf --max-tokens 1 >out 2>err; then
  cp "$root"/tests/document/data/two.pdf scan.pdf
  documents='scan.tif scan.pdf'
else # no pdftoppm, or a kernel without Landlock
  grep -qE 'poppler-utils|Landlock' err
  say "the error says why PDFs cannot be read"
fi
for scan in $documents; do
  try "$scan: the texts of its pages are one answer" 0 '^FRAGILE$' - read $scan --max-tokens 24 --dpi 100
  [ "$(wc -l <out)" -eq 3 ]
  say "$scan: the answer has the text of two pages"
  try "$scan: usage" 0 . - read $scan --json --logprobs --max-tokens 2
  same "$scan: usage of both pages" '480	416	4' usage.images.0.used_width usage.images.1.used_width usage.completion_tokens
  same "$scan: log-probabilities of both pages" '"F"	"Th"' logprobs.0.token logprobs.2.token
  try "$scan: one JSON line" 0 "^\{\"image\": \"$scan\", \"pages\": 2, \"answer\": \"FRAGILE" - read $scan --jsonl --max-tokens 24
  try "$scan: one CSV row for each page" 0 "^$scan#page=2,.*ring" - caption $scan --each --csv "${options[@]}" --dpi 100
  [ "$(wc -l <out)" -eq 3 ]
  say "$scan: the two pages have two rows"
  try "$scan: a single page" 0 'white ring' - ask "$scan#page=2" "Describe this image." "${options[@]}"
  [ "$(grep -c FRAGILE out)" -eq 0 ]
  say "$scan: only that page is read"
  try "$scan: --pages" 0 'FRAGILE' - ask $scan --pages 1 "Describe this image." "${options[@]}"
  try "$scan: a page that it lacks" 1 - "$scan has 2 pages, none of them in 3-" caption $scan --pages 3-
  try "an image has one page" 0 . - caption "$root/examples/word-1.png" --pages 1-
  try "an image has no page 2" 1 - 'word-1.png is a single image, so --pages 2- selects nothing' caption "$root/examples/word-1.png" --pages 2-
  try "$scan: --pages that is not a list" 2 - 'pages takes a list such as 3, 1-3' caption $scan --pages 1,,2
  try "$scan: one question about all pages" 0 . - ask $scan "What is this?" --max-tokens 4
  try "$scan: boxes of each page" 0 "^\{\"image\": \"$scan#page=2\", \"boxes\": \[" - detect $scan "square, ring" --quiet
  try "$scan: the JSON error of a page that it lacks" 1 "^\{\"image\": \"$scan\", \"error\": \".* has 2 pages" '*' \
    detect $scan "$root/examples/word-1.png" ring --pages 3-
  try "$scan: one sidecar for all pages" 0 - - read $scan --sidecar --overwrite --max-tokens 24 --quiet
  grep -q FRAGILE scan.txt
  say "$scan: the sidecar has the text"
  try "$scan: a sidecar for each page" 0 - - caption $scan --each --sidecar --overwrite --quiet --max-tokens 2
  [ -s scan.page1.txt ] && [ -s scan.page2.txt ]
  say "$scan: the two pages have two sidecars"
  cp $scan in
  try "$scan: from standard input" 0 FRAGILE - read --max-tokens 24
  cp out piped
  try "$scan: from standard input, by the name -" 0 FRAGILE - read - --max-tokens 24
  cmp -s out piped
  say "$scan: standard input by its name gives the same text"
  try "$scan: from standard input, boxes need one page" 2 - 'has 2 pages; choose one with --pages' detect - ring
  try "$scan: from standard input, the chosen page" 0 '^\[' - detect - ring --pages 2 --quiet
  try "$scan: from standard input, without a name" 0 . - ask "What is this?" --max-tokens 4
  try "$scan: from standard input, after an image" 0 '^-: ' - caption "$root/examples/word-1.png" - --max-tokens 3
  rm in scan*.txt
done
PATH=/nonexistent "$eyelet" read "$root"/tests/document/data/two.pdf >out 2>err
grep -q 'install the package poppler-utils' err
say "the error without pdftoppm names its package"
try "a warning names an animated file" 0 . 'animated.gif is animated; only its first frame is used' caption "$root"/tests/image/data/animated.gif --max-tokens 2
cp "$root"/examples/shapes-1.png wide.png
try "boxes of one image" 0 . - detect wide.png "ring, square, circle" --quiet --jsonl
cp out boxes
try "boxes as a sidecar" 0 - - detect wide.png "ring, square, circle" --sidecar --quiet
[ "$(cat wide.json)" = "$(sed 's/.*"boxes": //; s/}$//' boxes)" ]
say "the sidecar has the same boxes"

if script -qec true /dev/null </dev/null >/dev/null 2>&1; then # a chroot may have no pseudo-terminals
  printf '/image wide.png\n/image scan.tif\n/quit\n' >typed
  script -qec "$eyelet chat" /dev/null <typed >out 2>err
  grep -q 'wide.png, 480 x 320, is sent with the next message' out && grep -q 'scan.tif, 2 pages, are sent with' out
  say "/image prints the size of an image or the pages of a document"
fi

for i in {1..63}; do echo "/image wide.png"; done >in
printf '/image %s\nHello\n/save 63.json\n' "$root"/tests/document/data/two.tif >>in
try "a document with more pages than the message may have" 1 . 'already has 64 images' chat --max-pixels 1024 --max-tokens 1
[ "$(grep -o wide.png 63.json | wc -l)" -eq 63 ] && ! grep -q two.tif 63.json
say "no page of that document is left"
rm in

# ---- images from standard input ----
cat photos/b.png >in
try "an unnamed image on standard input" 0 'white ring' - ask "Describe this image." "${options[@]}"
try "caption of standard input" 0 'white ring' - caption "${options[@]}"
try "detect expects WHAT first" 2 - 'needs an image and what' detect
echo 'just text' >in
try "text on standard input is not an image" 0 . 'not an image and is not used' ask Hello --max-tokens 2
rm in
sleep 6 | { timeout 20 "$eyelet" ask Hello --max-tokens 2 >out 2>err; status=$?; [ $status -eq 0 ] && grep -q 'within 5 s' err; }
say "standard input without a writer is awaited for 5 s only"
try "a URL is fetched by the server's rules" 1 - 'http://127.0.0.1:1/x.png' caption http://127.0.0.1:1/x.png

# ---- fields, types, labels ----
try "extract with names" 0 '"data": \{"shop": ?".*", "total": ?-?[0-9]' - extract photos/a.JPG --fields "shop, total:number" --max-tokens 200
try "--fields with an unknown type" 2 - 'not "total:euro"' extract photos/a.JPG --fields "total:euro"
try "--fields and --schema together" 2 - 'extract needs either --fields' extract photos/a.JPG --fields a --schema schema.json
try "--schema with a schema as its value" 0 '"data": \{"n": 7\}' - extract photos/a.JPG \
  --schema '{"type": "object", "properties": {"n": {"enum": [7]}}, "required": ["n"], "additionalProperties": false}'

# ---- standard input of ask ----
describe() { "$eyelet" ask "Describe this image." "${options[@]}" >out 2>err; }
{ sleep 0.5; cat photos/b.png; } | describe
grep -q 'yellow ring' out
say "an image that comes late"
{ head -c 3 photos/b.png; sleep 0.3; tail -c +4 photos/b.png; } | describe
grep -q 'yellow ring' out
say "an image that comes in two pieces"
printf 'What is 1?\nWhat is 2?\nWhat is 3?\n' >questions
while read -r question; do "$eyelet" ask "$question" --max-tokens 1 --quiet; done <questions >out 2>err
[ "$(wc -l <out)" -eq 3 ]
say "ask leaves the rest of a file of questions unread"
try "read --as" 0 . - read --as markdown photos/a.JPG --max-tokens 3
try "describe is another name of scene" 0 . - describe photos/a.JPG --max-tokens 3
try "ocr is another name of read" 0 . - ocr photos/a.JPG --max-tokens 3
try "run suggests chat or ask" 2 - 'eyelet chat holds a conversation' run qwen
try "no misspelling suggests rm" 2 - 'there is no command "em"$' em model
try "help lists commands in groups" 0 '^Ask about images$' - help
COLUMNS= "$eyelet" help caption >out 2>err
[ "$(grep -v cpu-mask out | wc -L)" -le 100 ]
say "help lines are wrapped"
script -qec "'$eyelet' detect '$root/examples/shapes-4.png' square" /dev/null </dev/null >out 2>err
matches out 'label +x1 +y1 +x2 +y2'
say "detect: a table on a terminal"

echo "1..$ran"
[ "$failed" -eq 0 ]
