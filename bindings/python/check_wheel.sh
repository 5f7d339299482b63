#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs the wheel with pip, without network access, and tests it: check_wheel.sh DIST [PYTHON], in the source tree.
# The last line is "N passed, N failed".
set -euo pipefail
wheel=$(realpath "$1"/eyelet-*.whl) source=$PWD python=${2:-python3}
unset EYELET_LIBRARY PYTHONPATH LD_LIBRARY_PATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

check() { # check NAME COMMAND...: runs COMMAND, which prints what is wrong if it fails
  local what=$1 said
  shift
  if said=$(cd "$work" && "$@" 2>&1); then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf 'FAILED %s\n%s\n' "$what" "$said"
  fi
}

venv=$work/a\ venv
"$python" -m venv "$venv"
"$venv/bin/python" -m pip install -q --disable-pip-version-check --no-index --no-deps "$wheel"
site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')

is_small() { [ "$(stat -c %s "$wheel")" -lt 100000000 ] || { ls -l "$wheel"; return 1; }; }
libraries_are_ours() { # by the loader, only glibc's libraries come from outside the wheel
  local found
  found=$(find "$site/eyelet" "$site/eyelet.libs" -type f \( -name '*.so*' -o -name eyelet -o -name eyelet-decode \) \
    -exec env -i ldd {} \; | grep -F '=>' |
    grep -vE '/(libc|libm|libdl|libpthread|librt|libresolv|ld-linux[^/]*)\.so\.[0-9]+ ' | grep -vF "=> $site/" || true)
  echo "$found"
  [ -z "$found" ]
}
names_are_our_own() { # the soname of each library that Python loads has a digest
  local file
  for file in "$site"/eyelet.libs/*; do
    objdump -p "$file" | awk -v name="${file##*/}" '$1 == "SONAME" && $2 == name {found = 1} END {exit !found}' &&
      [[ ${file##*/} =~ -[0-9a-f]{8}\.so ]] || { echo "$file"; return 1; }
  done
}
licences_are_there() {
  local folder library
  folder=$(echo "$site"/eyelet-*.dist-info/licenses)
  for library in LICENSE NOTICE libturbojpeg0 libpng16-16 libheif1 libtiff6 libstdc++6 libssl3; do
    [ -s "$folder/$library" ] || { echo "no $folder/$library"; return 1; }
  done
  [ "$(find "$folder" -type f | wc -l)" = "$(grep -c '^License-File: ' "$folder/../METADATA")" ]
}
captions() { # also checks which libraries Python has mapped
  "$venv/bin/python" - "$source" <<'EOF'
import glob, json, re, sys
import eyelet
root = sys.argv[1]
with eyelet.LLM("demo", device="cpu", threads=2) as llm:
    greedy = eyelet.SamplingParams(temperature=0, max_tokens=None)
    said = llm.caption(f"{root}/examples/shapes-4.png", sampling_params=greedy)
    assert said == json.load(open(f"{root}/examples/expected.json"))["shapes-4.png"], said
    for pattern in ("heic", "avif", "tif"):
        assert llm.caption(sorted(glob.glob(f"{root}/tests/image/data/*.{pattern}"))[0])
mapped = {line.split(None, 5)[5].strip() for line in open("/proc/self/maps") if ".so" in line}
never = [path for path in mapped if re.search(r"lib(stdc\+\+|heif|tiff|curl|microhttpd|de265|aom)", path)]
assert not never, never
EOF
}
program_is_the_bundled_one() {
  [ "$("$venv/bin/eyelet" --version)" = "eyelet $("$venv/bin/python" -c 'import eyelet; print(eyelet.__version__)')" ] &&
    "$venv/bin/eyelet" ask --model demo --max-tokens 1 "$source/examples/shapes-4.png" hello
}
is_removed() { "$venv/bin/python" -m pip uninstall -q -y eyelet && ! find "$site" -name '*eyelet*' | grep .; }

check "size" is_small
check "libraries" libraries_are_ours
check "names of bundled libraries" names_are_our_own
check "licences" licences_are_there
check "captions, HEIC, AVIF, TIFF; libraries loaded into Python" captions
check "the program" program_is_the_bundled_one
check "pip uninstall" is_removed
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
