#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Writes manual pages, completions and the changelog of packages: tools/make_manual.sh PAGES OUT, where PAGES is the
# program, makes OUT/man1/*.1.gz, OUT/eyelet.bash, OUT/_eyelet, OUT/eyelet.fish and OUT/changelog.gz.
set -euo pipefail
pages=$1 out=$2
rm -rf "$out"
mkdir -p "$out/man1"
# scdoc writes the date into the page
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}

make_page() { scdoc | gzip -9n >"$out/man1/$1.1.gz"; }

"$pages" overview | make_page eyelet
for command in $("$pages" commands); do "$pages" page "$command" | make_page "eyelet-$command"; done
"$pages" bash >"$out/eyelet.bash"
"$pages" zsh >"$out/_eyelet"
"$pages" fish >"$out/eyelet.fish"
gzip -9n <"$(dirname "$0")/../packaging/debian/changelog" >"$out/changelog.gz"
