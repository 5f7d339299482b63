#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Copies the 17 font files of fonts.sha256 from the folder of Debian's packages to tools/demo-model/fonts:
# tools/demo-model/fonts.sh [FROM]. `tools/setup.sh fonts` installs the packages and runs this script.
set -eu
from=${1:-/usr/share/fonts/truetype}
cd "$(dirname "$0")"
mkdir -p fonts
missing=0
while read -r sum name; do
  echo "$sum  fonts/$name" | sha256sum -c --status 2>/dev/null && continue
  find "$from" -name "$name" -type f >fonts/found
  copied=
  while read -r path; do # several packages may have a file of this name
    echo "$sum  $path" | sha256sum -c --status || continue
    cp "$path" "fonts/$name"
    copied=1
  done <fonts/found
  rm fonts/found
  [ -n "$copied" ] && continue
  echo "fonts.sh: $from has no $name with the SHA-256 of fonts.sha256" >&2
  missing=$((missing + 1))
done <fonts.sha256
[ "$missing" -eq 0 ] || exit 1
