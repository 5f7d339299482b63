#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Tests the portable folder: tools/portable_check.sh DIST. It must need no symbol newer than GLIBC_2.35 and no library
# outside the folder but glibc's, and it must run after it was moved, with an empty environment. The last line is
# "N passed, N failed".
set -euo pipefail
archive=$(ls "$1"/eyelet-*.tar.xz)
newest=2.35
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar -C "$work" -xJf "$archive"
mv "$work"/eyelet-* "$work/moved here" # with a blank in the path
folder=$work/moved\ here
passed=0 failed=0

check() { # check WHAT COMMAND...: the check fails if COMMAND does, and shows its output
  local what=$1 said
  shift
  if said=$("$@" 2>&1); then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf 'FAILED %s\n%s\n' "$what" "$said"
  fi
}

elf_files() { find "$folder" -type f \( -name eyelet -o -name eyelet-decode -o -name mkcheckpoint -o -path '*/lib/*' \) -print0; }

symbols_are_old() { # ... FILE
  local version
  version=$(objdump -p "$1" | grep -oE 'GLIBC_(2\.[0-9.]+|PRIVATE)' | sort -V | tail -1)
  echo "needs $version"
  [ "$version" != GLIBC_PRIVATE ] && [ "$(printf '%s\n' "${version#GLIBC_}" "$newest" | sort -V | tail -1)" = \
    "$newest" ]
}

libraries_are_ours() { # ... FILE: the loader must find all libraries but glibc's in the folder
  local found
  found=$(env -i ldd "$1" | grep -vE 'linux-vdso|ld-linux|/(libc|libm|libdl|libpthread|librt|libresolv)\.so\.[0-9]+ ' \
    | grep -vF "=> $folder/" || true)
  echo "$found"
  [ -z "$(echo "$found" | grep -vE 'statically linked' || true)" ]
}

runs() { # ... EXPECTED PROGRAM ARGUMENT...: runs it from another directory with an empty environment
  local expected=$1
  shift
  (cd / && env -i "$@") | grep -q "$expected"
}

# reads IMAGE LIBRARY: reading the image must succeed and load the library from the folder.
reads() {
  local said
  # a child process, eyelet-decode, reads the image, so the loader writes its messages to files
  rm -f "$work"/reads.*
  said=$(cd / && env -i LD_DEBUG=libs LD_DEBUG_OUTPUT="$work/reads" "$folder/eyelet" ask --model "$work/tiny" \
    --max-tokens 1 "$1" hello 2>&1 >/dev/null) || true
  echo "$said"
  grep -q "calling init: $folder/lib/$2" "$work"/reads.* || return 1
  ! echo "$said" | grep -q '^eyelet:'
}

# Runs a server and a client of the folder. Both must load their libraries from the folder.
serves() {
  local server said status=1 url=
  (cd / && exec env -i LD_DEBUG=libs LD_DEBUG_OUTPUT="$work/server" "$folder/eyelet" serve "$work/tiny" --port 0) \
    >"$work/log" 2>&1 &
  server=$!
  for _ in $(seq 300); do
    url=$(sed -n 's/.*eyelet ready on \(http:[^ ]*\).*/\1/p' "$work/log")
    [ -z "$url" ] || break
    sleep 0.1
  done
  said=$(cd / && env -i LD_DEBUG=libs LD_DEBUG_OUTPUT="$work/client" "$folder/eyelet" ask --server "$url" --max-tokens \
    1 hello 2>&1) && status=0
  kill "$server"
  wait "$server" || status=1
  cat "$work/log"
  echo "$said"
  [ $status -eq 0 ] && grep -q "calling init: $folder/lib/libmicrohttpd" "$work"/server.* &&
    grep -q "calling init: $folder/lib/libcurl" "$work"/client.*
}

is_small() { # the download must have at most 40 MB
  local bytes
  bytes=$(stat -c %s "$archive")
  echo "$bytes bytes"
  [ "$bytes" -le 40000000 ]
}

check "size" is_small
while IFS= read -r -d '' file; do
  check "${file##*/}: symbols" symbols_are_old "$file"
  check "${file##*/}: libraries" libraries_are_ours "$file"
done < <(elf_files)
check "--version" runs '^eyelet ' "$folder/eyelet" --version
check "help" runs 'eyelet ask' "$folder/eyelet" help
check "mkcheckpoint" runs . "$folder/mkcheckpoint" --like tiny-gqa4-fp8 --seed 1 "$work/tiny"
check "ask" runs . "$folder/eyelet" ask --model "$work/tiny" --max-tokens 1 hello
check "serve and ask" serves
if [ -e "$folder/lib/libheif.so.1" ]; then
  for file in tests/image/data/*.heic; do check "$file" reads "$PWD/$file" libde265; done
  for file in tests/image/data/*.avif; do check "$file" reads "$PWD/$file" libaom; done
fi
if [ -e "$folder/lib/libtiff.so.6" ]; then
  for name in lzw group4 jpeg tiles; do
    check "$name.tif" reads "$PWD/tests/image/data/$name.tif" libtiff
  done
fi
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
