#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks the rules of style, in seconds: tools/check_style.sh [ROOT]. Format (.clang-format), width, one statement a
# line, SPDX lines, sizes of folders, layers (docs/architecture.md), headers that compile alone, include guards, names
# that are defined twice, words that the glossary replaced. Prints FILE:LINE: and the problem. The last line is "N
# passed, N failed", counted in checks.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "${1:-$here/..}" || exit 2
passed=0 failed=0
jobs=$(nproc)
out=$(mktemp)
trap 'rm -f "$out"' EXIT

# Lists tracked files, or all files of a tree without git (from a tarball, or a test's).
files() {
  if [ -d .git ] || [ -f .git ]; then git ls-files -- "$@"; else
    find "$@" -type f 2>/dev/null | sed 's#^\./##'
  fi | grep -vE '(^|/)(build[^/]*|node_modules|dist)/' | LC_ALL=C sort
}
c_files() { files src include tests tools bench examples | grep -E '\.(c|h|cu|cuh|cpp)$'; }

check() { # check NAME COMMAND...: COMMAND prints the problems, and nothing if there are none
  "${@:2}" >"$out" 2>&1
  if [ -s "$out" ]; then
    head -300 "$out"
    echo "FAILED $1 ($(wc -l <"$out") lines)"
    failed=$((failed + 1))
  else
    passed=$((passed + 1))
  fi
}

format() { c_files | xargs -r -P "$jobs" -n 20 clang-format --dry-run --ferror-limit=1 2>&1 | grep -E 'warning|error' ; }

# Counts characters, not bytes. In Markdown, tables, links, output of programs and specifications may be wider.
width() {
  c_files | xargs -r gawk -v OFMT=%d 'length($0) > 100 {print FILENAME ":" FNR ": " length($0) " columns (100 at most)"}'
  files . | grep -E '\.md$' | grep -vE '^docs/spec/' | xargs -r \
    gawk 'FNR == 1 { quoted = 0 }
      /^```/ { quoted = !quoted && / output$/ }
      length($0) > 120 && !quoted && !/^ *\|/ && !/https?:/ {
        print FILENAME ":" FNR ": " length($0) " columns (120 at most)"
      }'
}

# Finds `a = b, c = d;` as a statement. Lines that continue a declaration are allowed.
one_statement() {
  c_files | xargs -r gawk '
    FNR == 1 { before = "" }
    /^ +[A-Za-z_*][][A-Za-z0-9_.>*()-]*( [-+*\/|&^]?= |\+\+|--)[^;{}"]*, [A-Za-z_*][][A-Za-z0-9_.>*-]*( [-+*\/|&^]?= [^;{}]*|\+\+|--);$/ &&
      before !~ /[^;{}:)]$/ { print FILENAME ":" FNR ": one statement a line: " $0 }
    { before = $0; sub(/ *\/\*.*\*\/$/, "", before) }'
}

licence_lines() {
  files src include tests tools bench examples bindings | grep -E '\.(c|h|cu|cuh|cpp|sh|py|mjs|js|css|def)$' | grep -vE 'tests/.*/(data|corpus)/|page/vendor/' |
    while read -r file; do head -4 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' || echo "$file:1: no SPDX line"; done
}

folder_sizes() {
  files src include | sed 's#/[^/]*$##' | LC_ALL=C uniq -c | awk '$1 > 30 {print $2 ": " $1 " files (30 at most)"}'
}

file_names() { # must be unique among sources
  files src include | grep -E '\.(c|h|cu|cuh)$' | sed 's#.*/##' | LC_ALL=C sort | uniq -d |
    while read -r name; do files src include | grep "/$name\$" | sed "s#\$#: the file name is used twice#"; done
}

headers_alone() {
  command -v "${CC:-cc}" >/dev/null || return 0
  files src include | grep -E '\.h$' | grep -v '_tmpl\.h$' | xargs -r -P "$jobs" -I HEADER sh -c '
    echo "#include \"$1\"" | "${CC:-cc}" -std=c11 -D_GNU_SOURCE -I. -Isrc -Iinclude -fsyntax-only -xc - 2>/dev/null ||
      echo "$1:1: does not compile alone (a fragment is named *_tmpl.h)"' sh HEADER
}

# EY_, folders above the header (src is left out; others may be), and its name: EY_CLI_INPUT_H in src/cli/options.
# Public headers: EYELET_ and the name.
include_guards() {
  files src include tests tools bench | grep -E '\.(h|cuh)$' | xargs -r gawk '
    function guard_form(path, n, i, part, form) {
      n = split(toupper(path), part, "/")
      gsub(/[^A-Z0-9]/, "_", part[n])
      if (part[1] == "INCLUDE") return n == 2 ? "^" part[n] "$" : "^EYELET_" part[n] "$"
      form = "^EY_"
      for (i = part[1] == "SRC" ? 2 : 1; i < n; i++) form = form "(" part[i] "_)?"
      return form part[n] "$"
    }
    /^#ifndef .*_C?U?H$/ && !(FILENAME in seen) {
      seen[FILENAME] = 1
      if ($2 !~ guard_form(FILENAME)) print FILENAME ":" FNR ": the include guard " $2 " is not of the form EY_FOLDER_NAME_H"
    }
    ENDFILE { if (!(FILENAME in seen) && FILENAME !~ /_tmpl\.h$/) print FILENAME ":1: no include guard" }'
}

tags_of() { ctags -R -x --languages=C,C++ --langmap=C:.c.h,C++:+.cu.cuh "--kinds-C=$1" "--kinds-C++=$1" src include 2>/dev/null; }

# Function names must be unique, except those in tools/style/namesakes.txt, which has at most 25, each with a reason.
namesakes() {
  local allowed=$here/style/namesakes.txt
  tags_of f | awk '{print $1, $4}' | LC_ALL=C sort -u | awk '{n[$1]++; f[$1] = f[$1] " " $2} END {for (k in n) if (n[k] > 1) print k ":" f[k]}' |
    LC_ALL=C sort | while IFS=: read -r name places; do
      grep -qE "^$name( |\$)" "$allowed" || echo "$name is defined in$places"
    done
  local n
  n=$(grep -cE '^[a-z]' "$allowed")
  [ "$n" -le 25 ] || echo "$allowed: $n names (25 at most)"
}

twin_tags() {
  tags_of sgu | awk '$1 !~ /^__anon/ {print $1, $4}' | LC_ALL=C sort -u |
    awk '{n[$1]++; f[$1] = f[$1] " " $2} END {for (k in n) if (n[k] > 1) print "tag " k " is defined in" f[k]}'
}

# Finds words that docs/glossary.md replaced. tools/style/coined_words.txt has them (25 at most) as regular expressions.
# A line that begins with ~ is a phrase that may stay (the name of an option, another program's words). A line that
# begins with ! is a file that may use the words.
coined_words() {
  local list=$here/style/coined_words.txt words n
  n=$(grep -cvE '^(#|!|~|$)' "$list")
  [ "$n" -le 25 ] || echo "$list: $n words (25 at most)"
  words=$(grep -vE '^(#|!|~|$)' "$list" | paste -sd '|')
  files src include tests tools bench docs examples bindings README.md CONTRIBUTING.md CHANGELOG.md SECURITY.md Makefile CMakeLists.txt |
    grep -E '\.(c|h|cu|cuh|cpp|sh|py|mjs|js|css|html|md|def|txt)$|Makefile$' |
    grep -vE "$(sed -n 's/^!//p' "$list" | paste -sd '|')" |
    xargs -r gawk -v words="(^|[^A-Za-z])($words)([^A-Za-z]|\$)" -v phrases="$(sed -n 's/^~//p' "$list" | paste -sd '|')" '
      { line = $0; gsub(phrases, "", line) }
      line ~ words { print FILENAME ":" FNR ": " substr($0, 1, 120) }'
}

# The tables and plots of docs/performance.md must be those of bench/results.
tables_and_plots() { [ ! -e bench/report.py ] || bench/report.py --check; }

check format format
check width width
check "one statement a line" one_statement
check "SPDX lines" licence_lines
check "folder sizes" folder_sizes
check "file names" file_names
check layers "$here/check_layers" .
check "headers compile alone" headers_alone
check "include guards" include_guards
check namesakes namesakes
check "struct and enum tags" twin_tags
check "coined words" coined_words
check "tables and plots" tables_and_plots
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
