#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Follows README.md on a bare Debian 12, as a newcomer would: tools/newcomer.sh [ROOT]. debootstrap makes the system,
# unless ROOT names one that it has made before; the script changes it. The script runs the lines under "Install" as
# they are and then those under "Use", which must print what README says. Needs root, a Debian mirror (EY_DEBIAN_MIRROR)
# and about half an hour on two cores. The last line is "N passed, N failed".
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
mirror=${EY_DEBIAN_MIRROR:-http://deb.debian.org/debian}
readme=$(git show HEAD:README.md) # the committed one, as the newcomer gets it
passed=0 failed=0

if [ "${EY_NEWCOMER_INSIDE-}" != yes ]; then
  [ "$(id -u)" -eq 0 ] || { echo "newcomer.sh: run it as root: it installs a Debian system in a folder" >&2; exit 2; }
  tools/setup.sh newcomer || exit 1
  export EY_NEWCOMER_INSIDE=yes
  exec unshare --mount tools/newcomer.sh "$@" # all mounts end with this namespace
fi

root=${1-}
if [ -z "$root" ]; then
  work=$(mktemp -d /var/tmp/eyelet-newcomer.XXXXXX)
  trap 'umount -l "$work/root/proc" "$work/root/dev" 2>/dev/null || true; rm -rf --one-file-system "$work"' EXIT
  root=$work/root
  debootstrap --variant=minbase bookworm "$root" "$mirror" >"$work/log" 2>&1 || { tail -5 "$work/log"; exit 1; }
fi
mount -t proc proc "$root/proc" && mount --bind /dev "$root/dev" || exit 1
cp /etc/resolv.conf "$root/etc/resolv.conf"
for file in /etc/apt/apt.conf.d/*proxy*; do [ ! -e "$file" ] || cp "$file" "$root/etc/apt/apt.conf.d/"; done
rm -rf "$root/srv/eyelet.git" "$root/root/eyelet" "$root/root/images"
git clone --quiet --bare . "$root/srv/eyelet.git" || exit 1 # has only what is committed

say() { # say WHAT: reports success or failure by the status of the last command
  if [ $? -eq 0 ]; then passed=$((passed + 1)); echo "ok $1"; else failed=$((failed + 1)); echo "FAILED $1"; fi
}

# Runs a line in the folder in which the line before it ended.
folder=/root
type_line() {
  env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb LANG=C.UTF-8 \
    EYELET_SOURCE=/srv/eyelet.git ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
    nice chroot "$root" bash -c "cd '$folder' && $1
status=\$?; pwd >/root/.folder; exit \$status"
}

# Prints the indented lines of a section without their comments.
section_lines() { sed -n "/^## $1\$/,/^## /s/^    //p" <<<"$readme" | sed 's/  *# .*$//'; }
# block_lines SECTION MARK: prints the lines of the section's code blocks that begin with ```MARK.
block_lines() { sed -n "/^## $1\$/,/^## /p" <<<"$readme" | sed -n "/^\`\`\`$2\$/,/^\`\`\`\$/p" | sed '/^```/d'; }

start=$SECONDS
while IFS= read -r line; do
  case $line in eyelet\ pull*) continue ;; esac # a real model is gigabytes
  type_line "$line" </dev/null >"$root/root/.said" 2>&1
  say "$line ($((SECONDS - start)) s)" || true
  [ $failed -eq 0 ] || { tail -20 "$root/root/.said"; break; }
  folder=$(cat "$root/root/.folder")
done < <(section_lines Install)

if [ $failed -eq 0 ]; then # README's answers are about these examples, which stand for a person's own images
  mkdir -p "$root/root/images/photos"
  cp examples/shapes-2.jpg "$root/root/images/photo.jpg"
  cp examples/word-2.jpg "$root/root/images/label.jpg"
  cp examples/shapes-3.png "$root/root/images/scene.png"
  cp examples/shapes-1.png examples/shapes-4.png examples/word-1.png "$root/root/images/photos/"
  folder=/root/images
  : >"$root/root/.said"
  while IFS= read -r line; do
    type_line "$line" </dev/null >>"$root/root/.said" 2>"$root/root/.err"
    say "$line" || true
  done < <(block_lines Use 'sh run')
  while IFS= read -r line; do
    case $line in *…*) continue ;; esac
    grep -qxF -- "$line" "$root/root/.said"
    say "it prints: $line" || true
  done < <(block_lines Use 'text output')
  [ $failed -eq 0 ] || cat "$root/root/.said" "$root/root/.err"
fi
echo "from nothing to the answers: $((SECONDS - start)) s"
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
