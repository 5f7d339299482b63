#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Makes a folder of fuzz targets for a machine on which nothing is installed: tools/fuzz_folder.sh BUILD FOLDER. BUILD
# is a build of `make fuzz` that is configured with EY_STATIC_LIBS, too. On the machine, run `python3 run_folder.py
# SECONDS CORES` in FOLDER. It makes out.tar.xz; copy `found` from it to BUILD, for "fuzz.sh keep BUILD", and give
# results.json to tests/fuzz/add_minutes.py.
set -euo pipefail
build=$1 folder=$2
mkdir -p "$folder/lib"
ctest --test-dir "$build" -N -V | sed -n 's/^.*Test command: \(.*\)_corpus "*\(.*[^"]\)"*$/\1 \2/p' | tr -d '"' |
  while read -r target seeds; do
    strip -s -o "$folder/$(basename "$target")" "$target"
    mkdir -p "$folder/corpus/$(basename "$target")"
    for seed in $seeds; do cp -r "$seed/." "$folder/corpus/$(basename "$target")"; done
    echo "./$(basename "$target") corpus/$(basename "$target")"
  done >"$folder/targets"
# the vocabulary for the targets of grammars
mkdir -p "$folder/models/demo"
find models/demo -maxdepth 1 -name '*.json' -exec cp -t "$folder/models/demo" {} +
curl=$(gcc -print-file-name=libcurl.so.4)
{ echo "$curl"; ldd "$curl" | awk '$2 == "=>" && $3 ~ /^\// {print $3}'; } |
  grep -vE '/(libc|libm|libdl|libpthread|librt|libresolv)\.so\.[0-9]+$' | xargs -I{} cp -L {} "$folder/lib"
cp "$(dirname "$0")/fuzz.sh" tests/fuzz/run_folder.py tests/fuzz/hours.json "$folder"
