#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Many images: folders, forms of output, going on after a stop, several at once. The demo model answers.
# run_batch.sh EYELET JSON_AT
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
try "a folder: its images, sorted; what is below is said" 0 '^photos/a.JPG: .*FRAGILE' '1 folder left out \(photos/more\); -r' \
  caption photos "${options[@]}"
[ "$(cut -d: -f1 out | paste -sd ' ')" = 'photos/a.JPG photos/b.png' ]
say "in order, no other files"
try "recursive" 0 '^photos/more/c.png: ' - caption -r photos/ "${options[@]}"
[ "$(wc -l <out)" -eq 3 ]
say "a link to a folder is not entered"
rm -f photos/notes.txt
try "files and a folder, as * gives them" 0 '^photos/a.JPG: ' '1 folder left out' caption photos/* --max-tokens 2
try "no images" 2 - 'empty has no images' caption empty
try "folders only" 2 - 'has no images, but folders; -r' caption folders
try "a folder that is not there" 1 - 'nope: No such file' caption nope

# ---- questions ----
try "ask each" 0 '^photos/b.png:$' - ask photos "How many shapes?" "${options[@]}" --quiet
try "ask each, no image" 2 - 'name images or a folder' ask --each "How many?"
try "ask without --each is one question" 0 . - ask photos/a.JPG photos/b.png "What is this?" "${options[@]}"
[ "$(grep -c 'photos/' out)" -eq 0 ]
say "one answer about both"
try "ask, choices, CSV" 0 '^photos/a.JPG,(yes|no)$' - ask --each photos/a.JPG photos/b.png "Is there a word?" --choice yes --choice no --csv
[ "$(head -1 out)" = image,answer ]
say "a header"
try "scene of two" 0 '^photos/b.png:$' - scene photos/a.JPG photos/b.png "${options[@]}"
try "read as JSON lines" 0 '^\{"image": "photos/a.JPG", "answer": "' - read photos/a.JPG photos/b.png --jsonl --max-tokens 24
try "detect in a folder" 0 '^\{"image": "photos/b.png", "boxes": \[' - detect photos "square, heart" --quiet
try "detect, CSV" 0 '^photos/b.png,.*,[0-9]+,[0-9]+,[0-9]+,[0-9]+$' - detect photos/a.JPG photos/b.png "circle, square, heart, triangle, star, ring" --csv
try "detect, --draw is for one" 2 - 'draw takes one image' detect photos square --draw x.png
try "detect without WHAT" 2 - 'what to look for is missing' detect photos/a.JPG photos/b.png
echo '{"type": "object", "properties": {"a, b": {"enum": ["x\"y"]}, "n": {"enum": [7]}, "l": {"enum": [[1, 2]]}}, "required": ["a, b", "n", "l"]}' >schema.json
try "extract, CSV: the schema's fields" 0 '^photos/a.JPG,"x""y",7,"\[1,2\]"$' - extract photos/a.JPG photos/b.png --schema schema.json --csv
[ "$(head -1 out)" = 'image,"a, b",n,l' ]
say "their names"

# ---- beside the images ----
try "sidecars" 0 - - caption photos "${options[@]}" --sidecar --quiet
grep -q FRAGILE photos/a.txt && [ -s photos/b.txt ]
say "photo.txt beside photo.jpg"
try "sidecars are not overwritten" 1 - 'photos/a.txt is there already; --resume' caption photos --sidecar --quiet
echo mine >photos/a.txt
try "--resume leaves them out" 0 - '2 of 2 images are done' caption photos --sidecar --resume
[ "$(cat photos/a.txt)" = mine ]
say "and alone"
try "--overwrite" 0 - - caption photos "${options[@]}" --sidecar --overwrite --quiet
grep -q FRAGILE photos/a.txt
say "replaces them"
try "extract makes photo.json" 0 - - extract photos --schema schema.json --sidecar --quiet
grep -q '"n": *7' photos/a.json
say "with the data"

# ---- going on ----
try "resume without a place" 2 - 'use it with --sidecar, or with --output' caption photos --resume
try "two forms" 2 - 'exclude each other' caption photos --csv --jsonl
try "JSON lines to a file" 0 - - caption photos/a.JPG --jsonl -o all.jsonl "${options[@]}"
printf '{"image": "photos/b.png", "capt' >>all.jsonl # killed in the middle of a line
try "goes on after a cut line" 0 - '1 of 3 images are done' caption -r photos --jsonl -o all.jsonl --resume "${options[@]}"
cp all.jsonl out
[ "$(sed 's/^{"image": "\([^"]*\)".*/\1/' out | paste -sd ' ')" = 'photos/a.JPG photos/b.png photos/more/c.png' ]
say "each image once"
try "CSV to a file" 0 - - caption photos/a.JPG --csv -o all.csv "${options[@]}"
try "goes on" 0 - '1 of 2 images are done' caption photos --csv -o all.csv --resume "${options[@]}" 
[ "$(grep -c ^image, all.csv)" -eq 1 ] && [ "$(wc -l <all.csv)" -eq 3 ]
say "one header, each image once"
: >photos/bad.png
try "one that fails is tried again" 1 - '1 of 3 images failed' caption photos/*.png photos/*.JPG --jsonl -o bad.jsonl --max-tokens 2
cp "$root"/examples/shapes-3.png photos/bad.png
try "and done" 0 - '2 of 3 images are done' caption photos/*.png photos/*.JPG --jsonl -o bad.jsonl --resume --max-tokens 2
try "a full disk" 1 - '/dev/full' caption photos/a.JPG photos/b.png --csv -o /dev/full --max-tokens 2

# ---- several at once ----
caption_all() { "$eyelet" caption "$root"/examples/*.png "$root"/examples/*.jpg "${options[@]}" --quiet "$@"; }
caption_all >one 2>err
caption_all --max-num-seqs 4 >out 2>err
cmp one out >>err 2>&1
say "four at once: the same answers in the same order"
try "several at once, one bad" 1 '^\{"image": "nope.png", "error"' 'images failed' \
  caption photos/a.JPG nope.png photos/b.png photos/more/c.png --jsonl --max-num-seqs 3 --max-tokens 2

echo "1..$ran"
[ "$failed" -eq 0 ]
