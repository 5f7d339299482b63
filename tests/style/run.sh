#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks that tools/check_style.sh finds what it should: a small clean tree passes, and each breach of a rule fails
# its own check and no other. Last line: "N passed, N failed".
set -uo pipefail
cd "$(dirname "$0")/../.."
check=$PWD/tools/check_style.sh format=$PWD/.clang-format
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
passed=0 failed=0

new_tree() {
  rm -rf "$tree"
  mkdir -p "$tree"/src/{low,high} "$tree"/docs "$tree"/include
  cp "$format" "$tree/.clang-format"
  cat >"$tree/docs/architecture.md" <<'END'
# Layers

| folder | what it is for | may include |
| --- | --- | --- |
| `src/low` | first | |
| `src/high` | second | `src/low` |
| `include` | public | |
END
  cat >"$tree/src/low/low.h" <<'END'
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EY_LOW_H
#define EY_LOW_H

struct low_pair {
    int first;
    int second;
};

int low_sum(struct low_pair pair);

#endif
END
  cat >"$tree/src/low/low.c" <<'END'
/* SPDX-License-Identifier: Apache-2.0 */
#include "low/low.h"

int low_sum(struct low_pair pair)
{
    return pair.first + pair.second;
}
END
  cat >"$tree/src/high/high.c" <<'END'
/* SPDX-License-Identifier: Apache-2.0 */
#include "low/low.h"

int high_twice(int x)
{
    return low_sum((struct low_pair){x, x});
}
END
}

# header FILE LINE: a header of one line
header() {
  local guard
  guard=EY_$(tr '[:lower:]/.' '[:upper:]__' <<<"$1")
  printf '/* SPDX-License-Identifier: Apache-2.0 */\n#ifndef %s\n#define %s\n%s\n#endif\n' "$guard" "$guard" "$2" >"$tree/src/$1"
}

# fails CHECK WHAT: the changed tree must fail this check only; restores the tree
fails() {
  local said
  said=$("$check" "$tree" 2>&1)
  if [ "$(grep -c '^FAILED ' <<<"$said")" -eq 1 ] && grep -qF "FAILED $1 (" <<<"$said"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf 'FAILED: %s does not fail %s alone\n%s\n' "$2" "$1" "$said"
  fi
  new_tree
}

new_tree
if said=$("$check" "$tree" 2>&1); then passed=1; else failed=1; printf 'FAILED: a clean tree fails\n%s\n' "$said"; fi

sed -i 's/    return low_sum/  return low_sum/' "$tree/src/high/high.c"
fails format "two blanks of indentation"
{ echo; printf 'A line of prose that goes on and on%.0s' 1 2 3 4 5 6; echo; } >>"$tree/docs/architecture.md"
fails width "a long line of Markdown"
sed -i 's/    return low_sum.*/    int a, b;\n    a = x, b = x;\n    return low_sum((struct low_pair){a, b});/' "$tree/src/high/high.c"
fails "one statement a line" "a comma between assignments"
sed -i 1d "$tree/src/high/high.c"
fails "SPDX lines" "a file without a licence line"
for i in $(seq 31); do header "low/many_$i.h" "extern int many_$i;"; done
fails "folder sizes" "a folder of 33 files"
header high/low.h 'extern int other;'
fails "file names" "two files called low.h"
header high/high.h 'extern int other;'
sed -i 's,#include "low/low.h",&\n#include "high/high.h",' "$tree/src/low/low.c"
fails layers "a lower folder that includes a higher one"
header low/two.h '#include "low/one.h"'
header low/one.h '#include "low/two.h"'
fails layers "headers in a circle"
header high/high.h 'extern size_t other;'
fails "headers compile alone" "a header that needs another one before it"
sed -i 's/high_twice/low_sum/; s/return low_sum(.*/return x;/; /include/d' "$tree/src/high/high.c"
fails namesakes "a function's name in two files"
sed -i 's/^int high/struct low_pair {\n    int x;\n};\n\n&/; s/return low_sum(.*/return x;/; /include/d' "$tree/src/high/high.c"
fails "struct and enum tags" "a tag that is defined twice"
sed -i 's,^int high,/* Looks at a picture. */\n&,' "$tree/src/high/high.c"
fails "coined words" "a word that the glossary replaced"
sed -i 's/EY_LOW_H/EY_FIRST_H/' "$tree/src/low/low.h"
fails "include guards" "a guard with another name"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
