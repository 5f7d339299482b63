#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tests/library/run.sh BUILD CC SANITIZERS, in the source tree: checks the installed libeyelet. It exports what the
# headers mark, and the example compiles with pkg-config and with CMake, and runs.
set -euo pipefail
build=$1 cc=$2 sanitizers=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix="$work/a prefix"
fail() { echo "FAILED $*"; exit 1; }

# the build may have skipped the manual's changelog
mkdir -p "$build/manual"
[ -e "$build/manual/changelog.gz" ] || gzip -9nc CHANGELOG.md >"$build/manual/changelog.gz"
for component in library development; do
  cmake --install "$build" --prefix "$prefix" --component $component >/dev/null
done
pc=$(find "$prefix" -name eyelet.pc)
library=$(find "$prefix" -name 'libeyelet.so.0')
[ -n "$pc" ] && [ -n "$library" ] || fail "no eyelet.pc or no libeyelet.so.0 is installed"

# ---- symbols ----

exported() { nm -D --defined-only "$library" | awk '$2 != "A" {print $3}' | LC_ALL=C sort; }
marked() { # with their symbol version
  cat "$prefix"/include/eyelet/*.h | tr '\n' ' ' | grep -oE 'EY_API [^;(]*\(' | grep -oE 'ey_[a-z_0-9]+\(' |
    sed 's/($/@@EYELET_0/' | LC_ALL=C sort -u
}
diff <(exported) <(marked) || fail "exported (<) is not what the headers mark EY_API (>)"
objdump -p "$library" | grep 'SONAME *libeyelet.so.0' >/dev/null || fail "the soname is not libeyelet.so.0"
for never in libstdc++ libheif libtiff libcurl libmicrohttpd; do
  [ -z "$sanitizers" ] || break # sanitizers' runtimes need some
  ! ldd "$library" | grep -F "$never" || fail "$never would be loaded into programs"
done

# ---- headers ----

flags="-Wall -Wextra -Werror ${sanitizers:+-fsanitize=$sanitizers}"
for header in eyelet.h $(cd "$prefix/include" && ls eyelet/*.h); do
  echo "#include <$header>" | $cc -std=c99 -pedantic $flags -I"$prefix/include" -xc -fsyntax-only - || fail "$header in C"
  echo "#include <$header>" | $cc -std=c++11 $flags -I"$prefix/include" -xc++ -fsyntax-only - || fail "$header in C++"
done

# ---- the example ----

expected() { sed -n "s/^  \"$1\": \"\(.*\)\",*$/\1/p" examples/expected.json; }
runs() { # runs PROGRAM: it prints a sentence for an image and an error for a missing file
  local image=shapes-4.png said
  said=$(LD_LIBRARY_PATH=$(dirname "$library") "$1" models/demo examples/$image) || fail "$1: $said"
  [ "$said" = "examples/$image: $(expected $image)" ] || fail "$1 says: $said"
  ! said=$(LD_LIBRARY_PATH=$(dirname "$library") "$1" models/demo README.md) || fail "$1 captions README.md"
  ! said=$(LD_LIBRARY_PATH=$(dirname "$library") "$1" /nowhere 2>&1) || fail "$1 loads /nowhere"
  [[ $said == *"/nowhere"* ]] || fail "$1 says of /nowhere: $said"
}

export PKG_CONFIG_PATH=${pc%/*}
# pkg-config escapes the prefix's space for a shell
eval "$cc -std=c11 $flags -g examples/c/caption.c -o '$work/caption' $(pkg-config --cflags --libs eyelet)"
runs "$work/caption"
[ "$(wc -l <examples/c/caption.c)" -lt 60 ] || fail "examples/c/caption.c has 60 lines or more"

mkdir "$work/cmake"
cat >"$work/cmake/CMakeLists.txt" <<EOF
cmake_minimum_required(VERSION 3.16)
project(example LANGUAGES C)
find_package(eyelet 0.2 REQUIRED)
add_executable(caption $PWD/examples/c/caption.c)
target_link_libraries(caption eyelet::eyelet)
EOF
cmake -S "$work/cmake" -B "$work/cmake/build" -G Ninja -DCMAKE_C_COMPILER="$cc" -DCMAKE_PREFIX_PATH="$prefix" \
  -DCMAKE_C_FLAGS="$flags" >"$work/log" 2>&1 && cmake --build "$work/cmake/build" >>"$work/log" 2>&1 ||
  { cat "$work/log"; fail "find_package(eyelet)"; }
runs "$work/cmake/build/caption"
