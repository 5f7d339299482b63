#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tests/packages/run.sh BUILD, in the source tree: checks the results of make install and make deb. lintian accepts
# the packages, the installed program runs, manual pages and completions have each option, and systemd accepts the
# unit. Last line: "N passed, N failed".
set -euo pipefail
build=$(realpath "$1") source=$PWD
here=$source/tests/packages
unset EYELET_MODEL EYELET_SERVER EYELET_API_KEY VLLM_API_KEY
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

check() { # check WHAT COMMAND...: COMMAND prints the error and fails
  local what=$1 said
  shift
  if said=$("$@" 2>&1); then
    passed=$((passed + 1))
    echo "ok $what"
  else
    failed=$((failed + 1))
    printf 'FAILED %s\n%s\n' "$what" "$said"
  fi
}

# ---- make install ----

installs() { cmake --install "$build" --prefix "$work/a prefix"; }
runs_demo() { # runs_demo PROGRAM: without an environment, in another folder
  local said
  said=$(cd / && env -i HF_HOME="$work" "$1" ask --model demo --temperature 0 "$source/examples/shapes-4.png" \
    "Describe this image.")
  echo "$said"
  [ "$said" = "$(jq -r '."shapes-4.png"' "$source/examples/expected.json")" ]
}
unit_is_accepted() {
  local unit=$work/eyelet.service
  # the test's prefix has a space, which systemd does not allow, so the unit gets the build's program
  sed "s|^ExecStart=.*/bin/eyelet|ExecStart=$build/eyelet|" "$work/a prefix/lib/systemd/system/eyelet.service" >"$unit"
  systemd-analyze verify --man=no "$unit" 2>&1 | tee /dev/stderr | (! grep -F eyelet.service)
}
unit_is_hardened() { systemd-analyze security --offline=true --threshold=25 "$work/eyelet.service"; }
unit_options_exist() { # serve accepts the options that the guide suggests for /etc/default/eyelet
  local options
  options=$(sed -n 's/^EYELET_OPTIONS="\(.*\)"$/\1/p' docs/guides/operating.md | head -1)
  # shellcheck disable=SC2086
  [ -n "$options" ] && "$build/eyelet" serve $options --help
}

check "make install" installs
check "the installed program runs" runs_demo "$work/a prefix/bin/eyelet"
check "the unit is accepted by systemd" unit_is_accepted
check "the unit is hardened (exposure at most 2.5 of 10)" unit_is_hardened
[ ! -e docs/guides/operating.md ] || check "the options in the document" unit_options_exist
check "READY, WATCHDOG and STOPPING are reported" python3 "$here/systemd.py" "$build/eyelet"

# ---- packages ----

packs() { # unpacks all three into one tree, like apt
  local deb
  (cd "$build" && cpack --config CPackConfig.cmake -B "$work/deb") || return 1
  for deb in "$work"/deb/*.deb; do dpkg-deb -x "$deb" "$work/root" || return 1; done
}
lints() { lintian --allow-root --fail-on error,warning "$work"/deb/*.deb; }
depends_on() { dpkg-deb -f "$work"/deb/eyelet_*.deb Depends | tee /dev/stderr |
  grep -q "libmicrohttpd12.*libc6 (>= .*libjson-c5"; }

library_packages() { # the package's name has the soname, and the headers need the same version
  local version
  version=$(dpkg-deb -f "$work"/deb/libeyelet0_*.deb Version) && [ "$(ls "$work"/deb/*.deb | wc -l)" = 3 ] &&
    [ "$(dpkg-deb -f "$work"/deb/libeyelet-dev_*.deb Depends)" = "libeyelet0 (= $version)" ] &&
    dpkg-deb -c "$work"/deb/libeyelet0_*.deb | grep -F /lib/x86_64-linux-gnu/libeyelet.so.0 &&
    ! dpkg-deb -c "$work"/deb/eyelet_*.deb | grep -E 'libeyelet|include/'
}
compiles_example() { # compiles the example with the packages' files, in another root
  local root=$work/root/usr
  cc examples/c/caption.c -o "$work/caption" \
    $(PKG_CONFIG_PATH=$root/lib/x86_64-linux-gnu/pkgconfig pkg-config --cflags --libs eyelet) &&
    LD_LIBRARY_PATH=$root/lib/x86_64-linux-gnu "$work/caption" "$root/share/eyelet/models/demo" examples/shapes-4.png |
    grep -F "$(jq -r '."shapes-4.png"' examples/expected.json)"
}

check "make deb" packs
check "lintian" lints
check "its dependencies" depends_on
check "the library's packages" library_packages
check "the example is compiled with libeyelet-dev" compiles_example
check "the packaged program runs" runs_demo "$work/root/usr/bin/eyelet"

# ---- manual pages ----

page_is_sound() { # page_is_sound PAGE: groff prints no warning, and the page has each option of the help
  local name=${1##*/} text option
  name=${name%.1.gz}
  text=$(zcat "$1" | groff -Kutf8 -man -Tutf8 -ww -rLL=500n 2>"$work/said" | col -b)
  cat "$work/said"
  [ ! -s "$work/said" ] || return 1
  [ "$name" != eyelet ] || return 0
  for option in $("$build/eyelet" help "${name#eyelet-}" | grep -oE '^  --[a-z0-9-]+'); do
    grep -qE -- "^ +$option( |$)" <<<"$text" || { echo "$option is missing"; return 1; }
  done
}
for page in "$work/a prefix"/share/man/man1/*; do check "${page##*/}" page_is_sound "$page"; done

# ---- completions ----

check "completion in bash" bash "$here/completion.bash" "$build/manual/eyelet.bash" "$build"
check "completion in zsh" zsh -f "$here/completion.zsh" "$build/manual" "$build"
check "completion in fish" fish --no-config "$here/completion.fish" "$build/manual/eyelet.fish" "$build"

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
