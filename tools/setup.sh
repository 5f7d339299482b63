#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages that a build needs: tools/setup.sh [clang] [style] [portable] [node] [clients] [ui]
# [install] [packages] [python] [real] [wheel] [abi] [newcomer] [fonts]. Without root, prints the command that installs
# them. Prints nothing if all are installed, and does nothing on a system without dpkg. `fonts` installs those with
# which the demo model is trained, and copies them to tools/demo-model/fonts.
set -eu

packages='gcc g++ libc6-dev cmake ninja-build pkg-config libturbojpeg0-dev libpng-dev libwebp-dev libgif-dev zlib1g-dev
  libheif-dev libtiff-dev libpcre2-dev libjson-c-dev libutf8proc-dev libssl-dev libsqlite3-dev libcmocka-dev libedit-dev
  libyaml-dev libmicrohttpd-dev libcurl4-openssl-dev libzstd-dev poppler-utils' # poppler-utils: for tests of PDF
# Prints the package with version 2 of the Liberation fonts. Until Debian 12, its name has the 2.
liberation() {
  if apt-cache show fonts-liberation2 >/dev/null 2>&1; then echo fonts-liberation2; else echo fonts-liberation; fi
}

# Does the rest when all packages are installed.
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
    node) command -v npm >/dev/null || packages="$packages nodejs npm" ;; # it may be installed in another way
    clients) packages="$packages python3 python3-pil python3-yaml curl jq nginx-light" ;;
    ui) packages="$packages chromium" ;;
    *) echo "setup.sh: unknown set of packages: $set" >&2; exit 2 ;;
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
  echo "Packages are missing; install them with:" >&2
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
