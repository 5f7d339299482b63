#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sees to the Debian packages that a build needs: tools/setup.sh [clang] [style] [portable] [node] [clients] [ui]
# [install] [packages] [python] [real] [wheel] [abi] [newcomer] [fonts]. Installs what is missing when root, else prints
# the command that would. Silent when all are there; does nothing where there is no dpkg. fonts: those of the demo
# model's training, which it also copies into tools/demo-model/fonts.
set -eu

packages='gcc g++ libc6-dev cmake ninja-build pkg-config libturbojpeg0-dev libpng-dev libwebp-dev libgif-dev zlib1g-dev
  libheif-dev libtiff-dev libpcre2-dev libjson-c-dev libutf8proc-dev libssl-dev libsqlite3-dev libcmocka-dev libedit-dev
  libyaml-dev libmicrohttpd-dev libcurl4-openssl-dev libzstd-dev poppler-utils' # poppler-utils: for tests of PDF
# The package with version 2 of these fonts, which had the number in its name until Debian 12.
liberation() {
  if apt-cache show fonts-liberation2 >/dev/null 2>&1; then echo fonts-liberation2; else echo fonts-liberation; fi
}

# What is to be done when all packages are there.
finish() {
  case " $* " in *" fonts "*) "$(dirname "$0")/demo-model/fonts.sh" ;; esac
}

for set in "$@"; do
  case $set in
    clang) packages="$packages clang libclang-rt-14-dev" ;;
    style) packages="$packages clang-format gawk python3 universal-ctags" ;;
    portable) packages="$packages binutils patchelf xz-utils scdoc" ;;
    install) packages="$packages scdoc" ;;
    packages) packages="$packages lintian dpkg-dev systemd groff-base bsdextrautils jq python3 zsh fish" ;;
    python) packages="$packages python3-pytest python3-numpy python3-pil python3-pydantic mypy" ;;
    real) packages="$packages python3 python3-pip" ;;
    wheel) packages="$packages python3 python3-venv" ;;
    abi) packages="$packages abigail-tools git" ;;
    newcomer) packages="debootstrap git util-linux" ;;
    fonts) packages="fonts-dejavu-core $(liberation) fonts-roboto-unhinted" ;;
    node) command -v npm >/dev/null || packages="$packages nodejs npm" ;; # it may have come from elsewhere
    clients) packages="$packages python3 python3-pil python3-yaml curl jq nginx-light" ;;
    ui) packages="$packages chromium" ;;
    *) echo "setup.sh: there is no set of packages called $set" >&2; exit 2 ;;
  esac
done

command -v dpkg-query >/dev/null || exit 0
installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' $packages 2>/dev/null || true)
missing=
for package in $packages; do
  case "
$installed
" in
    *"
installed $package
"*) ;;
    *) missing="$missing $package" ;;
  esac
done
if [ -z "$missing" ]; then
  finish "$@"
  exit
fi

if [ "$(id -u)" -ne 0 ]; then
  echo "These packages are missing; this installs them:" >&2
  echo "sudo apt-get install --no-install-recommends$missing" >&2
  exit 1
fi
echo "installing:$missing" >&2
log=$(mktemp)
if ! { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing; \
  } >"$log" 2>&1
then
  cat "$log" >&2
  rm -f "$log"
  exit 1
fi
rm -f "$log"
finish "$@"
